"""What an attack is to an evaluation: an object that runs, says its settings, and can be repeated."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from robustvit.attacks.pixel_network import PixelNetwork
from robustvit.runtime.randomness import keyed_seed

__all__ = ["FIT_BATCH", "FIT_REMEDY", "Attack", "Batches", "SampleIds"]

SampleIds = Sequence[int | str] | None

FIT_BATCH = 16
"""Pictures of a step in which an attack learns, whatever the batch size of the evaluation."""
FIT_REMEDY = "--corruption-model takes a network that is trained already"
"""What to do where they do not fit memory."""

Batches = Iterator[Tensor]
"""Pixels float [16, 3, H, W] in 0 .. 1, without end."""


@dataclass(frozen=True)
class Attack(ABC):
    """What changes pictures so that a network errs. A call takes and gives pixels [B, 3, H, W] in 0 .. 1."""

    name: ClassVar[str]

    @property
    def key(self) -> str:
        """Its name in the names of numbers: "patch_fool" of "patch_fool_accuracy"."""
        return self.name.replace("-", "_")

    @property
    def rows(self) -> tuple[str, ...]:
        """What its results are called, one row of results each."""
        return (self.name,)

    @property
    def learns_from(self) -> int:
        """How many pictures it sees before the first attack (`ready`)."""
        return 0

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """All settings, for the results."""

    def check(self, model: PixelNetwork, size: tuple[int, int]) -> None:
        """Raises ValueError or RuntimeError if this network cannot be attacked so, with pictures of `size`."""
        return

    def ready(self, model: PixelNetwork, batches: Batches, seed: int) -> Attack:
        """The attack to run against this network, after whatever has to be learned before."""
        return self

    def row_seed(self, seed: int, row: int) -> int:
        """The seed of a row; the first one has the seed of the run."""
        return seed if row == 0 else keyed_seed(seed, row, self.name) >> 1

    @abstractmethod
    def __call__(
        self,
        model: PixelNetwork,
        images: Tensor,
        labels: Tensor,
        *,
        seed: int = 0,
        sample_ids: SampleIds = None,
    ) -> Tensor: ...
