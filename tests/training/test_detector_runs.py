"""A detector is trained at many sizes as any network is: resumed bit for bit, whoever makes its batches."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from robustvit.runtime.weights import read_weights
from robustvit.training.config import TrainConfig
from robustvit.training.config_io import load_config
from robustvit.training.metrics_log import read_metrics
from robustvit.training.train import train

UPDATES = 4


def config(*changes: str) -> TrainConfig:
    return load_config("fan/mask_rcnn_tiny", [f"loop.max_updates={UPDATES}", "data.val=", *changes], twin=True)


@pytest.mark.slow
@pytest.mark.usefixtures("undrawn")
def test_a_detector_is_resumed_bit_for_bit_with_batches_by_workers(tmp_path: Path) -> None:
    train(config(), tmp_path / "whole")
    train(config("loop.max_updates=3"), tmp_path / "parts")
    train(config("data.workers=2", "data.cache=no"), tmp_path / "parts", resume=True)
    one, other = (read_weights(tmp_path / run / "weights" / "model.safetensors") for run in ("whole", "parts"))
    assert all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("crop", ["augment={crop: scene, crop_size: [64, 96]}", "augment.photometric=true"])
def test_crops_of_one_size_and_other_colours_train_detectors_too(crop: str, tmp_path: Path) -> None:
    train(config(crop, "loop.max_updates=1"), tmp_path / "run")
    (entry,) = [entry for entry in read_metrics(tmp_path / "run" / "metrics.jsonl") if "terms" in entry]
    assert all(value >= 0 for value in entry["terms"].values())
    assert entry["grad_norm"] > 0
