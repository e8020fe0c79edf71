"""ImageNet-C: the published files, or the same made in memory, over the 15 common corruptions or over the 17 of FAN and STL.

FAN and STL print accuracy and retention over 17 corruptions: 4 blurs (motion, defocus, glass, gaussian), 4 noises (gaussian,
impulse, shot, speckle), 4 digital (contrast, saturate, jpeg, pixelate) and 5 weather (brightness, snow, fog, frost, spatter),
without zoom_blur and elastic_transform. mCE, which needs AlexNet's errors, is over the common 15 in all papers, and without
noise over 12 in AFAT's. Both suites share a pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from torch import nn

from robustvit.corruptions.conditions import CLEAN, Condition
from robustvit.corruptions.parameters import SEVERITIES
from robustvit.corruptions.registry import corruption_names
from robustvit.data.layouts import imagenet_c_images, suite_folder
from robustvit.data.readers.class_folders import LayoutError
from robustvit.evaluation.passes import Pass
from robustvit.evaluation.planning import files_pass, memory_pass, protocol_for
from robustvit.evaluation.settings import Settings
from robustvit.evaluation.statistics import corruption_statistics, has_all
from robustvit.evaluation.suites.in_memory import copied_protocol
from robustvit.evaluation.suites.suite import Suite
from robustvit.evaluation.tallied import Tallied
from robustvit.metrics.bootstrap import Statistic
from robustvit.metrics.corruption_error import (
    corruption_errors,
    extra_corruption_errors,
    mean_corruption_error_of,
    relative_mean_corruption_error_of,
)
from robustvit.metrics.mean_accuracy import mean_accuracy_of
from robustvit.metrics.measures import (
    MEAN_ACCURACY,
    MEAN_CORRUPTION_ERROR,
    MEAN_CORRUPTION_ERROR_WITHOUT_NOISE,
    RATIO,
    RELATIVE_MEAN_CORRUPTION_ERROR,
    RETENTION,
    Measure,
    register,
)
from robustvit.metrics.retention import retention_of
from robustvit.tasks.base import Task
from robustvit.tasks.classification import Classification

__all__ = ["ImageNetC"]

ACCURACY_FAN17 = register(
    Measure(
        "imagenet_c_accuracy_fan17",
        "ImageNet-C accuracy (fan17)",
        "Top-1 accuracy on ImageNet-C, averaged over 17 corruptions and their 5 severities: all but zoom_blur and "
        "elastic_transform. This is what FAN and STL print.",
        short="ImageNet-C accuracy (fan17)",
        family="corruption",
        ranks=True,
        refines=MEAN_ACCURACY.key,
    )
)
RETENTION_FAN17 = register(
    Measure(
        "imagenet_c_retention_fan17",
        "Retention, ImageNet-C (fan17)",
        "Accuracy on ImageNet-C over 17 corruptions (all but zoom_blur and elastic_transform), divided by that on clean "
        "images: what FAN and STL print.",
        short="retention, ImageNet-C (fan17)",
        unit=RATIO,
        family="retention",
        refines=RETENTION.key,
    )
)


class ImageNetC(Suite):
    """Args: name, summary: see `Suite`. corruption_set: a set that `corruption_names` knows."""

    tasks = ("classification",)
    has_severities = True
    folder = "imagenet-c"

    def __init__(self, name: str, summary: str, corruption_set: str) -> None:
        self.name, self.summary, self.corruption_set = name, summary, corruption_set

    def conditions(self, severities: Sequence[int]) -> tuple[Condition, ...]:
        return tuple(Condition(name, severity) for name in corruption_names(self.corruption_set) for severity in severities)

    def joins(self, other: Suite) -> bool:
        return isinstance(other, ImageNetC)

    def plan(self, network: nn.Module, settings: Settings) -> Pass:
        return self.plan_with((), network, settings)

    def plan_with(self, others: Sequence[Suite], network: nn.Module, settings: Settings) -> Pass:
        suites = (self, *others)
        asked: dict[Condition, str] = {}  # condition -> the first suite that asks for it
        for suite in suites:
            asked = {**dict.fromkeys(suite.conditions(settings.severities), suite.name), **asked}
        if settings.is_path:
            root = suite_folder(settings.data, self.folder)
            found = imagenet_c_images(root, [*dict.fromkeys(c.name for c in asked)], settings.severities)
            if found:
                own = copied_protocol(network, settings, root)
                protocol = protocol_for(network, settings, own, published=True)
                planned = files_pass(network, settings, suites, found, protocol, tuple(asked))
                return replace(planned, cell_suites=tuple(asked[cell] for cell in planned.cells))
            if root != Path(settings.data):
                raise LayoutError(
                    f"{root} is no ImageNet-C; expected {root}/CORRUPTION/SEVERITY/CLASS/IMAGE.JPEG. Without that folder, the "
                    "corruptions are made in memory"
                )
        protocol = protocol_for(network, settings, "imagenet-c")
        conditions = {CLEAN: self.name, **asked}
        return memory_pass(network, settings, suites, conditions, protocol, jpeg=settings.jpeg)

    def statistics(self, task: Task, tallied: Tallied) -> dict[str, Statistic]:
        found, cells = corruption_statistics(task, tallied), tallied.cells
        if has_all(cells, "fan17"):
            found[ACCURACY_FAN17.key] = mean_accuracy_of(cells, "fan17")
            if RETENTION.key in found:
                found[RETENTION_FAN17.key] = retention_of(cells, "fan17")
        if _has_alexnet(task) and has_all(cells, "noiseless12"):
            found[MEAN_CORRUPTION_ERROR_WITHOUT_NOISE.key] = mean_corruption_error_of(cells, corruption_set="noiseless12")
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


IMAGENET_C = ImageNetC(
    "imagenet-c", "ImageNet-C, the 15 common corruptions: the files on disk, or the same made in memory", "common15"
)
FAN17 = ImageNetC(
    "imagenet-c-fan17",
    "ImageNet-C, 17 corruptions: all but zoom_blur and elastic_transform (accuracy and retention of FAN and STL)",
    "fan17",
)
