"""Copies the networks of a finished demo into the package, together with an STL labeler and a segmenter, which it trains.

python -m robustvit.demo.shipping runs/demo
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from robustvit.demo.contest import CONTESTS, SHARED
from robustvit.methods.stl import LabelerConfig
from robustvit.models.saved_folder import WEIGHT_FILES
from robustvit.models.shipped import SHIPPED, SHIPPED_FOLDERS, shipped_file
from robustvit.runtime.files import write_whole
from robustvit.runtime.weights import read_weights, save_weight_file
from robustvit.training.config import ModelConfig, OptimizerConfig
from robustvit.training.train import train

__all__ = ["LABELER", "SEGMENTER", "ship"]

LABELER = replace(
    SHARED,
    model=ModelConfig(name="vit_pico", token_head=True),
    methods={"stl_labeler": LabelerConfig()},
    optimizer=OptimizerConfig(lr=4e-3, clip_grad=1.0),
    schedule=replace(SHARED.schedule, epochs=3),
)
"""Stage 1 of STL with the smallest network, on the images of the demonstration."""
_DEMONSTRATED = CONTESTS["segmentation"].contestants["fan_hybrid_nano"]
SEGMENTER = replace(_DEMONSTRATED, schedule=replace(_DEMONSTRATED.schedule, epochs=10))
"""The robust segmenter of the demonstration, trained ten times as long."""


def ship(runs: Path) -> list[Path]:
    """Writes the weights of the demonstration in `runs` into the package, in half precision; returns the files.

    Trains the labeler and the segmenter beside them first, unless they are there.
    """
    train(LABELER, runs / LABELER.model.name, resume=True).check_finished()
    segmenter = runs / "segmenter"
    train(SEGMENTER, segmenter, resume=True).check_finished()
    files = [_ship(runs / name / "weights" / WEIGHT_FILES[0], shipped_file(name)) for name in SHIPPED]
    folder = SHIPPED_FOLDERS[SEGMENTER.model.name]
    files.append(_ship(segmenter / "weights" / WEIGHT_FILES[0], folder / WEIGHT_FILES[0]))
    with write_whole(folder / "config.json") as file:
        file.write_bytes((segmenter / "weights" / "config.json").read_bytes())
    return files


def _ship(source: Path, target: Path) -> Path:
    weights = read_weights(source)
    half = {key: value.half() if value.is_floating_point() else value for key, value in weights.items()}
    target.parent.mkdir(parents=True, exist_ok=True)
    with write_whole(target) as file:
        save_weight_file(half, file)
    return target


if __name__ == "__main__":
    ship(Path(sys.argv[1]))
