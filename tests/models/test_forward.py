"""What timm users expect of every registered network's forward pass; a new variant adds its tests by itself."""

from __future__ import annotations

import copy

import pytest
import timm
import torch
from refusals import refused
from shallow_networks import EVERY_NETWORK, NAMES, NANO, images, quick_of, shallow
from torch import nn

from robustvit.layers import image_groups


@pytest.mark.parametrize("name", NAMES)
def test_network_builds_on_the_meta_device(name: str) -> None:
    assert {p.device.type for p in timm.create_model(name, device="meta").parameters()} == {"meta"}
    if name in NANO:
        with torch.device("meta"):
            assert all(p.is_meta for p in timm.create_model(name).parameters())


@pytest.mark.parametrize("name", NANO)
def test_nano_has_under_a_million_parameters_even_for_1000_classes(name: str) -> None:
    assert sum(p.numel() for p in timm.create_model(name, num_classes=1000).parameters()) < 1_000_000
    assert timm.create_model(name).pretrained_cfg["input_size"] == (3, 32, 32)


@pytest.mark.parametrize("name", EVERY_NETWORK)
def test_forward_is_head_of_features(name: str) -> None:
    model = shallow(name, num_classes=7).eval()
    x = images(name)
    features = model.forward_features(x)
    assert model(x).shape == (2, 7)
    torch.testing.assert_close(model.forward_head(features), model(x))
    pooled = model.forward_head(features, pre_logits=True)
    assert pooled.shape == (2, model.num_features) == (2, model.head_hidden_size)
    torch.testing.assert_close(model.get_classifier()(pooled), model(x))


@pytest.mark.parametrize("name", EVERY_NETWORK)
def test_classifier_resets_and_disappears(name: str) -> None:
    model = shallow(name, token_head=True)
    model.reset_classifier(5)
    class_logits, token_logits = model.forward_tokens(images(name))
    assert model.num_classes == 5 == class_logits.shape[-1] == token_logits.shape[-1]
    model.reset_classifier(0)
    assert model(images(name)).shape == (2, model.num_features)
    assert shallow(name, num_classes=0)(images(name)).shape == (2, model.num_features)


@pytest.mark.parametrize("name", EVERY_NETWORK)
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


@pytest.mark.parametrize("name", EVERY_NETWORK)
def test_other_channels_are_possible(name: str) -> None:
    assert shallow(name, in_chans=1).eval()(images(name, channels=1)).shape[0] == 2


@pytest.mark.parametrize("name", EVERY_NETWORK)
def test_images_that_do_not_fit_are_refused_clearly(name: str) -> None:
    model = shallow(name).eval()
    with pytest.raises(ValueError, match=r"\[B, 3, H, W\], got \[2, 1"):
        model(images(name, channels=1))
    with pytest.raises(ValueError, match=r"\[B, 3, H, W\]"):
        model(torch.randn(3, 64, 64))
    if "hybrid" in name or "swin" in name or name.startswith("rvt"):
        with pytest.raises(ValueError, match=r"any size from|multiples of"):
            model(torch.randn(1, 3, 2, 2))


@pytest.mark.parametrize("name", quick_of("fan_vit"))
def test_fan_vit_takes_a_single_pixel(name: str) -> None:
    with torch.no_grad():
        assert shallow(name).eval()(torch.randn(1, 3, 1, 1)).isfinite().all()


@pytest.mark.parametrize("name", EVERY_NETWORK)
def test_non_square_images_work(name: str) -> None:
    size = (64, 96)
    model = shallow(name, img_size=size, tap=4).eval()
    assert model(torch.randn(1, 3, *size)).isfinite().all()


@pytest.mark.parametrize("name", EVERY_NETWORK)
def test_half_precision_stays_close(name: str) -> None:
    model = shallow(name, num_classes=10, tap=4).eval()
    x = images(name)
    with torch.no_grad():
        exact = model(x)
        for dtype in (torch.bfloat16, torch.float16):
            half = copy.deepcopy(model).to(dtype)(x.to(dtype))
            assert half.dtype == dtype
            torch.testing.assert_close(half.float(), exact, rtol=0.1, atol=0.1 * exact.abs().max().item())


@pytest.mark.parametrize("name", EVERY_NETWORK)
def test_fused_attention_is_the_default_wherever_it_can_be(name: str) -> None:
    attentions = [m for m in shallow(name).modules() if hasattr(m, "fused_attn")]
    assert attentions
    assert all(m.fused_attn for m in attentions if not hasattr(m, "mask"))


@pytest.mark.parametrize("name", [n for n in NANO if "swin" not in n])  # timm's Swin refuses it
def test_an_empty_batch_gives_empty_logits(name: str) -> None:
    with torch.no_grad():
        assert shallow(name, num_classes=3).eval()(images(name, batch=0)).shape == (0, 3)


@pytest.mark.parametrize("name", EVERY_NETWORK)
def test_image_groups_change_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = shallow(name, tap=4).eval()
    x = images(name, batch=3)
    with torch.no_grad():
        expected = model(x)
        monkeypatch.setattr(image_groups, "GROUP_BYTES", 1)
        torch.testing.assert_close(model(x), expected)


@pytest.mark.parametrize("name", EVERY_NETWORK)
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


def test_swin_refuses_sizes_between_patches_from_the_start() -> None:
    with refused(ValueError, "multiples of 4", "32x32", "33x33"):
        timm.create_model("fan_swin_nano", img_size=33)


def test_output_stride_other_than_32_is_refused() -> None:
    for name in NANO:
        assert isinstance(shallow(name, output_stride=32), nn.Module)
        with pytest.raises(NotImplementedError, match="output_stride=8"):
            shallow(name, output_stride=8)
