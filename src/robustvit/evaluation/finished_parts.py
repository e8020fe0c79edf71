"""What a finished run was not asked for when it was measured, and is asked for now: answers, and images for the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from robustvit.evaluation.examples import make_examples
from robustvit.evaluation.passes import Pass
from robustvit.evaluation.results import ModelResults, Results
from robustvit.evaluation.settings import Settings
from robustvit.runtime.damage import set_aside
from robustvit.runtime.evaluation_mode import evaluation_mode
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
        path = output / "predictions.csv"
        try:
            finished = replace(finished, predictions=_checked(settings.task.prediction_table.read(path), finished))
        except FileNotFoundError:
            return None
        except ValueError as error:
            set_aside(path, error)
            return None
    found = [_with_examples(one, passes[one.name], settings.examples) for one in finished.models]
    complete = tuple(one for one in found if one is not None)
    return replace(finished, models=complete) if len(complete) == len(found) else None


def _checked(tables: tuple[PredictionTable, ...], finished: Results) -> tuple[PredictionTable, ...]:
    """Raises ValueError if they are not the answers to all images of the cells."""
    found = sum(map(len, tables))
    expected = sum(cell.images for model in finished.models for cell in model.cells if finished.primary in cell.values)
    if found != expected:
        raise ValueError(f"it has {found} answers; expected {expected}")
    return tables


def _with_examples(found: ModelResults, passes: Sequence[Pass], count: int) -> ModelResults | None:
    """With as many examples as are wanted; None where images are missing that are chosen by all answers."""
    planned = next((one for one in passes if one.shows_images), None)
    if not count or planned is None:
        return found
    if (planned.attacks and not found.attack_examples) or (planned.scoring.ranks_samples and not found.worst):
        return None
    shows_corruptions = not planned.attacks or len(planned.conditions) > 1
    if shows_corruptions and len(found.examples) < min(count, found.cells[0].images):
        with evaluation_mode(planned.network):
            return replace(found, examples=make_examples(planned, count, {name for name, _ in found.skipped}))
    return found
