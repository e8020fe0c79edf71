"""`evaluate`: one or several networks, any dataset, any suites -> `Results`."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import combinations
from pathlib import Path
from typing import Any, Unpack

from torch import nn

from robustvit.evaluation.definitions import definitions
from robustvit.evaluation.finished_parts import with_all_parts
from robustvit.evaluation.pass_statistics import statistics_of
from robustvit.evaluation.passes import Pass, PassReport
from robustvit.evaluation.plan import plan
from robustvit.evaluation.prediction_files import TABLE
from robustvit.evaluation.results import Difference, ModelResults, Results
from robustvit.evaluation.runner import run_network
from robustvit.evaluation.settings import Options, Settings
from robustvit.evaluation.statistics import Scores, measured_differences
from robustvit.evaluation.suites.registry import DEFAULT_SUITE
from robustvit.evaluation.unfinished import (
    FinishedRunError,
    UnfinishedRunError,
    begin_work,
    end_work,
    fingerprint_of,
    finished_results,
    title_of,
)
from robustvit.models.functions import Predict, as_network
from robustvit.runtime.locking import locking_output
from robustvit.runtime.precision import agreed_precision
from robustvit.runtime.processes import Processes, join_processes
from robustvit.runtime.progress import progress_bar
from robustvit.runtime.stored_work import StoredWork
from robustvit.tasks.base import Task
from robustvit.tasks.class_matching import ClassMismatchError, write_template
from robustvit.tasks.notes import Note, few_images_note
from robustvit.tasks.registry import task_for

__all__ = ["FinishedRunError", "Report", "UnfinishedRunError", "evaluate", "package_versions"]

Report = PassReport
"""Callback for progress: (what is being done, steps done, steps in all)."""
Model = nn.Module | Predict
Passes = Mapping[str, Sequence[Pass]]
"""Of each network, by its name."""


@locking_output
def evaluate(
    model: Model | Sequence[Model] | dict[str, Model],
    data: Any,
    suite: str | Sequence[str] = DEFAULT_SUITE,
    *,
    task: str | Task | None = None,
    output: str | Path | None = None,
    resume: bool = False,
    report: Report | bool | None = None,
    **options: Unpack[Options],
) -> Results:
    """How much of what a network can do survives.

    Args:
        model: any network of the task, several, or a dict by name; a classifier returns logits [B, K]. timm's `pretrained_cfg`
            says size, mean and std of its input; without it, they are 224 pixels and ImageNet's. It stays on its device, is
            evaluated in evaluation mode and left as it was. Also a function from a list of uint8 images [3, H, W] to
            answers, see `models.functions`.
        data: what `open_samples` takes, or a dataset of (image, target). Suites of files are also looked for in a folder of
            their name inside it.
        suite: one or several of `SUITES`, or corruptions by their names.
        task: by its name; by default that of the network (its attribute `task`), or classification.
        output: folder for the results, see `Results.save`; meanwhile for what is done so far, so that an interrupted run
            can go on. The result of another run there is not replaced; that of this very run is.
        resume: go on with what is in `output`. A run that is finished there is not repeated; files of it that are missing
            are written again, and predictions or images for the report that it was not asked for are measured.
        report: callback for progress; True shows a bar on stderr.
        **options: what to measure, how images become the input, how corruptions are made, what to keep: see `Options`.

    Raises:
        UnfinishedRunError: there is an unfinished run in `output`: another one, or this one and `resume` is False.
        FinishedRunError: there is the result of another run in `output`.
        ValueError: what `plan` finds wrong.
    """
    if output is None and resume:
        raise ValueError("resume=True needs the output folder of the run to go on with")
    models = _named(model)
    settings = Settings.of(data, task_for(task, models.values()), suite, **options)
    with progress_bar() if report is True else nullcontext(report or None) as bar, join_processes() as processes:
        settings = replace(settings, precision=agreed_precision(settings.precision, models.values(), processes))
        passes = {name: _planned(network, settings, output) for name, network in models.items()}
        if output is None:
            return _measure(settings, passes, processes, bar)
        return _measure_into(Path(output), settings, passes, processes, bar, resume)


def _planned(network: nn.Module, settings: Settings, output: str | Path | None) -> list[Pass]:
    """The passes; classes that do not match leave a class map to be completed in the output folder."""
    try:
        return plan(network, settings)
    except ClassMismatchError as error:
        if error.template and output is not None:
            place = write_template(Path(output), error.template)
            error.add_note(f"a class map to be completed is in {place}: edit it, and give --class-map {place}")
        raise


def _measure(
    settings: Settings, passes: Passes, processes: Processes, report: Report | None, stored: StoredWork | None = None
) -> Results:
    """All networks, with what is done so far in `stored`."""
    networks, scored, predictions = [], [], []
    for i, (name, own) in enumerate(passes.items()):
        place = stored.below(f"model-{i}") if stored else None
        shown = _reporting(name, report) if report is not None and processes.rank == 0 else None
        found, made, tables = run_network(name, own, processes, place, shown, with_predictions=settings.predictions)
        networks.append(found)
        scored.append(made)
        predictions += tables
    differences = _differences(networks, list(passes.values()), scored)
    task = settings.task
    few = [few_images_note(d.images, has_exact=task.is_share, primary=task.primary) for d in differences]
    kept = {"limit": settings.limit, "seed": settings.seed, "batch_size": settings.batch_size}
    return Results(
        models=tuple(networks),
        suites=settings.suites,
        data={**networks[0].measurements[0].data, **kept},
        versions=package_versions(),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        fingerprint=stored.fingerprint if stored else "",
        differences=differences,
        notes=tuple(note for note in few if note is not None)[:1],
        definitions=definitions(task.primary, networks, task.resamples),
        task=task.name,
        primary=task.primary.key,
        predictions=tuple(predictions),
    )


def _reporting(name: str, report: Report) -> Report:
    """The callback for one network, by whose name its messages begin."""
    return lambda what, done, total: report(f"{name}: {what}", done, total)


def _measure_into(
    output: Path, settings: Settings, passes: Passes, processes: Processes, report: Report | None, resume: bool
) -> Results:
    """Goes on with what is in `output`, or shows again what is finished there."""
    fingerprint = processes.gather(fingerprint_of(passes, settings))[0]  # machines may have copies with other times
    finished = finished_results(output, fingerprint)
    had_predictions = finished is not None and (output / TABLE).is_file()
    if resume and finished is not None:
        shown = with_all_parts(finished, output, passes, settings)
        processes.gather(None)  # all have looked at the files
        if shown is not None:
            if processes.rank == 0:
                shown = _with_class_maps(shown, passes, output)
                shown.complete(output, instead_of=finished)
                end_work(output)
            processes.gather(None)
            return shown
    dataset = next(iter(passes.values()))[0].describe_data()["name"]
    title = title_of(passes, dataset, [*settings.suites, *(attack.name for attack in settings.attacks)])
    stored = begin_work(output, fingerprint, title, resume, processes)
    if had_predictions:  # a file that was asked for once does not vanish
        settings = replace(settings, predictions=True)
    results = _measure(settings, passes, processes, report, stored)
    if processes.rank == 0:
        results = _with_class_maps(results, passes, output)
        results.save(output)
        end_work(output)
    processes.gather(None)  # nobody leaves before the result is written
    return results


def _with_class_maps(results: Results, passes: Passes, output: Path) -> Results:
    """Writes the classes with the outputs that were taken for them, where these do not seem to match; notes say so."""

    def offered(note: Note, planned: Pass) -> Note:
        mapping = planned.task.class_map(planned.samples)
        if note.kind != "class-mismatch" or not mapping:
            return note
        return replace(note, file=write_template(output, mapping).name)

    def with_notes(network: ModelResults) -> ModelResults:
        pairs = zip(passes[network.name], network.measurements, strict=True)
        measured = tuple(replace(one, notes=tuple(offered(note, planned) for note in one.notes)) for planned, one in pairs)
        return replace(network, measurements=measured)

    return replace(results, models=tuple(with_notes(network) for network in results.models))


def _differences(
    networks: Sequence[ModelResults], passes: Sequence[Sequence[Pass]], scored: Sequence[Sequence[Scores]]
) -> tuple[Difference, ...]:
    """Every two networks in every measurement, the earlier one minus the later one.

    Args:
        networks: their results.
        passes: of each.
        scored: what the numbers of each pass are made of.
    """
    found = []
    for i, j in combinations(range(len(networks)), 2):
        for measurement, mine, other, ours, theirs in zip(
            networks[i].measurements, passes[i], passes[j], scored[i], scored[j], strict=True
        ):
            shared = statistics_of(other, theirs).keys()
            summary = {key: number for key, number in statistics_of(mine, ours).items() if key in shared}
            images, *values = measured_differences(ours, theirs, summary, mine.groups)
            if images:
                found.append(Difference(networks[i].name, networks[j].name, measurement.suites, images, *values))
    return tuple(found)


def _named(model: Any) -> dict[str, nn.Module]:
    if isinstance(model, dict) and model:
        return {name: as_network(one) for name, one in model.items()}
    models = [as_network(one) for one in ([model] if callable(model) else model)]
    names: dict[str, nn.Module] = {}
    for network in models:
        cfg = getattr(network, "pretrained_cfg", None) or {}
        name = cfg.get("architecture") or type(network).__name__
        unique = name if name not in names else f"{name} ({len(names) + 1})"
        names[unique] = network
    if not names:
        raise ValueError("there is no network to evaluate; give at least one, such as fan_vit_nano")
    return names


def package_versions() -> dict[str, str]:
    """Of Python and of what numbers depend on."""
    return {"python": platform.python_version(), **{p: version(p) for p in ("robustvit", "torch", "timm", "pillow", "numpy")}}
