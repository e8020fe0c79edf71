"""CIFAR-10-C and CIFAR-100-C, as they are published: one array of images per corruption.

Corrupted images become the input as the clean ones do, by the protocol "model". AFAT's networks for 224 pixels were measured
so: resized to 256 pixels, bicubic, centre crop of 224.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from torch import nn

from robustvit.corruptions.conditions import Condition
from robustvit.data.layouts import cifar_c_images, suite_folder
from robustvit.evaluation.passes import Pass
from robustvit.evaluation.planning import files_pass, protocol_for
from robustvit.evaluation.settings import Settings
from robustvit.evaluation.suites.in_memory import COMMON15
from robustvit.evaluation.suites.suite import Suite

__all__ = ["CIFAR10_C", "CIFAR100_C", "CifarC"]


class CifarC(Suite):
    """Args: classes: 10 or 100."""

    tasks = ("classification",)
    has_severities = True

    def __init__(self, classes: Literal[10, 100]) -> None:
        self.dataset = f"cifar{classes}"
        self.name = f"{self.dataset}-c"
        self.summary = f"CIFAR-{classes}-C: CORRUPTION.npy and labels.npy"

    def conditions(self, severities: Sequence[int]) -> tuple[Condition, ...]:
        return COMMON15.conditions(severities)

    def plan(self, network: nn.Module, settings: Settings) -> Pass:
        if not settings.is_path:
            raise ValueError(f"the suite {self.name!r} reads files; give the folder that has them")
        protocol = protocol_for(network, settings, "model")
        place = suite_folder(settings.data, self.name)
        found = cifar_c_images(place, COMMON15.corruptions, settings.severities, kind=self.dataset)
        return files_pass(network, settings, [self], found, protocol)


CIFAR10_C = CifarC(10)
CIFAR100_C = CifarC(100)
