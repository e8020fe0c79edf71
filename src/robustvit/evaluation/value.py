"""A number with its interval."""

from __future__ import annotations

from dataclasses import dataclass

from robustvit.metrics.intervals import Interval

__all__ = ["Value"]


@dataclass(frozen=True)
class Value:
    """A number with its interval (`low` and `high` are None where there is none)."""

    value: float
    low: float | None = None
    high: float | None = None

    def negative(self) -> Value:
        return Value(-self.value, None if self.high is None else -self.high, None if self.low is None else -self.low)

    @staticmethod
    def of(interval: Interval) -> Value:
        """The estimate with its interval, where there is one."""
        low, high = (None if bound != bound else bound for bound in (interval.low, interval.high))
        return Value(interval.estimate, low, high)
