"""How numbers come out of tallies: the part of a task that statistics, cells and comparisons need.

Most passes are scored by their task. One that shows something else than single samples, as films, has a scoring of its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from robustvit.corruptions.conditions import Condition
from robustvit.metrics.intervals import Interval
from robustvit.metrics.measures import Measure
from robustvit.tasks.curves import Curves
from robustvit.tasks.per_class import ClassResult
from robustvit.tasks.prediction_table import PredictionTable
from robustvit.tasks.tallies import Tallies, Tally

__all__ = ["Scoring"]


class Scoring(ABC):
    """From what single samples contribute to all numbers, for any choice of samples.

    Attributes:
        primary: the measure that statistics over cells are about.
        is_share: whether it is the mean of a number in 0 .. 1 over the samples, as an accuracy is. Then a mean over cells has
            Wilson's interval where a bootstrap learns nothing.
        further: key of another number of `score` -> key that it has in summaries, where it is of the clean samples.
        resamples: draws of a bootstrap; fewer where a number takes long.
        ranks_samples: whether the primary measure of one sample alone says how well that sample went; then the report shows
            the worst ones.
    """

    primary: ClassVar[Measure]
    is_share: ClassVar[bool] = False
    further: ClassVar[Mapping[str, str]] = {}
    resamples: ClassVar[int] = 1000
    ranks_samples: ClassVar[bool] = False

    @abstractmethod
    def tally(self, prediction: Any, target: Any) -> Tally:
        """What one sample contributes: sufficient statistics, the same names for every sample."""

    @abstractmethod
    def score(self, tallies: Tallies, counts: np.ndarray) -> dict[str, np.ndarray]:
        """All numbers that have intervals, the primary one among them.

        Args:
            tallies: of N samples.
            counts: [R, N] how often each sample counts, for R choices of samples.

        Returns:
            Key of a measure -> [R].
        """

    def scores(self, tallies: Tallies) -> dict[str, float]:
        """The numbers of `score`, of all samples."""
        return {key: float(value[0]) for key, value in self.score(tallies, np.ones((1, len(tallies)))).items()}

    def sample_scores(self, tallies: Tallies) -> np.ndarray:
        """The primary measure of every sample alone: float [N]; NaN where a sample has none."""
        scores = (self.score(part, np.eye(len(part)))[self.primary.key] for part in tallies.blocks())
        return np.concatenate([np.zeros(0), *scores])

    def interval(self, key: str, tallies: Tallies) -> Interval | None:
        """An interval of a number of `score` that is better than a bootstrap's, if there is one."""
        return None

    def extras(self, tallies: Tallies) -> dict[str, float]:
        """Further numbers, without intervals: key of a measure -> value."""
        return {}

    def clean_extras(self, tallies: Tallies) -> dict[str, float]:
        """Further numbers of the summary, from the clean samples: key of a measure -> value."""
        return {}

    def has_same_targets(self, first: Tallies, second: Tallies) -> bool:
        """Whether the tallies of samples with the same ids are of the same samples, as far as their targets tell."""
        return True

    def hardest(self, rows: Sequence[Tallies]) -> Tallies | None:
        """For each sample the worst of its tallies in several rows; None where nothing can be said."""
        return None

    def per_class(self, conditions: Sequence[Condition], rows: Sequence[Tallies]) -> tuple[ClassResult, ...]:
        """The classes one by one, from the tallies of the same samples under each condition; empty where there are none.

        `tasks.per_class.class_result` makes one of them from its scores under each condition.
        """
        return ()

    def curves(self, conditions: Sequence[Condition], rows: Sequence[Tallies]) -> tuple[Curves, ...]:
        """What says more than one number, for figures of the report; `tasks.curves.curves_of` makes one of them."""
        return ()

    def predictions(
        self, network: str, suites: Sequence[str], conditions: Sequence[Condition], ids: Sequence[str], rows: Sequence[Tallies]
    ) -> PredictionTable | None:
        """Every prediction as a table: predictions.csv; None where they do not fit into one."""
        return None
