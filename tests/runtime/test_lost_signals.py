"""A signal whose KeyboardInterrupt Python could only print ends the work at its next step."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

import robustvit as rv
from robustvit.analysis.options import AnalysisOptions
from robustvit.attacks.gradient_sign import PgdSettings, pgd
from robustvit.data.copies.copying import Copying
from robustvit.data.copies.corrupted_tree import corrupt_tree
from robustvit.runtime.interruption import catching_signals, interruptible

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


class Lost:
    """Gets a signal while it is removed."""

    def __del__(self) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        for _ in range(100):  # here Python runs the handler
            pass


class Steps:
    """Loses a signal in the first step, and counts them."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, *_: object) -> None:
        self.count += 1
        if self.count == 1:
            Lost()


def evaluating(steps: Steps, folder: Path) -> None:
    rv.evaluate(rv.create_model("vit_pico"), "scenes-easy:8", "clean", batch_size=1, report=steps)


def analyzing(steps: Steps, folder: Path) -> None:
    options = AnalysisOptions(batch_size=1)
    rv.analyze({"pico": rv.create_model("vit_pico")}, "scenes-easy:8", ["occlusion"], options=options, report=steps)


def attacking(steps: Steps, folder: Path) -> None:
    class Network(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            steps()
            return x.mean((2, 3))

    pgd(Network(), torch.rand(1, 3, 32, 32), torch.zeros(1, dtype=torch.int64), PgdSettings(steps=9))


def corrupting(steps: Steps, folder: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (40, 40, 3), np.uint8)
    for i in range(8):
        (folder / "set" / "class").mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(folder / "set" / "class" / f"{i}.png")
    copying = Copying(layout="imagenet", names=("contrast",), severities=(1,), size=32)
    corrupt_tree(folder / "set", folder / "out", copying, workers=1, report=steps)


@pytest.mark.parametrize("work", [evaluating, analyzing, attacking, corrupting])
def test_a_signal_that_was_lost_ends_the_work_nevertheless(work: Callable[[Steps, Path], None], tmp_path: Path) -> None:
    steps = Steps()
    with catching_signals() as interruption, interruptible(), pytest.raises(KeyboardInterrupt):
        work(steps, tmp_path)
    assert interruption.received == signal.SIGTERM
    assert steps.count < 4
