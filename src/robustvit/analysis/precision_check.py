"""How far half precision moves the numbers of a study: a short trial in half precision and in fp32."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from robustvit.analysis.cost import smaller
from robustvit.analysis.finding import Finding
from robustvit.analysis.plan import PlannedStudy
from robustvit.analysis.subject import Subject
from robustvit.runtime.precision import answering_in

__all__ = ["IMAGES", "half_precision_changes"]

IMAGES = 16
"""At most; a trial of more would take longer than some studies."""


def half_precision_changes(planned: PlannedStudy, subject: Subject) -> dict[str, float]:
    """Number of the study -> by how much half precision changes it, on the first images; of curves, the largest change. Empty
    in fp32."""
    precision = planned.options.precision
    if precision == "fp32":
        return {}
    trial = smaller(subject, IMAGES)
    options = planned.study.for_trial(len(trial.pictures), planned.options)

    def found(own: str) -> Finding:
        with answering_in(own, subject.network):
            return planned.study.run(trial, options)

    return _changes(found(precision).numbers, found("fp32").numbers)


def _changes(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, float]:
    changes = {}
    for name in ours:
        pairs = zip(_floats(ours[name]), _floats(theirs.get(name)), strict=False)
        if differences := [abs(a - b) for a, b in pairs]:
            changes[name] = max(differences)
    return changes


def _floats(value: Any) -> list[float]:
    """All floating-point numbers in a number or in nested lists, in their order."""
    if isinstance(value, list | tuple):
        return [number for entry in value for number in _floats(entry)]
    return [value] if isinstance(value, float) else []
