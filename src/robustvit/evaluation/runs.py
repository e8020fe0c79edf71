"""One network through all its jobs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from torch import nn

from robustvit.evaluation.attack_examples import make_attack_examples
from robustvit.evaluation.attacking import Attacker
from robustvit.evaluation.class_accuracies import class_accuracies_of
from robustvit.evaluation.classification import Outcome, Task, classify
from robustvit.evaluation.conditions import CLEAN, Condition
from robustvit.evaluation.description import describe_corruption, describe_data, describe_protocol
from robustvit.evaluation.examples import make_examples
from robustvit.evaluation.notes import Note, chance_note, few_pictures_note, left_out_note
from robustvit.evaluation.plan import Job
from robustvit.evaluation.predictions import Predictions, predictions_of
from robustvit.evaluation.results import AttackExample, CellResult, Example, Measurement, ModelResults, Value
from robustvit.evaluation.scores import Scores, score_outcome
from robustvit.evaluation.sequences import FILM_SIZES, evaluate_sequences, score_sequences, sequence_cells
from robustvit.evaluation.summary import Summaries, cells_of, errors_of, summarise
from robustvit.runtime.processes import Processes
from robustvit.runtime.stored_work import StoredWork

__all__ = ["Measured", "NetworkRun", "Report", "run_network"]

Report = Callable[[str, int, int], None]
"""Told (what is being done, steps done, steps in all)."""


@dataclass(frozen=True)
class NetworkRun:
    """One network at work.

    Attributes:
        name: what to call it.
        model: the network.
        stored: for what is done so far; None for nowhere.
        processes: that share the work.
        report: told about progress.
        seed: of the intervals.
        keeps_answers: whether the answers to all pictures are wanted.
    """

    name: str
    model: nn.Module
    stored: StoredWork | None
    processes: Processes
    report: Report | None
    seed: int
    keeps_answers: bool = False

    def part(self, name: str) -> StoredWork | None:
        """Where one part of the work is stored."""
        return self.stored.below(name) if self.stored else None

    def progress(self, what: str) -> Callable[[int, int], None]:
        def told(done: int, total: int) -> None:
            if self.report is not None:
                self.report(f"{self.name}: {what}", done, total)

        return told

    def answers(self, job: Job, outcome: Outcome) -> Predictions | None:
        """The table of all answers to a job, if it is wanted."""
        return predictions_of(self.name, job.cell_suites, job.cells, job.tasks[0], outcome) if self.keeps_answers else None

    def outcome(self, task: Task, what: str, part: str, attacker: Attacker | None = None) -> Outcome:
        """The answers to all pictures of a task, whoever of the processes got them."""
        share = dict(rank=self.processes.rank, world=self.processes.world)
        progress = self.progress(what)
        mine = classify(self.model, task, attacker=attacker, stored=self.part(part), progress=progress, **share)
        batches = sorted((pair for part in self.processes.gather(mine) for pair in part), key=lambda pair: pair[0])
        return Outcome.join([outcome for _, outcome in batches], len(task.rows))


@dataclass(frozen=True)
class Measured:
    """One network: its results, what the scores of each measurement are made of, and its answers where they were asked for."""

    results: ModelResults
    scores: list[Scores]
    predictions: list[Predictions]


@dataclass(frozen=True)
class _Found:
    """What one job gave."""

    measurement: Measurement
    scores: Scores
    cells: list[CellResult]
    skipped: list[tuple[str, str]]
    clean: Outcome | None = None
    examples: tuple[Example, ...] = ()
    attack_examples: tuple[AttackExample, ...] = ()
    predictions: Predictions | None = None


def run_network(run: NetworkRun, jobs: Sequence[Job], examples: int) -> Measured:
    """All jobs of one network, which is left in the mode it was in.

    Args:
        run: the network and where its work goes.
        jobs: of `plan`.
        examples: pictures to keep for the report.
    """
    start = time.perf_counter()
    was_training = run.model.training
    run.model.eval()
    found: list[_Found] = []
    try:
        for number, job in enumerate(jobs):
            if job.kind == "sequences":
                found.append(_run_films(run, job, f"job-{number}"))
            elif job.kind == "memory":
                wanted = 0 if any(f.examples for f in found) else examples
                found.append(_run_memory(run, job, f"job-{number}", wanted))
            else:
                clean = next((f.clean for f in found if f.clean is not None), None)
                found.append(_run_files(run, job, f"job-{number}", clean))
    finally:
        run.model.train(was_training)
    results = ModelResults(
        name=run.name,
        parameters=sum(p.numel() for p in run.model.parameters()),
        protocol=found[0].measurement.protocol,
        summary=_merged([f.measurement for f in found]),
        cells=tuple(cell for f in found for cell in f.cells),
        skipped=tuple(dict.fromkeys(s for f in found for s in f.skipped)),
        examples=next((f.examples for f in found if f.examples), ()),
        attack_examples=next((f.attack_examples for f in found if f.attack_examples), ()),
        seconds=time.perf_counter() - start,
        measurements=tuple(f.measurement for f in found),
        is_untrained=getattr(run.model, "is_untrained", None),
    )
    answers = [f.predictions for f in found if f.predictions is not None]
    return Measured(results, [f.scores for f in found], answers)


def _merged(measurements: Sequence[Measurement]) -> dict[str, Value]:
    """One summary; what a later measurement measures again is named after its suite."""
    summary: dict[str, Value] = {}
    for measurement in measurements:
        for key, value in measurement.summary.items():
            summary[key if key not in summary else f"{key} ({', '.join(measurement.suites)})"] = value
    return summary


def _measured(
    job: Job,
    found: Summaries,
    errors: dict[str, float] | None = None,
    *,
    outcome: Outcome | None = None,
    notes: Sequence[Note | None] = (),
) -> Measurement:
    about = (describe_data(job), describe_protocol(job.tasks[0]), describe_corruption(job))
    attacks = {attack.name: attack.describe() for attack in job.tasks[0].attacks}
    classes = class_accuracies_of(job.cells, job.tasks[0], outcome) if outcome is not None else ()
    told = tuple(note for note in notes if note is not None)
    tables = dict(group_accuracies=found.groups, corruption_accuracies=found.corruptions)
    rest: Any = dict(**tables, attacks=attacks, notes=told, class_accuracies=classes)
    return Measurement(job.suites, *about, found.summary, errors or {}, **rest)


def _notes(run: NetworkRun, job: Job, scores: Scores, outcome: Outcome) -> list[Note | None]:
    """Of a job whose cells are the conditions of the outcome."""
    task = job.tasks[0]
    notes = [few_pictures_note(len(outcome.ids)) if scores.has_bootstraps else None, left_out_note(job.cells, job.left_out)]
    if job.kind == "memory" and CLEAN in job.cells:
        right = int(outcome.correct[job.cells.index(CLEAN)].sum())
        known: Any = dict(has_names=bool(task.pictures.classes), is_untrained=bool(getattr(run.model, "is_untrained", False)))
        notes.append(chance_note(right, len(outcome.ids), task.outputs, task.matching.by, **known))
    return notes


def _require_pictures(job: Job, count: int, skipped: Sequence[tuple[str, str]]) -> None:
    if not count:
        which, why = skipped[0] if skipped else ("nothing", "there are none")
        raise ValueError(f"no picture of {job.tasks[0].pictures.name} could be measured for {job.suites[0]}: {which}: {why}")


def _run_memory(run: NetworkRun, job: Job, part: str, examples: int) -> _Found:
    task = job.tasks[0]
    attacker = task.attacker(run.model)
    what = ", ".join([*job.suites, *(attack.name for attack in task.attacks)])
    outcome = run.outcome(task, what, part, attacker)
    _require_pictures(job, len(outcome.ids), outcome.skipped)
    scores = score_outcome(job.cells, outcome, attacks=task.attacks)
    summaries = summarise(job.cells, outcome, scores, run.seed, attacks=task.attacks)
    is_attacked_only = bool(task.attacks) and len(task.conditions) == 1
    return _Found(
        measurement=_measured(
            job, summaries, errors_of(job.cells, outcome), outcome=outcome, notes=_notes(run, job, scores, outcome)
        ),
        scores=scores,
        cells=cells_of(job.cell_suites, job.cells, outcome),
        skipped=outcome.skipped,
        clean=outcome.only(job.cells.index(CLEAN)),
        examples=make_examples(run.model, task, examples) if examples and not is_attacked_only else (),
        attack_examples=make_attack_examples(attacker, task, outcome, examples) if examples and task.attacks else (),
        predictions=run.answers(job, outcome),
    )


def _run_files(run: NetworkRun, job: Job, part: str, clean: Outcome | None) -> _Found:
    suite = job.suites[0]
    outcomes = [
        run.outcome(task, f"{suite} {cell}" if len(job.cells) > 1 else suite, f"{part}-{cell.name}-{cell.severity}")
        for task, cell in zip(job.tasks, job.cells, strict=True)
    ]
    outcome = _side_by_side(job.cells, outcomes)
    _require_pictures(job, len(outcome.ids), outcome.skipped)
    cells = cells_of(job.cell_suites, job.cells, outcome)
    rest: Any = dict(cells=cells, skipped=outcome.skipped, predictions=run.answers(job, outcome))
    if suite in ("imagenet-a", "imagenet-r"):
        scores = score_outcome(job.cells, outcome)
        scores = replace(scores, summary={f"{suite.replace('-', '_')}_accuracy": scores.summary["clean_accuracy"]})
        measured = _measured(
            job, Summaries(scores.values(run.seed)[0]), outcome=outcome, notes=_notes(run, job, scores, outcome)
        )
        return _Found(measured, scores, **rest)
    own = outcome
    conditions: tuple[Condition, ...] = job.cells
    if clean is not None and (paired := _with_clean(outcome, clean)) is not None:
        conditions, outcome = (CLEAN, *conditions), paired
    on_imagenet = not suite.startswith("cifar")
    scores = score_outcome(conditions, outcome, against_alexnet=on_imagenet)
    errors = errors_of(conditions, outcome) if on_imagenet else None
    summaries = summarise(conditions, outcome, scores, run.seed)
    return _Found(_measured(job, summaries, errors, outcome=own, notes=_notes(run, job, scores, own)), scores, **rest)


def _run_films(run: NetworkRun, job: Job, part: str) -> _Found:
    assert job.films is not None
    progress = run.progress(job.suites[0])
    task = job.tasks[0]
    outcome = evaluate_sequences(run.model, task, job.films, run.processes, stored=run.part(part), progress=progress)
    _require_pictures(job, len(outcome.flips), outcome.skipped)
    scores = score_sequences(outcome, job.films.kinds, FILM_SIZES[task.protocol.size])
    cells = sequence_cells(outcome, job.films.kinds, job.suites[0])
    measured = _measured(job, Summaries(scores.values(run.seed)[0]), notes=[few_pictures_note(len(outcome.flips))])
    return _Found(measured, scores, cells, outcome.skipped)


def _side_by_side(cells: Sequence[Condition], outcomes: Sequence[Outcome]) -> Outcome:
    """The cells of a suite of files as conditions of the same pictures: those that every cell has."""
    ids = sorted(set(outcomes[0].ids).intersection(*(outcome.ids for outcome in outcomes)))
    parts = [outcome.of(ids) for outcome in outcomes]
    several = len(cells) > 1
    return Outcome(
        ids=ids,
        labels=parts[0].labels,
        predictions=np.concatenate([part.predictions for part in parts]),
        confidences=np.concatenate([part.confidences for part in parts]),
        skipped=[
            (f"{cell.name}/{cell.severity}/{name}" if several else name, reason)
            for cell, outcome in zip(cells, outcomes, strict=True)
            for name, reason in outcome.skipped
        ],
    )


def _with_clean(outcome: Outcome, clean: Outcome) -> Outcome | None:
    """The outcome with the answers to the clean pictures before it; None if these are not the same pictures."""
    if not set(outcome.ids) <= set(clean.ids):
        return None
    same = clean.of(outcome.ids)
    if not (same.labels == outcome.labels).all():
        return None
    return Outcome(
        ids=outcome.ids,
        labels=outcome.labels,
        predictions=np.concatenate([same.predictions, outcome.predictions]),
        confidences=np.concatenate([same.confidences, outcome.confidences]),
        skipped=outcome.skipped,
    )
