"""Cityscapes-C: 16 corruptions of driving scenes, from files on disk or made in memory, under three published protocols."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from torch import nn

from robustvit.corruptions.conditions import Condition
from robustvit.corruptions.parameters import SEVERITIES
from robustvit.data.layouts import suite_folder
from robustvit.data.map_layouts import corrupted_maps
from robustvit.data.samples import SampleSet
from robustvit.evaluation.passes import Pass
from robustvit.evaluation.planning import files_pass, protocol_for
from robustvit.evaluation.settings import Settings
from robustvit.evaluation.statistics import corruption_statistics
from robustvit.evaluation.suites.in_memory import plan_together
from robustvit.evaluation.suites.suite import Suite
from robustvit.evaluation.tallied import Tallied
from robustvit.metrics.bootstrap import Statistic
from robustvit.metrics.cells import clean_accuracy_of, positions_of
from robustvit.metrics.mean_accuracy import MeanAccuracy, mean_accuracy_of
from robustvit.metrics.measures import RATIO, RETENTION, Measure, register
from robustvit.metrics.retention import retained
from robustvit.tasks.base import Task

__all__ = ["GROUPS", "CityscapesC"]

GROUPS = {
    "blur": ("motion_blur", "defocus_blur", "glass_blur", "gaussian_blur"),
    "noise": ("gaussian_noise", "impulse_noise", "shot_noise", "speckle_noise"),
    "digital": ("brightness", "contrast", "saturate", "jpeg_compression"),
    "weather": ("snow", "spatter", "fog", "frost"),
}
"""The 16 corruptions that count, by the groups of the published tables."""
CORRUPTIONS = tuple(name for names in GROUPS.values() for name in names)
FIRST_THREE = SEVERITIES[:3]


def _measures(key: str, protocol: str, how: str) -> tuple[Measure, Measure]:
    """Its mIoU, and the share of the clean one that this is."""
    retention = register(
        Measure(
            f"{key.replace('miou', 'retention')}",
            f"Retention, Cityscapes-C ({protocol})",
            f"mIoU on Cityscapes-C (protocol {protocol}) divided by that on clean images.",
            unit=RATIO,
            family="retention",
            refines=RETENTION.key,
        )
    )
    mean = register(
        Measure(
            key,
            f"Cityscapes-C mIoU ({protocol})",
            f"mIoU averaged over severities, then over the 16 corruptions of Cityscapes-C; {how}.",
            short=f"Cityscapes-C mIoU ({protocol})",
            family="corruption",
            ranks=True,
            refines="mean_miou",
            claim="has an mIoU of {} on Cityscapes-C",
        )
    )
    return mean, retention


@dataclass(frozen=True)
class CityscapesC(Suite):
    """One protocol.

    Attributes:
        name, summary: see `Suite`.
        measures: the number it gives, and its share of the clean one.
        noise: severities of the four noises that count.
        others: severities of the other corruptions.
    """

    name: str
    summary: str
    measures: tuple[Measure, Measure]
    noise: tuple[int, ...]
    others: tuple[int, ...]
    tasks = ("segmentation",)
    has_severities = True

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
        found: dict[tuple[str, int], SampleSet] = {}
        asked = self.conditions(settings.severities)
        for names in GROUPS.values() if settings.is_path else ():
            severities = [s for s in SEVERITIES if Condition(names[0], s) in asked]
            root = suite_folder(settings.data, "cityscapes-c")
            found |= (corrupted_maps(root, names, severities) or {}) if severities else {}
        return found

    def statistics(self, task: Task, tallied: Tallied) -> dict[str, Statistic]:
        found, own = corruption_statistics(task, tallied), self.conditions(SEVERITIES)
        if set(own) <= set(tallied.cells):
            mean, kept = self.measures
            found[mean.key] = over = _mean_over(tallied.cells, own)
            if RETENTION.key in found:
                clean = clean_accuracy_of(tallied.cells)
                found[kept.key] = lambda scores: retained(over(scores), clean(scores))
        return found


def _mean_over(cells: Sequence[Condition], own: Sequence[Condition]) -> Statistic:
    """The mean of a protocol, whose cells may be some of those of a pass that other suites share."""
    mean, positions = mean_accuracy_of(own, CORRUPTIONS), positions_of(cells, own)
    return MeanAccuracy(mean(np.eye(len(cells))[:, positions]))  # the mean of each cell alone is its weight


KAMANN = CityscapesC(
    "cityscapes-c",
    "Cityscapes-C, 16 corruptions: noise at severities 1 to 3, the others at 1 to 5 (protocol kamann, of TAP and ADL)",
    _measures("cityscapes_c_miou", "kamann", "of the four noises severities 1 to 3, of the others 1 to 5"),
    FIRST_THREE,
    SEVERITIES,
)
ALL5 = CityscapesC(
    "cityscapes-c-all5",
    "Cityscapes-C, 16 corruptions at 5 severities (protocol all5, of STL)",
    _measures("cityscapes_c_miou_all5", "all5", "severities 1 to 5"),
    SEVERITIES,
    SEVERITIES,
)
FIRST3 = CityscapesC(
    "cityscapes-c-first3",
    "Cityscapes-C, 16 corruptions at severities 1 to 3 (protocol first3, of FAN)",
    _measures("cityscapes_c_miou_first3", "first3", "severities 1 to 3"),
    FIRST_THREE,
    FIRST_THREE,
)
