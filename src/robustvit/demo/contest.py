"""Trains the two networks of the demonstration with the same pictures, updates and settings, and measures both."""

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
from robustvit.training.config import (
    AugmentConfig,
    DataConfig,
    LoopConfig,
    ModelConfig,
    OptimizerConfig,
    ScheduleConfig,
    TrainConfig,
)
from robustvit.training.train import Progress, train

__all__ = ["CONTESTANTS", "demonstrate"]

_SHARED = TrainConfig(
    data=DataConfig(train="scenes:20000", val="scenes:1000"),
    augment=AugmentConfig(crop="padded", flip=0.5),
    optimizer=OptimizerConfig(lr=2e-3, weight_decay=0.05, clip_grad=1.0),
    schedule=ScheduleConfig(epochs=8, warmup_epochs=1, min_lr=1e-5),
    loop=LoopConfig(batch_size=64, ema_decay=0.99, ema_warmup=True, device="cpu"),
)
CONTESTANTS: Mapping[str, TrainConfig] = {
    "vit_nano": replace(_SHARED, model=ModelConfig(name="vit_nano")),
    "fan_vit_nano": replace(_SHARED, model=ModelConfig(name="fan_vit_nano", tap=4), methods={"adl": AdlConfig(weight=0.1)}),
}
"""Name -> its training: the plain network, and the same-size FAN with TAP and ADL."""
PICTURES = 1000
"""Scenes that both are measured on; the networks have never seen them."""


def demonstrate(
    output: Path,
    *,
    pictures: int = PICTURES,
    contestants: Mapping[str, TrainConfig] = CONTESTANTS,
    training: Callable[[str, Progress], None] | None = None,
    measuring: Callable[[str, int, int], None] | None = None,
) -> Results:
    """Trains, measures and reports; what an earlier call has finished is not done again.

    Args:
        output: folder: one below it for each network, results.json, results.csv and report.html.
        pictures: to measure on.
        contestants: name -> training.
        training: told (name, progress) after every update.
        measuring: told (what, done, in all).
    """
    networks: dict[str, Any] = {}
    for name, config in contestants.items():
        train(config, output / name, resume=True, report=_told(name, training))
        networks[name] = create_model(f"local-dir:{output / name / 'weights'}", pretrained=True).eval()
    results = evaluate(
        networks, f"scenes:{pictures}", ["clean", "common15"], output=output, resume=True, batch_size=100, report=measuring
    )
    write_page(results, output / "report.html", chapters=[findings_chapter(results), attention_chapter(networks)])
    return results


def _told(name: str, training: Callable[[str, Progress], None] | None) -> Callable[[Progress], None] | None:
    return None if training is None else lambda progress: training(name, progress)
