"""Published checkpoints: every network loads, strictly, in every form the files come in."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import timm
import torch
from reference_weights import STATE_DICTS, meta_weights, published_weights, reference_input
from safetensors.torch import save_file
from torch import Tensor, nn

import robustvit as rv
from robustvit.layers.position_scaled_attention import resize_mask
from robustvit.models.weights_into import load_weights

NAME = "fan_tiny_12_p16_224"
TOKEN_NAME = "fan_tiny_8_p4_hybrid_token"
TWO_BLOCKS: dict[str, dict[str, Any]] = {
    NAME: dict(depths=(2,)),
    "tap_fan_tiny_8_p4_hybrid": dict(depths=(2,), feature_block=1),
    "fan_swin_tiny_patch4_window7_224": dict(depths=(2, 2, 2, 2)),
    "tap_rvt_tiny_plus": dict(depths=(2, 2), masked_blocks=2),
}
"""One network of each family, and what makes it one of two blocks a stage."""
NETWORKS = list(TWO_BLOCKS)


def assert_same_state(model: nn.Module, expected: nn.Module | dict[str, Tensor], but: str = r"^$") -> None:
    """All entries are equal, except those whose names match `but`."""
    expected = expected.state_dict() if isinstance(expected, nn.Module) else expected
    state = model.state_dict()
    assert state.keys() == expected.keys()
    differing = [n for n, value in state.items() if not re.search(but, n) and not torch.equal(value, expected[n])]
    assert differing == []


@pytest.fixture(scope="module")
def loaded() -> nn.Module:
    """The network with the reference weights, for comparison only."""
    return rv.from_official(NAME, published_weights(NAME))


def zeros(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: torch.zeros_like(value) for name, value in weights.items()}


# every published network


def test_every_published_network_is_known() -> None:
    published = {name for name in STATE_DICTS if not name.endswith("_afat")}
    assert published <= set(rv.OFFICIAL)


@pytest.mark.parametrize(
    "name",
    [
        name if re.search("tiny|_se_|Xlarge|cifar10$", name) else pytest.param(name, marks=pytest.mark.slow)
        for name in rv.OFFICIAL
    ],
)
def test_every_published_state_dict_fits(name: str) -> None:
    weights = meta_weights(name.removeprefix("tap_") if "swin" in name else name)
    model = rv.from_official(name, weights, device="meta")
    assert all(value.device.type == "meta" for value in model.state_dict().values())


@pytest.mark.parametrize("name", [NAME, "tap_rvt_tiny_plus", "fan_swin_tiny_patch4_window7_224", TOKEN_NAME])
def test_every_published_value_arrives(name: str) -> None:
    """Nothing is lost or used twice: the sums over all floating-point entries agree."""
    weights = {n: v for n, v in published_weights(name).items() if not n.endswith(("attn_mask", "index"))}
    model = rv.from_official(name, weights)
    ours = {n: v for n, v in model.state_dict().items() if not n.endswith("mask_grid")}
    sums = [sum(v.detach().double().abs().sum().item() for v in w.values()) for w in (weights, ours)]
    assert sums[0] == pytest.approx(sums[1], rel=1e-12)


@pytest.mark.parametrize(
    ("published", "ours"), [("fan_Xlarge_16_p4_hybrid", "fan_hybrid_xlarge"), ("tap_rvt_base", "rvt_base")]
)
def test_create_model_takes_published_names(published: str, ours: str) -> None:
    model = rv.create_model(published, device="meta")
    assert rv.OFFICIAL[published].architecture == ours
    assert sum(p.numel() for p in model.parameters()) == STATE_DICTS[published]["params"]


def test_arguments_win_over_those_of_a_published_name() -> None:
    two = rv.create_model("tap_fan_tiny_12_p16_224", tap=2, device="meta")
    none = rv.create_model("tap_fan_tiny_12_p16_224", tap=0, device="meta")
    assert two.blocks[0].tap.branches == 2
    assert none.blocks[0].tap is None


@pytest.mark.parametrize(
    ("misspelt", "meant"),
    [
        ("fan_tiny_12_p16", "fan_tiny_12_p16_224"),
        ("tap_rvt_base_pluss", "tap_rvt_base_plus"),
        ("rvt_tiny_plus_afat", "rvt_tiny_plus"),
    ],
)
def test_an_unknown_published_name_brings_the_nearest_ones(misspelt: str, meant: str) -> None:
    with pytest.raises(ValueError, match=rf"{misspelt}.*did you mean.*\b{meant}\b"):
        rv.from_official(misspelt, {})


# strict checking


def one_of_each_kind(weights: dict[str, Tensor]) -> list[str]:
    """Names of the first entry of each kind: block numbers apart, what follows them is the kind."""
    kinds = {re.sub(r"\.\d+\.", ".#.", re.sub(r"\.\d+\.", ".#.", name)): name for name in reversed(weights)}
    derived = ("num_batches_tracked", "relative_position_index", "attn_mask")
    return [name for name in kinds.values() if not name.endswith(derived)]


def of_two_blocks(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """The entries of the first two blocks of each stage, and those outside of them."""
    return {n: v for n, v in weights.items() if not re.match(r"((layers|transformers)\.\d+\.)?blocks\.([2-9]|\d\d+)\.", n)}


def failures(name: str, damage: Callable[[dict[str, Tensor], str], None]) -> list[str]:
    """What happened for the entries whose damage was not reported as a CheckpointError."""
    model = rv.create_model(name, device="meta", **TWO_BLOCKS[name])
    whole = of_two_blocks(meta_weights(name))
    load_weights(model, whole)  # which is right before it is damaged
    wrong = []
    for entry in one_of_each_kind(meta_weights(name)):
        weights = dict(whole)
        damage(weights, entry)
        try:
            load_weights(model, weights)
        except rv.CheckpointError:
            continue
        except Exception as error:  # the point of the test: nothing else may come out
            wrong.append(f"{entry}: {type(error).__name__}: {error}")
        else:
            wrong.append(f"{entry}: accepted")
    return wrong


@pytest.mark.parametrize("name", NETWORKS)
def test_a_missing_entry_of_any_kind_is_refused(name: str) -> None:
    assert failures(name, lambda weights, entry: weights.pop(entry)) == []


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize(
    "reshape",
    [lambda shape: (), lambda shape: (3,), lambda shape: (*shape[:-1], shape[-1] + 1)],
    ids=["scalar", "vector", "one more"],
)
def test_a_wrong_shape_of_any_kind_is_refused(name: str, reshape: Callable) -> None:
    def damage(weights: dict[str, Tensor], entry: str) -> None:
        weights[entry] = torch.empty(reshape(weights[entry].shape), device="meta")

    classifier = ("head.weight", "head.bias", "aux_head.weight", "aux_head.bias")  # of another size: starts anew
    assert [line for line in failures(name, damage) if not (line.startswith(classifier) and line.endswith("accepted"))] == []


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize(
    "extra", ["blocks.99.norm1.weight", "blocks.99.attn.q.weight", "blocks.99.attn.kv.weight", "surprise"]
)
def test_an_extra_entry_is_refused_and_named(name: str, extra: str) -> None:
    model = rv.create_model(name, device="meta")
    with pytest.raises(rv.CheckpointError, match=rf"unexpected \(1\): {extra}"):
        load_weights(model, {**meta_weights(name), extra: torch.empty(3, device="meta")})


def test_a_missing_entry_is_named() -> None:
    weights = meta_weights(NAME)
    del weights["blocks.3.norm2.bias"]
    with pytest.raises(rv.CheckpointError, match=r"missing \(1\): blocks\.3\.norm2\.bias"):
        rv.from_official(NAME, weights, device="meta")


def test_a_missing_part_of_a_joined_layer_is_named() -> None:
    weights = meta_weights(NAME)
    del weights["blocks.3.attn.kv.weight"]
    with pytest.raises(rv.CheckpointError, match=r"missing \(1\): blocks\.3\.attn\.qkv\.weight"):
        rv.from_official(NAME, weights, device="meta")


def test_a_wrong_shape_is_named_with_both_shapes() -> None:
    weights = meta_weights(NAME) | {"blocks.3.norm2.bias": torch.empty(5, device="meta")}
    with pytest.raises(rv.CheckpointError, match=r"other shape \(1\): blocks\.3\.norm2\.bias: \[5\], expected \[192\]"):
        rv.from_official(NAME, weights, device="meta")


def test_batch_counters_may_be_missing() -> None:
    weights = {k: v for k, v in meta_weights(NAME).items() if not k.endswith("num_batches_tracked")}
    model = rv.from_official(NAME, weights, device="meta")
    assert any(name.endswith("num_batches_tracked") for name in model.state_dict())


@pytest.mark.parametrize("damaged", ["norm.bias", "blocks.11.mlp.q.bias", "cls_token"])
def test_a_refused_checkpoint_changes_nothing(damaged: str) -> None:
    model = rv.create_model(NAME)
    before = {n: v.clone() for n, v in model.state_dict().items()}
    weights = published_weights(NAME)
    with pytest.raises(rv.CheckpointError):
        load_weights(model, weights | {damaged: torch.zeros(7)})
    del weights[damaged]
    with pytest.raises(rv.CheckpointError):
        load_weights(model, weights)
    assert_same_state(model, before)


@pytest.mark.parametrize(
    ("name", "other"),
    [
        (NAME, "fan_small_12_p16_224"),
        (NAME, "fan_tiny_8_p4_hybrid"),
        (NAME, "rvt_tiny"),
        (NAME, "tap_fan_tiny_12_p16_224"),
        ("tap_fan_tiny_12_p16_224", NAME),
        (TOKEN_NAME, "fan_tiny_8_p4_hybrid"),
        ("fan_small_12_p16_224", "fan_small_12_p16_224_se_attn"),
        ("fan_swin_tiny_patch4_window7_224", NAME),
        ("rvt_tiny", NAME),
        ("rvt_tiny", "rvt_small"),
        ("rvt_tiny", "rvt_base_plus"),
    ],
)
def test_the_checkpoint_of_another_network_is_refused_with_a_list(name: str, other: str) -> None:
    with pytest.raises(rv.CheckpointError, match=r"do not fit[^\n]*\n +(missing|unexpected|other shape) \(\d+\): \S+"):
        rv.from_official(name, meta_weights(other), device="meta")


def test_more_masks_than_the_network_has_blocks_are_a_checkpoint_error() -> None:
    weights = meta_weights("rvt_base_plus")
    mask = weights["transformers.0.blocks.0.attn.att_mask"]
    twelve = weights | {f"transformers.0.blocks.{i}.attn.att_mask": mask for i in range(12)}
    with pytest.raises(rv.CheckpointError):
        rv.from_official("rvt_tiny", twelve, device="meta")


@pytest.mark.parametrize("size", ["tiny", "small", "base"])
def test_afat_weights_are_refused_by_name(size: str) -> None:
    with pytest.raises(rv.CheckpointError, match="_afat"):
        rv.from_official(f"rvt_{size}_plus", meta_weights(f"rvt_{size}_plus_afat"), device="meta")


# what files hold


@pytest.mark.parametrize(
    "wrap",
    [
        lambda w: {"state_dict": w, "epoch": 1},
        lambda w: {"state_dict": zeros(w), "state_dict_ema": w},
        lambda w: {"model": w, "args": argparse.Namespace(lr=1)},
        lambda w: {f"module.{n}": v for n, v in w.items()},
        lambda w: {"state_dict": {"model": {f"module.{n}": v for n, v in w.items()}}},
    ],
    ids=["state_dict", "state_dict_ema", "model", "module.", "nested"],
)
def test_wrapped_state_dicts_load(loaded: nn.Module, wrap: Callable[[dict], dict]) -> None:
    assert_same_state(rv.from_official(NAME, wrap(published_weights(NAME))), loaded)


def test_weights_without_averaging_load_on_request(loaded: nn.Module) -> None:
    weights = published_weights(NAME)
    checkpoint = {"state_dict": weights, "state_dict_ema": zeros(weights)}
    assert_same_state(rv.from_official(NAME, checkpoint, use_ema=False), loaded)


@pytest.mark.parametrize(
    "save",
    [
        lambda w, path: torch.save({"state_dict": w, "args": argparse.Namespace(lr=0.1)}, path),
        lambda w, path: torch.save({"state_dict": w}, path, _use_new_zipfile_serialization=False),
        lambda w, path: save_file(w, path),
    ],
    ids=["zip", "legacy", "safetensors"],
)
def test_files_load(tmp_path: Path, loaded: nn.Module, save: Callable[[dict, Path], Any]) -> None:
    save(published_weights(NAME), tmp_path / "weights")
    assert_same_state(rv.from_official(NAME, tmp_path / "weights"), loaded)


def test_timm_reads_a_published_file(tmp_path: Path, loaded: nn.Module) -> None:
    torch.save({"state_dict": published_weights(NAME)}, tmp_path / "c.pth.tar")
    model = timm.create_model("fan_vit_tiny", pretrained=True, pretrained_cfg_overlay={"file": str(tmp_path / "c.pth.tar")})
    assert_same_state(model, loaded)


@pytest.mark.parametrize("name", ["fan_vit_nano", "fan_hybrid_nano", "fan_swin_nano", "rvt_nano"])
def test_our_own_state_dict_loads_back(tmp_path: Path, name: str) -> None:
    arguments = {"tap": 3, "token_head": True, "num_classes": 5}
    saved, model = (rv.create_model(name, **arguments) for _ in range(2))
    save_file(saved.state_dict(), tmp_path / "ours.safetensors")
    load_weights(model, tmp_path / "ours.safetensors")
    assert_same_state(model, saved)


def test_older_names_load(loaded: nn.Module) -> None:
    weights = {n.replace("pos_embed.", "pos_embeder."): v for n, v in published_weights(NAME).items()}
    for j in range(2):
        for part in ("weight", "bias"):
            names = [f"cls_attn_blocks.{j}.attn.{letter}.{part}" for letter in "qkv"]
            weights[f"cls_attn_blocks.{j}.attn.qkv.{part}"] = torch.cat([weights.pop(n) for n in names])
    assert_same_state(rv.from_official(NAME, weights), loaded)


# what is adapted


def test_another_number_of_classes_starts_a_fresh_head_only(loaded: nn.Module) -> None:
    model = rv.from_official(NAME, published_weights(NAME), num_classes=7)
    assert model.head.weight.shape == (7, 192)
    assert model.head.weight.std().item() == pytest.approx(0.02, rel=0.1)
    expected = loaded.state_dict() | {n: v for n, v in model.state_dict().items() if n.startswith("head.")}
    assert_same_state(model, expected)


def test_another_number_of_classes_starts_a_fresh_token_head_as_well() -> None:
    whole = rv.from_official(TOKEN_NAME, published_weights(TOKEN_NAME))
    model = rv.from_official(TOKEN_NAME, published_weights(TOKEN_NAME), num_classes=7)
    assert model.head.weight.shape == model.token_head.weight.shape == (7, 192)
    assert_same_state(model, whole.state_dict(), but=r"^(token_)?head\.")


def test_no_classifier_on_request(loaded: nn.Module) -> None:
    model = rv.from_official(NAME, published_weights(NAME), num_classes=0)
    expected = {n: v for n, v in loaded.state_dict().items() if not n.startswith("head.")}
    assert_same_state(model, expected)


def test_the_number_of_classes_comes_from_the_checkpoint() -> None:
    weights = published_weights(NAME)
    weights |= {"head.weight": weights["head.weight"][:21], "head.bias": weights["head.bias"][:21]}
    model = rv.from_official(NAME, weights)
    assert model.num_classes == 21
    torch.testing.assert_close(model.head.weight, weights["head.weight"], rtol=0, atol=0)


@pytest.mark.parametrize(("base", "classes"), [("rvt_small_plus", 10), ("fan_small_12_p4_hybrid", 100)])
def test_cifar_networks_are_the_ordinary_ones_with_fewer_classes(base: str, classes: int) -> None:
    name = f"{base}_cifar{classes}"
    model = rv.from_official(name, meta_weights(name), device="meta")
    assert model.num_classes == classes
    assert sum(p.numel() for p in model.parameters()) == STATE_DICTS[name]["params"]
    assert type(model) is type(rv.create_model(base, device="meta"))


@pytest.mark.parametrize("name", [NAME, "fan_tiny_8_p4_hybrid", "rvt_tiny"])
def test_one_input_channel_sees_grey_images_as_three_did(name: str) -> None:
    weights = published_weights(name)
    grey = reference_input(64, 64)[:, :1]
    with torch.inference_mode():
        expected = rv.from_official(name, weights).eval()(grey.expand(-1, 3, -1, -1))
        got = rv.from_official(name, weights, in_chans=1).eval()(grey)
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4)


def test_a_token_head_may_be_left_behind() -> None:
    plain = rv.from_official("fan_tiny_8_p4_hybrid", published_weights("fan_tiny_8_p4_hybrid"))
    assert_same_state(rv.from_official("fan_tiny_8_p4_hybrid", published_weights(TOKEN_NAME)), plain)


def test_masks_and_ffn_of_rvt_come_from_the_names() -> None:
    weights = meta_weights("rvt_base_plus")
    mask = weights["transformers.0.blocks.0.attn.att_mask"]
    everywhere = weights | {f"transformers.0.blocks.{i}.attn.att_mask": mask for i in range(12)}
    model = rv.from_official("rvt_base_plus", everywhere, device="meta")
    assert sum(p.numel() for p in model.parameters()) == 91_755_688  # the paper's 91.8 M
    conv = rv.from_official("rvt_base_plus", meta_weights("tap_rvt_base_plus"), tap=4, device="meta")
    assert sum(p.numel() for p in conv.parameters()) == STATE_DICTS["tap_rvt_base_plus"]["params"]
    unmasked = rv.from_official("rvt_base_plus", meta_weights("rvt_base"), device="meta")
    assert sum(p.numel() for p in unmasked.parameters()) == STATE_DICTS["rvt_base"]["params"]


def test_masks_are_resized_to_another_grid() -> None:
    weights = published_weights("rvt_tiny_plus", "strongmask")
    model = rv.from_official("rvt_tiny_plus", weights, img_size=(96, 64)).eval()
    mask = weights["transformers.0.blocks.4.attn.att_mask"]
    torch.testing.assert_close(model.stages[0][4].attn.mask, resize_mask(mask, (14, 14), (6, 4)), rtol=0, atol=0)
    with torch.inference_mode():
        assert model(torch.zeros(1, 3, 96, 64)).isfinite().all()
        with pytest.raises(ValueError, match="96x64"):
            model(torch.zeros(1, 3, 64, 96))


@pytest.mark.parametrize("name", ["tap_fan_tiny_12_p16_224", "tap_rvt_tiny"])
def test_a_single_branch_predictor_is_dropped(name: str) -> None:
    """Released networks with K = 1 carry a predictor that nothing reads; K = 1 is the network without TAP."""
    plain_name = name.removeprefix("tap_")
    weights = meta_weights(name)
    for entry, value in weights.items():
        if ".dilation_predictor." in entry:
            weights[entry] = torch.empty([1 if n == 4 else n for n in value.shape], device="meta")
    for accepted in (name, plain_name):
        model = rv.from_official(accepted, weights, device="meta")
        assert sum(p.numel() for p in model.parameters()) == STATE_DICTS[plain_name]["params"]


def test_another_number_of_tap_branches_loads_on_request() -> None:
    weights = meta_weights("tap_fan_tiny_12_p16_224")
    for entry, value in weights.items():
        if ".dilation_predictor." in entry:
            weights[entry] = torch.empty([2 if n == 4 else n for n in value.shape], device="meta")
    model = rv.from_official("tap_fan_tiny_12_p16_224", weights, tap=2, device="meta")
    assert model.blocks[0].tap.branches == 2


def test_options_reach_the_network() -> None:
    model = rv.from_official(NAME, meta_weights(NAME), device="meta", drop_path_rate=0.25, global_pool="avg")
    assert model.blocks[0].drop_path.drop_prob == 0.25
    assert model.global_pool == "avg"
