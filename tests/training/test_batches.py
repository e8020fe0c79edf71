"""Batches are the same whoever makes them, from whatever update on, and say what could not be read."""

from __future__ import annotations

import multiprocessing
import random
import tarfile
import threading
from collections.abc import Sequence
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from image_folders import fill, picture, spoil
from refusals import refused

from robustvit.data.normalisation import Normalisation
from robustvit.runtime.randomness import keyed_seed
from robustvit.tasks.classification import Classification
from robustvit.tasks.mixing import Mix, MixedPart
from robustvit.training.augment.mixing import draw_mixes
from robustvit.training.batches import TrainingData
from robustvit.training.config import AugmentConfig, DataConfig
from robustvit.training.inputs import Batch, Inputs, prepare
from robustvit.training.training_sets import training_samples

TASK = Classification()
PLAIN = AugmentConfig()
FULL = AugmentConfig(crop="resized", rand_augment="rand-m9-mstd0.5-inc1", mixup=0.8, cutmix=1.0, erasing=0.5)
NORMALISATION = Normalisation((0.5, 0.4, 0.3), (0.2, 0.25, 0.3))


def opened(augment: AugmentConfig = PLAIN, *, view: bool = False, **data: Any) -> TrainingData:
    config = DataConfig(**{"train": "scenes:40", **data})
    return TrainingData(TASK, training_samples(TASK, config, seed=3), config, augment, (16, 16), seed=3, spatial_view=view)


def samples(batches: Any) -> dict[str, tuple[bytes, int]]:
    """What was made of each picture: its pixels (and view) and label."""
    made = {}
    for group in batches:
        for batch in group:
            for i, name in enumerate(batch.ids):
                view = b"" if batch.view is None else batch.view[i].numpy().tobytes()
                made[f"{name}/{batch.seeds[i]}"] = (batch.images[i].numpy().tobytes() + view, int(batch.targets[i]))
    return made


@pytest.fixture(scope="module", params=[0, 2, 4])
def scenes(request: pytest.FixtureRequest) -> TrainingData:
    return opened(replace(FULL, mix_group=request.param), view=True)


def test_a_batch_has_images_labels_seeds_and_ids() -> None:
    data = opened(view=True)
    (batch,) = next(data.batches(8, epochs=1))
    assert (batch.images.shape, batch.images.dtype) == ((8, 3, 16, 16), torch.uint8)
    assert (batch.targets.dtype, batch.view.shape) == (torch.int64, (8, 3, 16, 16))  # type: ignore[union-attr]
    assert batch.seeds == [keyed_seed(3, name, 0) for name in batch.ids]
    assert (len(data.classes), data.length, data.updates_per_epoch(12)) == (10, 40, 3)


def test_an_epoch_comes_again_with_other_augmentations() -> None:
    data = opened()
    first, second = (samples(list(data.batches(8, epochs=epoch + 1, start_update=5 * epoch))) for epoch in (0, 1))
    assert {key.split("/")[0] for key in first} == {key.split("/")[0] for key in second}
    assert not set(first) & set(second)


@settings(max_examples=15, deadline=None)
@given(start=st.integers(0, 9), world=st.sampled_from([1, 2]), accumulate=st.sampled_from([1, 2]))
def test_any_processes_and_micro_batches_from_any_update_make_the_same_update(
    scenes: TrainingData, start: int, world: int, accumulate: int
) -> None:
    """Images, mixing and targets of the global batch, put together from its shards."""

    def update(world: int, accumulate: int) -> dict[str, tuple[torch.Tensor, ...]]:
        made = {}
        for rank in range(world):
            batches = scenes.batches(8, epochs=2, start_update=start, rank=rank, world=world, accumulate=accumulate)
            for batch in next(batches):
                mixes = draw_mixes(FULL, 3, start, batch.groups, 16, 16)
                inputs = prepared(batch, FULL, mixes)
                assert inputs.view is not None
                for i, name in enumerate(batch.ids):
                    made[name] = (inputs.images[i], inputs.targets[i], inputs.view[i])
            batches.close()
        return made

    whole, parts = update(1, 1), update(world, accumulate)
    assert set(whole) == set(parts)
    assert all(torch.equal(a, b) for name in whole for a, b in zip(whole[name], parts[name], strict=True))


@pytest.mark.parametrize("augment", [PLAIN, FULL])
def test_workers_and_the_thread_make_the_same_images(augment: AugmentConfig) -> None:
    expected = samples(opened(augment, view=True).batches(8, epochs=2, start_update=3))
    for workers, cache in ((1, "auto"), (2, "no")):
        data = opened(augment, view=True, workers=workers, cache=cache)
        assert samples(data.batches(8, epochs=2, start_update=3)) == expected


def test_workers_can_read_one_tar_file_together(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "train.tar", "w") as archive:
        archive.add(fill(tmp_path / "train", count=30), "train")
    source = str(tmp_path / "train.tar")
    in_workers = opened(train=source, workers=2, cache="no")
    assert samples(in_workers.batches(4, epochs=1)) == samples(opened(train=source).batches(4, epochs=1))


@pytest.mark.parametrize("workers", [0, 2])
def test_a_closed_iterator_leaves_nothing_behind(workers: int) -> None:
    threads, children = set(threading.enumerate()), set(multiprocessing.active_children())
    batches = opened(workers=workers).batches(4, epochs=50)
    next(batches)
    batches.close()
    for thread in set(threading.enumerate()) - threads:
        thread.join(timeout=30)  # one that is about to end may
    assert set(threading.enumerate()) <= threads
    assert set(multiprocessing.active_children()) <= children


@pytest.mark.parametrize("workers", [0, 1])
def test_the_shared_generators_are_left_alone(workers: int) -> None:
    data = opened(FULL, workers=workers)
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
    assert len(list(data.batches(8, epochs=1))) == 5
    assert random.random() == random.Random(1).random()
    assert np.random.rand() == np.random.RandomState(1).rand()
    assert torch.equal(torch.rand(2), torch.rand(2, generator=torch.Generator().manual_seed(1)))


def test_memory_changes_nothing_and_saves_reading(tmp_path: Path) -> None:
    fill(tmp_path, size=(24, 20))
    picture(0, (31, 17)).save(tmp_path / "cat" / "odd.png")
    expected = None
    for crop in ("resized", "padded"):
        augment, made = AugmentConfig(crop=crop), []
        for cache in ("auto", "yes", "no"):
            data = opened(augment, train=str(tmp_path), cache=cache)
            made.append(samples(data.batches(4, epochs=2)))
            assert made[-1] == made[0]
            assert made[-1] != expected
            if cache == "yes":
                data.samples.read = _refuse  # type: ignore[method-assign]
                assert samples(data.batches(4, epochs=2)) == made[0]
        expected = made[0]


def _refuse(positions: object) -> Any:
    raise AssertionError(f"{positions} were read again")


def test_an_unreadable_image_is_replaced_by_the_next_readable_one_and_named(tmp_path: Path) -> None:
    spoiled = spoil(fill(tmp_path))
    data = opened(train=str(tmp_path))
    batches = [batch for group in data.batches(4, epochs=1) for batch in group]
    names = [name for batch in batches for name in batch.ids]
    named = dict(pair for batch in batches for pair in batch.unreadable)
    assert set(named) == set(spoiled)
    assert "cannot identify" in named["cat/2.png"]
    assert sorted(names).count("cat/3.png") == 2
    assert sorted(names).count("dog/4.png") == 2
    assert len({seed for batch in batches for seed in batch.seeds}) == 16
    for batch in batches:
        assert [name.startswith("dog") for name in batch.ids] == batch.targets.bool().tolist()
    assert samples(opened(train=str(tmp_path), workers=2).batches(4, epochs=1)) == samples([batches])


def test_a_set_of_unreadable_images_is_refused(tmp_path: Path) -> None:
    for path in fill(tmp_path).glob("*/*.png"):
        path.write_text("no image")
    with refused(ValueError, 16, "cat/0.png"):
        opened(train=str(tmp_path))


def test_images_that_become_unreadable_end_the_run_with_their_name(tmp_path: Path) -> None:
    fill(tmp_path)
    data = opened(train=str(tmp_path), cache="no")
    for path in tmp_path.glob("*/*.png"):
        path.unlink()
    with refused(ValueError, ".png", 15):
        next(data.batches(4, epochs=1))


def test_grey_and_tiny_images_are_trained_on(tmp_path: Path) -> None:
    fill(tmp_path, count=2, size=(1, 1))
    picture(0).convert("L").save(tmp_path / "cat" / "grey.png")
    picture(0).convert("CMYK").save(tmp_path / "cat" / "print.tif")
    (batch,) = next(opened(FULL, train=str(tmp_path)).batches(6, epochs=1))
    assert batch.images.shape == (6, 3, 16, 16)
    assert not batch.unreadable


@pytest.mark.parametrize(
    ("batch_size", "augment", "options", "named"),
    [
        (41, PLAIN, {}, (40, 41)),
        (9, FULL, {}, ("of 9", "1 processes")),
        (12, replace(FULL, mix_group=8), {}, ("augment.mix_group=8", "batch_size=12", "give 6,")),
        (10, PLAIN, {"world": 4}, ("of 10", "4 processes")),
    ],
)
def test_impossible_batches_are_refused_at_once(
    batch_size: int, augment: AugmentConfig, options: dict[str, int], named: tuple[object, ...]
) -> None:
    with refused(ValueError, *named):
        opened(augment).batches(batch_size, epochs=1, **options)


@pytest.mark.parametrize(("config", "named"), [({"workers": -1}, "data.workers=-1"), ({"cache": "disk"}, "data.cache='disk'")])
def test_impossible_settings_are_named(config: dict[str, Any], named: str) -> None:
    with refused(ValueError, named):
        opened(**config)


def test_repeated_images_have_augmentations_of_their_own() -> None:
    (batch,) = next(opened(repeats=4).batches(8, epochs=1))
    assert len(set(batch.ids)) == 2
    assert len(set(batch.seeds)) == 8


def prepared(batch: Batch, augment: AugmentConfig, mixes: Sequence[MixedPart], **options: Any) -> Inputs:
    about: Any = dict(device="cpu", normalisation=NORMALISATION, outputs=10, smoothing=0.1)
    return prepare(TASK, batch, augment, mixes, **about, **options)


def test_prepared_images_are_mixed_then_normalised_and_the_view_is_normalised_only() -> None:
    (batch,) = next(opened(view=True).batches(8, epochs=1))
    pixels = batch.images.clone()
    inputs = prepared(batch, PLAIN, [MixedPart(8, Mix(0.25))])
    expected = (pixels.float() * 0.25 + pixels.flip(0).float() * 0.75).round()
    mean, std = (torch.tensor(values)[:, None, None] for values in astuple(NORMALISATION))
    torch.testing.assert_close(inputs.images, (expected / 255 - mean) / std)
    torch.testing.assert_close(inputs.view, (pixels / 255 - mean) / std)
    torch.testing.assert_close(inputs.targets.sum(1), torch.ones(8))
    assert torch.equal(batch.images, pixels)


def test_a_distortion_comes_before_mixing_and_erasing_after_it() -> None:
    (batch,) = next(opened().batches(8, epochs=1))
    asked = []

    def distort(images: torch.Tensor, seeds: Any) -> torch.Tensor:
        asked.append((images.clone(), list(seeds)))
        return torch.arange(8.0)[:, None, None, None].expand(8, 3, 16, 16)

    inputs = prepared(batch, AugmentConfig(erasing=1.0), [MixedPart(8, Mix(0.25))], distort=distort)
    ((given_images, given_seeds),) = asked
    torch.testing.assert_close(given_images, NORMALISATION(batch.images))
    assert given_seeds == batch.seeds
    mixed = torch.arange(8.0) * 0.25 + torch.arange(8.0).flip(0) * 0.75
    is_kept = inputs.images == mixed[:, None, None, None]
    assert (is_kept.float().mean((1, 2, 3)) > 0.6).all()
    assert not is_kept.flatten(1).all(1).any()


@pytest.mark.parametrize("distort", [None, lambda images, seeds: images * 0.5])
@pytest.mark.parametrize("parts", [[MixedPart(4, Mix(0.6))], [MixedPart(2, Mix(0.6)), MixedPart(2, None)]])
def test_unmixed_images_are_what_would_be_made_without_mixing(parts: list[MixedPart], distort: Any) -> None:
    batch = Batch(torch.randint(0, 256, (4, 3, 8, 8), dtype=torch.uint8), torch.arange(4), [1 << 40, 2, 3, 4], list("abcd"))
    augment = AugmentConfig(erasing=1.0)
    mixed = prepared(batch, augment, parts, with_unmixed=True, distort=distort)
    plain = prepared(batch, augment, (), with_unmixed=True, distort=distort)
    assert mixed.unmixed is not None
    assert torch.equal(mixed.unmixed, plain.images)
    assert plain.unmixed is plain.images
    assert not torch.equal(mixed.images, mixed.unmixed)
