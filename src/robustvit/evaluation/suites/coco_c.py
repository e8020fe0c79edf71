"""COCO-C: 16 corruptions of everyday scenes at 5 severities, from files on disk or made in memory.

mPC and rPC (mean performance under corruption, and the share of the clean performance that it is) of boxes and of masks:
Michaelis et al., "Benchmarking Robustness in Object Detection", 2019, with the 15 common corruptions; FAN's tables have 16.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from robustvit.data.object_layouts import corrupted_objects
from robustvit.evaluation.suites.sixteen_corruptions import Copies, SixteenCorruptions
from robustvit.metrics.average_precision import BOX_AP, MASK_AP
from robustvit.metrics.measures import RATIO, Measure, register

__all__ = ["CocoC"]


def _measures(ap: Measure, key: str, refined: str, *, ranks: bool, order: int) -> tuple[Measure, Measure]:
    """mPC and rPC of a kind of AP."""
    what = ap.words
    mean = register(
        Measure(
            key,
            f"COCO-C {what} (mPC)",
            f"{ap.label} averaged over severities, then over the 16 corruptions of COCO-C: mean performance under corruption.",
            short=f"COCO-C {what} (mPC)",
            family="corruption",
            ranks=ranks,
            refines=f"mean_{ap.key}",
            claim=f"has an {what} of {{}} on COCO-C" if ranks else "",
            order=order,
        )
    )
    kept = register(
        Measure(
            f"{key}_retention",
            f"Retention, COCO-C {what} (rPC)",
            f"{ap.label} on COCO-C divided by that on clean images: relative performance under corruption.",
            unit=RATIO,
            family="retention",
            refines=refined,
            order=order,
        )
    )
    return mean, kept


class CocoC(SixteenCorruptions):
    tasks = ("detection",)

    def copies(self, root: Path, names: Sequence[str], severities: Sequence[int]) -> Copies | None:
        return corrupted_objects(root, names, severities)


COCO_C = CocoC(
    "coco-c",
    "COCO-C: 16 corruptions at 5 severities, the files on disk, or the same made in memory",
    {
        BOX_AP.key: _measures(BOX_AP, "coco_c_ap", "retention", ranks=True, order=0),
        MASK_AP.key: _measures(MASK_AP, "coco_c_mask_ap", "mask_ap_retention", ranks=False, order=2),
    },
)
