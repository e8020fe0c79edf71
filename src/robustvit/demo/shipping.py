"""Copies the networks of a finished demo into the package, together with an STL labeler, which it trains.

python -m robustvit.demo.shipping runs/demo
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from robustvit.demo.contest import SHARED
from robustvit.methods.stl import LabelerConfig
from robustvit.models.shipped import SHIPPED, shipped_file
from robustvit.runtime.files import write_whole
from robustvit.runtime.weights import read_weights, save_weight_file
from robustvit.training.config import ModelConfig, OptimizerConfig
from robustvit.training.train import train

__all__ = ["LABELER", "ship"]

LABELER = replace(
    SHARED,
    model=ModelConfig(name="vit_pico", token_head=True),
    methods={"stl_labeler": LabelerConfig()},
    optimizer=OptimizerConfig(lr=4e-3, clip_grad=1.0),
    schedule=replace(SHARED.schedule, epochs=3),
)
"""Stage 1 of STL with the smallest network, on the images of the demonstration."""


def ship(runs: Path) -> list[Path]:
    """Writes the weights of the demonstration in `runs` into the package, in half precision; returns the files.

    Trains the labeler beside them first, unless it is there.
    """
    train(LABELER, runs / LABELER.model.name, resume=True).check_finished()
    files = []
    for name in SHIPPED:
        weights = read_weights(runs / name / "weights" / "model.safetensors")
        half = {key: value.half() if value.is_floating_point() else value for key, value in weights.items()}
        shipped_file(name).parent.mkdir(exist_ok=True)
        with write_whole(shipped_file(name)) as file:
            save_weight_file(half, file)
        files.append(shipped_file(name))
    return files


if __name__ == "__main__":
    ship(Path(sys.argv[1]))
