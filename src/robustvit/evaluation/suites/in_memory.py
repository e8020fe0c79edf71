"""Suites that add conditions to the clean images in memory: corruptions, and patches of noise. They share one pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from torch import nn

from robustvit.attacks.pixel_network import check_network, frozen
from robustvit.corruptions.conditions import CLEAN, PATCHES, Condition
from robustvit.corruptions.registry import corruption_names
from robustvit.data.readers.corrupted_images import copy_settings
from robustvit.evaluation.files_pass import FilesPass
from robustvit.evaluation.passes import MemoryPass, Pass
from robustvit.evaluation.planning import files_pass, input_size, memory_pass, protocol_for
from robustvit.evaluation.settings import Settings
from robustvit.evaluation.statistics import corruption_statistics
from robustvit.evaluation.suites.suite import Suite
from robustvit.evaluation.tallied import Tallied
from robustvit.metrics.bootstrap import Statistic
from robustvit.metrics.mean_accuracy import mean_accuracy_of
from robustvit.metrics.measures import Measure, register
from robustvit.runtime.memory import fits_memory
from robustvit.tasks.base import Task

__all__ = ["CorruptionSuite", "copied_protocol", "plan_together"]

PATCHES_ACCURACY = register(
    Measure(
        "patches_accuracy",
        "Accuracy with noise patches",
        "Top-1 accuracy with a random tenth of the patches replaced by noise.",
        family="shift",
        ranks=True,
        claim="gets {} right when a tenth of each image is noise",
    )
)


class _InMemory(Suite):
    is_made_in_memory = True

    def plan(self, network: nn.Module, settings: Settings) -> Pass:
        (planned,) = plan_in_memory(network, settings, [self])
        return planned


@dataclass(frozen=True)
class CorruptionSuite(_InMemory):
    """Corruptions at all severities that were asked for.

    Attributes:
        name: of the suite, or of one corruption.
        summary: see `Suite`.
        corruptions: their names.
    """

    name: str
    summary: str
    corruptions: tuple[str, ...]
    has_severities = True

    def conditions(self, severities: Sequence[int]) -> tuple[Condition, ...]:
        return tuple(Condition(name, severity) for name in self.corruptions for severity in severities)

    @staticmethod
    def group(name: str, summary: str) -> CorruptionSuite:
        """A set of corruptions that `corruption_names` knows."""
        return CorruptionSuite(name, summary, corruption_names(name))


class Clean(_InMemory):
    name = "clean"
    summary = "the images as they are"


class Patches(_InMemory):
    name = "patches"
    summary = "a random tenth of the patches replaced by noise"
    tasks = ("classification",)

    def conditions(self, severities: Sequence[int]) -> tuple[Condition, ...]:
        return (PATCHES,)

    def statistics(self, task: Task, tallied: Tallied) -> dict[str, Statistic]:
        own = {PATCHES_ACCURACY.key: mean_accuracy_of(tallied.cells, [PATCHES.name])}
        return {**corruption_statistics(task, tallied), **own}


CLEAN_SUITE = Clean()
PATCHES_SUITE = Patches()
COMMON15 = CorruptionSuite.group("common15", "the 15 common corruptions at 5 severities, made in memory")
ALL19 = CorruptionSuite.group("all19", "all 19 corruptions")
EXTRA4 = CorruptionSuite.group("extra4", "the 4 extra corruptions")
NOISE = CorruptionSuite.group("noise", "gaussian_noise, shot_noise and impulse_noise")
BLUR = CorruptionSuite.group("blur", "defocus_blur, glass_blur, motion_blur and zoom_blur")
WEATHER = CorruptionSuite.group("weather", "snow, frost, fog and brightness")
DIGITAL = CorruptionSuite.group("digital", "contrast, elastic_transform, pixelate and jpeg_compression")


def plan_in_memory(network: nn.Module, settings: Settings, suites: Sequence[Suite]) -> list[Pass]:
    """One pass for all of these suites and for the attacks of the settings; two where corrupted copies lie beside the images.

    Args:
        network: to be measured.
        settings: of the run.
        suites: made in memory; none where only attacks are wanted.
    """
    if not settings.is_path or not settings.task.has_copies(Path(settings.data)):
        return [plan_together(network, settings, suites)]
    copied = [suite for suite in suites if suite.has_severities]
    plain = [suite for suite in suites if not suite.has_severities]
    if plain or settings.attacks:
        settings.task.check_clean_beside(settings.data, "attacks" if settings.attacks else f"the suite {plain[0].name}")
    passes: list[Pass] = [plan_together(network, settings, plain)] if plain or settings.attacks else []
    return [*passes, *([_plan_copies(network, settings, copied)] if copied else [])]


def plan_together(network: nn.Module, settings: Settings, suites: Sequence[Suite]) -> Pass:
    """One pass for all of these suites and for the attacks of the settings; see `plan_in_memory`."""
    suites = suites or [CLEAN_SUITE]
    conditions = {CLEAN: CLEAN_SUITE.name, **_asked(settings, suites)}
    protocol = protocol_for(network, settings, "model")
    planned = memory_pass(network, settings, suites, conditions, protocol, attacks=settings.attacks)
    _check_attacks(planned)
    return planned


def _asked(settings: Settings, suites: Sequence[Suite]) -> dict[Condition, str]:
    """Conditions in the order of the suites -> name of the first suite that asks for them."""
    asked: dict[Condition, str] = {}
    for suite in suites:
        for condition in suite.conditions(settings.severities):
            asked.setdefault(condition, suite.name)
    return asked


def _check_attacks(planned: MemoryPass) -> None:
    if not planned.attacks:
        return
    task = planned.task
    if not task.can_be_attacked:
        raise ValueError(f"{task.name} says nothing of what {planned.attacks[0].name} should make large; leave attacks out")
    if foreign := [attack for attack in planned.attacks if attack.tasks and task.name not in attack.tasks]:
        kinds = " and ".join(foreign[0].tasks)
        raise ValueError(f"attacks such as {foreign[0].name} are for {kinds}, not for {task.name}; leave them out")
    pixels = planned.attacker().model
    with fits_memory(1, planned.protocol.size), frozen(pixels):
        check_network(pixels, planned.protocol.size)
        for attack in planned.attacks:
            attack.check(pixels, planned.protocol.size)


def _plan_copies(network: nn.Module, settings: Settings, suites: Sequence[Suite]) -> FilesPass:
    """The corruptions that a folder has as files, as `robustvit corrupt` writes them."""
    root = Path(settings.data)
    asked = _asked(settings, suites)
    names = tuple(dict.fromkeys(condition.name for condition in asked))
    found = settings.task.open_copies(root, names, settings.severities)
    protocol = protocol_for(network, settings, copied_protocol(network, settings, root), published=True)
    planned = files_pass(network, settings, suites, found, protocol, tuple(asked))
    return replace(planned, cell_suites=tuple(asked[cell] for cell in planned.cells))


def copied_protocol(network: nn.Module, settings: Settings, root: Path) -> str:
    """A centre crop of copies that were cropped to the size of the input already; whole or other ones as the network says."""
    copied = copy_settings(root)
    return "crop" if copied is None or input_size(network, settings) == (copied.get("size"),) * 2 else "model"
