"""The files with all predictions of a run: predictions.csv and, of tasks that have them, lists in JSON for other programs.

The lists are in predictions/NETWORK/SUITE/CONDITION.json. Those of an earlier result are removed with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from robustvit.runtime.json_lists import write_json_list
from robustvit.runtime.tables import write_csv
from robustvit.tasks.prediction_table import PredictionTable, csv_rows

__all__ = ["FOLDER", "TABLE", "count_lists", "remove_predictions", "write_predictions"]

TABLE, FOLDER = "predictions.csv", "predictions"


def write_predictions(folder: Path, tables: Sequence[PredictionTable]) -> None:
    """Writes the table last: where it is, the lists are.

    Args:
        folder: of the result.
        tables: at least one.
    """
    networks = list(dict.fromkeys(table.network for table in tables))
    for table in tables:
        own = _file_name(table.network)
        same = [name for name in networks if _file_name(name) == own]
        place = own if same[0] == table.network else f"{own}-{1 + same.index(table.network)}"
        for name, entries in table.files():
            path = folder / FOLDER / "/".join([place, *map(_file_name, name.split("/"))])
            path = path.with_name(f"{path.name}.json")
            path.parent.mkdir(parents=True, exist_ok=True)
            write_json_list(path, entries)
    write_csv(folder / TABLE, csv_rows(tables))


def remove_predictions(folder: Path) -> None:
    """Removes the table and the lists."""
    (folder / TABLE).unlink(missing_ok=True)
    for path in list(_lists(folder)):
        path.unlink()
    for path in (*(folder / FOLDER).glob("*/*"), *(folder / FOLDER).glob("*"), folder / FOLDER):
        if path.is_dir() and not any(path.iterdir()):
            path.rmdir()


def count_lists(folder: Path) -> int:
    """How many lists there are."""
    return sum(1 for _ in _lists(folder))


def _lists(folder: Path) -> Iterator[Path]:
    return (folder / FOLDER).glob("*/*/*.json")


def _file_name(name: str) -> str:
    """A name without what file systems do not take."""
    return re.sub(r"[^\w.-]+", "_", name).strip(".") or "_"
