"""What a classifier answered to every image, as a table; and predictions.csv read back.

Positions of a table that was read are those of the names in the file."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np

from robustvit.corruptions.conditions import Condition
from robustvit.runtime.tables import csv_text
from robustvit.tasks.class_matching import NO_ANSWER
from robustvit.tasks.prediction_table import PredictionTable
from robustvit.tasks.tallies import Tallies

__all__ = ["Predictions", "predictions_of"]

Row = dict[str, str]


@dataclass(frozen=True, eq=False)
class Predictions(PredictionTable):
    """The answers of one network in one measurement.

    Attributes:
        network: its name.
        suites: of each condition.
        conditions: C of them.
        ids: of the N images.
        labels: [N] positions among `names`.
        answers: [C, N] likewise; -1 where the network gave no finite numbers.
        confidences: [C, N] softmax of the answer.
        names: position -> what it is called.
    """

    columns = ("network", "suite", "id", "condition", "severity", "label", "prediction", "confidence", "correct")
    network: str
    suites: tuple[str, ...]
    conditions: tuple[Condition, ...]
    ids: tuple[str, ...]
    labels: np.ndarray
    answers: np.ndarray
    confidences: np.ndarray
    names: dict[int, str]

    def __repr__(self) -> str:
        return f"Predictions({self.network!r}, {len(self.conditions)} conditions of {len(self.ids)} images)"

    def __len__(self) -> int:
        return self.answers.size

    def rows(self) -> Iterator[dict[str, str | int | float | bool]]:
        """A dict for every image under every condition, with the keys `columns`."""
        for c, (suite, condition) in enumerate(zip(self.suites, self.conditions, strict=True)):
            for i, (name, label) in enumerate(zip(self.ids, self.labels.tolist(), strict=True)):
                answer = int(self.answers[c, i])
                yield {
                    "network": self.network,
                    "suite": suite,
                    "id": name,
                    "condition": condition.name,
                    "severity": condition.severity,
                    "label": self.names[label],
                    "prediction": self.names[answer],
                    "confidence": round(float(self.confidences[c, i]), 6),
                    "correct": answer == label,
                }

    @classmethod
    def read(cls, path: Path) -> tuple[Predictions, ...]:
        with path.open(newline="", encoding="utf-8") as stream:
            reader = csv.DictReader(stream, strict=True)
            if tuple(reader.fieldnames or ()) != cls.columns:
                raise ValueError(f"its columns are {reader.fieldnames}; expected {', '.join(cls.columns)}")
            try:
                rows = [{name: csv_text(row[name]) for name in cls.columns} for row in reader]
            except (csv.Error, TypeError, AttributeError) as error:
                raise ValueError(f"line {reader.line_num}: {error}") from error
        conditions = [list(group) for _, group in groupby(rows, key=lambda row: [row[name] for name in _OF_A_CONDITION])]
        tables = [list(group) for _, group in groupby(conditions, key=_images_of)]
        return tuple(_table(table) for table in tables)


def predictions_of(
    network: str,
    suites: Sequence[str],
    conditions: Sequence[Condition],
    ids: Sequence[str],
    rows: Sequence[Tallies],
    class_name: Callable[[int], str],
) -> Predictions:
    """The table of a measurement.

    Args:
        network: its name.
        suites, conditions: C of them.
        ids: of the N images.
        rows: tallies of a classifier for these images, one per condition.
        class_name: what a class is called.
    """
    labels, answers = rows[0]["label"], np.stack([row["prediction"] for row in rows])
    confidences = np.stack([row["confidence"] for row in rows])
    met = np.unique(np.concatenate([labels, answers.ravel()])).tolist()
    names = {position: class_name(position) for position in met}
    return Predictions(network, tuple(suites), tuple(conditions), tuple(ids), labels, answers, confidences, names)


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
