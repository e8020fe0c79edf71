"""How numbers are named and written in the report."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from markupsafe import Markup, escape

from robustvit.evaluation.results import Value
from robustvit.metrics.bootstrap import SAME
from robustvit.metrics.measures import SHARE, Unit, measure_of

__all__ = [
    "MISSING",
    "breakable",
    "change",
    "change_interval",
    "condition_label",
    "count",
    "duration",
    "interval",
    "is_clear",
    "is_number",
    "mean",
    "moment",
    "percent",
    "points",
    "quantity",
    "quantity_interval",
    "range_percent",
    "verdict",
    "with_minus_signs",
    "words",
]

MISSING = "\N{EN DASH}"
"""Stands for what was not measured or is not a number."""
NBSP = "\N{NO-BREAK SPACE}"
MINUS = "\N{MINUS SIGN}"
_BEFORE_A_NUMBER = r"(?<![\w.)\]-])-"
"""A hyphen that is a sign, not one within a name, a range or an option."""


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
    return with_minus_signs(f"{100 * value:.{digits}f}") + (f"{NBSP}%" if sign else "")


def with_minus_signs(text: str) -> str:
    """The text with minus signs for hyphens, before negative numbers and in "1 - x", and none before a zero."""
    text = re.sub(_BEFORE_A_NUMBER + r"(0(?:\.0+)?)(?![\d.]*\d)", r"\1", text)
    return re.sub(_BEFORE_A_NUMBER + r"(?=\d)|(?<=\d )-(?= \w)", MINUS, text)


def quantity(name: str, value: float | None) -> str:
    """A number of a summary, in its unit."""
    return with_minus_signs(measure_of(name).text(value))


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
    if value is None or value.low is None or value.high is None or not (is_number(value.low) and is_number(value.high)):
        return ""
    unit = measure_of(name).unit
    return with_minus_signs(f"{replace(unit, symbol='').text(value.low)} to {unit.text(value.high)}")


def change(name: str, value: float | None) -> str:
    """A difference of two numbers of a summary with its sign, in their unit; of shares, in points of a hundred."""
    if value is None or not math.isfinite(value):
        return MISSING
    return _signed(value, measure_of(name).unit)


def points(value: float) -> str:
    """A difference of two shares in points of a hundred, with its sign."""
    return _signed(value, SHARE)


def _signed(value: float, unit: Unit) -> str:
    rounded, digits = round(unit.factor * value, unit.digits), unit.digits
    return f"{rounded:+.{digits}f}".replace("-", MINUS) if rounded else f"{0:.{digits}f}"


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
        return "no image tells them apart" if is_zero else "too few images to tell"
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


def condition_label(name: str, suites: Sequence[str]) -> str:
    """What the page calls a condition: without the suite whose own one it is, so "acdc fog" of "acdc" is "fog"."""
    own = next((name.removeprefix(f"{suite} ") for suite in suites if name.startswith(f"{suite} ")), name)
    return words(own)
