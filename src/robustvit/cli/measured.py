"""What `robustvit eval` and `robustvit attack` have in common: the run with its progress, and how its result is printed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from robustvit.cli.console import going_on, note, note_untrained, print_json, tables
from robustvit.cli.networks import load_networks
from robustvit.cli.task_flags import check_flags, task_of
from robustvit.data.protocol_names import PROTOCOLS
from robustvit.evaluation.settings import Options, Settings
from robustvit.evaluation.suites.registry import SUITES
from robustvit.runtime.precision import Precision
from robustvit.runtime.progress import progress_bar
from robustvit.runtime.ranks import is_first_process

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import RenderableType
    from rich.table import Table

    from robustvit.evaluation.results import Difference, Results

__all__ = ["MODELS", "NAMES", "SUITE_HELP", "MeasureOptions", "print_results", "run_and_print", "tell_notes"]

PROTOCOL_HELP = f"preprocessing: {', '.join(PROTOCOLS)}; by default the suite's own."
SUITE_HELP = f"what to measure: {', '.join(SUITES)}; or single corruptions, such as fog."
MODELS = tyro.conf.arg(metavar="MODEL [MODEL ...]", help_behavior_hint="(required)")
"""Of the networks, none of which is given by default."""
NAMES = tyro.conf.arg(metavar="TEXT [TEXT ...]", help_behavior_hint="")
"""Of their names; without "(default: )"."""


@dataclass(frozen=True)
class MeasureOptions:
    """Options of both commands.

    Attributes:
        name: short names for the networks in tables and reports, in order; by default as given.
        severity: of the corruptions; with fewer than five, numbers that need all of them (mCE) are left out.
        output: folder for results.json, results.csv, classes.csv and report.html.
        resume: continue an interrupted run in the output folder; a finished one is shown again.
        limit: use only this many images, chosen by the seed.
        class_map: of classifiers, JSON file from class names to output indices, if their order differs.
        num_classes: outputs of the network; by default those of the weights.
        protocol: preprocessing, one of `PROTOCOLS`; by default the suite's own.
        img_size: height and width of the input; by default the network's. Segmenters and detectors take images as they are.
        crop_pct: share of the shorter side that the centre crop keeps, where images are resized and cropped as the network was
            published; 0.875 resizes to 256 pixels for 224. By default the network's own; imagenet-c on disk is never resized.
        interpolation: of that resizing: nearest, bilinear, bicubic or lanczos; by default the network's own.
        seed: of corruptions, attacks, subset and intervals.
        ignore_orientation: take pixels as stored, ignoring the EXIF tag, as published numbers do; this is always so for
            imagenet-a, imagenet-r, imagenet-sketch, imagenet-v2 and imagenet-c on disk.
        batch_size: images per batch; by default 32, of segmenters and detectors 4.
        precision: in which networks compute: fp32, bf16, fp16, or auto: bf16 where the device is faster in it, else fp32. In
            half precision, the first images are computed in fp32, too, and the result says how far the numbers differ.
        device: cpu, cuda, cuda:1, mps, ...
        untrained: allow random weights for networks given by NAME alone (to try things out).
        predictions: also write predictions.csv: of classifiers the prediction for every image under every condition; of
            detectors every detection, and the same in COCO's result format into predictions/.
        as_json: print JSON.
    """

    name: Annotated[tuple[str, ...], NAMES] = ()
    severity: Annotated[tuple[int, ...], tyro.conf.arg(metavar="S [S ...]")] = Settings.severities
    output: Annotated[Path, tyro.conf.arg(metavar="FOLDER")] = Path("out")
    resume: bool = False
    limit: Annotated[int | None, tyro.conf.arg(metavar="N")] = Settings.limit
    class_map: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    num_classes: Annotated[int | None, tyro.conf.arg(metavar="K")] = None
    protocol: Annotated[str | None, tyro.conf.arg(metavar="NAME", help=PROTOCOL_HELP)] = Settings.protocol
    img_size: Annotated[tuple[int, int] | None, tyro.conf.arg(metavar="H W")] = Settings.size
    crop_pct: Annotated[float | None, tyro.conf.arg(metavar="SHARE")] = Settings.crop_pct
    interpolation: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = Settings.interpolation
    seed: int = Settings.seed
    ignore_orientation: bool = Settings.ignore_orientation
    batch_size: Annotated[int | None, tyro.conf.arg(metavar="B")] = None
    precision: Precision = Settings.precision
    device: str = "cpu"
    untrained: bool = False
    predictions: bool = Settings.predictions
    as_json: Annotated[bool, tyro.conf.arg(name="json")] = False


def run_and_print(
    models: Sequence[str],
    data: str,
    options: MeasureOptions,
    how: dict[str, Any],
    table: Callable[[Results], Table],
    compared: Callable[[Difference], Sequence[str]],
    flags: Any,
    details: Callable[[Results], Iterable[RenderableType]] = lambda results: (),
) -> None:
    """Measures networks and prints the result.

    Args:
        models: as typed.
        data: as typed.
        options: of both commands.
        how: further arguments of `evaluate`.
        table: makes the table of the numbers.
        compared: which numbers of a difference are shown.
        flags: `TaskFlags`.
        details: makes further tables, which come last.
    """
    check_flags(flags, how.get("task"))
    given = {"num_classes": options.num_classes, "img_size": options.img_size}
    networks = load_networks(models, options.untrained, {k: v for k, v in given.items() if v}, options.device, options.name)
    shared = [one.name for one in fields(options) if one.name in Options.__annotations__]
    how |= {name: getattr(options, name) for name in shared} | {"size": options.img_size, "resume": options.resume}
    how["task"] = task_of(flags, how.get("task"), networks.values())
    results = _measure(networks, data, options.output, how)
    if not is_first_process():
        return
    if options.as_json:
        print_json(results.to_json())
    else:
        print_results(results, table(results), compared, details(results))
    tell_notes(results, options.output)


def _measure(networks: dict[str, Any], data: str, output: Path, how: dict[str, Any]) -> Results:
    """`evaluate` with its progress on stderr; an interruption says how to resume."""
    from robustvit.evaluation.evaluate import evaluate

    advice = f"finished work is kept in {output}; run the same command with --resume to continue"
    with going_on(advice), progress_bar() as report:
        return evaluate(networks, data, output=output, report=report, **how)


def print_results(
    results: Results, table: Table, compared: Callable[[Difference], Sequence[str]], details: Iterable[RenderableType] = ()
) -> None:
    """Prints the table, how networks differ, and what went wrong.

    Args:
        results: of the run.
        table: its numbers.
        compared: which numbers of a difference are shown.
        details: further tables.
    """
    console = tables()
    console.print(table)
    if results.differences:
        console.print(_differences(results, compared))
    for further in details:
        console.print(further)
    skipped = sum(len(model.skipped) for model in results.models)
    if skipped:
        console.print(f"{skipped} images could not be read; results.json names them", highlight=False)
    note_untrained([model.name for model in results.models if model.is_untrained])
    for model in results.models:
        if lost := sum(cell.no_answer for cell in model.cells):
            text = f"{model.name} gave {lost} outputs that are not finite numbers; they count as wrong"
            console.print(text, highlight=False)


def tell_notes(results: Results, output: Path) -> None:
    """Says on stderr what to know before using the numbers, and where they are."""
    from robustvit.evaluation.results import CLASSES

    for names, remark in results.remarks():
        note(f"{remark.title}{f' ({names})' if names else ''}: {remark.text}")
        if remark.file:
            note(f"{output / remark.file} has the classes with the outputs used: edit it, and pass it with --class-map")
    files = ["results.json", "results.csv", *([CLASSES] if (output / CLASSES).is_file() else [])]
    note(f"report: {output}/report.html; numbers: {output}/{', '.join(files[:-1])} and {files[-1]}")


def _differences(results: Results, compared: Callable[[Difference], Sequence[str]]) -> Table:
    """Every two networks, with paired intervals."""
    from rich.table import Table

    from robustvit.metrics.measures import measure_of
    from robustvit.report.numbers import change, change_interval, verdict

    table = Table(header_style="bold", pad_edge=False)
    for heading in ("difference", "of", "points", "95 % interval", ""):
        table.add_column(heading, justify="right" if heading == "points" else "left")
    for difference in results.differences:
        for name in compared(difference):
            value = difference.summary[name]
            numbers = (change(name, value.value), change_interval(name, value), verdict(value))
            table.add_row(f"{difference.first} - {difference.second}", measure_of(name).words, *numbers)
    return table
