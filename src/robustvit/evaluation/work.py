"""One network at work: where its finished batches are kept, who shares the work, and who hears about progress."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from torch import nn

from robustvit.runtime.interruption import check_interrupted
from robustvit.runtime.processes import Processes
from robustvit.runtime.stored_work import StoredWork

__all__ = ["NetworkWork", "Report"]

Report = Callable[[str, int, int], None]
"""Callback for progress: (what is being done, steps done, steps in all)."""


@dataclass(frozen=True)
class NetworkWork:
    """The surroundings of one network.

    Attributes:
        name: of the network.
        network: in evaluation mode, on its device.
        stored: for finished batches; None for nowhere.
        processes: that share the work.
        report: callback for progress.
    """

    name: str
    network: nn.Module
    stored: StoredWork | None = None
    processes: Processes = field(default_factory=Processes)
    report: Report | None = None

    def part(self, name: str) -> StoredWork | None:
        """Where one part of the work is stored."""
        return self.stored.below(name) if self.stored else None

    def is_mine(self, number: int) -> bool:
        """Whether a batch of this number is for this process."""
        return number % self.processes.world == self.processes.rank

    def counter(self, what: str, total: int) -> Callable[[int], None]:
        """A function that counts steps, reports them, and raises where the run was interrupted."""
        count = 0

        def step(steps: int) -> None:
            nonlocal count
            check_interrupted()
            count += steps
            if self.report is not None:
                self.report(f"{self.name}: {what}", count, max(total, count))

        return step
