"""How numbers are named and written in the report."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from markupsafe import Markup, escape

from robustvit.evaluation.results import Value
from robustvit.metrics.bootstrap import SAME

__all__ = [
    "MISSING",
    "Measure",
    "breakable",
    "change",
    "change_interval",
    "count",
    "duration",
    "interval",
    "is_clear",
    "is_number",
    "mean",
    "measure_of",
    "moment",
    "percent",
    "quantity",
    "quantity_interval",
    "range_percent",
    "verdict",
    "words",
]

MISSING = "\N{EN DASH}"
"""Stands for what was not measured or is not a number."""
NBSP = "\N{NO-BREAK SPACE}"


@dataclass(frozen=True)
class Measure:
    """A number of the summary.

    Attributes:
        label: what the page calls it.
        higher_is_better: False for errors.
    """

    label: str
    higher_is_better: bool = True


_MEASURES = {
    "retention": Measure("Retention"),
    "clean_accuracy": Measure("Clean accuracy"),
    "mean_accuracy_15": Measure("Accuracy, 15 common corruptions"),
    "mean_accuracy_19": Measure("Accuracy, all 19 corruptions"),
    "mean_accuracy": Measure("Accuracy under corruption"),
    "mean_corruption_error": Measure("mCE", higher_is_better=False),
    "relative_mean_corruption_error": Measure("Relative mCE", higher_is_better=False),
    "autoattack_accuracy": Measure("Accuracy under AutoAttack"),
    "pgd_accuracy": Measure("Accuracy under PGD"),
    "fgsm_accuracy": Measure("Accuracy under FGSM"),
    "patch_fool_accuracy": Measure("Accuracy under Patch-Fool"),
    "patches_adversarial_accuracy": Measure("Accuracy, chosen patches covered"),
    "patches_random_accuracy": Measure("Accuracy, random patches covered"),
    "patches_random_worst": Measure("Random patches, worst mask"),
    "patches_random_spread": Measure("Random patches, spread", higher_is_better=False),
    "expected_calibration_error": Measure("Calibration error", higher_is_better=False),
    "imagenet_a_accuracy": Measure("ImageNet-A accuracy"),
    "imagenet_r_accuracy": Measure("ImageNet-R accuracy"),
    "patches_accuracy": Measure("Accuracy with noise patches"),
    "mean_flip_rate": Measure("mFR", higher_is_better=False),
    "mean_flip_probability": Measure("Flip probability", higher_is_better=False),
    "mean_top5_distance": Measure("Top-5 distance", higher_is_better=False),
}
ORDER = tuple(_MEASURES)
"""In which the page shows them; others follow."""


def measure_of(name: str) -> Measure:
    """The measure called `name` in a summary; unknown ones are named after it, and count as errors if they say so."""
    known, _, suite = name.partition(" (")
    if known in _MEASURES:
        measure = _MEASURES[known]
        return replace(measure, label=f"{measure.label} ({suite}") if suite else measure
    return Measure(words(name).capitalize(), higher_is_better=not any(word in name for word in ("error", "flip", "distance")))


def is_number(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def mean(values: Iterable[float | None]) -> float | None:
    """Of the finite ones; None where there are none."""
    kept = [value for value in values if value is not None and math.isfinite(value)]
    return sum(kept) / len(kept) if kept else None


def percent(value: float | None, digits: int = 1, sign: bool = True) -> str:
    """0.714 -> "71.4 %"; `sign=False` leaves out the unit."""
    if value is None or not math.isfinite(value):
        return MISSING
    return f"{100 * value:.{digits}f}" + (f"{NBSP}%" if sign else "")


def quantity(name: str, value: float | None) -> str:
    """A number of a summary, in its unit: all are shares but distances."""
    return f"{value:.2f}" if "distance" in name and value is not None and math.isfinite(value) else percent(value)


def range_percent(low: float | None, high: float | None) -> str:
    """(0.69, 0.73) -> "69.0 to 73.0 %"; empty where there is no interval."""
    if not (is_number(low) and is_number(high)):
        return ""
    return f"{percent(low, sign=False)} to {percent(high)}"


def interval(value: Value | None) -> str:
    """As `range_percent`, of a value."""
    return "" if value is None else range_percent(value.low, value.high)


def quantity_interval(name: str, value: Value | None) -> str:
    """The interval of a number of a summary, in its unit."""
    if value is None or "distance" not in name:
        return interval(value)
    if value.low is None or value.high is None or not (is_number(value.low) and is_number(value.high)):
        return ""
    return f"{value.low:.2f} to {value.high:.2f}"


def change(name: str, value: float | None) -> str:
    """A difference of two numbers of a summary: in points of a hundred, with its sign; distances in their unit."""
    if value is None or not math.isfinite(value):
        return MISSING
    number, digits = (value, 2) if "distance" in name else (100 * value, 1)
    rounded = round(number, digits)
    return f"{rounded:+.{digits}f}".replace("-", "\N{MINUS SIGN}") if rounded else f"{0:.{digits}f}"


def change_interval(name: str, value: Value | None) -> str:
    """The interval of a difference, as `change` writes its ends; empty where there is none."""
    if value is None or not (is_number(value.low) and is_number(value.high)):
        return ""
    return f"{change(name, value.low)} to {change(name, value.high)}"


def is_clear(value: Value | None) -> bool | None:
    """Whether the interval of a difference leaves out 0; None where there is none."""
    if value is None or value.low is None or value.high is None:
        return None
    return value.low > 0 or value.high < 0


def verdict(value: Value | None) -> str:
    """What the interval of a difference says, in words; empty where the difference is clear, or there is none to speak of."""
    if value is None or not math.isfinite(value.value):
        return ""
    is_zero = abs(value.value) < SAME
    if is_clear(value) is None:
        return "no picture tells them apart" if is_zero else "too few pictures to tell"
    if is_clear(value):
        return ""
    return "equal on average" if is_zero else "may be chance"


def count(number: int) -> str:
    """1234567 -> "1,234,567"."""
    return f"{number:,}"


def duration(seconds: float) -> str:
    """4000 -> "1 h 7 min"."""
    if not math.isfinite(seconds):
        return MISSING
    if seconds < 60:
        return f"{seconds:.1f}{NBSP}s"
    minutes = round(seconds / 60)
    return f"{minutes}{NBSP}min" if minutes < 60 else f"{minutes // 60}{NBSP}h {minutes % 60}{NBSP}min"


def moment(created: str) -> str:
    """2026-01-31T12:00:00+00:00 -> "31 January 2026, 12:00 UTC"; anything else as it is."""
    try:
        when = datetime.fromisoformat(created)
    except ValueError:
        return created
    zone = f" {when.tzname()}" if when.tzinfo else ""
    return f"{when.day} {when:%B %Y, %H:%M}{zone}"


def breakable(name: str) -> Markup:
    """The name as HTML that may break after / _ - and dots."""
    return Markup(re.sub(r"([/_.-])", r"\1<wbr>", str(escape(name))))


def words(name: str) -> str:
    """gaussian_noise -> "gaussian noise"; "JPEG" keeps its capitals."""
    return name.replace("_", " ").replace("jpeg", "JPEG")
