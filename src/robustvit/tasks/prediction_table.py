"""Every prediction of a measurement as rows of predictions.csv, whatever the task."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

__all__ = ["PredictionTable", "csv_rows"]


class PredictionTable(ABC):
    """What one network predicted in one measurement.

    Attributes:
        columns: headings.
        counted: key of the number of a cell that says how many rows it has; empty for one per sample.
        has_files: whether there are `files`.
        network: its name.
    """

    columns: ClassVar[tuple[str, ...]]
    counted: ClassVar[str] = ""
    has_files: ClassVar[bool] = False
    network: str

    @abstractmethod
    def __len__(self) -> int:
        """How many rows there are."""

    @abstractmethod
    def rows(self) -> Iterator[dict[str, Any]]:
        """Dicts with the keys `columns`."""

    def files(self) -> Iterator[tuple[str, Iterator[Any]]]:
        """("SUITE/CONDITION", entries) of further files for other programs, JSON lists, one per condition."""
        return iter(())

    @classmethod
    @abstractmethod
    def read(cls, path: Path) -> tuple[Self, ...]:
        """The tables of a file.

        Raises:
            ValueError: it is damaged.
        """


def csv_rows(tables: Sequence[PredictionTable]) -> Iterator[Sequence[Any]]:
    """Of predictions.csv: the headings, and the rows of all tables; yes and no are 1 and 0."""
    yield tables[0].columns
    for table in tables:
        for row in table.rows():
            yield [int(value) if isinstance(value, bool) else value for value in row.values()]
