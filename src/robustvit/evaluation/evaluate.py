"""`evaluate`: one or several networks, any pictures, any suites -> `Results`."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from robustvit.attacks.attack import Attack
from robustvit.corruptions.parameters import SEVERITIES
from robustvit.corruptions.registry import ChannelOrder
from robustvit.evaluation.attacking import as_attacks
from robustvit.evaluation.conditions import Damage
from robustvit.evaluation.differences import differences_of
from robustvit.evaluation.finished_parts import with_all_parts
from robustvit.evaluation.notes import Note, few_pictures_note
from robustvit.evaluation.plan import Job, Settings, plan
from robustvit.evaluation.results import ModelResults, Results
from robustvit.evaluation.runs import NetworkRun, Report, run_network
from robustvit.evaluation.unfinished import (
    FinishedRunError,
    UnfinishedRunError,
    begin_work,
    end_work,
    fingerprint_of,
    finished_results,
    title_of,
)
from robustvit.runtime.locking import locking_output
from robustvit.runtime.processes import Processes, join_processes
from robustvit.runtime.progress import progress_bar
from robustvit.runtime.stored_work import StoredWork
from robustvit.tasks.class_matching import ClassMismatchError, read_class_map, write_template

__all__ = ["FinishedRunError", "Report", "UnfinishedRunError", "evaluate"]


@locking_output
def evaluate(
    model: nn.Module | Sequence[nn.Module] | dict[str, nn.Module],
    data: Any,
    suite: str | Sequence[str] = "common15",
    *,
    severity: int | Sequence[int] = SEVERITIES,
    attacks: str | Attack | Sequence[str | Attack] = (),
    class_map: str | Path | dict[str, int] | None = None,
    protocol: str | None = None,
    size: tuple[int, int] | None = None,
    limit: int | None = None,
    seed: int = 0,
    jpeg: bool = True,
    channel_order: ChannelOrder = "rgb",
    frost_folder: str | Path | None = None,
    ignore_orientation: bool = False,
    batch_size: int = 32,
    examples: int = 6,
    output: str | Path | None = None,
    resume: bool = False,
    predictions: bool = False,
    report: Report | bool | None = None,
) -> Results:
    """How much of a classifier's accuracy survives.

    Args:
        model: any classifier that returns logits [B, K], several, or a dict by name. timm's `pretrained_cfg` says size, mean
            and std of its input; without it, they are 224 pixels and ImageNet's. It stays on its device, is evaluated in
            evaluation mode and left as it was.
        data: what `open_samples` takes, or a dataset of (picture, label). Suites of files are also looked for in a
            folder of their name inside it.
        suite: one or several of `SUITES`, or corruptions by their names.
        severity: of the corruptions, one or several of 1 to 5. Numbers that need all five, as mCE, are left out with fewer.
        attacks: to make on the clean pictures, by name or as `build_attack` gives them.
        class_map: class name -> output of the network, or a JSON file of that; needed where they are not in the same order.
        protocol: of `PROTOCOLS`; by default the suite's own ("model", or what its files were made for). The films of
            "imagenet-p" have a fixed one.
        size: (H, W) of the input, other than the network's own.
        limit: measure only that many pictures, drawn by the seed.
        seed: of the corruptions, the attacks, the subset and the intervals.
        jpeg: "imagenet-c" made in memory passes through JPEG (quality 85), as the files did.
        channel_order, frost_folder: see `corrupt`.
        ignore_orientation: take pixels as they are stored, as published programs do. Otherwise pictures are set upright by
            the EXIF tag of cameras; but never those of "imagenet-a", "imagenet-r" and "imagenet-c" on disk.
        batch_size: pictures at once.
        examples: pictures to keep for the report.
        output: folder for the results, see `Results.save`; meanwhile for what is done so far, so that an interrupted run
            can go on. The result of another run there is not replaced; that of this very run is.
        resume: go on with what is in `output`. A run that is finished there is not repeated; files of it that are missing
            are written again, and predictions or pictures for the report that it was not asked for are measured.
        predictions: keep the answer to every picture under every condition: `Results.predictions`, and predictions.csv in
            `output`. One of this very run that is there already is kept up even if this is False.
        report: told about progress; True shows a bar on stderr.

    Raises:
        UnfinishedRunError: there is an unfinished run in `output`: another one, or this one and `resume` is False.
        FinishedRunError: there is the result of another run in `output`.
        ValueError: what `plan` finds wrong.
    """
    models = _named(model)
    suites = (suite,) if isinstance(suite, str) else tuple(dict.fromkeys(suite))
    damage = Damage(seed, False, channel_order, Path(frost_folder) if frost_folder else None)
    mapping = class_map if isinstance(class_map, dict) or class_map is None else read_class_map(class_map)
    severities = tuple(sorted({int(s) for s in np.atleast_1d(severity)}))
    made = (jpeg, damage, mapping, as_attacks(attacks), ignore_orientation)
    settings = Settings(protocol, size, limit, batch_size, *made, severities, predictions)
    _check(settings, output, resume)
    jobs = {name: _planned(network, data, suites, settings, output) for name, network in models.items()}
    told = report if callable(report) else None
    with progress_bar() if report is True else nullcontext(told) as bar, join_processes() as processes:
        work = _Work(models, jobs, suites, settings, examples, bar)
        return _run(work, processes) if output is None else _run_and_save(work, processes, Path(output), resume)


def _planned(network: nn.Module, data: Any, suites: Sequence[str], settings: Settings, output: str | Path | None) -> list[Job]:
    """The jobs; classes that do not match leave a class map to be completed in the output folder."""
    try:
        return plan(network, data, suites, settings)
    except ClassMismatchError as error:
        if error.template and output is not None:
            place = write_template(Path(output), error.template)
            error.add_note(f"a class map to be completed is in {place}: edit it, and give --class-map {place}")
        raise


@dataclass(frozen=True)
class _Work:
    """Everything that is to be done."""

    models: dict[str, nn.Module]
    jobs: dict[str, list[Job]]
    suites: tuple[str, ...]
    settings: Settings
    examples: int
    report: Report | None


def _run(work: _Work, processes: Processes, stored: StoredWork | None = None) -> Results:
    """All networks, with what is done so far in `stored`."""
    settings, told = work.settings, work.report if processes.rank == 0 else None
    networks = []
    for i, (name, network) in enumerate(work.models.items()):
        own = stored.below(f"model-{i}") if stored else None
        run = NetworkRun(name, network, own, processes, told, settings.damage.seed, settings.predictions)
        networks.append(run_network(run, work.jobs[name], work.examples))
    first = networks[0].results.measurements[0].data
    differences = differences_of(networks, settings.damage.seed)
    few = [note for d in differences if (note := few_pictures_note(d.images)) is not None][:1]
    return Results(
        models=tuple(network.results for network in networks),
        suites=work.suites,
        data={**first, "limit": settings.limit, "seed": settings.damage.seed, "batch_size": settings.batch_size},
        versions=_versions(),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        fingerprint=stored.fingerprint if stored else "",
        differences=differences,
        notes=tuple(few),
        predictions=tuple(table for network in networks for table in network.predictions),
    )


def _run_and_save(work: _Work, processes: Processes, output: Path, resume: bool) -> Results:
    """Goes on with what is in `output`, or shows again what is finished there."""
    own = fingerprint_of(work.models, work.jobs, work.suites, work.settings)
    fingerprint = processes.gather(own)[0]  # machines may have copies of the pictures, with other times
    finished = finished_results(output, fingerprint)
    has_answers = finished is not None and (output / "predictions.csv").is_file()
    if resume and finished is not None:
        shown = with_all_parts(finished, output, work.models, work.jobs, work.examples, work.settings.predictions)
        processes.gather(None)  # all have looked at the files
        if shown is not None:
            if processes.rank == 0:
                shown = _with_class_maps(work, shown, output)
                shown.complete(output, instead_of=finished)
                end_work(output)
            processes.gather(None)
            return shown
    title = title_of(work.models, _pictures_of(work), [*work.suites, *(attack.name for attack in work.settings.attacks)])
    stored = begin_work(output, fingerprint, title, resume, processes)
    keeps_answers = work.settings.predictions or has_answers  # a file that was asked for once does not vanish
    results = _run(replace(work, settings=replace(work.settings, predictions=keeps_answers)), processes, stored)
    if processes.rank == 0:
        results = _with_class_maps(work, results, output)
        results.save(output)
        end_work(output)
    processes.gather(None)  # nobody leaves before the result is written
    return results


def _with_class_maps(work: _Work, results: Results, output: Path) -> Results:
    """Writes the classes with the outputs that were taken for them, where these do not seem to match; notes say so."""

    def offered(note: Note, job: Job) -> Note:
        classes = job.tasks[0].pictures.classes
        if note.kind != "class-mismatch" or not classes:
            return note
        return replace(note, file=write_template(output, dict(zip(classes, job.tasks[0].targets, strict=True))).name)

    def with_notes(network: ModelResults) -> ModelResults:
        pairs = zip(work.jobs[network.name], network.measurements, strict=True)
        measured = tuple(replace(one, notes=tuple(offered(note, job) for note in one.notes)) for job, one in pairs)
        return replace(network, measurements=measured)

    return replace(results, models=tuple(with_notes(network) for network in results.models))


def _pictures_of(work: _Work) -> str:
    job = next(iter(work.jobs.values()))[0]
    return job.films.name if job.films is not None else job.tasks[0].pictures.name


def _named(model: Any) -> dict[str, nn.Module]:
    if isinstance(model, dict) and model:
        return model
    models = [model] if isinstance(model, nn.Module) else list(model)
    names: dict[str, nn.Module] = {}
    for network in models:
        cfg = getattr(network, "pretrained_cfg", None) or {}
        name = cfg.get("architecture") or type(network).__name__
        unique = name if name not in names else f"{name} ({len(names) + 1})"
        names[unique] = network
    if not names:
        raise ValueError("there is no network to evaluate; give at least one, such as fan_vit_nano")
    return names


def _check(settings: Settings, output: str | Path | None, resume: bool) -> None:
    if output is None and resume:
        raise ValueError("resume=True needs the output folder of the run to go on with")
    for what, number in (("limit", settings.limit), ("batch_size", settings.batch_size)):
        if number is not None and number < 1:
            raise ValueError(f"{what}={number} is not possible; give at least 1")


def _versions() -> dict[str, str]:
    return {"python": platform.python_version(), **{p: version(p) for p in ("robustvit", "torch", "timm", "pillow", "numpy")}}
