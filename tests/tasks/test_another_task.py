"""A second task needs one file: it is trained, validated, interrupted and spread over processes by the same engine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from refusals import refused

from robustvit.runtime.weights import read_weights
from robustvit.training.config_io import ConfigError, load_config
from robustvit.training.metrics_log import read_metrics
from robustvit.training.train import train

CHANGES = [
    "task=mean_colour",
    "model.name=vit_nano",
    "model.options={embed_dim: 32, depth: 2, num_heads: 2}",
    "data.train=scenes:32",
    "data.val=scenes:12",
    "loss.smoothing=0",
    "loop.batch_size=8",
    "loop.log_every=1",
    "loop.device=cpu",
    "loop.ema_decay=0.5",
    "schedule.epochs=2",
    "schedule.warmup_epochs=0",
    "optimizer.name=sgd",  # Adam would hide a gradient of the wrong length
    "optimizer.lr=0.1",
    "methods.adl={}",
    "methods.afat={joint_batch: true}",
]


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return read_weights(folder / "weights" / "model.safetensors")


@pytest.mark.usefixtures("site")
def test_another_task_is_trained_and_validated_in_its_own_measure_and_resumes_bit_for_bit(tmp_path: Path) -> None:
    result = train(load_config(None, CHANGES), tmp_path / "whole")
    validated = [entry for entry in read_metrics(tmp_path / "whole" / "metrics.jsonl") if "val_colour_likeness" in entry]
    assert [entry["update"] for entry in validated] == [4, 8]
    assert result.score == validated[-1]["val_colour_likeness_ema"]
    assert result.best_score == max(max(e["val_colour_likeness"], e["val_colour_likeness_ema"]) for e in validated)
    summary = json.loads((tmp_path / "whole" / "summary.json").read_text())
    assert (summary["colour_likeness"], summary["best_colour_likeness"]) == (result.score, result.best_score)
    assert {"colour", "adl", "afat"} == read_metrics(tmp_path / "whole" / "metrics.jsonl")[0]["terms"].keys()
    assert (tmp_path / "whole" / "training.png").is_file()
    train(load_config(None, [*CHANGES, "loop.max_updates=5"]), tmp_path / "parts")
    train(load_config(None, CHANGES), tmp_path / "parts", resume=True)
    one, other = weights(tmp_path / "whole"), weights(tmp_path / "parts")
    assert all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.slow
def test_two_processes_train_another_task_to_the_same_weights(tmp_path: Path, site: Path) -> None:
    train(load_config(None, CHANGES), tmp_path / "one")
    sets = [part for change in CHANGES for part in ("--set", change)]
    start = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m", "robustvit"]
    path = os.pathsep.join([str(site), *os.environ.get("PYTHONPATH", "").split(os.pathsep)])
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path}
    line = [*start, "train", "--output", str(tmp_path / "two"), *sets]
    done = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    one, two = weights(tmp_path / "one"), weights(tmp_path / "two")
    assert max(float((one[name] - two[name]).abs().max()) for name in one) < 1e-4
    scores = [read_metrics(tmp_path / name / "metrics.jsonl")[-1]["val_colour_likeness"] for name in ("one", "two")]
    assert scores[0] == pytest.approx(scores[1], rel=1e-4)


@pytest.mark.usefixtures("site")
@pytest.mark.parametrize(
    ("change", "named"),
    [
        (
            "methods.distillation={teacher: vit_nano, options: {pretrained: true}}",
            ("distillation", "classification", "mean_colour"),
        ),
        ("methods.patch_augment={}", ("patch_augment", "classification", "mean_colour")),
        ("augment.mixup=0.8", ("mean_colour", "augment.mixup")),
        ("loss.smoothing=0.1", ("mean_colour", "loss.smoothing")),
        ("task=mean_color", ("'mean_color'", "mean_colour")),
    ],
)
def test_what_another_task_cannot_do_is_refused_before_the_work(change: str, named: tuple[str, ...], tmp_path: Path) -> None:
    with refused(ConfigError, *named):
        train(load_config(None, [*CHANGES, change]), tmp_path / "run")
    assert not (tmp_path / "run").exists()
