"""`robustvit attack`: how much of the accuracy, mIoU or AP survives somebody who wants the network to err."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Annotated

import tyro

from robustvit.attacks.registry import ATTACKS
from robustvit.cli.attack_flags import build_attacks, flags_class
from robustvit.cli.console import note
from robustvit.cli.measured import MODELS, MeasureOptions, run_and_print
from robustvit.cli.task_flags import flags_class as task_flags_class
from robustvit.tasks.options import TASK_OPTIONS

if TYPE_CHECKING:
    from rich.table import Table

    from robustvit.evaluation.results import ModelResults, Results

    class AttackFlags:
        """Made from the attacks, below."""

    class TaskFlags:
        """Made from the options of the tasks, below."""


__all__ = ["attack"]

NAMES = tyro.conf.arg(
    metavar="NAME [NAME ...]",
    help=f"{'; '.join(f'{name}: {attack.summary}' for name, attack in ATTACKS.items())}. Their options are below.",
)


def attack(
    models: Annotated[tuple[str, ...], tyro.conf.Positional, MODELS],
    *,
    data: Annotated[str, tyro.conf.arg(metavar="PATH")],
    attack: Annotated[tuple[str, ...], NAMES],
    suite: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME [NAME ...]")] = ("clean",),
    options: Annotated[MeasureOptions, tyro.conf.arg(name="")],
    flags: Annotated[AttackFlags, tyro.conf.arg(name="")],
    task_flags: Annotated[TaskFlags, tyro.conf.arg(name="")],
) -> None:
    """Measure how much of a classifier's accuracy, a segmenter's mIoU or a detector's AP survives attacks on its images.

    Args:
        models: NAME (published weights are fetched), NAME=FILE, FILE, hf-hub:ID or local-dir:FOLDER, as for eval. Several are
            compared.
        data: images, as for eval: a folder of class folders, a .tar file, scenes, ...; of segmenters, images with label maps,
            such as Cityscapes or ACDC; of detectors, images with annotations, such as COCO.
        attack: of `ATTACKS`, which say themselves what they do.
        suite: what else to measure, as for eval.
    """
    attacks = build_attacks(attack, flags)
    for remark in (remark for made in attacks for remark in made.remarks()):
        note(remark)
    how = {"suite": suite, "attacks": attacks}
    run_and_print(models, data, options, how, _accuracies, lambda difference: list(difference.summary), task_flags)


def _accuracies(results: Results) -> Table:
    from rich.table import Table

    from robustvit.evaluation.tallied import CHANGES
    from robustvit.metrics.measures import measure_of
    from robustvit.report.comparison import summary_names
    from robustvit.report.numbers import quantity, quantity_interval

    table = Table(header_style="bold", pad_edge=False)
    changes = (measure_of(key).words for key in CHANGES)
    for heading in ("network", "number", measure_of(results.primary).words, "95 % interval", *changes):
        table.add_column(heading, justify="left" if heading in ("network", "number") else "right")
    for model in results.models:
        for place, key in enumerate(summary_names([model])):
            value = model.summary[key]
            numbers = (quantity(key, value.value), quantity_interval(key, value))
            cells = (measure_of(key).words, *numbers, *_perturbation(model, key))
            table.add_row("" if place else model.name, *cells)
        table.add_section()
    return table


def _perturbation(model: ModelResults, key: str) -> tuple[str, str, str]:
    """Of the attack whose accuracy this is, the mean over its rows."""
    from robustvit.attacks.attack import score_key
    from robustvit.report.attacks import mean_changes

    names = (name for measurement in model.measurements for name in measurement.attacks)
    made = [name for name in names if score_key(name, model.primary) == key]
    changes = mean_changes(model, made[0]) if made else None
    if changes is None:
        return "", "", ""
    return f"{255 * changes[0]:.1f}/255", f"{changes[1]:.2f}", f"{changes[2]:.1%}"


if not TYPE_CHECKING:
    _taken = [*inspect.signature(attack).parameters, *MeasureOptions.__dataclass_fields__]
    AttackFlags = flags_class(_taken)
    TaskFlags = task_flags_class([TASK_OPTIONS], [*_taken, *AttackFlags.__dataclass_fields__])
