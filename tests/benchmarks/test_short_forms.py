"""The benchmarks run, in a short form, and print their tables."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"
SHORT = {
    "networks": (
        "--networks fan_vit_tiny --sides plain ours --batch 1 --processes 1 --repeats 1 --skip training memory tap",
        "| fan_vit_tiny | evaluation | ours |",
    ),
    "evaluation": (
        "--network fan_vit_nano --images 10 --repeats 1 --threads 1 --suite noise --precision bf16",
        "the bare forward passes",
    ),
    "scale": ("--only cost --most 2 --repeats 1 --threads 1", "| tokens (fan_vit_tiny, 4 images) |"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SHORT)
def test_a_benchmark_runs_in_a_short_form(name: str) -> None:
    options, expected = SHORT[name]
    command = [sys.executable, str(FOLDER / f"{name}.py"), *options.split()]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr
    assert expected in done.stdout
