"""An estimate with the interval around it."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Interval"]


@dataclass(frozen=True)
class Interval:
    """An estimate and the interval around it, with what is needed to compute both again.

    Attributes:
        estimate: the number itself.
        low, high: ends of the interval; NaN where the images cannot tell.
        level: of confidence.
        resamples, seed: of a bootstrap; 0 where nothing was drawn.
    """

    estimate: float
    low: float
    high: float
    level: float
    resamples: int = 0
    seed: int = 0
