"""One network through all its passes: tallies, and the numbers that they give."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from robustvit.corruptions.conditions import CLEAN, Condition
from robustvit.evaluation.attack_examples import make_attack_examples
from robustvit.evaluation.attacking import ATTACK_SUITE
from robustvit.evaluation.examples import make_examples
from robustvit.evaluation.pass_statistics import statistics_of
from robustvit.evaluation.passes import Pass, PassReport
from robustvit.evaluation.precision_check import PrecisionCheck, check_precision, uncompared_note
from robustvit.evaluation.results import CellResult, Measurement, ModelResults
from robustvit.evaluation.statistics import Scores, has_bootstraps, measured_values
from robustvit.evaluation.tallied import CHANGES, Tallied
from robustvit.evaluation.value import Value
from robustvit.evaluation.worst_images import make_worst_images
from robustvit.metrics.intervals import Interval
from robustvit.runtime.processes import Processes
from robustvit.runtime.stored_work import StoredWork
from robustvit.tasks.notes import Note, few_images_note, left_out_note
from robustvit.tasks.prediction_table import PredictionTable
from robustvit.tasks.scoring import Scoring
from robustvit.tasks.tallies import Tallies

__all__ = ["run_network"]


def run_network(
    name: str,
    passes: Sequence[Pass],
    processes: Processes,
    stored: StoredWork | None = None,
    report: PassReport | None = None,
    *,
    with_predictions: bool = False,
) -> tuple[ModelResults, list[Scores], list[PredictionTable]]:
    """All passes of one network, which is left in the mode it was in.

    Args:
        name: of the network.
        passes: of `plan`.
        processes: that share the work.
        stored: for what is done so far; None for nowhere.
        report: callback for progress.
        with_predictions: keep the answers to all samples.

    Returns:
        Its results, what the numbers of each pass are made of, and its predictions.
    """
    start, network = time.perf_counter(), passes[0].network
    tallies: list[Tallied] = []
    scored: list[Scores] = []
    measurements: list[Measurement] = []
    checks = [check_precision(planned, processes) for planned in passes]
    with passes[0].asking(gradients=True):
        for number, planned in enumerate(passes):
            tallied = planned.run(processes, stored.below(f"job-{number}") if stored else None, report)
            _require_samples(planned, tallied)
            tallies.append(tallied)
            clean = next((t.only(CLEAN) for p, t in zip(passes, tallies, strict=False) if p.has_clean_samples), None)
            scored.append(Scores(planned.scoring, _scored(planned, tallied, clean), planned.settings.seed))
            measurements.append(_measurement(planned, tallied, scored[-1], checks[number]))
        shown = _examples(passes, tallies)
    pairs = list(zip(passes, tallies, strict=True))
    cells = [cells_of(*entry) for entry in zip(passes, tallies, scored, strict=True)]
    results = ModelResults(
        name=name,
        parameters=sum(p.numel() for p in network.parameters()),
        protocol=measurements[0].protocol,
        summary=_merged(measurements, sees_alike=bool(passes[0].task.protocol)),
        cells=tuple(chain.from_iterable(cells)),
        skipped=tuple(dict.fromkeys(entry for tallied in tallies for entry in tallied.skipped)),
        seconds=time.perf_counter() - start,
        measurements=tuple(measurements),
        is_untrained=getattr(network, "is_untrained", None),
        primary=passes[0].settings.task.primary.key,
        **shown,
    )
    tables = [table for pair in pairs for table in _tables(name, *pair)] if with_predictions else []
    return results, scored, tables


def _tables(name: str, planned: Pass, tallied: Tallied) -> Iterator[PredictionTable]:
    """The predictions of a pass, one table for all cells with the same samples."""
    cells: dict[bytes, list[int]] = {}
    for i in planned.tabled:
        cells.setdefault(tallied.present[i].tobytes(), []).append(i)
    for own in cells.values():
        suites, conditions = [planned.cell_suites[i] for i in own], [planned.cells[i] for i in own]
        ids = [sample for sample, is_own in zip(tallied.ids, tallied.present[own[0]], strict=True) if is_own]
        table = planned.scoring.predictions(name, suites, conditions, ids, [tallied.rows[i] for i in own])
        if table is not None:
            yield table


def _scored(planned: Pass, tallied: Tallied, clean: Tallied | None) -> Tallied:
    """What the numbers are made of: corrupted files together with the clean images of the same names, if there are any."""
    whole = planned.scored(tallied)
    if planned.has_clean_samples or clean is None or CLEAN in tallied.cells or not set(tallied.ids) <= set(clean.ids):
        return whole
    same = clean.of(tallied.ids)
    is_same = planned.scoring.has_same_targets(same.rows[0], tallied.rows[0])
    return same.beside(whole) if is_same else whole


def _measurement(planned: Pass, tallied: Tallied, scored: Scores, check: PrecisionCheck | None) -> Measurement:
    task, statistics = planned.task, statistics_of(planned, scored)
    summary, groups, corruptions = measured_values(scored, statistics, planned.groups)
    errors: dict[str, float] = {}
    for suite in planned.suites:
        summary |= {key: Value(value) for key, value in suite.extras(task, scored.tallied).items()}
        errors |= suite.corruption_errors(task, scored.tallied)
    return Measurement(
        suites=planned.suite_names,
        data=planned.describe_data(),
        protocol=planned.describe_protocol(),
        corruption=planned.describe_corruption(),
        summary={**summary, **_spreads(planned, tallied)},
        corruption_errors=errors,
        groups=planned.groups,
        group_accuracies=groups,
        corruption_accuracies=corruptions,
        attacks={attack.name: attack.describe() for attack in planned.attacks},
        notes=(*_notes(planned, tallied, has_bootstraps(scored, statistics)), *_precision_notes(planned, check)),
        class_accuracies=planned.scoring.per_class(planned.cells, tallied.rows),
        curves=planned.scoring.curves(planned.cells, tallied.rows),
        precision_check=check,
    )


def _precision_notes(planned: Pass, check: PrecisionCheck | None) -> list[Note]:
    if check is not None:
        return [check.note()]
    precision = planned.settings.precision
    return [] if precision == "fp32" else [uncompared_note(precision)]


def _spreads(planned: Pass, tallied: Tallied) -> dict[str, Value]:
    """Of attacks with several rows, the standard deviation of the primary measure over them."""
    spreads = {}
    for attack in (attack for attack in planned.attacks if len(attack.rows) > 1):
        scores = [planned.scoring.scores(tallied.row(Condition(row)))[planned.scoring.primary.key] for row in attack.rows]
        spreads[attack.spread_key] = Value(float(np.std(scores, ddof=1)))
    return spreads


def _notes(planned: Pass, tallied: Tallied, is_bootstrapped: bool) -> list[Note]:
    notes = []
    if planned.has_clean_samples and CLEAN in planned.cells:
        is_untrained = bool(getattr(planned.network, "is_untrained", False))
        notes += planned.task.notes(planned.samples, tallied.row(CLEAN), is_untrained=is_untrained)
    images, primary = len(tallied.ids), planned.task.primary
    few = few_images_note(images, has_exact=planned.scoring.is_share, primary=primary) if is_bootstrapped else None
    left_out = left_out_note(planned.cells, planned.left_out, primary)
    return [*notes, *(note for note in (few, left_out) if note is not None)]


def cells_of(planned: Pass, tallied: Tallied, scores: Scores) -> list[CellResult]:
    """One result per cell, with all numbers of the task; `scores` are what the numbers of the pass are made of."""
    cells = []
    for i, (suite, condition, row) in enumerate(zip(planned.cell_suites, planned.cells, tallied.rows, strict=True)):
        values = _cell_values(planned.scoring, row, scores.of_cell(condition))
        if suite == ATTACK_SUITE:
            means = tallied.changes[i].mean(0).tolist()
            values |= {name: Value(mean) for name, mean in zip(CHANGES, means, strict=True)}
        cells.append(CellResult(suite, condition.name, condition.severity, int(tallied.present[i].sum()), values))
    return cells


def _cell_values(scoring: Scoring, row: Tallies, scores: Mapping[str, Interval]) -> dict[str, Value]:
    """All numbers of a cell, the primary measure first; none where that one cannot be told."""
    if math.isnan(scores[scoring.primary.key].estimate):
        return {}
    values = {key: Value.of(interval) for key, interval in scores.items()}
    values |= {key: Value(value) for key, value in scoring.extras(row).items()}
    return {key: value for key, value in values.items() if not math.isnan(value.value)}


def _require_samples(planned: Pass, tallied: Tallied) -> None:
    if not tallied.ids:
        which, why = tallied.skipped[0] if tallied.skipped else ("nothing", "there are none")
        name = planned.samples.name
        raise ValueError(f"no image of {name} could be measured for {planned.suite_names[0]}: {which}: {why}")
    primary = planned.scoring.primary
    if all(math.isnan(planned.scoring.scores(row)[primary.key]) for row in tallied.rows if len(row)):
        raise ValueError(
            f"{planned.samples.name} has no {primary.label} for {planned.suite_names[0]}: none of the {len(tallied.ids)} "
            "images has a label that counts; give others, or more of them"
        )


def _merged(measurements: Sequence[Measurement], *, sees_alike: bool) -> dict[str, Value]:
    """One summary; what a later measurement measures again is named after its suite.

    Args:
        measurements: in their order.
        sees_alike: all of them use one protocol: the same number again is of the same images, and is not repeated.
    """
    summary: dict[str, Value] = {}
    for measurement in measurements:
        for key, value in measurement.summary.items():
            if sees_alike and summary.get(key) == value:
                continue
            summary[key if key not in summary else f"{key} ({', '.join(measurement.suites)})"] = value
    return summary


def _examples(passes: Sequence[Pass], tallies: Sequence[Tallied]) -> dict[str, Any]:
    """Images for the report, of the first pass that has the samples as they are."""
    for planned, tallied in zip(passes, tallies, strict=True):
        if planned.shows_images and planned.settings.examples:
            is_attacked_only = bool(planned.attacks) and len(planned.conditions) == 1
            count, left_out = planned.settings.examples, {name for name, _ in tallied.skipped}
            return {
                "legend": tuple((name, f"#{bytes(colour).hex()}") for name, colour in planned.task.legend()),
                "marks": tuple(planned.task.marks()),
                "worst": make_worst_images(planned, tallied, count) if planned.scoring.ranks_samples else (),
                "examples": () if is_attacked_only else make_examples(planned, count, left_out),
                "attack_examples": make_attack_examples(planned, tallied, count) if planned.attacks else (),
            }
    return {}
