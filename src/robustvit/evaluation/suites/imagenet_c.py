"""ImageNet-C: the published files, or the same made in memory. The only suite with mCE, which needs AlexNet's errors."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from torch import nn

from robustvit.corruptions.conditions import CLEAN, Condition
from robustvit.corruptions.parameters import SEVERITIES
from robustvit.data.layouts import imagenet_c_images, suite_folder
from robustvit.data.readers.class_folders import LayoutError
from robustvit.evaluation.passes import Pass
from robustvit.evaluation.planning import files_pass, memory_pass, protocol_for
from robustvit.evaluation.settings import Settings
from robustvit.evaluation.statistics import corruption_statistics, has_all
from robustvit.evaluation.suites.in_memory import COMMON15, copied_protocol
from robustvit.evaluation.suites.suite import Suite
from robustvit.evaluation.tallied import Tallied
from robustvit.metrics.bootstrap import Statistic
from robustvit.metrics.corruption_error import (
    corruption_errors,
    extra_corruption_errors,
    mean_corruption_error_of,
    relative_mean_corruption_error_of,
)
from robustvit.metrics.measures import MEAN_CORRUPTION_ERROR, RELATIVE_MEAN_CORRUPTION_ERROR
from robustvit.tasks.base import Task
from robustvit.tasks.classification import Classification

__all__ = ["ImageNetC"]


class ImageNetC(Suite):
    name = "imagenet-c"
    summary = "ImageNet-C: the files on disk, or the same made in memory"
    tasks = ("classification",)
    has_severities = True

    def conditions(self, severities: Sequence[int]) -> tuple[Condition, ...]:
        return COMMON15.conditions(severities)

    def plan(self, network: nn.Module, settings: Settings) -> Pass:
        asked = self.conditions(settings.severities)
        if settings.is_path:
            root = suite_folder(settings.data, self.name)
            found = imagenet_c_images(root, COMMON15.corruptions, settings.severities)
            if found:
                own = copied_protocol(network, settings, root)
                protocol = protocol_for(network, settings, own, published=True)
                return files_pass(network, settings, [self], found, protocol, asked)
            if root != Path(settings.data):
                raise LayoutError(
                    f"{root} is no ImageNet-C; expected {root}/CORRUPTION/SEVERITY/CLASS/IMAGE.JPEG. Without that folder, the "
                    "corruptions are made in memory"
                )
        protocol = protocol_for(network, settings, "imagenet-c")
        conditions = dict.fromkeys((CLEAN, *asked), self.name)
        return memory_pass(network, settings, [self], conditions, protocol, jpeg=settings.jpeg)

    def statistics(self, task: Task, tallied: Tallied) -> dict[str, Statistic]:
        found, cells = corruption_statistics(task, tallied), tallied.cells
        if not _has_alexnet(task) or not has_all(cells, "common15"):
            return found
        found[MEAN_CORRUPTION_ERROR.key] = mean_corruption_error_of(cells)
        if CLEAN in cells:
            found[RELATIVE_MEAN_CORRUPTION_ERROR.key] = relative_mean_corruption_error_of(cells)
        return found

    def corruption_errors(self, task: Task, tallied: Tallied) -> dict[str, float]:
        if not _has_alexnet(task):
            return {}
        known = {cell: task.scores(row)[task.primary.key] for cell, row in zip(tallied.cells, tallied.rows, strict=True)}
        names = dict.fromkeys(c.name for c in known if all(Condition(c.name, s) in known for s in SEVERITIES))
        errors = {name: [1 - known[Condition(name, s)] for s in SEVERITIES] for name in names}
        return {**corruption_errors(errors), **extra_corruption_errors(errors)}


def _has_alexnet(task: Task) -> bool:
    """Whether AlexNet's errors, which are of ImageNet's 1000 classes, apply."""
    return isinstance(task, Classification) and task.is_imagenet


IMAGENET_C = ImageNetC()
