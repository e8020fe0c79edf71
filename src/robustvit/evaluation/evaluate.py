"""`evaluate`: one or several networks, any dataset, any suites -> `Results`."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import combinations
from pathlib import Path
from typing import Any, Unpack

from torch import nn

from robustvit.evaluation.finished_parts import with_all_parts
from robustvit.evaluation.passes import Pass
from robustvit.evaluation.plan import plan
from robustvit.evaluation.results import Difference, ModelResults, Results
from robustvit.evaluation.runner import Scored, run_network
from robustvit.evaluation.settings import Options, Settings
from robustvit.evaluation.statistics import measured_differences
from robustvit.evaluation.unfinished import (
    FinishedRunError,
    UnfinishedRunError,
    begin_work,
    end_work,
    fingerprint_of,
    finished_results,
    title_of,
)
from robustvit.evaluation.work import NetworkWork, Report
from robustvit.runtime.locking import locking_output
from robustvit.runtime.processes import Processes, join_processes
from robustvit.runtime.progress import progress_bar
from robustvit.runtime.stored_work import StoredWork
from robustvit.tasks.base import Task
from robustvit.tasks.class_matching import ClassMismatchError, write_template
from robustvit.tasks.notes import Note, few_pictures_note
from robustvit.tasks.registry import task_named

__all__ = ["FinishedRunError", "Report", "UnfinishedRunError", "evaluate"]


@locking_output
def evaluate(
    model: nn.Module | Sequence[nn.Module] | dict[str, nn.Module],
    data: Any,
    suite: str | Sequence[str] = "common15",
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
            evaluated in evaluation mode and left as it was.
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
    suites = (suite,) if isinstance(suite, str) else tuple(dict.fromkeys(suite))
    settings = Settings.of(**options)
    asked = _task(task, models)
    passes = {name: _planned(network, data, asked, suites, settings, output) for name, network in models.items()}
    with progress_bar() if report is True else nullcontext(report or None) as bar, join_processes() as processes:
        run = _Run(models, passes, asked, suites, settings, bar)
        return run.measure(processes) if output is None else run.measure_into(Path(output), processes, resume)


def _task(task: str | Task | None, models: Mapping[str, nn.Module]) -> Task:
    """The task that was asked for, or that of the networks."""
    if isinstance(task, Task):
        return task
    names = {task} if task is not None else {getattr(network, "task", None) or "classification" for network in models.values()}
    if len(names) > 1:
        raise ValueError(f"the networks are for {' and '.join(sorted(names))}; measure those of one task at a time")
    return task_named(names.pop())


def _planned(
    network: nn.Module, data: Any, task: Task, suites: Sequence[str], settings: Settings, output: str | Path | None
) -> list[Pass]:
    """The passes; classes that do not match leave a class map to be completed in the output folder."""
    try:
        return plan(network, data, task, suites, settings)
    except ClassMismatchError as error:
        if error.template and output is not None:
            place = write_template(Path(output), error.template)
            error.add_note(f"a class map to be completed is in {place}: edit it, and give --class-map {place}")
        raise


@dataclass(frozen=True)
class _Run:
    """Everything that is to be done."""

    models: dict[str, nn.Module]
    passes: dict[str, list[Pass]]
    task: Task
    suites: tuple[str, ...]
    settings: Settings
    report: Report | None

    def measure(
        self, processes: Processes, stored: StoredWork | None = None, *, with_predictions: bool | None = None
    ) -> Results:
        """All networks, with what is done so far in `stored`."""
        keep = self.settings.predictions if with_predictions is None else with_predictions
        report = self.report if processes.rank == 0 else None
        networks, scored, predictions = [], [], []
        for i, (name, network) in enumerate(self.models.items()):
            own = stored.below(f"model-{i}") if stored else None
            work = NetworkWork(name, network, own, processes, report)
            found, made, tables = run_network(work, self.passes[name], with_predictions=keep)
            networks.append(found)
            scored.append(made)
            predictions += tables
        differences = _differences(networks, scored, self.settings.seed)
        few = [note for d in differences if (note := few_pictures_note(d.images)) is not None][:1]
        kept = {"limit": self.settings.limit, "seed": self.settings.seed, "batch_size": self.settings.batch_size}
        return Results(
            models=tuple(networks),
            suites=self.suites,
            data={**networks[0].measurements[0].data, **kept},
            versions=_versions(),
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            fingerprint=stored.fingerprint if stored else "",
            differences=differences,
            notes=tuple(few),
            task=self.task.name,
            primary=self.task.primary.key,
            predictions=tuple(predictions),
        )

    def measure_into(self, output: Path, processes: Processes, resume: bool) -> Results:
        """Goes on with what is in `output`, or shows again what is finished there."""
        own = fingerprint_of(self.models, self.passes, self.suites, self.settings)
        fingerprint = processes.gather(own)[0]  # machines may have copies of the images, with other times
        finished = finished_results(output, fingerprint)
        had_predictions = finished is not None and (output / "predictions.csv").is_file()
        if resume and finished is not None:
            settings = self.settings
            shown = with_all_parts(finished, output, self.models, self.passes, settings.examples, settings.predictions)
            processes.gather(None)  # all have looked at the files
            if shown is not None:
                if processes.rank == 0:
                    shown = self._with_class_maps(shown, output)
                    shown.complete(output, instead_of=finished)
                    end_work(output)
                processes.gather(None)
                return shown
        title = title_of(self.models, self._dataset, [*self.suites, *(attack.name for attack in self.settings.attacks)])
        stored = begin_work(output, fingerprint, title, resume, processes)
        keep = self.settings.predictions or had_predictions  # a file that was asked for once does not vanish
        results = self.measure(processes, stored, with_predictions=keep)
        if processes.rank == 0:
            results = self._with_class_maps(results, output)
            results.save(output)
            end_work(output)
        processes.gather(None)  # nobody leaves before the result is written
        return results

    @property
    def _dataset(self) -> str:
        return str(next(iter(self.passes.values()))[0].describe_data()["name"])

    def _with_class_maps(self, results: Results, output: Path) -> Results:
        """Writes the classes with the outputs that were taken for them, where these do not seem to match; notes say so."""

        def offered(note: Note, planned: Pass) -> Note:
            mapping = planned.task.class_map(planned.samples)
            if note.kind != "class-mismatch" or not mapping:
                return note
            return replace(note, file=write_template(output, mapping).name)

        def with_notes(network: ModelResults) -> ModelResults:
            pairs = zip(self.passes[network.name], network.measurements, strict=True)
            measured = tuple(replace(one, notes=tuple(offered(note, planned) for note in one.notes)) for planned, one in pairs)
            return replace(network, measurements=measured)

        return replace(results, models=tuple(with_notes(network) for network in results.models))


def _differences(networks: Sequence[ModelResults], scored: Sequence[Sequence[Scored]], seed: int) -> tuple[Difference, ...]:
    """Every two networks in every measurement, the earlier one minus the later one."""
    found = []
    for (first, ours), (second, theirs) in combinations(zip(networks, scored, strict=True), 2):
        for measurement, one, other in zip(first.measurements, ours, theirs, strict=True):
            common = one.statistics.common(other.statistics)
            images, values = measured_differences(one.task, one.tallied, other.tallied, common, seed)
            if images:
                kinds = (values["summary"], values["groups"])
                found.append(Difference(first.name, second.name, measurement.suites, images, *kinds))
    return tuple(found)


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


def _versions() -> dict[str, str]:
    return {"python": platform.python_version(), **{p: version(p) for p in ("robustvit", "torch", "timm", "pillow", "numpy")}}
