"""ACDC: driving in fog, at night, in rain and in snow; each condition by itself, their mean, and all images together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from torch import nn

from robustvit.corruptions.conditions import CLEAN, Condition
from robustvit.data.layouts import suite_folder
from robustvit.data.map_layouts import CONDITIONS, acdc_conditions
from robustvit.data.readers.class_folders import LayoutError
from robustvit.evaluation.passes import MemoryPass, Pass, PassReport
from robustvit.evaluation.planning import memory_pass, protocol_for
from robustvit.evaluation.settings import Settings
from robustvit.evaluation.suites.suite import Suite
from robustvit.evaluation.tallied import Tallied
from robustvit.metrics.bootstrap import Statistic
from robustvit.metrics.cells import CellAccuracy
from robustvit.metrics.mean_accuracy import mean_accuracy_of
from robustvit.metrics.measures import Measure, register
from robustvit.runtime.fingerprint import Digest
from robustvit.runtime.processes import Processes
from robustvit.runtime.stored_work import StoredWork
from robustvit.tasks.base import Task
from robustvit.tasks.tallies import Tallies

__all__ = ["ACDC"]

WHOLE = Condition("acdc")
"""All images together."""
CELLS = (WHOLE, *(Condition(f"acdc {name}") for name in CONDITIONS))
ACDC_MIOU = register(
    Measure(
        "acdc_miou",
        "ACDC mIoU (val)",
        "mIoU in fog, at night, in rain and in snow, and their mean; on the validation images. The papers report the test "
        "images, whose labels are withheld.",
        family="shift",
        ranks=True,
        claim="has an mIoU of {} in fog, at night, in rain and in snow",
    )
)
ACDC_WHOLE_MIOU = register(
    Measure("acdc_whole_miou", "ACDC mIoU (val), all images", "mIoU of the four conditions as one set.", family="shift")
)


@dataclass(frozen=True)
class ACDCPass(Pass):
    """All images once; each belongs to the cell of its condition, and to that of all images."""

    plain: MemoryPass = None  # type: ignore[assignment]

    def run(self, processes: Processes, stored: StoredWork | None, report: PassReport | None) -> Tallied:
        tallied = self.plain.run(processes, stored, report)
        row, ids = tallied.rows[0], tallied.ids
        present = np.array([[True] * len(ids), *([name.startswith(f"{kind}/") for name in ids] for kind in CONDITIONS)])
        rows = tuple(_only(row, chosen) for chosen in present)
        return Tallied(ids, CELLS, rows, tallied.skipped, present=present)

    @property
    def shows_images(self) -> bool:
        return True

    def conditions_of(self, sample: str) -> tuple[Condition, ...]:
        return tuple(cell for cell, kind in zip(CELLS[1:], CONDITIONS, strict=True) if sample.startswith(f"{kind}/"))

    def digest(self, samples: Digest) -> None:
        self.plain.digest(samples)

    def describe_data(self) -> dict[str, Any]:
        return self._data("files on disk")


def _only(row: Tallies, mask: np.ndarray) -> Tallies:
    """Tallies in which the samples outside of a mask [N] contribute nothing."""
    return Tallies(len(row), {name: np.where(mask[:, None], array, 0) for name, array in row.arrays.items()})


class ACDCSuite(Suite):
    name = "acdc"
    summary = "ACDC: the validation images in fog, at night, in rain and in snow"
    tasks = ("segmentation",)

    def plan(self, network: nn.Module, settings: Settings) -> Pass:
        if not settings.is_path:
            raise LayoutError("the suite acdc needs the folder of ACDC; give its path as data")
        root = suite_folder(settings.data, self.name)
        acdc_conditions(root, "val")  # says what is missing
        protocol = protocol_for(network, settings, "native", published=True)
        plain = memory_pass(network, replace(settings, data=str(root)), [self], {CLEAN: self.name}, protocol)
        suites = (self.name,) * len(CELLS)
        about = (plain.task, plain.samples, protocol, plain.normalisation, settings)
        return ACDCPass(network, (self,), CELLS, suites, *about, plain=plain)

    def statistics(self, task: Task, tallied: Tallied) -> dict[str, Statistic]:
        names = [cell.name for cell in CELLS[1:]]
        return {ACDC_MIOU.key: mean_accuracy_of(tallied.cells, names), ACDC_WHOLE_MIOU.key: CellAccuracy(0)}


ACDC = ACDCSuite()
