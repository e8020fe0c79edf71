"""`robustvit demo`: train a robust network and a plain one in minutes, measure both, write a report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from robustvit.cli.console import going_on, print_json, progress_bar, tables, working

if TYPE_CHECKING:
    from robustvit.evaluation.results import Results

__all__ = ["demo"]


def demo(
    *,
    task: Literal["classification", "segmentation", "detection"] = "classification",
    output: Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")] = None,
    seed: int = 0,
    as_json: Annotated[bool, tyro.conf.arg(name="json")] = False,
) -> None:
    """Train a plain ViT and a FAN with TAP and ADL on generated images, and measure what survives corruption.

    Takes about five minutes on two cores, for any task. After an interruption, the same command continues.

    Args:
        task: what the networks learn: the class of an image (vit_nano, fan_vit_nano), that of every pixel (vit_nano and
            fan_hybrid_nano with a segformer head), or objects (vit_nano and fan_vit_nano with the heads of Faster R-CNN).
        output: folder for report.html, results.json, results.csv, classes.csv and the two training runs; by default runs/demo,
            or runs/demo-TASK.
        seed: of both trainings; the images to measure on stay the same.
        as_json: print JSON.
    """
    if output is None:
        output = Path("runs/demo" if task == "classification" else f"runs/demo-{task}")
    if output.exists() and not output.is_dir():
        raise NotADirectoryError(f"--output {output} is a file; give a folder")
    with working("Loading"):
        from robustvit.demo.contest import CONTESTS, demonstrate
        from robustvit.training.train import Progress
    with going_on(f"finished work is kept in {output}; run the same command again to continue"), progress_bar() as report:

        def training(name: str, progress: Progress) -> None:
            report(f"training {name}", progress.update, progress.updates)

        results = demonstrate(output, task, seed=seed, training=training, measuring=report)
    if as_json:
        print_json(results.to_json())
        return
    _print(results, output, tuple(CONTESTS[task].compared))


def _print(results: Results, output: Path, compared: Sequence[str]) -> None:
    from rich.table import Table

    from robustvit.metrics.measures import measure_of
    from robustvit.report.numbers import change, change_interval, verdict

    table = Table(header_style="bold", pad_edge=False)
    table.add_column("scenes-easy (generated)")
    for model in results.models:
        table.add_column(model.name, justify="right")
    difference = results.between(results.models[1].name, results.models[0].name)[0].summary
    table.add_column("difference (95 % interval)", justify="right")
    for name in (name for name in compared if name in difference):
        gap, measure = difference[name], measure_of(name)
        reach, remark = change_interval(name, gap), verdict(gap)
        told = "; ".join(text for text in (reach, remark) if text)
        values = (measure.text(model.summary[name].value) for model in results.models)
        table.add_row(
            measure.words,
            *values,
            f"{change(name, gap.value)} ({told})" if told else change(name, gap.value),
        )
    console = tables()
    console.print(table)
    console.print(f"{output}/report.html has the details, and says how far to trust them", highlight=False, soft_wrap=True)
