"""Cityscapes-C: 16 corruptions of driving scenes, from files on disk or made in memory, under three published protocols."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from robustvit.corruptions.parameters import SEVERITIES
from robustvit.data.map_layouts import corrupted_maps
from robustvit.evaluation.suites.sixteen_corruptions import Copies, SixteenCorruptions
from robustvit.metrics.iou import MIOU
from robustvit.metrics.measures import RATIO, RETENTION, Measure, register

__all__ = ["CityscapesC"]

FIRST_THREE = SEVERITIES[:3]


def _measures(key: str, protocol: str, how: str) -> dict[str, tuple[Measure, Measure]]:
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
    return {MIOU.key: (mean, retention)}


class CityscapesC(SixteenCorruptions):
    """One protocol."""

    tasks = ("segmentation",)
    folder = "cityscapes-c"

    def copies(self, root: Path, names: Sequence[str], severities: Sequence[int]) -> Copies | None:
        return corrupted_maps(root, names, severities)


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
