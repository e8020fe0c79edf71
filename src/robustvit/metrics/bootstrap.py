"""Percentile bootstrap: how far a score could lie from what one draw of test images shows.

Images are drawn with replacement. Cells (clean, fog at severity 3, ...) that show the same images are resampled together,
so that a score made of several cells, such as mCE or retention, keeps their correlation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robustvit.metrics.arrays import ArrayLike, FloatArray, require_fractions, to_floats
from robustvit.metrics.intervals import Interval

__all__ = [
    "FEW_IMAGES",
    "SAME",
    "Drawn",
    "Statistic",
    "bootstrap_differences",
    "bootstrap_intervals",
    "bootstrap_scores",
    "drawn_scores",
    "resampled_counts",
]

Statistic = Callable[[FloatArray], FloatArray]
"""Accuracies of the cells [..., cells] -> score [...]."""

FEW_IMAGES = 30
"""With fewer, draws resemble each other too much: intervals of a percentile bootstrap are too narrow."""
SAME = 1e-12
"""Scores that differ by less are equal: their sums were rounded otherwise."""
_COUNTS_AT_ONCE = 4_000_000


def resampled_counts(n: int, resamples: int, seed: int, strata: NDArray[np.intp] | None = None) -> Iterator[FloatArray]:
    """Of `resamples` draws of n samples each, how often each sample was drawn: float [some, n], in parts of bounded size.

    Args:
        n: number of samples.
        resamples: number of draws.
        seed: of the draws.
        strata: [n], the stratum of each sample: every draw has as many of each as there are; None for one of all.
    """
    generator = np.random.default_rng(seed)
    at_once = max(1, _COUNTS_AT_ONCE // n)
    members = [np.arange(n)] if strata is None else [np.flatnonzero(strata == one) for one in np.unique(strata)]
    for start in range(0, resamples, at_once):
        rows = min(resamples - start, at_once)
        counts = np.zeros((rows, n))
        for own in members:
            m = len(own)
            drawn = generator.integers(0, m, size=(rows, m)) + m * np.arange(rows)[:, None]
            counts[:, own] = np.bincount(drawn.ravel(), minlength=rows * m).reshape(rows, m)
        yield counts


@dataclass(frozen=True, eq=False)
class Drawn:
    """The scores of cells that show the same samples.

    Attributes:
        whole: [cells], of all samples.
        drawn: [resamples, cells], of every draw.
        seed: of the draws.
    """

    whole: FloatArray
    drawn: FloatArray
    seed: int

    def interval(self, number: Statistic, level: float = 0.95) -> Interval:
        """Of a number that is made of the scores.

        Where every draw gives the same number (all samples right, or one sample), there is nothing to learn from draws: the
        interval is NaN to NaN, not a point.

        Args:
            number: scores [..., cells] -> [...].
            level: of confidence; the interval lies between the quantiles (1 - level)/2 and (1 + level)/2.
        """
        resamples = len(self.drawn)
        numbers = number(self.drawn)
        if np.shape(numbers) != (resamples,):
            raise ValueError(
                f"the statistic must turn [{resamples}, cells] into [{resamples}], got shape {list(np.shape(numbers))}"
            )
        ends = [(1 - level) / 2, (1 + level) / 2]
        low, high = (np.nan, np.nan) if np.ptp(numbers) < SAME else np.quantile(numbers, ends)
        return Interval(float(number(self.whole)), float(low), float(high), level, resamples, self.seed)


def drawn_scores(
    scores: Callable[[FloatArray], FloatArray],
    n: int,
    *,
    resamples: int = 1000,
    seed: int = 0,
    strata: NDArray[np.intp] | None = None,
) -> Drawn:
    """The scores of cells for all samples and for draws of them; arguments as for `bootstrap_intervals`."""
    drawn = np.concatenate([scores(counts) for counts in resampled_counts(n, resamples, seed, strata)])
    return Drawn(scores(np.ones((1, n)))[0], drawn, seed)


def bootstrap_intervals(
    scores: Callable[[FloatArray], FloatArray],
    n: int,
    statistics: Mapping[str, Statistic],
    *,
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
    strata: NDArray[np.intp] | None = None,
) -> dict[str, Interval]:
    """Intervals for numbers of cells that show the same samples, all from the same draws; see `Drawn.interval`.

    Args:
        scores: counts [R, n] -> the scores of the cells [R, cells] for these choices of samples.
        n: number of samples.
        statistics: name -> number, from the scores of the cells.
        level: of confidence.
        resamples: number of draws.
        seed: of the draws.
        strata: see `resampled_counts`.
    """
    drawn = drawn_scores(scores, n, resamples=resamples, seed=seed, strata=strata)
    return {name: drawn.interval(number, level) for name, number in statistics.items()}


def bootstrap_scores(
    outcomes: ArrayLike, statistics: Mapping[str, Statistic], *, level: float = 0.95, resamples: int = 1000, seed: int = 0
) -> dict[str, Interval]:
    """Intervals for scores of cells that show the same images, all from the same draws.

    Where every draw gives the same score (all images right, or one image), there is nothing to learn from draws: the
    interval is NaN to NaN, not a point.

    Args:
        outcomes: [cells, images], each in 0..1; column j is the same image in every cell.
        statistics: name -> accuracies [..., cells] -> score [...]; such as `mean_corruption_error_of(cells)`.
        level: of confidence; the interval lies between the quantiles (1 - level)/2 and (1 + level)/2.
        resamples: number of draws.
        seed: of the draws.
    """
    values = to_floats(outcomes, "outcomes")
    if values.ndim != 2 or not values.size:
        raise ValueError(f"outcomes must be [cells, images] and not empty, got shape {list(values.shape)}")
    require_fractions(values, "outcomes")
    if not 0 < level < 1 or resamples < 1:
        raise ValueError(f"level={level:g} with resamples={resamples} is not possible; give 0 < level < 1 and resamples >= 1")
    n = values.shape[1]
    return bootstrap_intervals(
        lambda counts: counts @ values.T / n, n, statistics, level=level, resamples=resamples, seed=seed
    )


def bootstrap_differences(
    first: ArrayLike,
    second: ArrayLike,
    statistics: Mapping[str, Statistic],
    *,
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> dict[str, Interval]:
    """Paired intervals for `score(first) - score(second)` of two networks that saw the same images.

    A draw takes the same images for both, so that what makes an image hard for either does not widen the interval.

    Args:
        first, second: [cells, images] of each; the same cells, and column j the same image.
        statistics, level, resamples, seed: see `bootstrap_scores`.
    """
    one, other = to_floats(first, "first"), to_floats(second, "second")
    if one.shape != other.shape or one.ndim != 2:
        raise ValueError(
            f"both networks need outcomes [cells, images] of the same cells and images, got {list(one.shape)} and "
            f"{list(other.shape)}"
        )
    C = len(one)
    paired = {name: _difference(score, C) for name, score in statistics.items()}
    return bootstrap_scores(np.concatenate([one, other]), paired, level=level, resamples=resamples, seed=seed)


def _difference(score: Statistic, C: int) -> Statistic:
    """Of the accuracies of two networks, C cells each."""
    return lambda accuracies: score(accuracies[..., :C]) - score(accuracies[..., C:])
