"""What an evaluation found about one network, and about two of them: summaries with intervals, cells, images to show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from robustvit.evaluation.cell_result import CellResult
from robustvit.evaluation.precision_check import PrecisionCheck
from robustvit.evaluation.shown_images import AttackExample, Example, WorstImage
from robustvit.evaluation.value import Value
from robustvit.metrics.measures import ACCURACY, measure_of
from robustvit.tasks.curves import Curves
from robustvit.tasks.marks import Mark
from robustvit.tasks.notes import Note
from robustvit.tasks.per_class import ClassResult

__all__ = ["Difference", "Measurement", "ModelResults", "notes_from_json"]


@dataclass(frozen=True)
class Measurement:
    """One run over one set of pictures: what exactly was measured, and what came out.

    Attributes:
        suites: that it answers.
        data: the pictures: name, images, how many there would have been, where corruptions came from.
        protocol: how images became the input (name, size, resize, interpolation, mean, std).
        corruption: how corruptions were made in memory; empty for files.
        summary: key of a measure -> value.
        corruption_errors: CE of each corruption with all five severities; empty where AlexNet's numbers do not apply.
        group_accuracies: "noise", "blur", ... -> mean accuracy over its corruptions.
        corruption_accuracies: corruption -> mean accuracy over its severities.
        attacks: attack -> its settings.
        notes: what to know before using the numbers.
        class_accuracies: class by class, in the measures of the task.
        groups: "noise", "blur", ... -> its corruptions, as the suite sorts them.
        curves: what says more than one number, as precision over recall.
        precision_check: how far half precision moved the numbers; None in fp32.
    """

    suites: tuple[str, ...]
    data: dict[str, Any]
    protocol: dict[str, Any]
    corruption: dict[str, Any]
    summary: dict[str, Value]
    corruption_errors: dict[str, float] = field(default_factory=dict)
    group_accuracies: dict[str, Value] = field(default_factory=dict)
    corruption_accuracies: dict[str, Value] = field(default_factory=dict)
    attacks: dict[str, dict[str, Any]] = field(default_factory=dict)
    notes: tuple[Note, ...] = ()
    class_accuracies: tuple[ClassResult, ...] = ()
    groups: dict[str, tuple[str, ...]] = field(default_factory=dict)
    curves: tuple[Curves, ...] = ()
    precision_check: PrecisionCheck | None = None

    def __repr__(self) -> str:
        return f"Measurement({', '.join(self.suites)} on {self.data.get('name', 'pictures')}: {_told(self.summary)})"

    @staticmethod
    def from_json(stored: Mapping[str, Any]) -> Measurement:
        """From what `Results.to_json` gave."""
        tables = ("summary", "group_accuracies", "corruption_accuracies")
        values: dict[str, Any] = {name: _summary(stored[name]) for name in tables if name in stored}
        values |= {"notes": notes_from_json(stored.get("notes", ()))}
        values |= {"groups": {group: tuple(names) for group, names in stored.get("groups", {}).items()}}
        values |= {"curves": tuple(map(Curves.from_json, stored.get("curves", ())))}
        if (check := stored.get("precision_check")) is not None:
            values |= {"precision_check": PrecisionCheck(**{**check, "changes": _summary(check["changes"])})}
        values |= {"class_accuracies": tuple(ClassResult.from_json(one) for one in stored.get("class_accuracies", ()))}
        return Measurement(**{**stored, **values, "suites": tuple(stored["suites"])})


@dataclass(frozen=True)
class ModelResults:
    """One network.

    Attributes:
        name: as it was given.
        parameters: how many.
        protocol: how images became its input in the first measurement.
        summary: key of a measure -> value, over all measurements. Where a later one measures the same again, its value
            is called "NAME (SUITE)".
        cells: every condition.
        skipped: (id, reason) of images that could not be read.
        examples: a few images with the network's answers.
        seconds: how long it took.
        measurements: the runs that the above is made of.
        attack_examples: a few images under each attack.
        is_untrained: whether its weights are random; None where only the caller knows, as for networks made in Python.
        primary: key of the primary measure of its task.
        legend: (name, colour as "#rrggbb") of what is drawn on the examples; empty where nothing is.
        marks: what is drawn besides.
        worst: the images that went worst, of tasks that can tell.
    """

    name: str
    parameters: int
    protocol: dict[str, Any]
    summary: dict[str, Value]
    cells: tuple[CellResult, ...]
    skipped: tuple[tuple[str, str], ...] = ()
    examples: tuple[Example, ...] = ()
    seconds: float = 0.0
    measurements: tuple[Measurement, ...] = ()
    attack_examples: tuple[AttackExample, ...] = ()
    is_untrained: bool | None = None
    primary: str = ACCURACY.key
    legend: tuple[tuple[str, str], ...] = ()
    marks: tuple[Mark, ...] = ()
    worst: tuple[WorstImage, ...] = ()

    @property
    def clean(self) -> Value | None:
        """The primary measure on clean samples; None where they were not measured."""
        return next((value for key, value in self.summary.items() if measure_of(key).family == "clean"), None)

    def __repr__(self) -> str:
        return f"ModelResults({self.name!r}, {len(self.cells)} cells: {_told(self.summary)})"

    def accuracy(self, condition: str, severity: int = 0, *, suite: str | None = None) -> float:
        """Top-1 accuracy in one cell.

        Args:
            condition: "clean", a corruption, "patches" or an attack.
            severity: 1 to 5; 0 where there is none.
            suite: that measured it; by default the first one. Suites of other datasets, as ImageNet-A, are found by their
                name only.

        Raises:
            KeyError: that cell was not measured.
        """
        kinds: dict[str, set[str]] = {}
        for cell in self.cells:
            kinds.setdefault(cell.suite, set()).add(cell.condition)
        other = {name for name, conditions in kinds.items() if conditions == {"clean"}} - {"clean"}  # datasets of their own
        for cell in self.cells:
            of_suite = cell.suite == suite if suite else cell.suite not in other
            if of_suite and (cell.condition, cell.severity) == (condition, severity) and cell.accuracy is not None:
                return cell.accuracy.value
        raise KeyError(f"{condition} at severity {severity} was not measured")

    @staticmethod
    def from_json(stored: Mapping[str, Any]) -> ModelResults:
        """From what `Results.to_json` gave."""
        values: dict[str, Any] = {
            "summary": _summary(stored["summary"]),
            "measurements": tuple(map(Measurement.from_json, stored.get("measurements", ()))),
            "cells": tuple(CellResult(**{**cell, "values": _summary(cell["values"])}) for cell in stored["cells"]),
            "skipped": tuple((i, reason) for i, reason in stored["skipped"]),
            "examples": tuple(map(Example.from_json, stored["examples"])),
            "attack_examples": tuple(map(AttackExample.from_json, stored.get("attack_examples", ()))),
            "legend": tuple((name, colour) for name, colour in stored.get("legend", ())),
            "marks": tuple(Mark(**mark) for mark in stored.get("marks", ())),
            "worst": tuple(map(WorstImage.from_json, stored.get("worst", ()))),
        }
        return ModelResults(**{**stored, **values})


@dataclass(frozen=True)
class Difference:
    """Two networks in one measurement: numbers of the first minus those of the second, on the same images.

    Attributes:
        first, second: names of the networks.
        suites: of the measurement.
        images: images that both saw.
        summary: key of a measure -> difference.
        group_accuracies: "noise", "blur", ... -> difference.
    """

    first: str
    second: str
    suites: tuple[str, ...]
    images: int
    summary: dict[str, Value]
    group_accuracies: dict[str, Value] = field(default_factory=dict)

    def reversed(self) -> Difference:
        """The second minus the first."""
        turned = {name: value.negative() for name, value in self.summary.items()}
        groups = {name: value.negative() for name, value in self.group_accuracies.items()}
        return Difference(self.second, self.first, self.suites, self.images, turned, groups)

    @staticmethod
    def from_json(stored: Mapping[str, Any]) -> Difference:
        """From what `Results.to_json` gave."""
        values = {name: _summary(stored[name]) for name in ("summary", "group_accuracies")}
        return Difference(**{**stored, **values, "suites": tuple(stored["suites"])})


def notes_from_json(stored: Sequence[dict[str, Any]]) -> tuple[Note, ...]:
    return tuple(Note(**note) for note in stored)


def _summary(stored: Mapping[str, Any]) -> dict[str, Value]:
    return {name: Value(**value) for name, value in stored.items()}


def _told(summary: dict[str, Value]) -> str:
    """The first numbers of a summary, for a short `repr`."""
    parts = [f"{name} {measure_of(name).text(value.value)}" for name, value in summary.items()]
    return ", ".join(parts[:6]) + (f", {len(parts) - 6} more" if len(parts) > 6 else "")
