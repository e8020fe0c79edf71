"""A pass over a dataset in parts, as the conditions of ACDC and the domains of COCO-O: each part is a cell, and so are all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from torch import nn

from robustvit.corruptions.conditions import CLEAN, Condition
from robustvit.evaluation.passes import MemoryPass, Pass, PassReport
from robustvit.evaluation.planning import memory_pass, protocol_for
from robustvit.evaluation.settings import Settings
from robustvit.evaluation.suites.suite import Suite
from robustvit.evaluation.tallied import Tallied
from robustvit.runtime.fingerprint import Digest
from robustvit.runtime.processes import Processes
from robustvit.runtime.stored_work import StoredWork

__all__ = ["PartedPass", "part_cells", "parted_pass"]


def part_cells(suite: str, parts: Sequence[str]) -> tuple[Condition, ...]:
    """The cells of such a pass: "SUITE" for all images, then "SUITE PART"."""
    return (Condition(suite), *(Condition(f"{suite} {part}") for part in parts))


@dataclass(frozen=True)
class PartedPass(Pass):
    """All images once; each belongs to the cell of all images, and to that of its part.

    Attributes:
        plain: the pass over all images.
        parts: their names, with which the ids of their images begin: PART/...
    """

    plain: MemoryPass = None  # type: ignore[assignment]
    parts: tuple[str, ...] = ()

    def run(self, processes: Processes, stored: StoredWork | None, report: PassReport | None) -> Tallied:
        tallied = replace(self.plain, told=self.told, settings=self.settings).run(processes, stored, report)
        row, ids = tallied.rows[0], tallied.ids
        present = np.array([[True] * len(ids), *([name.startswith(f"{part}/") for name in ids] for part in self.parts)])
        rows = tuple(row.of(own.nonzero()[0]) for own in present)
        return Tallied(ids, self.cells, rows, tallied.skipped, present=present)

    def only(self, positions: range) -> PartedPass:
        plain = self.plain.only(positions)
        return replace(self, plain=plain, samples=plain.samples)

    @property
    def shows_images(self) -> bool:
        return True

    @property
    def tabled(self) -> Sequence[int]:
        return range(1, len(self.cells))

    def conditions_of(self, sample: str) -> tuple[Condition, ...]:
        return tuple(cell for cell, part in zip(self.cells[1:], self.parts, strict=True) if sample.startswith(f"{part}/"))

    def digest(self, samples: Digest) -> None:
        self.plain.digest(samples)

    def describe_data(self) -> dict[str, Any]:
        return self._data("files on disk")


def parted_pass(network: nn.Module, settings: Settings, suite: Suite, data: Any, parts: Sequence[str]) -> PartedPass:
    """A pass over published images.

    Args:
        network: to be measured.
        settings: of the run.
        suite: that it answers.
        data: what the task opens, or samples.
        parts: see `PartedPass`.
    """
    protocol = protocol_for(network, settings, "native", published=True)
    plain = memory_pass(network, replace(settings, data=data), [suite], {CLEAN: suite.name}, protocol)
    cells = part_cells(suite.name, parts)
    about = (plain.task, plain.samples, protocol, plain.normalisation, settings)
    return PartedPass(network, (suite,), cells, (suite.name,) * len(cells), *about, plain=plain, parts=tuple(parts))
