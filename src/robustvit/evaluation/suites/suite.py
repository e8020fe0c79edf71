"""What a suite is: a name that stands for samples and conditions, and the numbers that come out.

A new suite is one file with one subclass of `Suite`, registered in `suites/registry` or by an entry point `robustvit.suites`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from robustvit.corruptions.conditions import CLEAN, Condition
from robustvit.corruptions.parameters import SMALLEST
from robustvit.data.normalisation import Normalisation
from robustvit.data.protocols import Protocol, protocol_of
from robustvit.data.readers.class_folders import LayoutError
from robustvit.data.samples import DatasetSamples, SampleSet, SomeSamples
from robustvit.evaluation.passes import FilesPass, Pass
from robustvit.evaluation.settings import Settings
from robustvit.evaluation.statistics import Statistics, corruption_statistics
from robustvit.evaluation.tallied import Tallied
from robustvit.tasks.base import Task

__all__ = ["Request", "Suite", "check_size"]


class Suite(ABC):
    """One suite.

    Attributes:
        name: as a user types it.
        summary: what it measures, in a line, for help and docs.
        tasks: names of the tasks that it is for; empty for all.
        has_severities: whether `severity` chooses among its conditions.
        is_made_in_memory: whether it only adds conditions to the clean images; such suites share a pass.
    """

    name: str
    summary: str
    tasks: tuple[str, ...] = ()
    has_severities: bool = False
    is_made_in_memory: bool = False

    def conditions(self, severities: Sequence[int]) -> tuple[Condition, ...]:
        """What it adds to the clean images."""
        return ()

    @abstractmethod
    def plan(self, request: Request) -> Pass:
        """The pass that measures it, with everything checked that can be.

        Raises:
            ValueError: files are missing (LayoutError), classes do not match (ClassMismatchError), ...
        """

    def statistics(self, task: Task, tallied: Tallied) -> Statistics:
        """The numbers that come out, as functions of the primary measure in the cells."""
        return corruption_statistics(task, tallied)

    def extras(self, task: Task, tallied: Tallied) -> Mapping[str, float]:
        """Further numbers, without intervals."""
        return task.clean_extras(tallied.row(CLEAN)) if CLEAN in tallied.cells else {}

    def corruption_errors(self, task: Task, tallied: Tallied) -> dict[str, float]:
        """CE of each corruption, where AlexNet's errors apply."""
        return {}


@dataclass(frozen=True)
class Request:
    """What a suite makes its pass of.

    Attributes:
        network: to be measured.
        data: as the user gave it.
        task: not yet bound to network and samples.
        settings: of the run.
    """

    network: nn.Module
    data: Any
    task: Task
    settings: Settings

    @property
    def normalisation(self) -> Normalisation:
        return Normalisation.of(self.network)

    @property
    def size(self) -> tuple[int, int]:
        """(H, W) of the input."""
        return protocol_of("none", self.network, self.settings.size).size

    @property
    def is_path(self) -> bool:
        return isinstance(self.data, str | Path)

    def protocol(self, own: str, *, published: bool = False) -> Protocol:
        """The protocol that was asked for, else the suite's own. Numbers for published files were made without EXIF tags."""
        protocol = protocol_of(self.settings.protocol or own, self.network, self.settings.size)
        return replace(protocol, ignore_orientation=published or self.settings.ignore_orientation)

    def samples(self, protocol: Protocol, place: str | Path | None = None) -> SampleSet:
        """The dataset, or what lies at `place`; as many samples as the limit allows."""
        upright = protocol.ignore_orientation
        if self.is_path:
            where = self.data if place is None else place
            samples = self.task.open(where, scene_size=protocol.size, ignore_orientation=upright)
        elif hasattr(self.data, "classes") and hasattr(self.data, "name"):
            samples = self.data
        else:
            samples = DatasetSamples(self.data, ignore_orientation=upright)
        if len(samples) == 0:
            raise LayoutError(f"{samples.name} has no images")
        return self.limited(samples)

    def limited(self, samples: SampleSet) -> SampleSet:
        """As many as the limit allows, drawn by the seed."""
        limit = self.settings.limit
        if limit is None or limit >= len(samples):
            return samples
        generator = np.random.default_rng(self.settings.seed)
        return SomeSamples(samples, generator.choice(len(samples), limit, replace=False).tolist())

    def bound(self, samples: SampleSet, protocol: Protocol, **options: Any) -> Task:
        """The task for the network and these samples."""
        return self.task.bind(self.network, samples, protocol.size, class_map=self.settings.class_map, **options)

    def plain_pass(self, suite: Suite, samples: SampleSet, protocol: Protocol, **options: Any) -> FilesPass:
        """A pass over the samples of another dataset, as they are.

        Args:
            suite: that it answers.
            samples: to measure on.
            protocol: how an image becomes the input.
            options: of `Task.bind`.
        """
        task = self.bound(samples, protocol, **options)
        return FilesPass(
            suites=(suite,),
            cells=(CLEAN,),
            cell_suites=(suite.name,),
            task=task,
            samples=samples,
            protocol=protocol,
            normalisation=self.normalisation,
            settings=self.settings,
            sets=((task, samples),),
        )

    def files_pass(
        self,
        suites: tuple[Suite, ...],
        found: Mapping[tuple[str, int], SampleSet],
        protocol: Protocol,
        asked: Sequence[Condition] = (),
    ) -> FilesPass:
        """A pass over files: one set of samples per cell.

        Args:
            suites: that it answers.
            found: (condition, severity) -> samples.
            protocol: how an image becomes the input.
            asked: conditions that the suites ask for.
        """
        cells = tuple(Condition(*cell) for cell in found)
        chosen = self._same_samples(list(found.values()))
        tasks = [self.bound(chosen[0], protocol)]
        known = getattr(getattr(tasks[0], "matching", None), "outputs", None)  # the network is asked once, not for each cell
        tasks += [self.bound(samples, protocol, **({"outputs": known} if known else {})) for samples in chosen[1:]]
        return FilesPass(
            suites=suites,
            cells=cells,
            cell_suites=(suites[0].name,) * len(cells),
            task=tasks[0],
            samples=chosen[0],
            protocol=protocol,
            normalisation=self.normalisation,
            settings=self.settings,
            left_out=tuple(condition for condition in asked if condition not in cells),
            sets=tuple(zip(tasks, chosen, strict=True)),
        )

    def _same_samples(self, sets: list[SampleSet]) -> list[SampleSet]:
        """As many as the limit allows, the same ones of every cell."""
        limit = self.settings.limit
        if limit is None:
            return sets
        ids = [[sample.id for sample in samples] for samples in sets]
        common = sorted(set(ids[0]).intersection(*ids[1:]))
        if limit >= len(common):
            return sets
        drawn = np.random.default_rng(self.settings.seed).choice(len(common), limit, replace=False)
        wanted = {common[i] for i in drawn}
        return [
            SomeSamples(samples, [i for i, name in enumerate(names) if name in wanted])
            for samples, names in zip(sets, ids, strict=True)
        ]


def check_size(protocol: Protocol, conditions: Sequence[Condition]) -> None:
    """Raises ValueError where images are too small to be corrupted."""
    if len(conditions) > 1 and min(protocol.size) < SMALLEST:
        H, W = protocol.size
        raise ValueError(f"corruptions need images of at least {SMALLEST}x{SMALLEST} pixels; this network takes {H}x{W}")
