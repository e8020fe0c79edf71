"""Trains the two networks of a demonstration with the same images, updates and settings, and measures both."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
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

__all__ = ["CONTESTS", "SHARED", "Contest", "demonstrate"]

SHARED = TrainConfig(
    data=DataConfig(train="scenes-easy:9600", val="scenes-easy:500"),
    augment=AugmentConfig(crop="none", flip=0.5),
    loss=LossConfig(smoothing=0.0),
    optimizer=OptimizerConfig(lr=1.5e-3, clip_grad=1.0),
    schedule=ScheduleConfig(epochs=2, warmup_epochs=0.15, min_lr=1e-5),
    loop=LoopConfig(batch_size=32, ema_decay=0.99, ema_warmup=True, validate_every=2, device="cpu"),
)
"""What all trainings have in common."""
SEGMENTING = replace(
    SHARED,
    task="segmentation",
    data=DataConfig(train="scenes-easy:6400", val="scenes-easy:100"),
    optimizer=OptimizerConfig(lr=2e-3, clip_grad=1.0),
    schedule=ScheduleConfig(epochs=1, warmup_epochs=0.1, min_lr=1e-5),
    loop=LoopConfig(batch_size=16, ema_decay=0.99, ema_warmup=True, device="cpu"),
)
"""What the trainings of segmenters have in common."""
DETECTING = replace(
    SEGMENTING,
    task="detection",
    data=DataConfig(train="scenes-easy:6400", val="scenes-easy:40"),
)
"""What the trainings of detectors have in common."""
LATE_ADL = AdlConfig(start=0.5, ramp=0.1)
"""From the first update on, ADL would flatten attention before it has formed: at the end 14 % of its rows would reach ADL's
threshold, instead of 61 %."""
SMALL_HEADS = {"width": 32, "hidden": 64, "anchor_scale": 4, "region_samples": 64, "proposals": 200}
"""For images of 64 pixels with a few objects."""


@dataclass(frozen=True)
class Contest:
    """Two networks of one task, the plain one first.

    Attributes:
        contestants: name -> its training.
        images: scenes that both are measured on; the networks have never seen them.
        compared: key of a measure -> how a sentence about it begins; also the rows of the table in the terminal.
        kinds: what the robust network is, and the plain one.
        differs: a sentence on what is not the same for both besides, such as the size of their tokens.
        shows_attention: whether the page has a chapter on what the networks look at.
    """

    contestants: Mapping[str, TrainConfig]
    images: int
    compared: Mapping[str, str]
    kinds: tuple[str, str]
    differs: str = ""
    shows_attention: bool = False


CONTESTS: dict[str, Contest] = {
    "classification": Contest(
        contestants={
            "vit_nano": replace(SHARED, model=ModelConfig(name="vit_nano")),
            "fan_vit_nano": replace(SHARED, model=ModelConfig(name="fan_vit_nano", tap=4), methods={"adl": LATE_ADL}),
        },
        images=250,
        compared={
            "clean_accuracy": "On clean images",
            "mean_accuracy_15": "Over 15 corruptions at 5 severities",
            "retention": "Of their own clean accuracy",
        },
        kinds=("fully attentional, with TAP and trained with ADL", "a plain vision transformer"),
        shows_attention=True,
    ),
    "segmentation": Contest(
        contestants={
            "vit_nano": replace(  # with four blocks instead of six it is as large as the other one
                SEGMENTING, model=ModelConfig(name="vit_nano/segformer", img_size=64, options={"depth": 4})
            ),
            "fan_hybrid_nano": replace(
                SEGMENTING,
                model=ModelConfig(name="fan_hybrid_nano/segformer", img_size=64, tap=4),
                methods={"adl": LATE_ADL},
            ),
        },
        images=60,
        compared={
            "clean_miou": "On clean images",
            "mean_miou_15": "Over 15 corruptions at 5 severities",
            "retention": "Of their own clean mIoU",
        },
        kinds=("a fully attentional hybrid, with TAP and trained with ADL", "a plain vision transformer of four blocks"),
        differs="Their cost is not the same: the tokens of the plain one are 4x4 pixels in all its blocks, those of the "
        "hybrid 16x16 pixels, behind convolutions.",
    ),
    "detection": Contest(
        contestants={
            "vit_nano": replace(  # with four blocks instead of six it is not larger than the other one
                DETECTING, model=ModelConfig(name="vit_nano/faster_rcnn", img_size=64, options={**SMALL_HEADS, "depth": 4})
            ),
            "fan_vit_nano": replace(
                DETECTING,
                model=ModelConfig(name="fan_vit_nano/faster_rcnn", img_size=64, tap=4, options=SMALL_HEADS),
                methods={"adl": LATE_ADL},
            ),
        },
        images=30,
        compared={
            "clean_box_ap": "On clean images",
            "mean_box_ap_15": "Over 15 corruptions at 5 severities",
            "retention": "Of their own clean AP",
        },
        kinds=("fully attentional, with TAP and trained with ADL", "a plain vision transformer of four blocks"),
    ),
}
"""Task -> its contest."""


@locking_output
def demonstrate(
    output: Path,
    task: str = "classification",
    *,
    seed: int = 0,
    training: Callable[[str, Progress], None] | None = None,
    measuring: Callable[[str, int, int], None] | None = None,
) -> Results:
    """Trains, measures and reports; finished work of an earlier call is not repeated.

    Args:
        output: folder for one run per network, results.json, results.csv and report.html.
        task: of `CONTESTS`.
        seed: of both trainings; they are measured on the same images whatever it is.
        training: callback (name, progress), called after every update.
        measuring: callback (description, done, total).

    Raises:
        KeyboardInterrupt: it was interrupted; another call continues from there.
    """
    contest = CONTESTS[task]
    networks: dict[str, Any] = {}
    for name, contestant in contest.contestants.items():
        config = replace(contestant, loop=replace(contestant.loop, seed=seed))
        train(config, output / name, resume=True, report=_callback(name, training)).check_finished()
        check_interrupted()  # during the last update
        networks[name] = create_model(f"local-dir:{output / name / 'weights'}", pretrained=True).eval()
    results = evaluate(
        networks,
        f"scenes-easy:{contest.images}",
        ["clean", "common15"],
        output=output,
        resume=True,
        batch_size=100,
        report=measuring,
    )
    chapters = [findings_chapter(results, contest.compared, contest.kinds, contest.differs)]
    if contest.shows_attention:
        chapters.append(attention_chapter(networks))
    write_page(results, output / "report.html", chapters=chapters)
    return results


def _callback(name: str, training: Callable[[str, Progress], None] | None) -> Callable[[Progress], None] | None:
    return None if training is None else lambda progress: training(name, progress)
