"""Detectors in the one loop: every precision, checkpointed activations, micro-batches, averaged weights, several processes."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import robustvit as rv
from robustvit.runtime.weights import read_weights
from robustvit.training.config_io import load_config
from robustvit.training.metrics_log import read_metrics

pytestmark = pytest.mark.usefixtures("undrawn")

RUN = ("task=detection", "model={name: fan_hybrid_nano/mask_rcnn, img_size: 64}", "loss.smoothing=0", "data.val=")
RUN += (
    "model.options={anchor_scale: 4, region_samples: 16, proposals: 30, width: 16, hidden: 32}",
    "data.train=scenes-easy:8",
)
RUN += ("loop={batch_size: 4, log_every: 1, device: cpu}", "schedule={epochs: 1, warmup_epochs: 0}", "optimizer.lr=1e-3")


DRAWN_ALIKE = ("loss_objectness", "loss_classifier")
"""Losses that hardly depend on which regions are drawn, at the start."""


def trained(output: Path, *changes: str) -> tuple[dict[str, torch.Tensor], list[dict[str, Any]]]:
    """Weights and the lines of its log."""
    rv.train(load_config(None, [*RUN, *changes]), output)
    return weights_of(output), logged(output)


def weights_of(output: Path) -> dict[str, torch.Tensor]:
    return read_weights(output / "weights" / "model.safetensors")


def logged(output: Path) -> list[dict[str, Any]]:
    return [entry for entry in read_metrics(output / "metrics.jsonl") if "terms" in entry]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, torch.Tensor], list[dict[str, Any]]]:
    return trained(tmp_path_factory.mktemp("plain") / "run")


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_half_precision_has_nearly_the_losses_of_full_precision(precision: str, plain: Any, tmp_path: Path) -> None:
    _, entries = trained(tmp_path / "run", f"loop.precision={precision}")
    first, expected = entries[0]["terms"], plain[1][0]["terms"]
    assert first.keys() == expected.keys()
    assert first == pytest.approx(expected, rel=0.1, abs=0.02)
    assert all(math.isfinite(value) for entry in entries for value in entry["terms"].values())


def test_checkpointed_activations_do_not_change_what_is_learned(plain: Any, tmp_path: Path) -> None:
    weights, _ = trained(tmp_path / "run", "loop.grad_checkpointing=true")
    learned = [name for name in weights if "dwconv.norm" not in name]  # batch statistics count the second pass, too
    assert all(torch.equal(weights[name], plain[0][name]) for name in learned)


def test_micro_batches_and_averaged_weights_train_it(plain: Any, tmp_path: Path) -> None:
    weights, entries = trained(tmp_path / "run", "loop.accumulate=2", "loop.ema_decay=0.5")
    assert [entry["update"] for entry in entries] == [1, 2]
    for term in DRAWN_ALIKE:
        assert entries[0]["terms"][term] == pytest.approx(plain[1][0]["terms"][term], rel=0.1)
    assert any(not torch.equal(weights[name], plain[0][name]) for name in weights)
    assert all(value.isfinite().all() for value in weights.values())


@pytest.mark.slow
@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_two_processes_train_one_detector(parallel: str, plain: Any, tmp_path: Path) -> None:
    changes = [*RUN, f"loop.parallel={parallel}", "methods.adl={}", "model.tap=4", "loop.ema_decay=0.5"]
    sets = [part for change in changes for part in ("--set", change)]
    start = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m", "robustvit"]
    line = [*start, "train", "--output", str(tmp_path / "two"), *sets]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    _, expected = trained(tmp_path / "one", *changes[len(RUN) :])
    two, one = (entries[0]["terms"] for entries in (logged(tmp_path / "two"), expected))
    for term, tolerance in {**dict.fromkeys(DRAWN_ALIKE, 0.1), "adl": 1e-3}.items():
        assert two[term] == pytest.approx(one[term], rel=tolerance)
