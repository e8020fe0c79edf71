"""ImageNet-A and ImageNet-R: natural images of 200 classes each; only these compete."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from torch import nn

from robustvit.data.layouts import suite_folder
from robustvit.evaluation.passes import Pass
from robustvit.evaluation.planning import plain_pass, protocol_for, samples_for
from robustvit.evaluation.settings import Settings
from robustvit.evaluation.suites.suite import Suite
from robustvit.evaluation.tallied import Tallied
from robustvit.metrics.bootstrap import Statistic
from robustvit.metrics.cells import clean_accuracy_of
from robustvit.metrics.measures import Measure, register
from robustvit.tasks.base import Task

__all__ = ["IMAGENET_A", "IMAGENET_R", "ImageNetSubset"]


class ImageNetSubset(Suite):
    """Args: letter: "a" or "r"."""

    tasks = ("classification",)

    def __init__(self, letter: Literal["a", "r"]) -> None:
        self.letter: Literal["a", "r"] = letter
        title = f"ImageNet-{letter.upper()}"
        self.name = title.lower()
        self.summary = f"{title}; only its 200 classes compete"
        self.measure = register(
            Measure(
                f"imagenet_{letter}_accuracy",
                f"{title} accuracy",
                f"Top-1 accuracy on {title}; only the 200 classes of that set compete.",
                family="shift",
                ranks=True,
                claim=f"gets {{}} of {title} right",
            )
        )

    def plan(self, network: nn.Module, settings: Settings) -> Pass:
        protocol = protocol_for(network, settings, "model", published=True)
        is_folder = settings.is_path and Path(settings.data).is_dir()
        samples = samples_for(settings, protocol, suite_folder(settings.data, self.name) if is_folder else None)
        return plain_pass(network, settings, self, samples, protocol, subset=self.letter)

    def statistics(self, task: Task, tallied: Tallied) -> dict[str, Statistic]:
        return {self.measure.key: clean_accuracy_of(tallied.cells)}

    def extras(self, task: Task, tallied: Tallied) -> Mapping[str, float]:
        return {}


IMAGENET_A = ImageNetSubset("a")
IMAGENET_R = ImageNetSubset("r")
