"""A segmenter that two processes measure, or predict with, gives what one process gives."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from robustvit.evaluation.results import Results

NETWORK = "fan_hybrid_nano/segformer"
EVAL = ["eval", NETWORK, "--data", "scenes-easy:5", "--suite", "clean", "fog", "--severity", "3", "--batch-size", "2"]
PREDICT = ["predict", NETWORK, "--images", "scenes-easy:5", "--batch-size", "2"]


def run(arguments: list[str], output: Path, processes: int) -> Path:
    group = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"] if processes > 1 else []
    line = [sys.executable, *group, "-m", "robustvit", *arguments, "--output", str(output)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(line, capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr
    return output


def test_two_processes_measure_what_one_measures(tmp_path: Path) -> None:
    one, two = (Results.load(run(EVAL, tmp_path / str(n), n)).models[0] for n in (1, 2))
    assert [cell.condition for cell in one.cells] == [cell.condition for cell in two.cells]
    for mine, other in zip(one.cells, two.cells, strict=True):
        assert mine.main is not None
        assert other.main is not None
        assert mine.main.value == pytest.approx(other.main.value, abs=1e-3)
        assert mine.images == other.images == 5


@pytest.mark.slow
def test_two_processes_predict_what_one_predicts(tmp_path: Path) -> None:
    one, two = (run(PREDICT, tmp_path / str(n), n) / "labels" for n in (1, 2))
    names = sorted(path.name for path in one.iterdir())
    assert names == sorted(path.name for path in two.iterdir())
    assert len(names) == 5
    for name in names:
        mine, other = (np.asarray(Image.open(folder / name)) for folder in (one, two))
        assert (mine == other).mean() > 0.99
