"""What came of `predict`: which files, how much of them each class has, and what made them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from robustvit.runtime.checked_json import CHECKSUM, write_checked_json

__all__ = ["ABOUT", "TABLE", "Predicted"]

ABOUT, TABLE = "predictions.json", "predictions.csv"


@dataclass(frozen=True)
class Predicted:
    """The content of predictions.json.

    Attributes:
        task: its name.
        network: name, parameters, whether it is untrained.
        images: where they are from, how many were predicted, and what they are: images, or frames of a film; where there is a
            list of records, whether its ids of images are those of the annotations, or names as in predictions.csv.
        protocol: how an image became the input.
        corruption: what was done to the images besides; empty for nothing.
        form: options and classes, see `PredictionForm.describe`.
        files: what was written: "labels/*.png", ...
        counted: what shares are shares of.
        shares: condition -> class -> mean over the images.
        skipped: (image, reason) of those that could not be read.
        versions, created, seconds: of the run.
        fingerprint: by which the run is known again.
    """

    task: str
    network: dict[str, Any]
    images: dict[str, Any]
    protocol: dict[str, Any]
    corruption: dict[str, Any]
    form: dict[str, Any]
    files: tuple[str, ...]
    counted: str
    shares: Mapping[str, Mapping[str, float]]
    skipped: tuple[tuple[str, str], ...]
    versions: dict[str, str]
    created: str
    seconds: float
    fingerprint: str

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(stored: Mapping[str, Any]) -> Predicted:
        """Raises TypeError, KeyError or ValueError where it is none."""
        lists = dict(files=tuple(stored["files"]), skipped=tuple((name, reason) for name, reason in stored["skipped"]))
        return Predicted(**{name: value for name, value in stored.items() if name != CHECKSUM} | lists)

    def save(self, folder: Path) -> None:
        write_checked_json(folder / ABOUT, self.to_json())
