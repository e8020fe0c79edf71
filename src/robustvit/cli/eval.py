"""`robustvit eval`: how much of the accuracy, mIoU or AP survives, for any network and any folder of images."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from robustvit.cli.detail_tables import detail_numbers, detail_tables, has_own_class_measure
from robustvit.cli.measured import MODELS, SUITE_HELP, MeasureOptions, run_and_print
from robustvit.cli.task_flags import flags_class
from robustvit.evaluation.suites.registry import DEFAULT_SUITE
from robustvit.tasks.options import TASK_OPTIONS

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

    from robustvit.evaluation.results import Difference, Results, Value

    class TaskFlags:
        """Made from the options of the tasks, below."""


__all__ = ["eval"]


def eval(  # noqa: A001
    models: Annotated[tuple[str, ...], tyro.conf.Positional, MODELS],
    *,
    data: Annotated[str, tyro.conf.arg(metavar="PATH")],
    suite: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME [NAME ...]", help=SUITE_HELP)] = (DEFAULT_SUITE,),
    task: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None,
    no_jpeg: bool = False,
    bgr: bool = False,
    frost_folder: Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")] = None,
    details: bool = False,
    options: Annotated[MeasureOptions, tyro.conf.arg(name="")],
    flags: Annotated[TaskFlags, tyro.conf.arg(name="")],
) -> None:
    """Measure how much of a classifier's accuracy, a segmenter's mIoU or a detector's AP survives noise, blur, weather, ...

    Args:
        models: NAME (ours, published or timm's; weights are downloaded), NAME=FILE (your own weights), FILE (a checkpoint that
            names its network), hf-hub:ID or local-dir:FOLDER. Segmenters and detectors are BACKBONE/HEAD. Several networks
            are compared.
        data: of classifiers, a folder of class folders, a .tar file, a CIFAR folder, wds/... or hfds/...; of segmenters,
            images with label maps: Cityscapes, Cityscapes-C, ACDC, or a folder with images/ and labels/; of detectors, images
            with boxes: COCO, COCO-C, COCO-O, Pascal VOC, YOLO, or an annotation file of COCO's format; of all, what
            `robustvit corrupt` wrote, or scenes (the embedded dataset).
        suite: what to measure.
        task: what the networks are for; by default classification, or what a network says itself.
        no_jpeg: make imagenet-c in memory without the JPEG step of the published files.
        bgr: swap red and blue for the corruptions, as the published Cityscapes-C and COCO-C do.
        frost_folder: photographs for frost instead of generated textures.
        details: print a classifier's accuracy by corruption and by class too, and a detector's AP by size and its recalls;
            mIoU and AP by corruption and by class are printed anyway.
    """
    how: dict[str, Any] = {"suite": suite, "task": task, "frost_folder": frost_folder}
    how |= {"jpeg": False} if no_jpeg else {}
    how |= {"channel_order": "bgr"} if bgr else {}
    run_and_print(
        models,
        data,
        options,
        how,
        _summaries,
        _ranking,
        flags,
        lambda results: _details(results, details),
    )


def _details(results: Results, is_asked: bool) -> Iterator[Group]:
    """Further tables: those that were asked for, and those without which the summary says little."""
    if is_asked:
        yield from detail_numbers(results)
    if is_asked or has_own_class_measure(results):
        yield from detail_tables(results)


def _shown(name: str, value: Value) -> str:
    from robustvit.report.numbers import quantity, quantity_interval

    reach = quantity_interval(name, value)
    return f"{quantity(name, value.value)} ({reach})" if reach else quantity(name, value.value)


def _summaries(results: Results) -> Table:
    from rich.table import Table

    from robustvit.metrics.measures import measure_of
    from robustvit.report.comparison import summary_names

    table = Table(header_style="bold", pad_edge=False)
    table.add_column("")
    for model in results.models:
        table.add_column(model.name, justify="right")
    keys = summary_names(results.models)
    rows = [(measure_of(key).words, [m.summary.get(key) for m in results.models], key) for key in keys]
    main = measure_of(results.primary)
    for number, measurement in enumerate(results.models[0].measurements):
        suites = f" ({', '.join(measurement.suites)})" if number else ""
        for group in measurement.group_accuracies if len(measurement.group_accuracies) > 1 else ():
            values = [model.measurements[number].group_accuracies.get(group) for model in results.models]
            rows.append((f"{main.words}, {group}{suites}", values, main.key))
    for label, values, key in rows:
        table.add_row(label, *(_shown(key, value) if value else "" for value in values))
    return table


def _ranking(difference: Difference) -> list[str]:
    """The number that ranks networks in this measurement, if it was measured."""
    from robustvit.metrics.measures import in_ranking_order

    return [measure.key for measure in in_ranking_order() if measure.key in difference.summary][:1]


if not TYPE_CHECKING:
    TaskFlags = flags_class([TASK_OPTIONS], [*inspect.signature(eval).parameters, *MeasureOptions.__dataclass_fields__])
