"""ACDC: driving in fog, at night, in rain and in snow; each condition by itself, their mean, and all images together."""

from __future__ import annotations

from torch import nn

from robustvit.data.layouts import suite_folder
from robustvit.data.map_layouts import CONDITIONS, acdc_conditions
from robustvit.data.readers.class_folders import LayoutError
from robustvit.evaluation.parted_pass import parted_pass
from robustvit.evaluation.passes import Pass
from robustvit.evaluation.settings import Settings
from robustvit.evaluation.suites.suite import Suite
from robustvit.evaluation.tallied import Tallied
from robustvit.metrics.bootstrap import Statistic
from robustvit.metrics.cells import CellAccuracy
from robustvit.metrics.mean_accuracy import mean_accuracy_of
from robustvit.metrics.measures import Measure, register
from robustvit.tasks.base import Task

__all__ = ["ACDC"]

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


class ACDCSuite(Suite):
    name = "acdc"
    summary = "ACDC: the validation images in fog, at night, in rain and in snow"
    tasks = ("segmentation",)

    def plan(self, network: nn.Module, settings: Settings) -> Pass:
        if not settings.is_path:
            raise LayoutError("the suite acdc needs the folder of ACDC; give its path as data")
        root = suite_folder(settings.data, self.name)
        acdc_conditions(root, "val")  # says what is missing
        return parted_pass(network, settings, self, str(root), CONDITIONS)

    def statistics(self, task: Task, tallied: Tallied) -> dict[str, Statistic]:
        names = [cell.name for cell in tallied.cells[1:]]
        return {ACDC_MIOU.key: mean_accuracy_of(tallied.cells, names), ACDC_WHOLE_MIOU.key: CellAccuracy(0)}


ACDC = ACDCSuite()
