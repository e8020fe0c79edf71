"""Patch-Fool: the reference pieces, where it works, and within which limits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import timm
import torch
from refusals import refused
from torch import Tensor

import robustvit as rv
from robustvit.attacks import PatchFoolSettings, PixelNetwork, choose_patches, patch_fool
from robustvit.attacks.patch_attention import attention_drawn, attention_received, pixel_mask, tokens_of
from robustvit.attacks.patch_fool import without_conflict
from robustvit.recording.tape import Tape

CASE = json.loads((Path(__file__).parents[1] / "reference" / "afat.json").read_text())["case6_patchfool"]
SWIN = dict(img_size=32, patch_size=2, window_size=4, embed_dim=24, depths=(2, 2), num_heads=(2, 2), num_classes=10)


def reference() -> tuple[Tensor, Tensor, Tensor]:
    """Two gradients [3, 6], and attention [layer, batch, head, query, key]."""
    draws = np.random.RandomState(1)
    gradient, of_loss = draws.standard_normal((3, 6)), 0.1 * draws.standard_normal((3, 6))
    attention = torch.from_numpy(draws.standard_normal((2, 3, 2, 5, 5))).softmax(-1)
    return torch.from_numpy(gradient), torch.from_numpy(of_loss), attention


def tape_of(attention: Tensor) -> Tape:
    tape = Tape(prefix_tokens=1)
    tape.attention, tape.grids, tape.windows = list(attention), [(2, 2)] * 2, [None] * 2
    return tape


@pytest.mark.parametrize(
    ("projection", "key"),
    [("textbook", "pcgrad_textbook"), ("published", "pcgrad_official(divides by the norm, not its square)")],
)
def test_the_projection_is_that_of_the_reference(projection: Any, key: str) -> None:
    gradient, of_loss, _ = reference()
    found = without_conflict(gradient, of_loss, projection)
    torch.testing.assert_close(found, torch.tensor(CASE[key]).double(), rtol=1e-5, atol=1e-6)


def test_the_textbook_projection_removes_the_conflict_and_nothing_else() -> None:
    gradient, of_loss, _ = reference()
    found = without_conflict(gradient, of_loss)
    assert ((found * of_loss).sum(1) > -1e-9).all()
    agrees = (gradient * of_loss).sum(1) >= 0
    assert agrees.any()
    assert not agrees.all()
    assert torch.equal(found[agrees], gradient[agrees])


def test_the_most_attended_patch_and_the_attention_it_draws_are_those_of_the_reference() -> None:
    *_, attention = reference()
    tape = tape_of(attention)
    chosen = attention_received(tape, 1).argmax(1)
    assert chosen.tolist() == CASE["selected_patch_from_layer1(without cls)"]
    tokens = tokens_of(chosen[:, None], (2, 2), (2, 2)).double()
    drawn = [attention_drawn(tape, layer, tokens).mean().item() for layer in (0, 1)]
    assert drawn == pytest.approx(CASE["attention_loss_per_layer(mean log attention)"], rel=1e-6)


def test_a_patch_is_the_tokens_that_touch_it_on_any_grid() -> None:
    patch = torch.tensor([[1]])  # top right of 2 x 2
    assert tokens_of(patch, (2, 2), (4, 4)).view(4, 4).tolist() == [[0, 0, 1, 1], [0, 0, 1, 1], [0] * 4, [0] * 4]
    assert tokens_of(patch, (2, 2), (1, 1)).tolist() == [[1]]
    assert tokens_of(patch, (2, 2), (2, 2)).tolist() == [[0, 1, 0, 0]]
    assert pixel_mask(patch, (2, 2), (4, 4))[0, 0].tolist() == [[0, 0, 1, 1], [0, 0, 1, 1], [0] * 4, [0] * 4]
    with pytest.raises(ValueError, match="do not divide"):
        pixel_mask(patch, (2, 2), (5, 4))


def network_of(kind: str) -> PixelNetwork:
    torch.manual_seed(0)
    network = (
        timm.create_model("swin_tiny_patch4_window7_224", **SWIN) if kind == "swin" else rv.create_model(kind, num_classes=10)
    )
    return PixelNetwork(network, (0.5,) * 3, (0.25,) * 3)


def pictures(count: int = 2) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.rand(count, 3, 32, 32, generator=generator), torch.arange(count)


@pytest.mark.parametrize("kind", ["fan_vit_nano", "fan_hybrid_nano", "fan_swin_nano", "rvt_nano", "vit_nano", "swin"])
def test_only_the_chosen_patch_of_any_network_changes_and_the_loss_rises(kind: str) -> None:
    model, (images, labels) = network_of(kind), pictures()
    how = PatchFoolSettings(iterations=8)
    chosen = choose_patches(model, images, labels, how)
    attacked = patch_fool(model, images, labels, how)
    outside = pixel_mask(chosen.cells, chosen.grid, (32, 32)).expand_as(images) == 0
    assert torch.equal(attacked[outside], images[outside])
    assert not torch.equal(attacked[~outside], images[~outside])
    assert attacked.min() >= 0
    assert attacked.max() <= 1
    model.eval()
    with torch.no_grad():
        before, after = (torch.nn.functional.cross_entropy(model(x), labels) for x in (images, attacked))
    assert after > before


def test_the_attention_term_draws_attention() -> None:
    model, (images, labels) = network_of("vit_nano"), pictures()
    chosen = choose_patches(model, images, labels, PatchFoolSettings())

    def drawn(**options: Any) -> float:
        attacked = patch_fool(model, images, labels, PatchFoolSettings(iterations=15, **options))
        with torch.no_grad(), rv.record(model.eval()) as tape:
            model(attacked)
        return float(attention_drawn(tape, 1, tokens_of(chosen.cells, chosen.grid, tape.grids[1])).mean())

    assert drawn(attention_weight=100.0) > drawn(attention_weight=0.0)


@pytest.mark.parametrize("select", ["attention", "saliency", "random"])
def test_several_patches_can_be_selected_in_each_way(select: Any) -> None:
    model, (images, labels) = network_of("vit_nano"), pictures()
    chosen = choose_patches(model, images, labels, PatchFoolSettings(patches=3, select=select))
    assert chosen.cells.shape == (2, 3)
    assert all(len(set(row)) == 3 for row in chosen.cells.tolist())


def test_linf_and_l2_limits_hold_to_float_precision() -> None:
    model, (images, labels) = network_of("vit_nano"), pictures()
    near = patch_fool(model, images, labels, PatchFoolSettings(iterations=5, constraint="linf", limit=8))
    assert 0 < (near - images).abs().max() <= 8 / 255 + 1e-6
    ball = patch_fool(model, images, labels, PatchFoolSettings(iterations=5, constraint="l2", limit=0.5))
    norms = (ball - images).flatten(2).norm(dim=2)
    assert (norms <= 0.5 + 1e-5).all()
    assert norms.max() > 0.4


@pytest.mark.parametrize("pixel_choice", ["learned", "random"])
def test_a_sparse_attack_changes_as_many_pixels_as_asked(pixel_choice: Any) -> None:
    model, (images, labels) = network_of("vit_nano"), pictures()
    how = PatchFoolSettings(iterations=6, pixels=5, pixel_choice=pixel_choice)
    attacked = patch_fool(model, images, labels, how)
    changed = (attacked != images).any(1).flatten(1).sum(1)
    assert changed.tolist() == [5, 5]


def test_what_happens_to_a_image_does_not_depend_on_its_batch() -> None:
    model, (images, labels) = network_of("fan_vit_nano"), pictures(3)
    how = PatchFoolSettings(iterations=3, pixels=6)
    whole = patch_fool(model, images, labels, how, sample_ids=["a", "b", "c"])
    alone = patch_fool(model, images[1:2], labels[1:2], how, sample_ids=["b"])
    torch.testing.assert_close(whole[1:2], alone, rtol=0, atol=1e-3)


def test_a_network_without_attention_is_refused_and_wrong_settings_are_explained() -> None:
    model, (images, labels) = PixelNetwork(timm.create_model("resnet10t", num_classes=10)), pictures()
    with refused(RuntimeError, "attention"):
        patch_fool(model, images, labels)
    for wrong in (dict(select="best"), dict(patches=0), dict(pixels=0), dict(limit=1.0), dict(constraint="l2")):
        with pytest.raises(ValueError, match=r"not known|not possible"):
            PatchFoolSettings(**wrong)  # type: ignore[arg-type]
    with refused(ValueError, 16):
        patch_fool(network_of("vit_nano"), images, labels, PatchFoolSettings(pixels=17))


def test_a_block_that_is_not_there_is_refused_and_a_bare_network_named() -> None:
    network = rv.create_model("fan_hybrid_nano", num_classes=10)
    images, labels = torch.rand(1, 3, 32, 32), torch.tensor([1])
    with refused(ValueError, "layer=99", "0 to 2"):
        patch_fool(PixelNetwork(network), images, labels, PatchFoolSettings(layer=99))
    with pytest.raises(TypeError, match=r"give PixelNetwork\(model\)"):
        patch_fool(network, images, labels)
