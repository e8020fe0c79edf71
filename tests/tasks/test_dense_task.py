"""A task with label maps is trained by the same loop: crops of scenes, rates in updates, frozen statistics, exact resume."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from refusals import refused

from robustvit.data.normalisation import Normalisation
from robustvit.runtime.weights import read_weights
from robustvit.tasks.registry import task_named
from robustvit.training.augment.scene_augmentation import SceneAugmentation
from robustvit.training.batches import Batch, TrainingData
from robustvit.training.config import AugmentConfig, DataConfig
from robustvit.training.config_io import ConfigError, load_config
from robustvit.training.inputs import prepare
from robustvit.training.metrics_log import read_metrics
from robustvit.training.train import train
from robustvit.training.training_sets import training_samples

CHANGES = [
    "task=light_maps",
    "model.name=fan_vit_nano",
    "model.options={embed_dims: [32], depths: [1], num_heads: [2]}",
    "data.train=scenes:16",
    "data.val=scenes:8",
    "augment.crop=scene",
    "augment.photometric=true",
    "optimizer.no_decay=layer_norms",
    "optimizer.head_rate=10",
    "schedule={name: poly, updates: 7, warmup_updates: 2, min_lr: 0, options: {decay_rate: 1.0}}",
    "loss.smoothing=0",
    "loop.batch_size=4",
    "loop.log_every=1",
    "loop.device=cpu",
]
REFERENCE = json.loads((Path(__file__).parents[1] / "reference" / "dense" / "augmentation.json").read_text())
SCENES = AugmentConfig(crop="scene", photometric=True)
NORMALISATION = Normalisation((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))

pytestmark = pytest.mark.usefixtures("site")


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return read_weights(folder / "weights" / "model.safetensors")


def opened(workers: int = 0) -> TrainingData:
    task, data = task_named("light_maps"), DataConfig(train="scenes:12", workers=workers)
    return TrainingData(task, training_samples(task, data, seed=1), data, SCENES, (24, 32), seed=1, spatial_view=True)


def test_a_run_is_as_long_as_its_updates_and_resumes_bit_for_bit(tmp_path: Path) -> None:
    result = train(load_config(None, [*CHANGES, "loop.validate_updates=3"]), tmp_path / "whole")
    lines = read_metrics(tmp_path / "whole" / "metrics.jsonl")
    assert result.updates == 7
    assert [line["update"] for line in lines if "val_right_pixels" in line] == [3, 6, 7]
    rates = [line["lr"] for line in lines if "lr" in line]
    assert rates == pytest.approx([1e-3 * (1 - i / 7) * (1 if i >= 2 else max(i / 2, 1e-6)) for i in range(7)], rel=1e-5)
    train(load_config(None, [*CHANGES, "loop.validate_updates=3", "loop.max_updates=5"]), tmp_path / "parts")
    train(load_config(None, [*CHANGES, "loop.validate_updates=3"]), tmp_path / "parts", resume=True)
    one, other = weights(tmp_path / "whole"), weights(tmp_path / "parts")
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_batches_of_scenes_are_the_same_from_workers_and_from_any_update_on() -> None:
    for data, start in ((opened(workers=2), 0), (opened(), 4)):
        wanted = list(opened().batches(4, epochs=2))[start:]
        found = list(data.batches(4, epochs=2, start_update=start))
        assert len(found) == len(wanted)
        for (one,), (other,) in zip(wanted, found, strict=True):
            assert torch.equal(one.images, other.images)
            assert torch.equal(one.targets, other.targets)
            assert (one.shown, one.seeds) == (other.shown, other.seeds)


def test_labels_follow_their_images_and_padding_is_0_after_normalising() -> None:
    task = task_named("light_maps")
    batches = [batch for (batch,) in opened().batches(4, epochs=2)]
    assert (batches[0].targets.dtype, batches[0].targets.shape) == (torch.uint8, (4, 24, 32))
    shown = [size for batch in batches for size in batch.shown]
    assert {size == (24, 32) for size in shown} == {True, False}
    for batch in batches:
        made = prepare(task, batch, SCENES, (), device="cpu", normalisation=NORMALISATION, outputs=3)
        assert made.view is not None
        for i, (height, width) in enumerate(batch.shown):
            is_padding = np.ones((24, 32), bool)
            is_padding[:height, :width] = False
            for images in (made.images, made.view):
                assert (images[i].numpy()[:, is_padding] == 0).all()
            assert (batch.targets[i].numpy()[is_padding] == 255).all()
            grey = batch.view[i].float().mean(0).numpy()  # type: ignore[index]
            labels = batch.targets[i].numpy()
            agree = (grey // 86 == labels)[labels != 255].mean()
            assert agree > 0.8  # scaling mixes the colours at edges


def test_an_image_smaller_than_the_crop_is_normalised_and_padded_as_published() -> None:
    entry, task = REFERENCE["normalise_pad"], task_named("light_maps")
    config = AugmentConfig(crop="scene", ratio_range=(1.0, 1.0), cat_max_ratio=1.0)
    augment = SceneAugmentation(config, (5, 6), mean=NORMALISATION.mean)
    base, _ = augment.base(np.full((3, 4, 3), 100, np.uint8), "")
    images, _, (placement,) = augment([base], [7], [None])
    labels = task.place(np.ones((3, 4), np.uint8), placement)
    assert labels.tolist() == entry["label"]
    batch = Batch(torch.from_numpy(images), task.collate([labels]), [7], ["a"], shown=[placement.shown])
    made = prepare(task, batch, config, (), device="cpu", normalisation=NORMALISATION, outputs=3).images
    assert made[0, :, 0, 0].tolist() == pytest.approx(entry["top_left"], rel=1e-5)
    assert made[0, :, -1, -1].tolist() == entry["bottom_right"]


@pytest.mark.parametrize(
    ("changes", "frozen"),
    [
        (["loop.batch_size=2"], True),
        (["loop.batch_size=4"], False),
        (["loop.batch_size=4", "loop.accumulate=2"], True),
        (["loop.batch_size=2", "loop.freeze_batchnorm=false"], False),
        (["loop.batch_size=4", "loop.freeze_batchnorm=true"], True),
        (["task=classification", "augment.crop=none", "loop.batch_size=2"], False),
    ],
)
def test_statistics_of_batch_norms_are_frozen_where_batches_are_small(
    changes: list[str], frozen: bool, tmp_path: Path
) -> None:
    short = ["schedule.updates=2", "schedule.warmup_updates=0", "loop.validate_updates=1"]  # validation changes modes
    result = train(load_config(None, [*CHANGES, *short, *changes]), tmp_path / "run")
    found = weights(tmp_path / "run")
    means = [value for name, value in found.items() if name.endswith("running_mean")]
    assert means
    assert all(bool((mean == 0).all()) is frozen for mean in means)
    scales = [value for name, value in found.items() if name.endswith("dwconv.norm.weight")]
    assert all(bool((scale != 1).any()) for scale in scales)  # these learn all the same
    assert any("freeze_batchnorm" in note for note in result.notes) is frozen


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (["augment.crop=padded", "augment.rand_augment=rand-m9-mstd0.5-inc1"], ("augment.rand_augment", "light_maps")),
        (["task=classification"], ("augment.crop", "classification")),
        (["task=classification", "augment.crop=none", "augment.crop_size=[16, 16]"], ("augment.crop_size", "model.img_size")),
        (["augment.cutmix=1.0"], ("augment.cutmix", "light_maps")),
    ],
)
def test_what_does_not_go_with_the_task_is_refused_before_the_work(
    change: list[str], named: tuple[str, ...], tmp_path: Path
) -> None:
    with refused(ConfigError, *named):
        train(load_config(None, [*CHANGES, *change]), tmp_path / "run")
    assert not (tmp_path / "run").exists()
