"""The suites by name: ours, those of outside packages (entry points `robustvit.suites`), and every single corruption."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from robustvit.corruptions.parameters import SEVERITIES
from robustvit.runtime.plugins import Registry
from robustvit.runtime.spelling import nearest

if TYPE_CHECKING:
    from robustvit.evaluation.suites.suite import Suite

__all__ = ["DEFAULT_SUITE", "SUITES", "check_suites", "load_suites", "suite_named"]

DEFAULT_SUITE = "common15"
_HOME = "robustvit.evaluation.suites."
SUITES: Registry[Suite] = Registry(
    "robustvit.suites",
    {
        "clean": _HOME + "in_memory:CLEAN_SUITE",
        "common15": _HOME + "in_memory:COMMON15",
        "all19": _HOME + "in_memory:ALL19",
        "extra4": _HOME + "in_memory:EXTRA4",
        "noise": _HOME + "in_memory:NOISE",
        "blur": _HOME + "in_memory:BLUR",
        "weather": _HOME + "in_memory:WEATHER",
        "digital": _HOME + "in_memory:DIGITAL",
        "patches": _HOME + "in_memory:PATCHES_SUITE",
        "imagenet-c": _HOME + "imagenet_c:IMAGENET_C",
        "imagenet-c-fan17": _HOME + "imagenet_c:FAN17",
        "imagenet-a": _HOME + "imagenet_subsets:IMAGENET_A",
        "imagenet-r": _HOME + "imagenet_subsets:IMAGENET_R",
        "imagenet-sketch": _HOME + "imagenet_shifts:IMAGENET_SKETCH",
        "imagenet-v2": _HOME + "imagenet_shifts:IMAGENET_V2",
        "imagenet-p": _HOME + "imagenet_p:IMAGENET_P",
        "cifar10-c": _HOME + "cifar_c:CIFAR10_C",
        "cifar100-c": _HOME + "cifar_c:CIFAR100_C",
        "cityscapes-c": _HOME + "cityscapes_c:KAMANN",
        "cityscapes-c-all5": _HOME + "cityscapes_c:ALL5",
        "cityscapes-c-first3": _HOME + "cityscapes_c:FIRST3",
        "acdc": _HOME + "acdc:ACDC",
        "coco-c": _HOME + "coco_c:COCO_C",
        "coco-o": _HOME + "coco_o:COCO_O",
    },
)


def load_suites() -> None:
    """Imports all suites, whose files register their measures."""
    for name in SUITES:
        SUITES[name]


def suite_named(name: str) -> Suite:
    """The suite of this name.

    Raises:
        ValueError: there is none.
    """
    from robustvit.corruptions.registry import CORRUPTIONS
    from robustvit.evaluation.suites.in_memory import CorruptionSuite  # imports torch, which takes seconds

    if name in SUITES:
        return SUITES[name]
    if name in CORRUPTIONS:
        return CorruptionSuite(name, f"the corruption {name}", (name,))
    hint = nearest(name, [*SUITES, *CORRUPTIONS]).removesuffix("?")
    choice = f"choose among {', '.join(SUITES)}, or a corruption by its name"
    raise ValueError(f"there is no suite {name!r}{hint}; {choice}")


def check_suites(names: Sequence[str], severities: Sequence[int] = SEVERITIES) -> list[Suite]:
    """The suites of these names.

    Raises:
        ValueError: there is no such suite, or none of them has severities and not all five were asked for.
    """
    suites = [suite_named(name) for name in names]
    if tuple(severities) != SEVERITIES and not any(suite.has_severities for suite in suites):
        raise ValueError(
            f"severity {', '.join(map(str, severities))} has no effect on {', '.join(names) or 'attacks'}; choose a suite "
            "with corruptions, such as common15 or fog"
        )
    return suites
