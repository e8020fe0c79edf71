"""A detector that two processes measure gives what one process gives."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import robustvit as rv
from robustvit.evaluation.results import Results
from robustvit.models.saved_folder import save_weights

pytestmark = pytest.mark.slow

EVAL = ["--data", "scenes-easy:5", "--suite", "clean", "fog", "--severity", "3", "--batch-size", "2", "--predictions"]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved") / "best"
    options: Any = dict(num_classes=10, img_size=64, width=16, hidden=32, anchor_scale=4, score_threshold=0.09)
    torch.manual_seed(0)
    network = rv.create_model("fan_hybrid_nano/mask_rcnn", **options)
    save_weights(network, network.state_dict(), folder, options, {})
    return folder


def run(saved: Path, output: Path, processes: int) -> Path:
    group = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"] if processes > 1 else []
    line = [sys.executable, *group, "-m", "robustvit", "eval", f"local-dir:{saved}", *EVAL, "--output", str(output)]
    done = subprocess.run(line, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}, timeout=300)
    assert done.returncode == 0, done.stderr
    return output


def test_two_processes_measure_what_one_measures(saved: Path, tmp_path: Path) -> None:
    folders = [run(saved, tmp_path / str(n), n) for n in (1, 2)]
    one, two = (Results.load(folder).models[0] for folder in folders)
    for mine, other in zip(one.cells, two.cells, strict=True):
        assert mine.values.keys() == other.values.keys()
        assert mine.images == other.images == 5
        for key in mine.values:
            assert mine.number(key) == pytest.approx(other.number(key), abs=1e-3)
    tables = [(folder / "predictions.csv").read_text().splitlines() for folder in folders]
    assert len(tables[0]) == len(tables[1]) > 1
    assert [line.split(",")[2:5] for line in tables[0]] == [line.split(",")[2:5] for line in tables[1]]
