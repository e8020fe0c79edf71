"""The embedded data set: a scene is a function of (seed, index), and its annotations describe its pixels."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused
from torch import Tensor
from torch.utils.data import DataLoader

from robustvit.data.scenes.dataset import (
    CLASS_NAMES,
    SEMANTIC_NAMES,
    SMALLEST_INSTANCE,
    Hints,
    Scene,
    Scenes,
    scene,
    scenes_batch,
)
from robustvit.data.scenes.draws import SceneDraws
from robustvit.data.scenes.shapes import REACH, distances

SIZES = [32, 64, (48, 80), (33, 17)]


def _equal(a: Scene, b: Scene) -> bool:
    tensors = ("image", "semantic", "masks", "boxes", "classes")
    return a.label == b.label and all(torch.equal(getattr(a, name), getattr(b, name)) for name in tensors)


@pytest.mark.parametrize("size", SIZES)
def test_a_scene_has_the_types_and_shapes_it_promises(size: int | tuple[int, int]) -> None:
    H, W = (size, size) if isinstance(size, int) else size
    for index in range(20):
        s = scene(0, index, size)
        n = len(s.classes)
        assert (s.image.dtype, s.image.shape) == (torch.uint8, (3, H, W))
        assert (s.semantic.dtype, s.semantic.shape) == (torch.uint8, (H, W))
        assert (s.masks.dtype, s.masks.shape) == (torch.bool, (n, H, W))
        assert (s.boxes.dtype, s.boxes.shape) == (torch.float32, (n, 4))
        assert (s.classes.dtype, s.classes.shape) == (torch.int64, (n,))
        assert 1 <= n <= 4
        assert 0 <= s.label < 10


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**63), st.lists(st.integers(0, 2**40), min_size=1, max_size=8), st.sampled_from(SIZES))
def test_a_scene_does_not_depend_on_the_batch_it_is_drawn_in(
    seed: int, indices: list[int], size: int | tuple[int, int]
) -> None:
    batch = scenes_batch(seed, indices, size)
    assert len(batch) == len(indices)
    for index, drawn in zip(indices, batch, strict=True):
        assert _equal(drawn, scene(seed, index, size))


def test_a_scene_does_not_depend_on_how_a_batch_is_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = scenes_batch(3, range(40)).images
    monkeypatch.setattr("robustvit.data.scenes.dataset._PIXELS_AT_ONCE", 7 * 32 * 32)
    assert torch.equal(scenes_batch(3, range(40)).images, whole)


def test_seed_and_index_give_other_scenes() -> None:
    images = [scene(seed, index).image for seed in (0, 1) for index in (0, 1)]
    assert len({image.numpy().tobytes() for image in images}) == 4


def test_the_images_never_change() -> None:
    """Results are compared across versions and machines: a change here makes them another data set."""
    batch = scenes_batch(0, range(64))
    assert hashlib.sha256(batch.images.numpy().tobytes()).hexdigest()[:16] == "867c9d4b954d32e3"
    assert hashlib.sha256(batch.semantic.numpy().tobytes()).hexdigest()[:16] == "5e8ade4876d6c9c6"


@pytest.mark.parametrize("size", SIZES)
def test_annotations_describe_the_same_pixels(size: int | tuple[int, int]) -> None:
    for s in scenes_batch(1, range(50), size):
        areas = s.masks.sum((1, 2))
        assert (s.masks.sum(0) <= 1).all(), "instances overlap"
        assert (areas >= SMALLEST_INSTANCE).all()
        assert areas.tolist() == sorted(areas.tolist(), reverse=True)
        assert s.label == s.classes[0]
        for mask, kind in zip(s.masks, s.classes, strict=True):
            assert (s.semantic[mask] == kind + 1).all()
        assert (s.semantic != 0).sum() - areas.sum() < 3 * SMALLEST_INSTANCE, "only slivers are left out"


@pytest.mark.parametrize("size", SIZES)
def test_boxes_are_tight_around_the_visible_pixels(size: int | tuple[int, int]) -> None:
    for s in scenes_batch(2, range(30), size):
        for mask, box in zip(s.masks, s.boxes, strict=True):
            rows, columns = mask.nonzero(as_tuple=True)
            assert box.tolist() == [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]


def test_a_scene_is_the_same_image_at_every_size() -> None:
    small, large = scenes_batch(0, range(100), 32), scenes_batch(0, range(100), 96)
    means = large.images.float().reshape(100, 3, 32, 3, 32, 3).mean((3, 5))
    assert (means - small.images.float()).abs().mean() < 8
    assert (large.semantic[:, 1::3, 1::3] == small.semantic).float().mean() > 0.98
    assert (large.labels == small.labels).float().mean() > 0.97


def test_objects_lie_inside_the_image() -> None:
    for s in scenes_batch(5, range(100), 64):
        border = torch.cat([s.semantic[0], s.semantic[-1], s.semantic[:, 0], s.semantic[:, -1]])
        assert (border == 0).all()


def test_all_classes_are_about_equally_frequent() -> None:
    counts = scenes_batch(0, range(3000)).labels.bincount(minlength=10)
    assert len(CLASS_NAMES) == 10
    assert ("background", *CLASS_NAMES) == SEMANTIC_NAMES
    assert counts.min() > 240
    assert counts.max() < 360


@pytest.mark.parametrize("kind", range(10))
def test_all_shapes_have_the_same_area_and_stay_within_reach(kind: int) -> None:
    axis = ((np.arange(400) + 0.5) / 100 - 2).astype(np.float32)
    x, y = (plane[None] for plane in np.meshgrid(axis, axis))
    inside = distances(np.array([kind]), x, y) < 0
    assert inside.sum() / 100**2 == pytest.approx(np.pi, rel=0.01)
    assert np.sqrt(x * x + y * y)[inside].max() <= REACH


def test_draws_are_uniform_and_a_larger_draw_starts_with_the_same_numbers() -> None:
    draws = SceneDraws(0, range(200))
    values = draws.uniform(7, (500,))
    assert 0 <= values.min() < 0.001
    assert 0.999 < values.max() < 1
    assert values.mean() == pytest.approx(0.5, abs=0.005)
    assert np.corrcoef(values[:, :-1].ravel(), values[:, 1:].ravel())[0, 1] == pytest.approx(0, abs=0.02)
    assert np.array_equal(draws.uniform(7, (20,)), values[:, :20])
    assert not np.array_equal(draws.uniform(8, (500,)), values)


def _class_colour_spread(hints: Hints) -> float:
    """How far the mean colours of the classes' main objects lie apart."""
    colours: list[list[Tensor]] = [[] for _ in CLASS_NAMES]
    for s in scenes_batch(0, range(600), hints=hints):
        colour = s.image[:, s.masks[0]].float().mean(1)
        colours[s.label].append(colour - colour.mean())
    return float(torch.stack([torch.stack(of_class).mean(0) for of_class in colours]).std(0).mean())


def test_colour_tells_the_class_only_when_hinted() -> None:
    assert _class_colour_spread(Hints(colour=1)) > 3 * _class_colour_spread(Hints(colour=0))


def test_a_data_set_yields_images_and_labels_of_its_scenes() -> None:
    data = Scenes("val", 20, (32, 48), seed=4)
    image, label = data[7]
    assert len(data) == 20
    assert torch.equal(image, data.scene(7).image)
    assert label == data.scene(7).label
    assert torch.equal(data[-1][0], data[19][0])
    assert data.classes == CLASS_NAMES
    images, labels = data.tensors()
    assert images.shape == (20, 3, 32, 48)
    assert torch.equal(images[7], image)
    assert labels[7] == label


def test_a_loader_with_workers_yields_the_same_as_the_data_set() -> None:
    data = Scenes("train", 12, transform=lambda image: image.float() / 255)
    for workers in (0, 2):
        images, labels = zip(*DataLoader(data, batch_size=5, num_workers=workers), strict=True)
        assert torch.equal(torch.cat(images), data.tensors()[0] / 255)
        assert torch.equal(torch.cat(labels), data.tensors()[1])


def test_splits_and_seeds_share_no_image() -> None:
    sets = [Scenes(split, 50, seed=seed) for split in ("train", "val", "test") for seed in (0, 1)]
    pictures = {image.numpy().tobytes() for data in sets for image in data.tensors()[0]}
    assert len(pictures) == 300


def test_iterating_ends_and_bad_requests_are_refused() -> None:
    assert len(list(Scenes("train", 3))) == 3  # type: ignore[call-overload]
    with refused(IndexError, "3 of 3", "0 to 2"):
        Scenes("train", 3)[3]
    with refused(ValueError, "8x32", "16x16"):
        scene(0, 0, (8, 32))
    with refused(ValueError, "colour=2"):
        scene(0, 0, hints=Hints(colour=2))
    with refused(ValueError, "length=0"):
        Scenes("train", 0)


def test_no_scenes_make_an_empty_batch() -> None:
    assert scenes_batch(0, []).images.shape == (0, 3, 32, 32)
