"""COCO-O: the classes of COCO as cartoons, handmade, in paintings, sketches, tattoos and bad weather; AP in each domain.

Mao et al., "COCO-O: A Benchmark for Object Detectors under Natural Distribution Shifts", 2023.
"""

from __future__ import annotations

from pathlib import Path

from torch import nn

from robustvit.data.joined_objects import JoinedObjects
from robustvit.data.layouts import suite_folder
from robustvit.data.object_layouts import DOMAINS, coco_o_domains
from robustvit.data.readers.class_folders import LayoutError
from robustvit.evaluation.parted_pass import parted_pass
from robustvit.evaluation.passes import Pass
from robustvit.evaluation.settings import Settings
from robustvit.evaluation.statistics import OfMeasure
from robustvit.evaluation.suites.suite import Suite
from robustvit.evaluation.tallied import Tallied
from robustvit.metrics.average_precision import BOX_AP, MASK_AP
from robustvit.metrics.bootstrap import Statistic
from robustvit.metrics.mean_accuracy import mean_accuracy_of
from robustvit.metrics.measures import Measure, register
from robustvit.tasks.base import Task

__all__ = ["COCO_O"]

COCO_O_AP = register(
    Measure(
        "coco_o_ap",
        "COCO-O AP",
        "AP in each of the six domains of COCO-O, and their mean.",
        family="shift",
        ranks=True,
        claim="has an AP of {} on COCO-O",
    )
)
COCO_O_MASK_AP = register(
    Measure(
        "coco_o_mask_ap", "COCO-O mask AP", "Mask AP in each of the six domains of COCO-O, and their mean.", family="shift"
    )
)


class CocoO(Suite):
    name = "coco-o"
    summary = "COCO-O: cartoons, handmade objects, paintings, sketches, tattoos and bad weather"
    tasks = ("detection",)

    def plan(self, network: nn.Module, settings: Settings) -> Pass:
        if not settings.is_path or not Path(settings.data).is_dir():
            raise LayoutError("the suite coco-o needs the folder of COCO-O; give its path as data")
        root = suite_folder(settings.data, self.name)
        return parted_pass(network, settings, self, JoinedObjects(coco_o_domains(root), str(root)), DOMAINS)

    def statistics(self, task: Task, tallied: Tallied) -> dict[str, Statistic]:
        mean = mean_accuracy_of(tallied.cells, [cell.name for cell in tallied.cells[1:]])
        return {COCO_O_AP.key: OfMeasure(BOX_AP.key, mean), COCO_O_MASK_AP.key: OfMeasure(MASK_AP.key, mean)}


COCO_O = CocoO()
