"""Every analysis on a small network of every family."""

from __future__ import annotations

from typing import Any

import pytest
import timm
import torch
from refusals import refused
from torch import Tensor, nn

import robustvit as rv
from robustvit.analysis.attention_chunks import keep_maps, map_chunks, observe
from robustvit.analysis.attention_maps import attention_maps
from robustvit.analysis.attention_stability import attention_stability
from robustvit.analysis.eigenvalues import eigenvalue_counts
from robustvit.analysis.head_diversity import head_diversity
from robustvit.analysis.noise_decay import noise_decay
from robustvit.analysis.overfocus import overfocus

SWIN = dict(img_size=44, patch_size=4, window_size=4, embed_dim=16, depths=(2, 2), num_heads=(2, 4), num_classes=10)
FAMILIES = ("fan_vit_nano", "fan_hybrid_nano", "fan_swin_nano", "rvt_nano", "vit_nano", "deit", "swin")


def network(family: str) -> Any:
    torch.manual_seed(0)
    if family == "swin":  # 11 x 11 tokens: windows that are padded and shifted
        return timm.create_model("swin_tiny_patch4_window7_224", **SWIN)
    if family == "deit":
        sizes = dict(img_size=32, patch_size=4, embed_dim=32, depth=3, num_heads=2)
        return timm.create_model("deit_tiny_distilled_patch16_224", num_classes=10, **sizes)
    return rv.create_model(family, num_classes=10)


def pictures(family: str, count: int = 3, seed: int = 0) -> Tensor:
    side = 44 if family == "swin" else 32
    return torch.randn(count, 3, side, side, generator=torch.Generator().manual_seed(seed))


def modes(model: nn.Module) -> list[bool]:
    return [module.training for module in model.modules()]


@pytest.mark.parametrize("family", FAMILIES)
def test_maps_computed_from_rows_are_those_of_the_network(family: str) -> None:
    model, images = network(family).eval(), pictures(family)
    with torch.no_grad(), rv.record(model) as expected:
        model(images)
    with observe(model) as tape:
        model(images)
    prefix = expected.prefix_tokens
    for layer, maps in enumerate(expected.attention):
        found = torch.cat(list(map_chunks(tape, layer, 3)), dim=3).flatten(0, 1)
        windows = tape.windows[layer]
        real = torch.ones(1) if windows is None else (windows >= 0).float().repeat(3, 1)  # what pads a window is left out
        kept = real[:, None, :, None] * real[:, None, None] if windows is not None else real
        torch.testing.assert_close(found, maps[..., prefix:, prefix:] * kept, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("family", FAMILIES)
def test_maps_that_are_kept_are_those_that_are_computed_again_and_too_large_ones_are_not_kept(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = network(family)
    with observe(model) as tape:
        model(pictures(family))
    computed = [list(map_chunks(tape, layer, 3, rows=5)) for layer in range(len(tape.grids))]
    monkeypatch.setattr("robustvit.analysis.attention_chunks.KEPT_BYTES", 1000)
    keep_maps(tape)
    assert not tape.attention
    monkeypatch.undo()
    keep_maps(tape)
    assert len(tape.attention) == len(tape.grids)
    kept = [list(map_chunks(tape, layer, 3, rows=5)) for layer in range(len(tape.grids))]
    torch.testing.assert_close(kept, computed)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_same_image_has_stable_attention_and_another_one_less(family: str) -> None:
    model, images = network(family).train(), pictures(family)
    before = modes(model)
    same = attention_stability(model, [(images, images)])
    other = attention_stability(model, [(images, pictures(family, seed=1))])
    assert same.of_pictures.shape == (3,)
    assert same.mean == pytest.approx(1, abs=1e-5)
    assert other.mean < same.mean
    assert modes(model) == before
    parts = attention_stability(model, [(images[:1], images[:1]), (images[1:], images[1:])], rows=3)
    torch.testing.assert_close(parts.of_pictures, same.of_pictures, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_statistics_over_a_set_do_not_depend_on_how_it_is_batched(family: str) -> None:
    model, images = network(family), pictures(family)
    batched = [images[:2], images[2:]]
    layers = len(head_diversity(model, [images]))
    torch.testing.assert_close(head_diversity(model, batched, rows=5), head_diversity(model, [images]), equal_nan=True)
    torch.testing.assert_close(vars(overfocus(model, batched, rows=5)), vars(overfocus(model, [images])))
    counts = eigenvalue_counts(model, batched)
    torch.testing.assert_close(counts.significant, eigenvalue_counts(model, [images]).significant)
    assert counts.significant.shape == (layers,)
    assert (counts.significant >= 1).all()
    assert (counts.zero >= 0).all()
    decay = noise_decay(model, batched)
    torch.testing.assert_close(decay, noise_decay(model, [images]), rtol=1e-4, atol=1e-5)
    assert decay.shape == (layers,)
    assert (decay > 0).all()


@pytest.mark.parametrize("family", FAMILIES)
def test_images_of_attention_have_the_shape_of_the_grid(family: str) -> None:
    model, images = network(family), pictures(family, 1)
    maps = attention_maps(model, images[0], layers=(0, -1), query=(0.3, 0.7))
    assert len(maps.layer_maps) == len(maps.query_maps) == 2
    with torch.no_grad(), rv.record(model.eval()) as tape:
        model(images)
    for layer, seen in zip(maps.layers, maps.query_maps, strict=True):
        assert tuple(seen.shape) == tape.grids[layer]
        assert 0 < seen.sum() <= 1 + 1e-5
    with pytest.raises(ValueError, match="this network has"):
        attention_maps(model, images[0], layers=(99,))


def test_noise_can_be_followed_through_a_cnn_and_nothing_else_is_asked_of_it() -> None:
    model, images = timm.create_model("resnet10t", num_classes=10), pictures("vit")
    assert len(noise_decay(model, [images])) == 4
    fed = noise_decay(model, [images], kind="input")
    assert fed[0] == pytest.approx(1)
    with refused(RuntimeError, "attention"):
        head_diversity(model, [images])
    with refused(RuntimeError, "attention", "residual"):
        noise_decay(nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 10)), [images])


def test_a_set_without_images_is_refused() -> None:
    model = network("vit_nano")
    for analysis in (head_diversity, overfocus, eigenvalue_counts, noise_decay, attention_stability):
        with pytest.raises(ValueError, match="at least one"):
            analysis(model, [])  # type: ignore[operator]
        with pytest.raises(TypeError, match=r"\[B, 3, H, W\]|\(clean, spoiled\)"):
            analysis(model, torch.zeros(2, 3, 32, 32, dtype=torch.uint8))  # type: ignore[operator]


def test_a_batch_and_a_loader_with_labels_are_taken_as_they_are() -> None:
    model, images = network("vit_nano"), pictures("vit")
    loader = [(images[:2], torch.tensor([1, 2])), (images[2:], torch.tensor([3]))]
    for analysis in (head_diversity, noise_decay):
        torch.testing.assert_close(analysis(model, loader), analysis(model, images), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(eigenvalue_counts(model, loader).significant, eigenvalue_counts(model, images).significant)
    assert attention_stability(model, (images, images)).mean == pytest.approx(1, abs=1e-5)
    with refused(ValueError, [3, 3, 32, 32], [2, 3, 32, 32]):
        attention_stability(model, [(images, images[:2])])
