"""One network through all its passes: tallies, and the numbers that they give."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from robustvit.corruptions.conditions import CLEAN, Condition
from robustvit.evaluation.attack_examples import make_attack_examples
from robustvit.evaluation.attacking import ATTACK_SUITE
from robustvit.evaluation.examples import make_examples
from robustvit.evaluation.passes import FilesPass, MemoryPass, Pass, worst_cell
from robustvit.evaluation.results import CellResult, Measurement, ModelResults
from robustvit.evaluation.statistics import Statistics, has_bootstraps, measured_values
from robustvit.evaluation.tallied import CHANGES, Tallied
from robustvit.evaluation.value import Value
from robustvit.evaluation.work import NetworkWork
from robustvit.metrics.mean_accuracy import mean_accuracy_of
from robustvit.runtime.evaluation_mode import evaluation_mode
from robustvit.tasks.base import Task
from robustvit.tasks.class_predictions import Predictions
from robustvit.tasks.notes import Note, few_pictures_note, left_out_note
from robustvit.tasks.tallies import Tallies

__all__ = ["Scored", "run_network"]


@dataclass(frozen=True)
class Scored:
    """What the numbers of a measurement are made of, for comparing networks."""

    task: Task
    tallied: Tallied
    statistics: Statistics


def run_network(
    work: NetworkWork, passes: Sequence[Pass], *, with_predictions: bool
) -> tuple[ModelResults, list[Scored], list[Predictions]]:
    """All passes of one network, which is left in the mode it was in.

    Args:
        work: the network and its surroundings.
        passes: of `plan`.
        with_predictions: keep the answers to all samples.

    Returns:
        Its results, what they are made of, and its predictions.
    """
    start = time.perf_counter()
    measurements: list[Measurement] = []
    cells: list[CellResult] = []
    scored: list[Scored] = []
    predictions: list[Predictions] = []
    tallies: list[Tallied] = []
    with evaluation_mode(work.network, gradients=True):
        for number, planned in enumerate(passes):
            tallied = planned.run(work, f"job-{number}")
            _require_samples(planned, tallied)
            tallies.append(tallied)
            clean = next((t.only(CLEAN) for p, t in zip(passes, tallies, strict=False) if _is_plain(p)), None)
            made = _scored(planned, tallied, clean if isinstance(planned, FilesPass) else None)
            scored.append(made)
            measurements.append(_measurement(work, planned, tallied, made))
            cells += cells_of(planned, tallied)
            if with_predictions and planned.task.name != "flips":
                about = (work.name, planned.cell_suites, planned.cells, tallied.ids, tallied.rows)
                predictions.append(planned.task.predictions(*about))
        shown = _examples(work, passes, tallies)
    results = ModelResults(
        name=work.name,
        parameters=sum(p.numel() for p in work.network.parameters()),
        protocol=measurements[0].protocol,
        summary=_merged(measurements),
        cells=tuple(cells),
        skipped=tuple(dict.fromkeys(entry for tallied in tallies for entry in tallied.skipped)),
        seconds=time.perf_counter() - start,
        measurements=tuple(measurements),
        is_untrained=getattr(work.network, "is_untrained", None),
        primary=passes[0].task.primary.key,
        **shown,
    )
    return results, scored, predictions


def _is_plain(planned: Pass) -> bool:
    """Whether it has the samples as they are, with which files of the same names may be compared."""
    return isinstance(planned, MemoryPass)


def _scored(planned: Pass, tallied: Tallied, clean: Tallied | None) -> Scored:
    """The statistics of a pass; those of corrupted files together with the clean images of the same names."""
    whole = planned.scored(tallied)
    if clean is not None and CLEAN not in tallied.cells and set(tallied.ids) <= set(clean.ids):
        same = clean.of(tallied.ids)
        if planned.task.has_same_targets(same.rows[0], tallied.rows[0]):
            whole = same.beside(whole)
    statistics = Statistics()
    for suite in planned.suites:
        statistics |= suite.statistics(planned.task, whole)
    return Scored(planned.task, whole, statistics | _attack_statistics(planned, whole))


def _attack_statistics(planned: Pass, tallied: Tallied) -> Statistics:
    summary: dict[str, Any] = {}
    for attack in planned.attacks:
        summary[f"{attack.key}_accuracy"] = mean_accuracy_of(tallied.cells, attack.rows)
        if worst_cell(attack) in tallied.cells:
            summary[f"{attack.key}_worst"] = mean_accuracy_of(tallied.cells, [worst_cell(attack).name])
    return Statistics(summary)


def _measurement(work: NetworkWork, planned: Pass, tallied: Tallied, made: Scored) -> Measurement:
    values = measured_values(planned.task, made.tallied, made.statistics, planned.settings.seed)
    summary = values["summary"]
    for suite in planned.suites:
        summary |= {key: Value(value) for key, value in suite.extras(planned.task, made.tallied).items()}
    summary |= _spreads(planned, tallied)
    errors: dict[str, float] = {}
    for suite in planned.suites:
        errors |= suite.corruption_errors(planned.task, made.tallied)
    return Measurement(
        suites=planned.suite_names,
        data=planned.describe_data(),
        protocol=planned.describe_protocol(),
        corruption=planned.describe_corruption(),
        summary=summary,
        corruption_errors=errors,
        group_accuracies=values["groups"],
        corruption_accuracies=values["corruptions"],
        attacks={attack.name: attack.describe() for attack in planned.attacks},
        notes=tuple(_notes(work, planned, tallied, made)),
        class_accuracies=planned.task.per_class(planned.cells, tallied.rows),
    )


def _spreads(planned: Pass, tallied: Tallied) -> dict[str, Value]:
    """Of attacks with several rows, the standard deviation of the primary measure over them."""
    spreads = {}
    for attack in (attack for attack in planned.attacks if len(attack.rows) > 1):
        scores = [_primary(planned.task, tallied.row(Condition(row))) for row in attack.rows]
        spreads[f"{attack.key}_spread"] = Value(float(np.std(scores, ddof=1)))
    return spreads


def _primary(task: Task, tallies: Tallies) -> float:
    return float(task.score(tallies, np.ones((1, len(tallies))))[task.primary.key][0])


def _notes(work: NetworkWork, planned: Pass, tallied: Tallied, made: Scored) -> list[Note]:
    few = few_pictures_note(len(tallied.ids)) if has_bootstraps(made.statistics) else None
    notes = [note for note in (few, left_out_note(planned.cells, planned.left_out)) if note is not None]
    if _is_plain(planned) and CLEAN in planned.cells:
        is_untrained = bool(getattr(work.network, "is_untrained", False))
        notes += planned.task.notes(planned.samples, tallied.row(CLEAN), is_untrained=is_untrained)
    return notes


def cells_of(planned: Pass, tallied: Tallied) -> list[CellResult]:
    """One result per cell, with all numbers of the task."""
    cells = []
    for i, (suite, condition, row) in enumerate(zip(planned.cell_suites, planned.cells, tallied.rows, strict=True)):
        values = _cell_values(planned.task, row)
        if suite == ATTACK_SUITE:
            means = tallied.changes[i].mean(0).tolist()
            values |= {name: Value(mean) for name, mean in zip(CHANGES, means, strict=True)}
        cells.append(CellResult(suite, condition.name, condition.severity, len(tallied.ids), values))
    return cells


def _cell_values(task: Task, row: Tallies) -> dict[str, Value]:
    values = {}
    scores = task.score(row, np.ones((1, len(row))))
    for key, score in sorted(scores.items(), key=lambda pair: pair[0] != task.primary.key):  # the primary measure first
        exact = task.interval(key, row)
        values[key] = Value.of(exact) if exact is not None else Value(float(score[0]))
    return {**values, **{key: Value(value) for key, value in task.extras(row).items()}}


def _require_samples(planned: Pass, tallied: Tallied) -> None:
    if not tallied.ids:
        which, why = tallied.skipped[0] if tallied.skipped else ("nothing", "there are none")
        name = planned.samples.name
        raise ValueError(f"no image of {name} could be measured for {planned.suite_names[0]}: {which}: {why}")


def _merged(measurements: Sequence[Measurement]) -> dict[str, Value]:
    """One summary; what a later measurement measures again is named after its suite."""
    summary: dict[str, Value] = {}
    for measurement in measurements:
        for key, value in measurement.summary.items():
            summary[key if key not in summary else f"{key} ({', '.join(measurement.suites)})"] = value
    return summary


def _examples(work: NetworkWork, passes: Sequence[Pass], tallies: Sequence[Tallied]) -> dict[str, Any]:
    """Images for the report, of the first pass that has the samples as they are."""
    for planned, tallied in zip(passes, tallies, strict=True):
        if isinstance(planned, MemoryPass) and planned.settings.examples:
            is_attacked_only = bool(planned.attacks) and len(planned.conditions) == 1
            count = planned.settings.examples
            return {
                "examples": () if is_attacked_only else make_examples(work.network, planned, count),
                "attack_examples": make_attack_examples(work, planned, tallied, count) if planned.attacks else (),
            }
    return {}
