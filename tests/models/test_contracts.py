"""What timm users expect, for every registered network: a new variant adds its tests by itself.

Each network keeps its widths and options but is made shallow, so that all of them run: one of each structure in fast tests.
Parity and counts of the full ones are tested elsewhere.
"""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import pytest
import timm
import torch
from safetensors.torch import load_file, save_file
from timm.optim import param_groups_layer_decay
from torch import Tensor, nn

import robustvit as rv
from robustvit.layers import image_groups

NAMES = rv.list_models()
NANO = [name for name in NAMES if name.endswith("nano")]
NANO_FIRST = [n if n in NANO else pytest.param(n, marks=pytest.mark.slow) for n in NAMES]
QUICK_NANO = [n if n == "fan_vit_nano" else pytest.param(n, marks=pytest.mark.slow) for n in NANO]
"""For what takes seconds with each."""
STRUCTURES = [
    n for n in NAMES if n in NANO or n in ("fan_vit_small_se", "fan_vit_small_ca", "fan_hybrid_xlarge", "rvt_tiny_plus")
]
"""One of each kind of network; the others differ from one of these by their widths only."""
BY_SIZE = [n if n in STRUCTURES else pytest.param(n, marks=pytest.mark.slow) for n in NAMES]
PYRAMIDS = [name for name in NAMES if "hybrid" in name or "swin" in name]
PYRAMIDS_BY_SIZE = [n if n in STRUCTURES else pytest.param(n, marks=pytest.mark.slow) for n in PYRAMIDS]


def shallow(name: str, **options: Any) -> Any:
    """The network with few blocks, for images of 64 px (32 px for nano)."""
    size: dict[str, Any] = dict(img_size=side(name))
    if "swin" in name:
        size |= dict(depths=(1, 2, 1, 1))
    elif name.startswith("rvt"):
        stages = 2 if "tiny" in name else 1
        size |= dict(depths=(2, 1)[:stages], masked_blocks=1 if "plus" in name else 0)
    else:
        size |= dict(depths=(2, 1) if "xlarge" in name else (2,))
        if "hybrid" in name:
            size |= dict(stem_depths=(1, 1), feature_block=1)
    return timm.create_model(name, **{**size, **options})


def shallowest(name: str, **options: Any) -> Any:
    """With as few blocks as have all its parts, for what takes long with each block."""
    if "swin" in name:
        return shallow(name, **options)
    stages = 2 if "xlarge" in name or (name.startswith("rvt") and "tiny" in name) else 1
    feature_block = dict(feature_block=0) if "hybrid" in name else {}
    return shallow(name, depths=(1,) * stages, **feature_block, **options)


def backbone(name: str, **options: Any) -> Any:
    """The same as a feature extractor, with all its levels."""
    levels = {} if name in PYRAMIDS else dict(out_indices=range(3 if "tiny" in name and "rvt" in name else 2))
    return shallow(name, features_only=True, **{**levels, **options})


def side(name: str) -> int:
    return 32 if name.endswith("nano") else 64


def images(name: str, batch: int = 2, channels: int = 3) -> Tensor:
    return torch.randn(batch, channels, side(name), side(name))


@pytest.mark.parametrize("name", NAMES)
def test_network_builds_on_the_meta_device(name: str) -> None:
    with torch.device("meta"):
        model = timm.create_model(name)
    assert all(p.is_meta for p in model.parameters())
    assert {p.device.type for p in timm.create_model(name, device="meta").parameters()} == {"meta"}


@pytest.mark.parametrize("name", NANO)
def test_nano_has_under_a_million_parameters_even_for_1000_classes(name: str) -> None:
    assert sum(p.numel() for p in timm.create_model(name, num_classes=1000).parameters()) < 1_000_000
    assert timm.create_model(name).pretrained_cfg["input_size"] == (3, 32, 32)


@pytest.mark.parametrize("name", BY_SIZE)
@pytest.mark.parametrize("options", [{}, {"tap": 4, "token_head": True}], ids=["plain", "tap+tokens"])
def test_every_parameter_learns(name: str, options: dict[str, Any]) -> None:
    model = shallow(name, **options).train()
    if options:
        class_logits, token_logits = model.forward_tokens(images(name))
        assert token_logits.ndim == 3
        loss = class_logits.square().mean() + token_logits.square().mean()
    else:
        loss = model(images(name)).square().mean()
    loss.backward()
    assert loss.isfinite()
    assert [n for n, p in model.named_parameters() if p.grad is None or not p.grad.isfinite().all()] == []


@pytest.mark.parametrize("name", BY_SIZE)
def test_forward_is_head_of_features(name: str) -> None:
    model = shallow(name, num_classes=7).eval()
    x = images(name)
    features = model.forward_features(x)
    assert model(x).shape == (2, 7)
    torch.testing.assert_close(model.forward_head(features), model(x))
    pooled = model.forward_head(features, pre_logits=True)
    assert pooled.shape == (2, model.num_features) == (2, model.head_hidden_size)
    torch.testing.assert_close(model.get_classifier()(pooled), model(x))


@pytest.mark.parametrize("name", BY_SIZE)
def test_features_only_gives_the_maps_it_announces(name: str) -> None:
    model = backbone(name).eval()
    maps = model(images(name))
    info = model.feature_info
    assert [m.shape[1] for m in maps] == info.channels()
    assert [side(name) // m.shape[2] for m in maps] == info.reduction()
    assert info.reduction() == sorted(info.reduction())
    assert len(set(info.module_name())) == len(maps)


def test_fan_swin_as_a_backbone_takes_any_size_and_computes_what_one_built_for_it_computes() -> None:
    """Both sizes are above the windows in every stage: windows and shifts stay those of the size it was built for."""
    backbone = timm.create_model("fan_swin_nano", features_only=True, img_size=160).eval()
    built = timm.create_model("fan_swin_nano", features_only=True, img_size=(192, 224), strict_img_size=True).eval()
    built.load_state_dict(backbone.state_dict())
    x = torch.randn(1, 3, 192, 224)
    for ours, expected in zip(backbone(x), built(x), strict=True):
        torch.testing.assert_close(ours, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", PYRAMIDS_BY_SIZE)
def test_pyramids_have_strides_4_8_16_32(name: str) -> None:
    assert backbone(name).feature_info.reduction() == [4, 8, 16, 32]


@pytest.mark.parametrize("name", BY_SIZE)
def test_features_only_keeps_no_parameter_without_gradient(name: str) -> None:
    model = backbone(name).train()
    sum(m.square().mean() for m in model(images(name))).backward()
    assert [n for n, p in model.named_parameters() if p.grad is None] == []


@pytest.mark.parametrize("name", PYRAMIDS_BY_SIZE)
@pytest.mark.parametrize("index", range(4))
def test_one_level_alone_is_the_same_map(name: str, index: int) -> None:
    torch.manual_seed(1)
    all_levels = backbone(name).eval()
    one = backbone(name, out_indices=(index,)).eval()
    weights = all_levels.state_dict()
    one.load_state_dict({n: weights[n] for n in one.state_dict()})
    x = images(name)
    with torch.no_grad():
        torch.testing.assert_close(one(x)[0], all_levels(x)[index])


@pytest.mark.parametrize("name", BY_SIZE)
def test_intermediates_agree_with_features(name: str) -> None:
    model = shallow(name).eval()
    x = images(name)
    final, maps = model.forward_intermediates(x)
    torch.testing.assert_close(final, model.forward_features(x))
    assert len(maps) == len(model.feature_info)
    last = model.forward_intermediates(x, indices=1, intermediates_only=True)
    chosen = model.forward_intermediates(x, indices=[0, -1], intermediates_only=True, stop_early=True)
    torch.testing.assert_close(last[0], maps[-1])
    torch.testing.assert_close(chosen, [maps[0], maps[-1]])
    normed = model.forward_intermediates(x, indices=1, norm=True, intermediates_only=True)
    assert normed[0].shape == maps[-1].shape
    assert not torch.equal(normed[0], maps[-1])


@pytest.mark.parametrize("name", [n for n in NAMES if "swin" not in n])
def test_intermediates_come_as_tokens_too(name: str) -> None:
    model = shallow(name).eval()
    x = images(name)
    maps = model.forward_intermediates(x, intermediates_only=True)
    tokens = model.forward_intermediates(x, intermediates_only=True, output_fmt="NLC")
    for m, t in zip(maps, tokens, strict=True):
        torch.testing.assert_close(m.flatten(2).transpose(1, 2), t)


@pytest.mark.parametrize("name", BY_SIZE)
def test_classifier_resets_and_disappears(name: str) -> None:
    model = shallow(name, token_head=True)
    model.reset_classifier(5)
    class_logits, token_logits = model.forward_tokens(images(name))
    assert model.num_classes == 5 == class_logits.shape[-1] == token_logits.shape[-1]
    model.reset_classifier(0)
    assert model(images(name)).shape == (2, model.num_features)
    assert shallow(name, num_classes=0)(images(name)).shape == (2, model.num_features)


@pytest.mark.parametrize("name", BY_SIZE)
def test_pooling_follows_the_argument(name: str) -> None:
    model = shallow(name, num_classes=0).eval()
    x = images(name)
    outputs = {}
    for pool in ("avg", "token") if hasattr(model, "cls_token") else ("avg",):
        model.reset_classifier(0, pool)
        outputs[pool] = model(x)
        assert outputs[pool].shape == (2, model.num_features)
    if "token" in outputs:
        assert not torch.allclose(outputs["avg"], outputs["token"])
    with pytest.raises((ValueError, AssertionError), match=r"pool|max"):
        shallow(name, global_pool="max")


@pytest.mark.parametrize("name", BY_SIZE)
def test_other_channels_are_possible(name: str) -> None:
    assert shallow(name, in_chans=1).eval()(images(name, channels=1)).shape[0] == 2


@pytest.mark.parametrize("name", BY_SIZE)
def test_images_that_do_not_fit_are_refused_clearly(name: str) -> None:
    model = shallow(name).eval()
    with pytest.raises(ValueError, match=r"\[B, 3, H, W\], got \[2, 1"):
        model(images(name, channels=1))
    with pytest.raises(ValueError, match=r"\[B, 3, H, W\]"):
        model(torch.randn(3, 64, 64))
    if "hybrid" in name or "swin" in name or name.startswith("rvt"):
        with pytest.raises(ValueError, match=r"any size from|multiples of"):
            model(torch.randn(1, 3, 2, 2))


@pytest.mark.parametrize("name", [n for n in NAMES if n.startswith("fan_vit")])
def test_fan_vit_takes_a_single_pixel(name: str) -> None:
    with torch.no_grad():
        assert shallow(name).eval()(torch.randn(1, 3, 1, 1)).isfinite().all()


@pytest.mark.parametrize("name", BY_SIZE)
def test_non_square_images_work(name: str) -> None:
    size = (64, 96)
    model = shallow(name, img_size=size, tap=4).eval()
    assert model(torch.randn(1, 3, *size)).isfinite().all()


def in_order(model: Any) -> list[nn.Module]:
    """The parts of a network in the order in which an image goes through them."""
    if hasattr(model, "layers"):
        stages = [part for stage in model.layers for part in (stage.downsample, *stage.blocks)]
        return [model.patch_embed, *stages, model.norm, model.head]
    if hasattr(model, "stages"):
        stages = [part for i, stage in enumerate(model.stages) for part in (*model.downsamples[max(i - 1, 0) : i], *stage)]
        return [model.patch_embed, *stages, model.norm, model.head]
    blocks = list(model.blocks)
    if model.downsample is not None:
        blocks.insert(model.downsample_after + 1, model.downsample)
    return [model.patch_embed, *blocks, *model.cls_attn_blocks, model.norm, model.head]


@pytest.mark.parametrize("name", BY_SIZE)
def test_layer_decay_groups_hold_every_parameter_once(name: str) -> None:
    model = shallow(name)
    groups = param_groups_layer_decay(model, weight_decay=0.05, layer_decay=0.5)
    grouped = [id(p) for group in groups for p in group["params"]]
    assert sorted(grouped) == sorted(id(p) for p in model.parameters())
    assert len({group["lr_scale"] for group in groups}) >= 4
    scale = {id(p): group["lr_scale"] for group in groups for p in group["params"]}
    depth = [scale[id(p)] for module in in_order(model) for p in module.parameters()]
    assert depth == sorted(depth)
    assert model.no_weight_decay() <= {n for n, _ in model.named_parameters()}


@pytest.mark.parametrize("name", BY_SIZE)
def test_gradient_checkpointing_changes_no_gradient(name: str) -> None:
    model = shallow(name, drop_path_rate=0.0).train()
    x = images(name)
    gradients = []
    for enabled in (False, True):
        fresh = copy.deepcopy(model)
        fresh.set_grad_checkpointing(enabled)
        fresh(x).square().sum().backward()
        gradients.append({n: p.grad for n, p in fresh.named_parameters()})
    torch.testing.assert_close(gradients[0], gradients[1])


@pytest.mark.parametrize("name", BY_SIZE)
@pytest.mark.parametrize(
    ("rule", "rates"), [("constant", [0.3, 0.3, 0.3]), ("linear", [0.0, 0.15, 0.3]), ("rvt", [0, 0.1, 0.2])]
)
def test_stochastic_depth_follows_its_rule(name: str, rule: str, rates: list[float]) -> None:
    depths = {"swin": (1, 1, 1), "rvt": (3,), "fan": (3,)}["swin" if "swin" in name else name[:3]]
    widths = {} if "swin" in name else dict(embed_dims=(96,), num_heads=(4,))
    heads = dict(num_heads=(1, 2, 4)) if "swin" in name else {}
    feature_block = dict(feature_block=1) if "hybrid" in name else {}
    masks = dict(masked_blocks=0) if name.startswith("rvt") else {}
    model = shallow(name, depths=depths, drop_path_rate=0.3, drop_path_rule=rule, **widths, **heads, **feature_block, **masks)
    blocks = [m for m in model.modules() if hasattr(m, "attn") and hasattr(m, "norm1") and not hasattr(m, "forward_patches")]
    drops = [getattr(b, "drop_path", None) or b.drop_path1 for b in blocks]
    assert [round(getattr(d, "drop_prob", 0.0), 6) for d in drops] == rates


@pytest.mark.parametrize("name", BY_SIZE)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_stays_close(name: str, dtype: torch.dtype) -> None:
    model = shallow(name, num_classes=10, tap=4).eval()
    x = images(name)
    with torch.no_grad():
        exact = model(x)
        half = model.to(dtype)(x.to(dtype))
    assert half.dtype == dtype
    torch.testing.assert_close(half.float(), exact, rtol=0.1, atol=0.1 * exact.abs().max().item())


@pytest.mark.parametrize("name", BY_SIZE)
def test_state_dict_survives_safetensors(name: str, tmp_path: Path) -> None:
    model = shallow(name, tap=4, token_head=True).eval()
    save_file(model.state_dict(), tmp_path / "weights.safetensors")
    other = shallow(name, tap=4, token_head=True).eval()
    other.load_state_dict(load_file(tmp_path / "weights.safetensors"))
    x = images(name)
    with torch.no_grad():
        torch.testing.assert_close(other(x), model(x))


@pytest.mark.parametrize("name", BY_SIZE)
def test_own_weight_file_loads_through_timm(name: str, tmp_path: Path) -> None:
    model = shallow(name, num_classes=6).eval()
    file = tmp_path / "weights.pth"
    torch.save({"state_dict": model.state_dict()}, file)
    x = images(name)
    by_path = shallow(name, num_classes=6, checkpoint_path=str(file)).eval()
    by_overlay = shallow(name, num_classes=6, pretrained=True, pretrained_cfg_overlay=dict(file=str(file))).eval()
    with torch.no_grad():
        torch.testing.assert_close(by_path(x), model(x))
        torch.testing.assert_close(by_overlay(x), model(x))
    features = backbone(name, pretrained=True, pretrained_cfg_overlay=dict(file=str(file))).eval()
    with torch.no_grad():
        torch.testing.assert_close(features(x), model.forward_intermediates(x, intermediates_only=True))


@pytest.mark.parametrize("name", BY_SIZE)
def test_copies_and_pickles_are_independent_networks(name: str) -> None:
    model = shallow(name, tap=4, token_head=True).eval()
    x = images(name)
    with torch.no_grad():
        expected = model(x)
        torch.testing.assert_close(copy.deepcopy(model)(x), expected)
        torch.testing.assert_close(pickle.loads(pickle.dumps(model))(x), expected)


@pytest.mark.parametrize("name", BY_SIZE)
def test_image_groups_change_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = shallow(name, tap=4).eval()
    x = images(name, batch=3)
    with torch.no_grad():
        expected = model(x)
        monkeypatch.setattr(image_groups, "GROUP_BYTES", 1)
        torch.testing.assert_close(model(x), expected)


@pytest.mark.parametrize("name", BY_SIZE)
def test_a_hook_on_any_layer_sees_the_whole_batch(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = shallow(name, tap=4).eval()
    x = images(name)

    def shapes_seen(*layers: nn.Module) -> dict[nn.Module, list[torch.Size]]:
        seen: dict[nn.Module, list[torch.Size]] = {layer: [] for layer in layers}
        handles = [
            layer.register_forward_hook(lambda module, inputs, output: seen[module].append(inputs[0].shape))
            for layer in layers
        ]
        with torch.no_grad():
            model(x)
        for handle in handles:
            handle.remove()
        return seen

    layers = [layer for layer in model.modules() if isinstance(layer, nn.Linear | nn.Conv2d)]
    whole = shapes_seen(*layers)
    monkeypatch.setattr(image_groups, "GROUP_BYTES", 1)
    for layer in layers:
        assert shapes_seen(layer) == {layer: whole[layer]}


@pytest.mark.parametrize("name", BY_SIZE)
def test_traced_program_agrees_with_the_network(name: str) -> None:
    model = shallowest(name, tap=4).eval()
    x = images(name)
    with torch.no_grad():
        program = torch.export.export(model, (x,))
        torch.testing.assert_close(program.module()(x), model(x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", NANO_FIRST)
def test_compiler_follows_the_network_without_a_break(name: str) -> None:
    model = shallowest(name, tap=4).eval()
    x = images(name)
    with torch.no_grad():
        expected = model(x)
        torch._dynamo.reset()
        torch.testing.assert_close(
            torch.compile(model, backend="aot_eager", fullgraph=True)(x), expected, rtol=1e-4, atol=1e-4
        )


@pytest.mark.parametrize("name", QUICK_NANO)
def test_compiled_image_groups_agree_at_any_batch_without_a_break(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = shallowest(name, tap=4).eval()
    batches = [images(name, batch=n) for n in (2, 3)]
    torch._dynamo.reset()
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    with torch.no_grad():
        expected = [model(x) for x in batches]
        monkeypatch.setattr(image_groups, "GROUP_BYTES", 1)
        for x, logits in zip(batches, expected, strict=True):
            torch.testing.assert_close(compiled(x), logits, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("name", NANO)
def test_compiled_network_agrees(name: str) -> None:
    model = shallow(name, tap=4).eval()
    x = images(name)
    with torch.no_grad():
        expected = model(x)
        torch._dynamo.reset()
        torch.testing.assert_close(torch.compile(model)(x), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", QUICK_NANO)
def test_onnx_file_agrees_with_the_network(name: str, tmp_path: Path) -> None:
    from robustvit.models.exporting import export_onnx

    model = shallowest(name, tap=4).eval()
    export_onnx(model, tmp_path / "network.onnx", images(name))  # raises where the two differ by more than 1e-4
    assert (tmp_path / "network.onnx").stat().st_size > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in NAMES if name not in NANO])
def test_onnx_file_of_a_large_network_agrees(name: str, tmp_path: Path) -> None:
    test_onnx_file_agrees_with_the_network(name, tmp_path)


@pytest.mark.parametrize("name", BY_SIZE)
def test_fused_attention_is_the_default_wherever_it_can_be(name: str) -> None:
    attentions = [m for m in shallow(name).modules() if hasattr(m, "fused_attn")]
    assert attentions
    assert all(m.fused_attn for m in attentions if not hasattr(m, "mask"))


@pytest.mark.parametrize("name", [n for n in NAMES if "hybrid" in n and "xlarge" not in n])
def test_last_level_reproduces_the_released_dense_networks(name: str) -> None:
    same = backbone(name, last_level="same")
    conv = backbone(name, last_level="conv")
    assert same.feature_info.reduction() == [4, 8, 16, 16]
    assert conv.feature_info.reduction() == [4, 8, 16, 32]
    assert conv.feature_info.channels()[-1] == 768
    x = images(name)
    assert conv(x)[-1].shape[1] == 768
    assert same(x)[-1].shape == same(x)[-2].shape


def test_output_stride_other_than_32_is_refused() -> None:
    for name in NANO:
        assert isinstance(shallow(name, output_stride=32), nn.Module)
        with pytest.raises(NotImplementedError, match="output_stride=8"):
            shallow(name, output_stride=8)


def test_unknown_names_get_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"did you mean .*fan_hybrid_small"):
        rv.create_model("fan_hybird_small")
    with pytest.raises(ValueError, match="no weights 'imagenet'; it has fan_in1k"):
        rv.create_model("fan_vit_tiny.imagenet")
    with pytest.raises(ValueError, match="tap='max' is not known"):
        rv.create_model("fan_vit_nano", tap="max")


def test_weights_behind_a_browser_page_say_what_to_do() -> None:
    with pytest.raises(RuntimeError, match=r"drive\.google\.com.*from_official\(\"rvt_tiny\""):
        rv.create_model("rvt_tiny", pretrained=True)
    with pytest.raises(RuntimeError, match="fan_tiny_8_p4_hybrid_token"):
        timm.create_model("fan_hybrid_tiny.stl_in1k", pretrained=True)


@pytest.mark.parametrize("name", [n for n in NANO if "swin" not in n])  # timm's Swin refuses it
def test_an_empty_batch_gives_empty_logits(name: str) -> None:
    with torch.no_grad():
        assert shallow(name, num_classes=3).eval()(images(name, batch=0)).shape == (0, 3)


def test_a_published_name_brings_the_preprocessing_of_its_weights() -> None:
    model = rv.create_model("rvt_small_plus_cifar10", device="meta")
    assert model.pretrained_cfg["tag"] == "rspc_cifar10"
    assert rv.create_model("tap_fan_base_16_p4_hybrid", device="meta").pretrained_cfg["tag"] == "tapadl_in1k"


def test_cifar_weights_are_preprocessed_as_cifar() -> None:
    cfg = timm.get_pretrained_cfg("fan_hybrid_small.rspc_cifar10")
    assert cfg.mean == (0.49139968, 0.48215827, 0.44653124)
    assert cfg.crop_pct == 0.875


@pytest.mark.parametrize(
    ("published", "file"),
    [
        ("tap_fan_base_16_p4_hybrid", "tapadl_fan_base.pth.tar"),
        ("tap_rvt_base_plus", "tapadl_rvt_base.pth.tar"),
        ("rvt_small_plus_cifar10", "rspc_rvt_small_cifar10.pth.tar"),
        ("fan_small_12_p4_hybrid_cifar100", "rspc_fan_small_cifar100.pth.tar"),
        ("fan_tiny_12_p16_224", "fan_vit_tiny.pth.tar"),
        ("fan_small_12_p4_hybrid.rspc_in1k", "rspc_fan_small.pth.tar"),
    ],
)
def test_published_names_fetch_their_own_weights(published: str, file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fetched: list[str] = []

    def fetch(url: str, **_: Any) -> str:
        fetched.append(url)
        raise ConnectionError("no network here")

    monkeypatch.setattr("timm.models._builder.download_cached_file", fetch)
    name = published.partition(".")[0]
    with pytest.raises(RuntimeError, match=rf"{file} cannot be fetched .*{name}=FILE .*from_official"):
        rv.create_model(published, pretrained=True, device="meta")
    assert fetched[0].endswith(f"/{file}")


def test_published_name_without_weights_says_so() -> None:
    with pytest.raises(RuntimeError, match="no weights were published for fan_large_24_p16_224"):
        rv.create_model("fan_large_24_p16_224", pretrained=True)


@pytest.mark.parametrize("name", NANO)
def test_tap_and_token_head_start_fresh_on_plain_weights(name: str, tmp_path: Path) -> None:
    plain = shallow(name)
    torch.save(plain.state_dict(), tmp_path / "plain.pth")
    overlay = dict(file=str(tmp_path / "plain.pth"))
    model = shallow(name, tap=4, token_head=True, pretrained=True, pretrained_cfg_overlay=overlay)
    for key, value in plain.state_dict().items():
        assert torch.equal(model.state_dict()[key], value), key


def test_detection_level_starts_fresh_on_classifier_weights(tmp_path: Path) -> None:
    torch.save(shallow("fan_hybrid_nano").state_dict(), tmp_path / "plain.pth")
    overlay = dict(file=str(tmp_path / "plain.pth"))
    model = backbone("fan_hybrid_nano", last_level="conv", pretrained=True, pretrained_cfg_overlay=overlay)
    assert model(images("fan_hybrid_nano"))[-1].shape[1] == 768


@pytest.mark.parametrize(("grid", "size"), [((4, 16), (16, 64)), ((12, 12), (48, 48))])
def test_masks_follow_their_grid_even_where_the_number_of_tokens_is_the_same(
    grid: tuple[int, int], size: tuple[int, int]
) -> None:
    from robustvit.layers.position_scaled_attention import resize_mask

    square = timm.create_model("rvt_nano", masked_blocks=1)
    model = timm.create_model("rvt_nano", masked_blocks=1, img_size=size)
    model.load_state_dict(square.state_dict())
    mask = resize_mask(square.stages[0][0].attn.mask.detach(), (8, 8), grid)
    assert model.grid == grid
    torch.testing.assert_close(model.stages[0][0].attn.mask.detach(), mask)
    again = timm.create_model("rvt_nano", masked_blocks=1, img_size=size)
    again.load_state_dict(model.state_dict())
    assert torch.equal(again.stages[0][0].attn.mask, model.stages[0][0].attn.mask)


def test_swin_weights_fit_other_windows(tmp_path: Path) -> None:
    torch.save(timm.create_model("fan_swin_nano").state_dict(), tmp_path / "weights.pth")
    overlay = dict(file=str(tmp_path / "weights.pth"))
    for options in (dict(img_size=64), dict(img_size=64, window_size=8), dict(img_size=(32, 64))):
        model = timm.create_model("fan_swin_nano", pretrained=True, pretrained_cfg_overlay=overlay, **options)
        size = options["img_size"]
        assert model.eval()(torch.randn(1, 3, *((size, size) if isinstance(size, int) else size))).isfinite().all()


def test_swin_refuses_sizes_between_patches_from_the_start() -> None:
    with pytest.raises(ValueError, match="multiples of 4 pixels, such as 32x32, and got 33x33"):
        timm.create_model("fan_swin_nano", img_size=33)


def test_networks_built_by_their_class_load_weights_too() -> None:
    from robustvit.models.fan import FAN
    from robustvit.models.weights_into import load_weights

    small = dict(embed_dims=(96,), depths=(1,), num_heads=(4,), patch_size=4, num_classes=3)
    model, other = FAN(32, **small), FAN(32, **small)  # type: ignore[arg-type]
    load_weights(other, model.state_dict())
    assert torch.equal(other.head.weight, model.head.weight)


def test_tags_bring_what_their_weights_need() -> None:
    with torch.device("meta"):
        assert timm.create_model("fan_hybrid_base.tapadl_in1k").blocks[0].tap is not None
        assert timm.create_model("fan_hybrid_tiny.stl_in1k").token_head is not None
        rvt = timm.create_model("rvt_base_plus.tapadl_in1k")
        assert type(rvt.stages[0][0].ffn).__name__ == "ConvFFN"
        assert timm.create_model("fan_hybrid_base.fan_in22k_ft_in1k_384").pretrained_cfg["input_size"] == (3, 384, 384)
        assert timm.create_model("rvt_small_plus.rspc_cifar10").num_classes == 10
