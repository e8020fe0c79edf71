"""What an evaluation found: cells, summaries with intervals, and everything needed to trust or repeat it.

`results.json` has all of it, `results.csv` one row per cell, `classes.csv` one row per class and condition, `report.html` is
for reading.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robustvit.evaluation.cell_result import CellResult
from robustvit.evaluation.definitions import definitions
from robustvit.evaluation.model_results import Difference, Measurement, ModelResults, notes_from_json
from robustvit.evaluation.prediction_files import remove_predictions, write_predictions
from robustvit.evaluation.rows import CLASS_COLUMNS, class_rows_of, columns_of, rows_of
from robustvit.evaluation.shown_images import AttackedImage, AttackExample, Example, ExampleImage, WorstImage, drop_empty
from robustvit.evaluation.value import Value
from robustvit.metrics import measures
from robustvit.metrics.measures import ACCURACY, CELL_MEASURES
from robustvit.runtime.checked_json import read_checked_json, write_checked_json
from robustvit.runtime.page_writers import page_writer
from robustvit.runtime.tables import write_csv
from robustvit.tasks.notes import Note
from robustvit.tasks.prediction_table import PredictionTable

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped,unused-ignore]

__all__ = [
    "AttackExample",
    "AttackedImage",
    "CellResult",
    "Difference",
    "Example",
    "ExampleImage",
    "Measurement",
    "ModelResults",
    "Results",
    "Value",
    "WorstImage",
]


CLASSES = "classes.csv"
CLASSIFIER_COLUMNS = tuple(measure.key for measure in CELL_MEASURES)


@dataclass(frozen=True)
class Results:
    """What `evaluate` returns: one or several networks on the same images.

    Attributes:
        models: what each network reached.
        suites: which were asked for.
        data: the pictures: name, images, classes, subset, seed, how corruptions were made.
        versions: of this package and those it stands on.
        created: when, in UTC.
        definitions: what every number in `summary` means.
        fingerprint: of networks, images and settings; empty where nothing was written.
        differences: of every two networks, one entry per measurement.
        notes: what to know about all of them, besides those of the measurements.
        task: that was measured.
        primary: key of its primary measure.
        predictions: every answer to every image, if it was asked for; in predictions.csv, not in results.json.
    """

    models: tuple[ModelResults, ...]
    suites: tuple[str, ...]
    data: dict[str, Any]
    versions: dict[str, str]
    created: str
    definitions: dict[str, str] = field(default_factory=definitions)
    fingerprint: str = ""
    differences: tuple[Difference, ...] = ()
    notes: tuple[Note, ...] = ()
    task: str = "classification"
    primary: str = ACCURACY.key
    predictions: tuple[PredictionTable, ...] = field(default=(), compare=False)

    def __repr__(self) -> str:
        networks = "".join(f"\n  {model!r}" for model in self.models)
        return f"Results({', '.join(self.suites)} on {self.data.get('name', 'pictures')}{networks})"

    def remarks(self) -> list[tuple[str, Note]]:
        """(networks it is about, or "" for all of them, note): all notes, each once."""
        found: dict[Note, list[str]] = {note: [] for note in self.notes}
        for model in self.models:
            for note in (note for measurement in model.measurements for note in measurement.notes):
                found.setdefault(note, []).append(model.name)
        everyone = {model.name for model in self.models}
        return [
            ("" if not names or set(names) == everyone else ", ".join(dict.fromkeys(names)), note)
            for note, names in found.items()
        ]

    def rows(self) -> list[dict[str, Any]]:
        """Every cell of every network as a plain dict, with the columns of results.csv; None where there is no number."""
        return rows_of(self.models, self.primary, self._listed)

    def class_rows(self) -> list[dict[str, Any]]:
        """Every number of every class as a plain dict, with the columns of classes.csv; empty for tasks without classes."""
        return list(class_rows_of(self.models))

    @property
    def _listed(self) -> tuple[str, ...]:
        """Measures that always have a column: those of classifiers, whatever was measured."""
        return CLASSIFIER_COLUMNS if self.primary == ACCURACY.key else ()

    def to_pandas(self) -> pd.DataFrame:
        """`rows` as a data frame.

        Raises:
            RuntimeError: pandas is not installed.
        """
        try:
            import pandas as pd
        except ImportError as error:
            raise RuntimeError("to_pandas needs pandas: pip install pandas; rows() gives plain dicts without it") from error
        return pd.DataFrame(self.rows())

    def between(self, first: str, second: str) -> tuple[Difference, ...]:
        """The first of these networks minus the second, one entry per measurement; empty where they were not compared."""
        straight = [d for d in self.differences if (d.first, d.second) == (first, second)]
        return tuple(straight or [d.reversed() for d in self.differences if (d.second, d.first) == (first, second)])

    def _summary(self, name: str) -> float:
        values = self.models[0].summary
        if name not in values:
            raise AttributeError(f"{name} was not measured with suite {', '.join(self.suites)}; known are {', '.join(values)}")
        return values[name].value

    @property
    def clean(self) -> float:
        """The primary measure of the first network on clean samples: of classifiers, accuracy."""
        clean = self.models[0].clean
        return clean.value if clean is not None else self._summary(f"clean_{self.primary}")

    @property
    def mean_corruption_error(self) -> float:
        """mCE of the first network."""
        return self._summary("mean_corruption_error")

    @property
    def mean_accuracy(self) -> float:
        """Mean accuracy of the first network over the corruptions that were measured."""
        return self._summary("mean_accuracy")

    @property
    def retention(self) -> float:
        """The share of its accuracy that the first network keeps."""
        return self._summary("retention")

    def to_json(self) -> dict[str, Any]:
        """Plain values: everything but `predictions`."""
        stored = asdict(replace(self, predictions=()))
        del stored["predictions"]
        for model, plain in zip(self.models, stored["models"], strict=True):
            drop_empty(plain)
            for measured, about in zip(model.measurements, plain["measurements"], strict=True):
                about["class_accuracies"] = [one.to_json() for one in measured.class_accuracies]
        return {**stored, "measures": measures.to_json(self._keys())}

    def _keys(self) -> Iterator[str]:
        """Of all measures that have a number here."""
        yield self.primary
        for model in self.models:
            yield from model.summary
            for cell in model.cells:
                yield from cell.values
            for one in (one for measured in model.measurements for one in measured.class_accuracies):
                yield from one.measures

    def save(self, folder: str | Path) -> Path:
        """Writes results.json, results.csv, report.html and, where there are any, classes.csv, predictions.csv and the lists
        below predictions/; returns the folder.

        Those of an earlier result there are replaced or removed.
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("results.csv", CLASSES, "report.html"):
            (folder / name).unlink(missing_ok=True)  # whatever happens now, they are never those of another result
        remove_predictions(folder)
        self._write(folder)
        if self.predictions:
            write_predictions(folder, self.predictions)
        self.complete(folder)
        return folder

    def _write(self, folder: Path) -> None:
        write_checked_json(folder / "results.json", self.to_json())

    def complete(self, folder: Path, *, instead_of: Results | None = None) -> None:
        """Writes those of results.csv, classes.csv and report.html that are missing.

        Args:
            folder: that has the results.
            instead_of: what is there, with the same numbers; where anything else of it differs, results.json and report.html
                are written again.
        """
        if instead_of is not None and self != instead_of:
            (folder / "report.html").unlink(missing_ok=True)
            self._write(folder)
        if not (folder / "results.csv").exists():
            write_csv(
                folder / "results.csv",
                [columns_of(self.models, self.primary, self._listed), *(list(row.values()) for row in self.rows())],
            )
        if not (folder / CLASSES).exists() and (rows := self.class_rows()):
            write_csv(folder / CLASSES, [CLASS_COLUMNS, *(list(row.values()) for row in rows)])
        if not (folder / "report.html").exists():
            page_writer("results")(self, folder / "report.html")

    @staticmethod
    def load(path: str | Path) -> Results:
        """Reads a results.json, or the folder that has one.

        Raises:
            ValueError: it is damaged.
        """
        path = Path(path)
        stored = read_checked_json(path / "results.json" if path.is_dir() else path)
        if any("values" not in cell for model in stored["models"] for cell in model["cells"]):
            made = stored.get("versions", {}).get("robustvit", "an earlier version")
            raise ValueError(f"{path} was written by robustvit {made}, whose layout this version does not read; measure again")
        measures.register_stored(stored.pop("measures", {}))
        models = tuple(map(ModelResults.from_json, stored.pop("models")))
        differences = tuple(map(Difference.from_json, stored.pop("differences", ())))
        notes = notes_from_json(stored.pop("notes", ()))
        return Results(models=models, suites=tuple(stored.pop("suites")), differences=differences, notes=notes, **stored)
