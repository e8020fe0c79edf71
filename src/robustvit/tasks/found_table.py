"""Every detection of a measurement as a row of predictions.csv, and as files in COCO's result format."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from robustvit.corruptions.conditions import Condition
from robustvit.metrics.box_matching import Found
from robustvit.runtime.tables import csv_text
from robustvit.tasks.coco_results import coco_results
from robustvit.tasks.prediction_table import PredictionTable

__all__ = ["FoundTable", "ImageFound", "found_table"]

Row = Mapping[str, str]


@dataclass(frozen=True, eq=False)
class ImageFound:
    """The n detections of an image, the best score first.

    Attributes:
        id: of the sample.
        image_id: of the image in the annotation file.
        found: the detections.
        is_right: bool [n], whether each finds an object of its class by one half or more.
    """

    id: str
    image_id: int | str
    found: Found
    is_right: np.ndarray


@dataclass(frozen=True, eq=False)
class FoundTable(PredictionTable):
    """What one network found in one measurement.

    Attributes:
        network: its name.
        cells: (suite, condition, its images) of each condition; of a table that was read, images without detections are
            missing.
        classes: their names.
        category_ids: class -> id in the annotation file; None counts from 1.
    """

    columns = ("network", "suite", "id", "condition", "severity", "class", "score", "x1", "y1", "x2", "y2", "correct")
    counted = "detections"
    has_files = True
    network: str
    cells: tuple[tuple[str, Condition, tuple[ImageFound, ...]], ...]
    classes: tuple[str, ...]
    category_ids: tuple[int, ...] | None = None

    def __repr__(self) -> str:
        return f"FoundTable({self.network!r}, {len(self)} detections under {len(self.cells)} conditions)"

    def __len__(self) -> int:
        return sum(len(image.is_right) for _, _, images in self.cells for image in images)

    def rows(self) -> Iterator[dict[str, Any]]:
        """A dict for every detection, with the keys `columns`."""
        for suite, condition, images in self.cells:
            for image in images:
                about = (self.network, suite, image.id, condition.name, condition.severity)
                boxes, scores, kinds, _ = image.found
                for box, score, kind, is_right in zip(boxes, scores, kinds, image.is_right, strict=True):
                    sides = (round(float(side), 3) for side in box)
                    values = (*about, self.classes[kind], round(float(score), 6), *sides, bool(is_right))
                    yield dict(zip(self.columns, values, strict=True))

    def files(self) -> Iterator[tuple[str, Iterator[dict[str, Any]]]]:
        for suite, condition, images in self.cells:
            severity = f"-{condition.severity}" if condition.severity else ""
            yield f"{suite}/{condition.name}{severity}", self._results(images)

    def _results(self, images: Sequence[ImageFound]) -> Iterator[dict[str, Any]]:
        for image in images:
            yield from coco_results(image.found, image.image_id, self.category_ids)

    @classmethod
    def read(cls, path: Path) -> tuple[FoundTable, ...]:
        with path.open(newline="", encoding="utf-8") as stream:
            reader = csv.DictReader(stream, strict=True)
            if tuple(reader.fieldnames or ()) != cls.columns:
                raise ValueError(f"its columns are {reader.fieldnames}; expected {', '.join(cls.columns)}")
            try:
                rows = [{name: csv_text(row[name]) for name in cls.columns} for row in reader]
                return tuple(_table(name, list(own)) for name, own in groupby(rows, key=itemgetter("network")))
            except (csv.Error, TypeError, AttributeError, ValueError) as error:
                raise ValueError(f"line {reader.line_num}: {error}") from error


def found_table(
    network: str,
    suites: Sequence[str],
    conditions: Sequence[Condition],
    images: Sequence[tuple[str, int | str]],
    cells: Sequence[Mapping[str, Sequence[np.ndarray]]],
    classes: Sequence[str],
    category_ids: tuple[int, ...] | None,
) -> FoundTable:
    """The table of a measurement.

    Args:
        network: its name.
        suites, conditions: C of them.
        images: (id of the sample, id in the annotation file) of N images.
        cells: for each condition, "box" [n, 4], "score" [n], "class" [n], "matched" and "ignored" [n, 4] of each image, as
            `match` gives them.
        classes: their names.
        category_ids: see `FoundTable`.
    """
    made = []
    for suite, condition, cell in zip(suites, conditions, cells, strict=True):
        parts = zip(images, cell["box"], cell["score"], cell["class"], cell["matched"], cell["ignored"], strict=True)
        rows = [
            ImageFound(name, image_id, Found(boxes, scores, kinds), ((matched | ignored)[:, 0] & 1).astype(bool))
            for (name, image_id), boxes, scores, kinds, matched, ignored in parts
        ]
        made.append((suite, condition, tuple(rows)))
    return FoundTable(network, tuple(made), tuple(classes), category_ids)


def _table(network: str, rows: Sequence[Row]) -> FoundTable:
    classes = tuple(dict.fromkeys(row["class"] for row in rows))
    places = {name: k for k, name in enumerate(classes)}

    def image(name: str, own: Sequence[Row]) -> ImageFound:
        boxes = np.array([[float(row[side]) for side in ("x1", "y1", "x2", "y2")] for row in own])
        scores, kinds = np.array([float(row["score"]) for row in own]), np.array([places[row["class"]] for row in own])
        return ImageFound(name, name, Found(boxes, scores, kinds), np.array([row["correct"] == "1" for row in own]))

    cells = []
    for (suite, condition, severity), group in groupby(rows, key=itemgetter("suite", "condition", "severity")):
        images = (image(name, list(own)) for name, own in groupby(group, key=itemgetter("id")))
        cells.append((suite, Condition(condition, int(severity)), tuple(images)))
    return FoundTable(network, tuple(cells), classes)
