"""`evaluate`: one or several networks, any pictures, any suites -> `Results`."""

from __future__ import annotations

import hashlib
import json
import platform
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from robustvit.corruptions.parameters import family_of_size
from robustvit.corruptions.registry import ChannelOrder
from robustvit.evaluation.classes import read_class_map
from robustvit.evaluation.classification import Outcome, Task, classify
from robustvit.evaluation.conditions import Damage
from robustvit.evaluation.examples import make_examples
from robustvit.evaluation.plan import Job, Settings, plan
from robustvit.evaluation.processes import Processes, join_processes
from robustvit.evaluation.results import CellResult, ModelResults, Results, Value
from robustvit.evaluation.sequences import evaluate_sequences
from robustvit.evaluation.summary import cells_of, summarise
from robustvit.files import write_whole

__all__ = ["Report", "UnfinishedRunError", "evaluate"]

Report = Callable[[str, int, int], None]
"""Told (what is being done, steps done, steps in all)."""


class UnfinishedRunError(ValueError):
    """The output folder has a run that was interrupted, or one with other settings."""


def evaluate(
    model: nn.Module | Sequence[nn.Module] | dict[str, nn.Module],
    data: Any,
    suite: str | Sequence[str] = "common15",
    *,
    class_map: str | Path | dict[str, int] | None = None,
    protocol: str = "model",
    size: tuple[int, int] | None = None,
    limit: int | None = None,
    seed: int = 0,
    jpeg: bool = True,
    channel_order: ChannelOrder = "rgb",
    frost_folder: str | Path | None = None,
    batch_size: int = 32,
    examples: int = 6,
    output: str | Path | None = None,
    resume: bool = False,
    report: Report | None = None,
) -> Results:
    """How much of a classifier's accuracy survives.

    Args:
        model: a timm-like network (`pretrained_cfg` says size, mean and std of its input), several, or a dict by name. It
            stays on its device and is evaluated in evaluation mode.
        data: what `open_pictures` takes, or a dataset of (picture, label). Suites of files are also looked for in a
            folder of their name inside it.
        suite: one or several of `SUITES`.
        class_map: class name -> output of the network, or a JSON file of that; needed where they are not in the same order.
        protocol: of `PROTOCOLS`.
        size: (H, W) of the input, other than the network's own.
        limit: measure only that many pictures, drawn by the seed.
        seed: of the corruptions, the subset and the intervals.
        jpeg: "imagenet-c" made in memory passes through JPEG (quality 85), as the files did.
        channel_order, frost_folder: see `corrupt`.
        batch_size: pictures at once.
        examples: pictures to keep for the report.
        output: folder for the results, see `Results.save`; meanwhile for what is done so far, so that an interrupted run
            can go on.
        resume: go on with what is in `output`.
        report: told about progress.
    """
    models = _named(model)
    suites = (suite,) if isinstance(suite, str) else tuple(dict.fromkeys(suite))
    damage = Damage(seed, False, channel_order, Path(frost_folder) if frost_folder else None)
    mapping = class_map if isinstance(class_map, dict) or class_map is None else read_class_map(class_map)
    settings = Settings(protocol, size, limit, batch_size, jpeg, damage, mapping)
    _check(settings)
    jobs = {name: plan(network, data, suites, settings) for name, network in models.items()}
    with join_processes() as processes:
        folder = _prepare(output, _fingerprint(models, jobs, suites, settings), resume, processes)
        networks = []
        for i, (name, network) in enumerate(models.items()):
            own = folder / f"model-{i}" if folder else None
            networks.append(_run_model(_Run(name, network, own, processes, report), jobs[name], examples))
        created = datetime.now(UTC).isoformat(timespec="seconds")
        results = Results(tuple(networks), suites, _describe(jobs, settings), _versions(), created)
        if output is not None and folder is not None and processes.rank == 0:
            results.save(output)
            shutil.rmtree(folder, ignore_errors=True)
        processes.gather(None)  # nobody leaves before the result is written
    return results


def _named(model: Any) -> dict[str, nn.Module]:
    if isinstance(model, dict):
        return model
    models = [model] if isinstance(model, nn.Module) else list(model)
    names: dict[str, nn.Module] = {}
    for network in models:
        cfg = getattr(network, "pretrained_cfg", None) or {}
        name = cfg.get("architecture") or type(network).__name__
        unique = name if name not in names else f"{name} ({len(names) + 1})"
        names[unique] = network
    if not names:
        raise ValueError("there is no network to evaluate; give at least one")
    return names


def _check(settings: Settings) -> None:
    for what, number in (("limit", settings.limit), ("batch_size", settings.batch_size)):
        if number is not None and number < 1:
            raise ValueError(f"{what}={number} is not possible; give at least 1")


@dataclass(frozen=True)
class _Run:
    """One network at work."""

    name: str
    model: nn.Module
    folder: Path | None
    processes: Processes
    report: Report | None

    def outcome(self, task: Task, what: str, part: str) -> Outcome:
        """The answers to all pictures of a task, whoever of the processes got them."""
        folder = self.folder / part if self.folder else None
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)

        def progress(done: int, total: int) -> None:
            if self.report is not None:
                self.report(f"{self.name}: {what}", done, total)

        rank, world = self.processes.rank, self.processes.world
        mine = classify(self.model, task, folder=folder, rank=rank, world=world, progress=progress)
        batches = sorted((pair for part in self.processes.gather(mine) for pair in part), key=lambda pair: pair[0])
        return Outcome.join([outcome for _, outcome in batches], len(task.conditions))


def _run_model(run: _Run, jobs: Sequence[Job], examples: int) -> ModelResults:
    start = time.perf_counter()
    was_training = run.model.training
    run.model.eval()
    summary: dict[str, Value] = {}
    cells: list[CellResult] = []
    skipped: dict[str, str] = {}
    shown: tuple[Any, ...] = ()
    for number, job in enumerate(jobs):
        if job.kind == "sequences":
            found, values, unread = evaluate_sequences(run.model, job.tasks[0], run.processes, run.report)
            skipped |= dict(unread)
        else:
            conditions, outcome = _run_job(run, job, f"job-{number}")
            found = cells_of(job.suite, conditions, outcome)
            values = _named_summary(job.suite, summarise(conditions, outcome))
            skipped |= dict(outcome.skipped)
            if not shown and job.kind == "memory":
                shown = make_examples(run.model, job.tasks[0], examples)
        cells += found
        summary |= {key: value for key, value in values.items() if key not in summary}
    run.model.train(was_training)
    task = jobs[0].tasks[0]
    protocol = {**task.protocol.describe(), "mean": task.mean, "std": task.std}
    count = sum(p.numel() for p in run.model.parameters())
    seconds = time.perf_counter() - start
    return ModelResults(run.name, count, protocol, summary, tuple(cells), tuple(skipped.items()), shown, seconds)


def _run_job(run: _Run, job: Job, part: str) -> tuple[Sequence[Any], Outcome]:
    if job.kind == "memory":
        return job.tasks[0].conditions, run.outcome(job.tasks[0], job.suite, part)
    outcomes = [
        run.outcome(task, f"{job.suite} {cell}", f"{part}-{cell.name}-{cell.severity}")
        for task, cell in zip(job.tasks, job.cells, strict=True)
    ]
    return job.cells, _side_by_side(outcomes)


def _side_by_side(outcomes: Sequence[Outcome]) -> Outcome:
    """The cells of a suite of files as conditions of the same pictures: those that every cell has."""
    common = set(outcomes[0].ids).intersection(*(outcome.ids for outcome in outcomes))
    ids = sorted(common)
    rows = [np.array([{name: i for i, name in enumerate(o.ids)}[name] for name in ids], np.int64) for o in outcomes]
    return Outcome(
        ids=ids,
        labels=outcomes[0].labels[rows[0]],
        predictions=np.concatenate([o.predictions[:, row] for o, row in zip(outcomes, rows, strict=True)]),
        confidences=np.concatenate([o.confidences[:, row] for o, row in zip(outcomes, rows, strict=True)]),
        skipped=[s for o in outcomes for s in o.skipped],
    )


def _named_summary(suite: str, values: dict[str, Value]) -> dict[str, Value]:
    """The accuracy on ImageNet-A and -R is not the clean accuracy."""
    if suite in ("imagenet-a", "imagenet-r"):
        return {f"{suite.replace('-', '_')}_accuracy": values["clean_accuracy"]} if values else {}
    return values


def _fingerprint(models: dict[str, nn.Module], jobs: dict[str, list[Job]], suites: Sequence[str], settings: Settings) -> str:
    """Changes when anything changes that unfinished work depends on."""
    digest = hashlib.blake2b(repr((suites, replace(settings, class_map=None), settings.class_map)).encode(), digest_size=16)
    for name, network in models.items():
        digest.update(name.encode())
        for key, tensor in network.state_dict().items():
            digest.update(f"{key}{tuple(tensor.shape)}{tensor.double().sum().item()!r}".encode())
        for job in jobs[name]:
            digest.update(repr([(t.pictures.name, len(t.pictures), t.protocol, t.conditions) for t in job.tasks]).encode())
    return digest.hexdigest()


def _prepare(output: str | Path | None, fingerprint: str, resume: bool, processes: Processes) -> Path | None:
    """The folder for unfinished work, empty or with work of this very run."""
    if output is None:
        if resume:
            raise ValueError("resume=True needs the output folder of the run to go on with")
        return None
    folder = Path(output) / "unfinished"
    marker = folder / "run.json"
    if marker.exists():
        same = json.loads(marker.read_text()).get("fingerprint") == fingerprint
        if not same:
            raise UnfinishedRunError(
                f"{output} has an unfinished run of other networks, pictures or settings; give another folder or delete it"
            )
        if not resume:
            raise UnfinishedRunError(f"{output} has an unfinished run; go on with --resume (resume=True), or delete {folder}")
    processes.gather(None)
    if processes.rank == 0:
        folder.mkdir(parents=True, exist_ok=True)
        with write_whole(marker) as file:
            file.write_text(json.dumps({"fingerprint": fingerprint}))
    processes.gather(None)
    return folder


def _describe(jobs: dict[str, list[Job]], settings: Settings) -> dict[str, Any]:
    task = next(iter(jobs.values()))[0].tasks[0]
    frost = str(settings.damage.frost_folder) if settings.damage.frost_folder else "generated textures"
    return {
        "name": task.pictures.name,
        "images": len(task.pictures),
        "classes": len(task.pictures.classes) or len(task.targets),
        "limit": settings.limit,
        "seed": settings.damage.seed,
        "family": family_of_size(*task.protocol.size),
        "frost": frost,
        "channel_order": settings.damage.channel_order,
        "jpeg": settings.jpeg,
        "batch_size": settings.batch_size,
    }


def _versions() -> dict[str, str]:
    return {"python": platform.python_version(), **{p: version(p) for p in ("robustvit", "torch", "timm", "pillow", "numpy")}}
