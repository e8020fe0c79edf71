"""Batches with the objects of their images: of any size, by whoever makes them, with images and targets kept in memory."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import torch
from refusals import refused
from toy_objects import SceneObjects, ToyDetection

from robustvit.data.layouts import LayoutError
from robustvit.data.normalisation import Normalisation
from robustvit.data.samples import Sample, UnreadablePictureError
from robustvit.training.augment.placement import Placement
from robustvit.training.base_cache import BaseImages
from robustvit.training.batches import Batch, TrainingData
from robustvit.training.config import AugmentConfig, DataConfig
from robustvit.training.inputs import prepare
from robustvit.training.training_sets import training_samples

TASK = ToyDetection()
MULTISCALE = AugmentConfig(
    crop="multiscale", short_sides=(32, 48, 64), long_side=96, first_short_sides=(40,), crop_range=(24, 36)
)
SCENE = AugmentConfig(crop="scene")
BATCHES = 6


def opened(augment: AugmentConfig = MULTISCALE, **data: Any) -> TrainingData:
    config = DataConfig(**{"train": "toy:12", **data})
    return TrainingData(TASK, training_samples(TASK, config, seed=3), config, augment, (32, 48), seed=3)


def made(data: TrainingData, epochs: int = 2, **options: Any) -> list[Batch]:
    return [batch for group in data.batches(4, epochs=epochs, **options) for batch in group]


def by_sample(batches: list[Batch]) -> dict[int, list[Any]]:
    """What was made of each sample, without its padding."""
    found = {}
    for batch in batches:
        for seed, image, target, (height, width) in zip(batch.seeds, batch.images, batch.targets, batch.shown, strict=True):
            shown = [image[:, :height, :width], target["masks"][:, :height, :width], target["boxes"], target["labels"]]
            found[seed] = [tensor.tolist() for tensor in shown]
    return found


@pytest.mark.parametrize("augment", [MULTISCALE, SCENE])
def test_targets_are_placed_on_the_canvas_of_their_batch(augment: AugmentConfig) -> None:
    batches = made(opened(augment))
    assert len(batches) == BATCHES
    for batch in batches:
        canvas = tuple(batch.images.shape[2:])
        for image, target, shown in zip(batch.images, batch.targets, batch.shown, strict=True):
            assert image.shape == (3, *canvas)
            assert target["masks"].shape == (len(target["boxes"]), *canvas)
            assert tuple(target["size"].tolist()) == shown
            assert (target["boxes"][:, 2:] <= torch.tensor(shown[::-1])).all()
    sizes = {tuple(batch.images.shape[2:]) for batch in batches}
    assert len(sizes) > 1 if augment is MULTISCALE else sizes == {(32, 48)}


def test_padding_of_batches_of_any_size_is_0_after_normalising() -> None:
    for batch in made(opened()):
        normalisation = Normalisation((0.5, 0.4, 0.3), (0.2, 0.25, 0.3))
        inputs = prepare(TASK, batch, MULTISCALE, (), device="cpu", normalisation=normalisation, outputs=2)
        assert inputs.images.shape == batch.images.shape
        for image, target, (height, width) in zip(inputs.images, inputs.targets, batch.shown, strict=True):
            assert not image[:, height:].any()
            assert not image[:, :, width:].any()
            assert not target["masks"][:, height:].any()
            assert (image[:, :height, :width] != 0).any()


@pytest.mark.parametrize("augment", [MULTISCALE, SCENE])
@pytest.mark.parametrize("cache", ["auto", "yes", "no"])
def test_workers_and_memory_change_nothing(augment: AugmentConfig, cache: str) -> None:
    expected = by_sample(made(opened(augment)))
    assert len(expected) == 24
    assert by_sample(made(opened(augment, cache=cache, workers=2))) == expected
    data = opened(augment, cache=cache)
    assert by_sample(made(data, epochs=1)) | by_sample(made(data, start_update=3)) == expected


def test_processes_and_micro_batches_make_the_same_samples_on_canvases_of_their_own() -> None:
    data = opened()
    parts = [batch for rank in (0, 1) for batch in made(data, world=2, rank=rank)]
    assert by_sample(parts) == by_sample(made(data))


def test_images_of_one_size_are_decoded_once_and_their_targets_kept() -> None:
    data = opened()
    (part,) = data.samples.parts
    made(data, epochs=2)
    asked = dict(part.samples.asked)
    made(data, epochs=2)
    extra = {name: count - asked[name] for name, count in part.samples.asked.items()}
    assert extra == {"image": 4, "target": 4}  # two images of another size, in two epochs
    yes = opened(cache="yes")
    made(yes)
    yes.samples.read = yes.samples.target = _refuse  # type: ignore[method-assign]
    made(yes)


def _refuse(position: object) -> Any:
    raise AssertionError(f"{position} was read again")


class Given(ToyDetection):
    """Opens the samples that it is given."""

    def __init__(self, samples: SceneObjects) -> None:
        self.samples = samples

    def open(self, data: Any, **options: Any) -> Any:
        return self.samples


def bases(samples: SceneObjects, placement: Placement | None = None) -> BaseImages:
    task = Given(samples)
    return BaseImages(
        task, training_samples(task, DataConfig(), seed=0), lambda image, name: (np.asarray(image), placement), "auto"
    )


def test_a_process_reads_the_target_alone_where_another_has_decoded_the_image() -> None:
    samples = SceneObjects(3)
    kept = bases(samples)
    first = kept.get([0, 1, 2])
    kept.records.clear()  # as in another process, which shares the memory of images
    asked = dict(samples.asked)
    second = kept.get([0, 1, 2])
    assert samples.asked == {"image": asked["image"], "target": asked["target"] + 3}
    for (base, target), (same, again) in zip(first, second, strict=True):  # type: ignore[misc]
        assert np.array_equal(base, same)
        assert np.array_equal(target.boxes, again.boxes)


def test_a_target_that_cannot_be_read_is_told_as_an_image_is() -> None:
    samples = SceneObjects(2)
    kept = bases(samples)
    kept.get([0, 1])
    kept.records.clear()

    def broken() -> Any:
        raise UnreadablePictureError("no objects")

    at = samples.at
    samples.at = lambda i: Sample(str(i), at(i).open, broken)  # type: ignore[method-assign]
    assert [str(item) for item in kept.get([0, 1])] == ["no objects"] * 2


def test_a_sent_set_starts_with_empty_memory() -> None:
    data = opened()
    made(data, epochs=1)
    sent = pickle.loads(pickle.dumps(data.maker))
    assert not sent.bases.is_filled.any()
    assert not sent.bases.records
    (item,) = sent.bases.get([0])
    assert np.array_equal(item[0], data.maker.bases.get([0])[0][0])  # type: ignore[index]


def test_a_base_whose_target_was_placed_with_it_is_not_kept() -> None:
    """Its target has other coordinates than the sample says, so that no other process could read it alone."""
    kept = bases(SceneObjects(2), Placement(0, 0, 40, 60, (20, 30)))
    ((_, target),) = kept.get([0])  # type: ignore[misc]
    assert target["size"].tolist() == [20, 30]
    assert not kept.is_filled.any()


def test_a_set_says_which_of_its_images_are_learned_from() -> None:
    samples = SceneObjects(6)
    samples.learnable = lambda: [1, 4, 5]  # type: ignore[attr-defined]
    chosen = training_samples(Given(samples), DataConfig(), seed=0)
    assert [chosen.id(i) for i in range(len(chosen))] == ["1", "4", "5"]
    samples.learnable = list  # type: ignore[attr-defined]
    with refused(LayoutError, "6 images"):
        training_samples(Given(samples), DataConfig(), seed=0)
