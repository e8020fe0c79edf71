"""predictions.csv read back: the answers of a finished run, whose positions are those of the names in the file."""

from __future__ import annotations

import csv
from itertools import groupby
from pathlib import Path

import numpy as np

from robustvit.corruptions.conditions import Condition
from robustvit.runtime.tables import csv_text
from robustvit.tasks.class_matching import NO_ANSWER
from robustvit.tasks.class_predictions import COLUMNS, Predictions

__all__ = ["read_predictions"]

Row = dict[str, str]


def read_predictions(path: Path) -> tuple[Predictions, ...]:
    """The tables that `Results.save` wrote.

    Raises:
        ValueError: the file is damaged.
    """
    with path.open(newline="", encoding="utf-8") as stream:
        reader = csv.DictReader(stream, strict=True)
        if tuple(reader.fieldnames or ()) != COLUMNS:
            raise ValueError(f"its columns are {reader.fieldnames}; expected {', '.join(COLUMNS)}")
        try:
            rows = [{name: csv_text(row[name]) for name in COLUMNS} for row in reader]
        except (csv.Error, TypeError, AttributeError) as error:
            raise ValueError(f"line {reader.line_num}: {error}") from error
    conditions = [list(group) for _, group in groupby(rows, key=lambda row: [row[name] for name in _OF_A_CONDITION])]
    tables = [list(group) for _, group in groupby(conditions, key=_images_of)]
    return tuple(_table(table) for table in tables)


_OF_A_CONDITION = ("network", "suite", "condition", "severity")


def _images_of(cell: list[Row]) -> list[tuple[str, ...]]:
    """What the conditions of one table have in common."""
    return [(row["network"], row["id"], row["label"]) for row in cell]


def _table(cells: list[list[Row]]) -> Predictions:
    first = cells[0]
    names: dict[int, str] = {}
    places: dict[tuple[str, bool], int] = {}

    def place(name: str, is_label: bool = True) -> int:
        if name == "no answer":
            names[NO_ANSWER] = name
            return NO_ANSWER
        if (name, is_label) not in places:  # two outputs may have one name
            places[name, is_label] = len(places)
            names[places[name, is_label]] = name
        return places[name, is_label]

    labels = [place(row["label"]) for row in first]
    answers = [
        [place(row["prediction"], row["correct"] == "1" or row["prediction"] != row["label"]) for row in cell]
        for cell in cells
    ]
    return Predictions(
        network=first[0]["network"],
        suites=tuple(cell[0]["suite"] for cell in cells),
        conditions=tuple(Condition(cell[0]["condition"], int(cell[0]["severity"])) for cell in cells),
        ids=tuple(row["id"] for row in first),
        labels=np.array(labels, np.int64),
        answers=np.array(answers, np.int64),
        confidences=np.array([[float(row["confidence"]) for row in cell] for cell in cells], np.float32),
        names=names,
    )
