"""What a suite is: a name that stands for samples and conditions, and the numbers that come out.

A new suite is one file with one subclass of `Suite`, registered in `suites/registry` or by an entry point `robustvit.suites`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from torch import nn

from robustvit.corruptions.conditions import CLEAN, Condition
from robustvit.corruptions.registry import CORRUPTIONS
from robustvit.evaluation.passes import Pass
from robustvit.evaluation.settings import Settings
from robustvit.evaluation.statistics import corruption_statistics
from robustvit.evaluation.tallied import Tallied
from robustvit.metrics.bootstrap import Statistic
from robustvit.tasks.base import Task

__all__ = ["Suite"]


class Suite(ABC):
    """One suite.

    Attributes:
        name: as a user types it.
        summary: what it measures, in a line, for help and docs.
        tasks: names of the tasks that it is for; empty for all.
        has_severities: whether `severity` chooses among its conditions.
        is_made_in_memory: whether it only adds conditions to the clean images, whatever the data are; see `shares_pass`.
    """

    name: str
    summary: str
    tasks: tuple[str, ...] = ()
    has_severities: bool = False
    is_made_in_memory: bool = False

    def shares_pass(self, settings: Settings) -> bool:
        """Whether it is measured in one pass with the others that are made in memory."""
        return self.is_made_in_memory

    def joins(self, other: Suite) -> bool:
        """Whether `plan_with` measures `other`, which was asked for later, in the same pass."""
        return False

    def conditions(self, severities: Sequence[int]) -> tuple[Condition, ...]:
        """What it adds to the clean images."""
        return ()

    @abstractmethod
    def plan(self, network: nn.Module, settings: Settings) -> Pass:
        """The pass that measures it, with everything checked that can be; `evaluation.planning` has its parts.

        Raises:
            ValueError: files are missing (LayoutError), classes do not match (ClassMismatchError), ...
        """

    def plan_with(self, others: Sequence[Suite], network: nn.Module, settings: Settings) -> Pass:
        """The pass of this suite and of `others`, which it `joins`; see `plan`."""
        return self.plan(network, settings)

    def group_of(self, corruption: str) -> str:
        """The group whose mean is given for several corruptions: "noise", "blur", ..."""
        return CORRUPTIONS[corruption].group

    def statistics(self, task: Task, tallied: Tallied) -> dict[str, Statistic]:
        """The numbers of the summary: key of a measure -> function of the primary measure in the cells."""
        return corruption_statistics(task, tallied)

    def extras(self, task: Task, tallied: Tallied) -> Mapping[str, float]:
        """Further numbers, without intervals."""
        return task.clean_extras(tallied.row(CLEAN)) if CLEAN in tallied.cells else {}

    def corruption_errors(self, task: Task, tallied: Tallied) -> dict[str, float]:
        """CE of each corruption, where AlexNet's errors apply."""
        return {}
