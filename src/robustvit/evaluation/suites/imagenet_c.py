"""ImageNet-C: the published files, or the same made in memory. The only suite with mCE, which needs AlexNet's errors."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from robustvit.corruptions.conditions import CLEAN, Condition
from robustvit.corruptions.parameters import SEVERITIES
from robustvit.data.layouts import imagenet_c_pictures, suite_folder
from robustvit.data.readers.class_folders import LayoutError
from robustvit.evaluation.passes import MemoryPass, Pass
from robustvit.evaluation.statistics import Statistics, corruption_statistics, has_all
from robustvit.evaluation.suites.in_memory import COMMON15, copied_protocol
from robustvit.evaluation.suites.suite import Request, Suite, check_size
from robustvit.evaluation.tallied import Tallied
from robustvit.metrics.corruption_error import (
    corruption_errors,
    extra_corruption_errors,
    mean_corruption_error_of,
    relative_mean_corruption_error_of,
)
from robustvit.metrics.measures import MEAN_CORRUPTION_ERROR, RELATIVE_MEAN_CORRUPTION_ERROR
from robustvit.tasks.base import Task

__all__ = ["ImageNetC"]


class ImageNetC(Suite):
    name = "imagenet-c"
    summary = "ImageNet-C: the files on disk, or the same made in memory"
    has_severities = True

    def conditions(self, severities: Sequence[int]) -> tuple[Condition, ...]:
        return COMMON15.conditions(severities)

    def plan(self, request: Request) -> Pass:
        settings = request.settings
        asked = self.conditions(settings.severities)
        if request.is_path:
            root = suite_folder(request.data, self.name)
            found = imagenet_c_pictures(root, COMMON15.corruptions, settings.severities)
            if found:
                protocol = request.protocol(copied_protocol(request, root), published=True)
                return request.files_pass((self,), found, protocol, asked)
            if root != Path(request.data):
                raise LayoutError(
                    f"{root} is no ImageNet-C; expected {root}/CORRUPTION/SEVERITY/CLASS/IMAGE.JPEG. Without that folder, the "
                    "corruptions are made in memory"
                )
        protocol = request.protocol("imagenet-c")
        conditions = (CLEAN, *asked)
        check_size(protocol, conditions)
        samples = request.samples(protocol)
        return MemoryPass(
            suites=(self,),
            cells=conditions,
            cell_suites=(self.name,) * len(conditions),
            task=request.bound(samples, protocol),
            samples=samples,
            protocol=protocol,
            normalisation=request.normalisation,
            settings=settings,
            jpeg=settings.jpeg,
        )

    def statistics(self, task: Task, tallied: Tallied) -> Statistics:
        found, cells = corruption_statistics(task, tallied), tallied.cells
        if not _has_alexnet(task) or not has_all(cells, "common15"):
            return found
        own = {MEAN_CORRUPTION_ERROR.key: mean_corruption_error_of(cells)}
        if CLEAN in cells:
            own[RELATIVE_MEAN_CORRUPTION_ERROR.key] = relative_mean_corruption_error_of(cells)
        return found | Statistics(own)

    def corruption_errors(self, task: Task, tallied: Tallied) -> dict[str, float]:
        if not _has_alexnet(task):
            return {}
        ones = np.ones((1, len(tallied.ids)))
        known = {
            cell: task.score(row, ones)[task.primary.key][0] for cell, row in zip(tallied.cells, tallied.rows, strict=True)
        }
        names = dict.fromkeys(c.name for c in known if all(Condition(c.name, s) in known for s in SEVERITIES))
        errors = {name: [1 - known[Condition(name, s)] for s in SEVERITIES] for name in names}
        return {**corruption_errors(errors), **extra_corruption_errors(errors)}


def _has_alexnet(task: Task) -> bool:
    """Whether AlexNet's errors, which are of ImageNet's 1000 classes, apply."""
    return getattr(task, "is_imagenet", False)


IMAGENET_C = ImageNetC()
