"""The 16 corruptions of Cityscapes-C and COCO-C, sorted as published tables do; from files on disk, or made in memory."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from torch import nn

from robustvit.corruptions.conditions import Condition
from robustvit.corruptions.parameters import SEVERITIES
from robustvit.data.layouts import suite_folder
from robustvit.data.samples import SampleSet
from robustvit.evaluation.passes import Pass
from robustvit.evaluation.planning import files_pass, protocol_for
from robustvit.evaluation.settings import Settings
from robustvit.evaluation.statistics import OfMeasure, corruption_statistics
from robustvit.evaluation.suites.in_memory import plan_together
from robustvit.evaluation.suites.suite import Suite
from robustvit.evaluation.tallied import Tallied
from robustvit.metrics.bootstrap import Statistic
from robustvit.metrics.cells import clean_accuracy_of, positions_of
from robustvit.metrics.mean_accuracy import MeanAccuracy, mean_accuracy_of
from robustvit.metrics.measures import Measure
from robustvit.metrics.retention import retained
from robustvit.tasks.base import Task

__all__ = ["CORRUPTIONS", "GROUPS", "Copies", "SixteenCorruptions"]

Copies = Mapping[tuple[str, int], SampleSet]
"""(corruption, severity) -> samples."""
GROUPS = {
    "blur": ("motion_blur", "defocus_blur", "glass_blur", "gaussian_blur"),
    "noise": ("gaussian_noise", "impulse_noise", "shot_noise", "speckle_noise"),
    "digital": ("brightness", "contrast", "saturate", "jpeg_compression"),
    "weather": ("snow", "spatter", "fog", "frost"),
}
"""The 16 corruptions that count, by the groups of the published tables."""
CORRUPTIONS = tuple(name for names in GROUPS.values() for name in names)


@dataclass(frozen=True)
class SixteenCorruptions(Suite):
    """One protocol.

    Attributes:
        name, summary: see `Suite`.
        measures: key of a number of the task -> its mean over the protocol, and the share of the clean one that this is.
        noise: severities of the four noises that count.
        others: severities of the other corruptions.
    """

    name: str
    summary: str
    measures: Mapping[str, tuple[Measure, Measure]]
    noise: tuple[int, ...] = SEVERITIES
    others: tuple[int, ...] = SEVERITIES
    has_severities = True

    @abstractmethod
    def copies(self, root: Path, names: Sequence[str], severities: Sequence[int]) -> Copies | None:
        """Those of a tree; None where `root` is none."""

    @property
    def folder(self) -> str:
        """What the folder of the files is called inside the dataset."""
        return self.name

    def conditions(self, severities: Sequence[int]) -> tuple[Condition, ...]:
        """Those of the protocol; with fewer severities asked for, what is left of it."""
        return tuple(
            Condition(name, severity)
            for group, names in GROUPS.items()
            for name in names
            for severity in (self.noise if group == "noise" else self.others)
            if severity in severities
        )

    def group_of(self, corruption: str) -> str:
        return next((group for group, names in GROUPS.items() if corruption in names), super().group_of(corruption))

    def shares_pass(self, settings: Settings) -> bool:
        return not self._on_disk(settings)

    def plan(self, network: nn.Module, settings: Settings) -> Pass:
        found = self._on_disk(settings)
        if not found:
            return plan_together(network, settings, [self])
        protocol = protocol_for(network, settings, "native", published=True)
        return files_pass(network, settings, [self], found, protocol, self.conditions(settings.severities))

    def _on_disk(self, settings: Settings) -> dict[tuple[str, int], SampleSet]:
        """The files of the conditions; empty where there is no tree of copies."""
        asked: dict[tuple[int, ...], list[str]] = {}
        for name in CORRUPTIONS if settings.is_path else ():
            own = self.noise if name in GROUPS["noise"] else self.others
            asked.setdefault(tuple(s for s in own if s in settings.severities), []).append(name)
        found: dict[tuple[str, int], SampleSet] = {}
        for severities, names in asked.items():
            root = suite_folder(settings.data, self.folder)
            found |= (self.copies(root, names, severities) or {}) if severities else {}
        return found

    def statistics(self, task: Task, tallied: Tallied) -> dict[str, Statistic]:
        found, own = corruption_statistics(task, tallied), self.conditions(SEVERITIES)
        if set(own) <= set(tallied.cells):
            over = _mean_over(tallied.cells, own)
            for key, (mean, kept) in self.measures.items():
                names = task.summary if key == task.primary.key else task.seconds[key]
                if names.mean.key in found:
                    found[mean.key] = OfMeasure(key, over)
                if names.retention.key in found:
                    found[kept.key] = OfMeasure(key, _kept(over, clean_accuracy_of(tallied.cells)))
        return found


def _kept(over: Statistic, clean: Statistic) -> Statistic:
    return lambda scores: retained(over(scores), clean(scores))


def _mean_over(cells: Sequence[Condition], own: Sequence[Condition]) -> Statistic:
    """The mean of a protocol, whose cells may be some of those of a pass that other suites share."""
    mean, positions = mean_accuracy_of(own, CORRUPTIONS), positions_of(cells, own)
    return MeanAccuracy(mean(np.eye(len(cells))[:, positions]))  # the mean of each cell alone is its weight
