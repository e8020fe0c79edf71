"""The numbers of one cell: one suite, condition and severity."""

from __future__ import annotations

from dataclasses import dataclass, field

from robustvit.evaluation.value import Value
from robustvit.metrics.measures import ACCURACY, is_measure, measure_of

__all__ = ["CellResult"]


@dataclass(frozen=True)
class CellResult:
    """One suite, condition and severity.

    Attributes:
        suite: which suite asked for it ("clean", "common15", "imagenet-a", ...).
        condition: "clean", a corruption, "patches", an attack or a sequence type.
        severity: 1 to 5; 0 where there is none.
        images: samples that were measured.
        values: key of a measure -> number, the primary one first; of a classifier accuracy with its interval,
            calibration_error, no_answer, and under an attack largest_change, change_norm and changed_pixels; of a sequence
            type flip_probability and top5_distance.
    """

    suite: str
    condition: str
    severity: int
    images: int
    values: dict[str, Value] = field(default_factory=dict)

    def number(self, key: str) -> float | None:
        """The value of a measure; None where it was not measured."""
        return self.values[key].value if key in self.values else None

    def __getattr__(self, key: str) -> float | None:
        """The value of any measure by its key: `cell.calibration_error`; None where it was not measured."""
        values = self.__dict__.get("values", {})  # which is not there yet while a copy is made
        if key in values:
            return values[key].value
        if key.startswith("_") or not is_measure(key) or measure_of(key).family != "cell":
            raise AttributeError(f"a cell has no measure {key!r}; this one has {', '.join(values)}")
        return None

    @property
    def main(self) -> Value | None:
        """The primary measure."""
        return next(iter(self.values.values()), None)

    @property
    def accuracy(self) -> Value | None:
        """Top-1, with interval; None for tasks and sequences without."""
        return self.values.get(ACCURACY.key)

    @property
    def no_answer(self) -> int:
        """Images for which the network gave numbers that are not finite; they count as wrong."""
        return int(self.number("no_answer") or 0)
