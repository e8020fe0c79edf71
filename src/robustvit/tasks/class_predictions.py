"""What a network answered to every image, as a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from robustvit.corruptions.conditions import Condition
from robustvit.tasks.tallies import Tallies

__all__ = ["COLUMNS", "Predictions", "prediction_rows", "predictions_of"]

COLUMNS = ("network", "suite", "id", "condition", "severity", "label", "prediction", "confidence", "correct")


@dataclass(frozen=True, eq=False)
class Predictions:
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

    def rows(self) -> Iterator[dict[str, str | int | float | bool]]:
        """A dict for every image under every condition, with the keys `COLUMNS`."""
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


def prediction_rows(tables: Sequence[Predictions]) -> Iterator[Sequence[str | int | float]]:
    """Of predictions.csv: the heading, and one for each image under each condition; correct is 1 or 0."""
    yield COLUMNS
    for table in tables:
        for row in table.rows():
            *rest, correct = row.values()
            yield (*rest, int(correct))
