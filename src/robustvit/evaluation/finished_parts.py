"""What a finished run was not asked for when it was measured, and is asked for now: answers, and pictures for the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from torch import nn

from robustvit.evaluation.classification import Task
from robustvit.evaluation.examples import make_examples
from robustvit.evaluation.plan import Job
from robustvit.evaluation.predictions import Predictions
from robustvit.evaluation.results import ModelResults, Results
from robustvit.evaluation.stored_predictions import read_predictions
from robustvit.runtime.damage import set_aside
from robustvit.runtime.evaluation_mode import evaluation_mode

__all__ = ["with_all_parts"]


def with_all_parts(
    finished: Results,
    output: Path,
    models: Mapping[str, nn.Module],
    jobs: Mapping[str, Sequence[Job]],
    examples: int,
    predictions: bool,
) -> Results | None:
    """The results with the parts that are asked for; None where that takes measuring everything again.

    Args:
        finished: of this very run.
        output: its folder.
        models, jobs: of the run.
        examples: pictures that the report should have.
        predictions: whether the answers to all pictures are wanted.
    """
    if predictions:
        path = output / "predictions.csv"
        try:
            finished = replace(finished, predictions=_checked(read_predictions(path), finished))
        except FileNotFoundError:
            return None
        except ValueError as error:
            set_aside(path, error)
            return None
    found = [_with_examples(one, models[one.name], jobs[one.name], examples) for one in finished.models]
    complete = tuple(one for one in found if one is not None)
    return replace(finished, models=complete) if len(complete) == len(found) else None


def _checked(tables: tuple[Predictions, ...], finished: Results) -> tuple[Predictions, ...]:
    """Raises ValueError if they are not the answers to all pictures of the cells."""
    found = sum(table.answers.size for table in tables)
    expected = sum(cell.images for model in finished.models for cell in model.cells if cell.flip_probability is None)
    if found != expected:
        raise ValueError(f"it has {found} answers; expected {expected}")
    return tables


def _with_examples(found: ModelResults, network: nn.Module, jobs: Sequence[Job], count: int) -> ModelResults | None:
    """With as many examples as are wanted; None where pictures under attack are missing, which need all answers."""
    task = next((job.tasks[0] for job in jobs if job.kind == "memory"), None)
    if not count or task is None:
        return found
    if task.attacks and not found.attack_examples:
        return None
    if _shows_corruptions(task) and len(found.examples) < min(count, found.cells[0].images):
        with evaluation_mode(network):
            return replace(found, examples=make_examples(network, task, count))
    return found


def _shows_corruptions(task: Task) -> bool:
    return not task.attacks or len(task.conditions) > 1
