"""What a finished run was not asked for when it was measured, and is asked for now: answers, and images for the report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from robustvit.evaluation.examples import make_examples
from robustvit.evaluation.passes import Pass
from robustvit.evaluation.prediction_files import FOLDER, TABLE, count_lists
from robustvit.evaluation.results import CellResult, ModelResults, Results
from robustvit.evaluation.settings import Settings
from robustvit.runtime.damage import set_aside
from robustvit.tasks.prediction_table import PredictionTable

__all__ = ["with_all_parts"]


def with_all_parts(
    finished: Results, output: Path, passes: Mapping[str, Sequence[Pass]], settings: Settings
) -> Results | None:
    """The results with the parts that are asked for; None where that takes measuring everything again.

    Args:
        finished: of this very run.
        output: its folder.
        passes: of each network, by its name.
        settings: of the run.
    """
    if settings.predictions and settings.task.prediction_table is not None:
        try:
            finished = replace(finished, predictions=_predictions(settings.task.prediction_table, output, finished, passes))
        except FileNotFoundError:
            return None
        except ValueError as error:
            set_aside(output / TABLE, error)
            return None
    found = [_with_examples(one, passes[one.name], settings.examples) for one in finished.models]
    complete = tuple(one for one in found if one is not None)
    return replace(finished, models=complete) if len(complete) == len(found) else None


def _predictions(
    kind: type[PredictionTable], output: Path, finished: Results, passes: Mapping[str, Sequence[Pass]]
) -> tuple[PredictionTable, ...]:
    """Those of the files.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: they are damaged, or not the answers to all images of the cells.
    """
    tables = kind.read(output / TABLE)
    cells = [
        cell for model in finished.models for cell in _tabled(model, passes[model.name]) if finished.primary in cell.values
    ]
    found = sum(map(len, tables))
    expected = sum(int(cell.number(kind.counted) or 0) if kind.counted else cell.images for cell in cells)
    if found != expected:
        raise ValueError(f"it has {found} answers; expected {expected}")
    if kind.has_files and count_lists(output) != len(cells):
        raise FileNotFoundError(output / FOLDER)
    return tables


def _tabled(model: ModelResults, passes: Sequence[Pass]) -> Iterator[CellResult]:
    """The cells whose predictions are in the table."""
    wanted = {(p.cell_suites[i], p.cells[i].name, p.cells[i].severity) for p in passes for i in p.tabled}
    return (cell for cell in model.cells if (cell.suite, cell.condition, cell.severity) in wanted)


def _with_examples(found: ModelResults, passes: Sequence[Pass], count: int) -> ModelResults | None:
    """With as many examples as are wanted; None where images are missing that are chosen by all answers."""
    planned = next((one for one in passes if one.shows_images), None)
    if not count or planned is None:
        return found
    if (planned.attacks and not found.attack_examples) or (planned.scoring.ranks_samples and not found.worst):
        return None
    shows_corruptions = not planned.attacks or len(planned.conditions) > 1
    if shows_corruptions and len(found.examples) < min(count, found.cells[0].images):
        with planned.asking():
            return replace(found, examples=make_examples(planned, count, {name for name, _ in found.skipped}))
    return found
