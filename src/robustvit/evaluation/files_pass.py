"""A pass over files on disk that show the conditions already, as those of ImageNet-C."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from robustvit.corruptions.conditions import CLEAN
from robustvit.data.sample_digest import add_samples
from robustvit.data.samples import SampleSet
from robustvit.evaluation.passes import MemoryPass, Pass, PassReport, some_of
from robustvit.evaluation.tallied import Tallied
from robustvit.runtime.fingerprint import Digest
from robustvit.runtime.processes import Processes
from robustvit.runtime.stored_work import StoredWork
from robustvit.tasks.base import Task

__all__ = ["FilesPass"]


@dataclass(frozen=True)
class FilesPass(Pass):
    """Files that show the conditions: one set of samples per cell, taken as they are.

    Attributes:
        sets: (task, samples) of each cell.
    """

    sets: tuple[tuple[Task, SampleSet], ...] = ()

    @property
    def sample_sets(self) -> tuple[SampleSet, ...]:
        return tuple(samples for _, samples in self.sets)

    def only(self, positions: range) -> FilesPass | None:
        sets = tuple((task, some_of(samples, positions)) for task, samples in self.sets)
        has_all = all(len(samples) for _, samples in sets)
        return replace(self, samples=sets[0][1], sets=sets) if has_all else None

    def run(self, processes: Processes, stored: StoredWork | None, report: PassReport | None) -> Tallied:
        name = self.suites[0].name
        found = []
        for cell, (task, samples) in zip(self.cells, self.sets, strict=True):
            what = f"{name} {cell}" if len(self.cells) > 1 else name
            own = stored.below(f"{cell.name}-{cell.severity}") if stored else None
            tallied = self._plain(task, samples).run(processes, own, report, what)
            found.append(Tallied(tallied.ids, (cell,), tallied.rows, tallied.skipped))
        return self._side_by_side(found)

    def _plain(self, task: Task, samples: SampleSet) -> MemoryPass:
        """The samples of one cell as they are."""
        about = (task, samples, self.protocol, self.normalisation, self.settings)
        return MemoryPass(self.network, self.suites, (CLEAN,), self.cell_suites[:1], *about, told=self.told)

    def _side_by_side(self, found: list[Tallied]) -> Tallied:
        """The cells as conditions of the same samples: those that every cell has."""
        ids = sorted(set(found[0].ids).intersection(*(tallied.ids for tallied in found)))
        rows = tuple(tallied.of(ids).rows[0] for tallied in found)
        several = len(self.cells) > 1
        skipped = [
            (f"{cell.name}/{cell.severity}/{name}" if several else name, reason)
            for cell, tallied in zip(self.cells, found, strict=True)
            for name, reason in tallied.skipped
        ]
        return Tallied(ids, self.cells, rows, skipped)

    def digest(self, samples: Digest) -> None:
        for _, files in self.sets:
            add_samples(samples, files)

    def describe_data(self) -> dict[str, Any]:
        return self._data("files on disk")
