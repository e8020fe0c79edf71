"""Trains the two networks of the demonstration with the same images, updates and settings, and measures both."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from robustvit.demo.attention import attention_chapter
from robustvit.demo.findings import findings_chapter
from robustvit.evaluation.evaluate import evaluate
from robustvit.evaluation.results import Results
from robustvit.methods.adl import AdlConfig
from robustvit.models.registry import create_model
from robustvit.report.page import write_page
from robustvit.runtime.interruption import check_interrupted
from robustvit.runtime.locking import locking_output
from robustvit.training.config import (
    AugmentConfig,
    DataConfig,
    LoopConfig,
    LossConfig,
    ModelConfig,
    OptimizerConfig,
    ScheduleConfig,
    TrainConfig,
)
from robustvit.training.train import Progress, train

__all__ = ["CONTESTANTS", "SHARED", "demonstrate"]

SHARED = TrainConfig(
    data=DataConfig(train="scenes-easy:9600", val="scenes-easy:500"),
    augment=AugmentConfig(crop="none", flip=0.5),
    loss=LossConfig(smoothing=0.0),
    optimizer=OptimizerConfig(lr=1.5e-3, clip_grad=1.0),
    schedule=ScheduleConfig(epochs=2, warmup_epochs=0.15, min_lr=1e-5),
    loop=LoopConfig(batch_size=32, ema_decay=0.99, ema_warmup=True, validate_every=2, device="cpu"),
)
"""What all trainings have in common."""
CONTESTANTS: Mapping[str, TrainConfig] = {
    "vit_nano": replace(SHARED, model=ModelConfig(name="vit_nano")),
    "fan_vit_nano": replace(SHARED, model=ModelConfig(name="fan_vit_nano", tap=4), methods={"adl": AdlConfig()}),
}
"""Name -> its training: the plain network, and the same-size FAN with TAP and ADL."""
IMAGES = 250
"""Scenes that both are measured on; the networks have never seen them."""


@locking_output
def demonstrate(
    output: Path,
    *,
    pictures: int | None = None,
    contestants: Mapping[str, TrainConfig] | None = None,
    training: Callable[[str, Progress], None] | None = None,
    measuring: Callable[[str, int, int], None] | None = None,
) -> Results:
    """Trains, measures and reports; finished work of an earlier call is not repeated.

    Args:
        output: folder for one run per network, results.json, results.csv and report.html.
        images: to measure on; None for `IMAGES`.
        contestants: name -> training, the plain network first; None for `CONTESTANTS`.
        training: callback (name, progress), called after every update.
        measuring: callback (description, done, total).

    Raises:
        KeyboardInterrupt: it was interrupted; another call continues from there.
    """
    networks: dict[str, Any] = {}
    for name, config in (contestants or CONTESTANTS).items():
        train(config, output / name, resume=True, report=_callback(name, training)).check_finished()
        check_interrupted()  # during the last update
        networks[name] = create_model(f"local-dir:{output / name / 'weights'}", pretrained=True).eval()
    results = evaluate(
        networks,
        f"scenes-easy:{pictures or IMAGES}",
        ["clean", "common15"],
        output=output,
        resume=True,
        batch_size=100,
        report=measuring,
    )
    write_page(results, output / "report.html", chapters=[findings_chapter(results), attention_chapter(networks)])
    return results


def _callback(name: str, training: Callable[[str, Progress], None] | None) -> Callable[[Progress], None] | None:
    return None if training is None else lambda progress: training(name, progress)
