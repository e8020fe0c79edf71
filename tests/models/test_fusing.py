"""Fused networks compute the same with fewer layers, and the original stays as it was."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import torch
from torch import nn

import robustvit as rv

NETWORKS = {
    "fan_vit": ("fan_vit_nano", {"tap": 4}),
    "fan_vit_ca": ("fan_vit_nano", {"channel": "ca", "tap": "multi_kernel3"}),
    "fan_vit_se": ("fan_vit_nano", {"channel": "se"}),
    "fan_hybrid": ("fan_hybrid_nano", {"tap": 4, "token_head": True}),
    "fan_hybrid_xl": ("fan_hybrid_nano", {"embed_dims": (24, 48), "depths": (2, 1), "num_heads": (2, 4), "img_size": 64}),
    "fan_swin": ("fan_swin_nano", {"tap": 4}),
    "rvt": ("rvt_nano", {"tap": 4}),
    "rvt_masked": ("rvt_nano", {"masked_blocks": 3}),
    "rvt_plain": ("rvt_nano", {"ffn": "plain"}),
    "vit": ("vit_tiny_patch16_224", {"img_size": 32, "depth": 2, "tap": 4, "token_head": True}),
    "resnet": ("resnet18", {}),
}
Shake = Callable[[nn.Module], nn.Module]


def build(key: str, shake: Shake) -> nn.Module:
    name, arguments = NETWORKS[key]
    return shake(rv.create_model(name, num_classes=10, **arguments))


def norms(model: nn.Module) -> list[str]:
    return [n for n, m in model.named_modules() if isinstance(m, nn.BatchNorm2d)]


@pytest.mark.parametrize("key", NETWORKS)
def test_outputs_are_the_same(key: str, shake: Shake) -> None:
    model = build(key, shake)
    side = 64 if key == "fan_hybrid_xl" else 32
    images = torch.randn(2, 3, side, side)
    with torch.no_grad():
        expected = model(images)
        logits = rv.fuse(model)(images)
        torch.testing.assert_close(logits / expected.std(), expected / expected.std(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("key", ["rvt", "rvt_masked", "rvt_plain", "vit"])
def test_no_batch_norm_is_left(key: str, shake: Shake) -> None:
    model = build(key, shake)
    assert norms(model)
    assert norms(rv.fuse(model)) == []


@pytest.mark.parametrize("key", ["fan_vit", "fan_hybrid", "fan_swin"])
def test_only_the_norms_before_a_padded_convolution_are_left_in_fan(key: str, shake: Shake) -> None:
    model = build(key, shake)
    left = norms(rv.fuse(model))
    assert left
    assert all(name.endswith("dwconv.norm") for name in left)
    assert len(left) < len(norms(model))


@pytest.mark.parametrize("key", ["fan_vit", "fan_hybrid"])
def test_layer_scale_is_folded_where_no_gate_takes_it(key: str, shake: Shake) -> None:
    model = build(key, shake)
    assert [n for n in rv.fuse(model).state_dict() if re.search(r"gamma$|gamma1$", n) and "cls_attn" not in n] == []


@pytest.mark.parametrize("key", NETWORKS)
def test_the_original_is_untouched(key: str, shake: Shake) -> None:
    model = build(key, shake).train()
    before = {n: v.clone() for n, v in model.state_dict().items()}
    modules = {n: type(m) for n, m in model.named_modules()}
    fused = rv.fuse(model)
    assert model.training
    assert all(p.requires_grad for p in model.parameters())
    assert {n: type(m) for n, m in model.named_modules()} == modules
    assert all(torch.equal(value, before[n]) for n, value in model.state_dict().items())
    assert not fused.training
    assert not any(p.requires_grad for p in fused.parameters())


@pytest.mark.parametrize("key", ["fan_vit", "fan_hybrid", "fan_swin", "rvt", "vit"])
def test_fusing_twice_is_fusing_once(key: str, shake: Shake) -> None:
    images = torch.randn(1, 3, 32, 32)
    once = rv.fuse(build(key, shake))
    with torch.no_grad():
        torch.testing.assert_close(rv.fuse(once)(images), once(images), rtol=0, atol=0)


@pytest.mark.parametrize("key", ["fan_vit", "fan_swin", "rvt_masked", "vit"])
def test_a_fused_network_can_be_recorded(key: str, shake: Shake) -> None:
    model = build(key, shake)
    images = torch.randn(1, 3, 32, 32)
    tapes = []
    for network in (model, rv.fuse(model)):
        with torch.no_grad(), rv.record(network) as tape:
            network(images)
        tapes.append(tape)
    for one, other in zip(tapes[0].attention, tapes[1].attention, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)
