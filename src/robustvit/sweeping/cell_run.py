"""One cell of a sweep: trained, measured, and recorded in its folder."""

from __future__ import annotations

import math
import traceback
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from robustvit.evaluation.evaluate import FinishedRunError, UnfinishedRunError, evaluate
from robustvit.evaluation.results import Results
from robustvit.models.registry import create_model
from robustvit.runtime.checked_json import write_checked_json
from robustvit.runtime.damage import set_aside
from robustvit.runtime.files import is_full, remove_folder
from robustvit.runtime.interruption import check_interrupted
from robustvit.runtime.processes import Processes
from robustvit.sweeping.inputs import weights_digest
from robustvit.sweeping.plan import RECORD, Measuring, PlannedCell
from robustvit.sweeping.result import SweepCell
from robustvit.training.distributed import choose_device
from robustvit.training.not_finite import NotFiniteError
from robustvit.training.train import Progress, train

__all__ = ["Told", "complete_cell", "run_cell"]

Told = Callable[[str, int, int, str], None]
"""Progress callback: (training or evaluating, steps done, total steps, further text)."""


def run_cell(planned: PlannedCell, folder: Path, measuring: Measuring, processes: Processes, told: Told) -> SweepCell:
    """Trains and measures a cell, or resumes it. An error is recorded as the failure of the cell.

    Args:
        planned: the cell.
        folder: of the sweep.
        measuring: how it is measured.
        processes: that do it together.
        told: progress callback.

    Raises:
        KeyboardInterrupt: it was interrupted; another call continues from there.
        OSError: nothing can be written there.
        Exception: under torchrun, an error that other processes may not have met: they would wait for this one for ever.
    """
    place = folder / planned.found.folder
    trouble, has_begun = "", False

    def noted(stage: str, done: int, total: int, text: str) -> None:
        nonlocal has_begun
        has_begun = True
        told(stage, done, total, text)

    if processes.rank == 0:
        _record(replace(planned.found, state="waiting", numbers={}, reason=""), place, measuring, planned)
    try:
        numbers = _trained_and_measured(planned, place, measuring, processes, noted)
        cell = replace(planned.found, state="done", numbers=numbers, reason="", version=version("robustvit"))
    except Exception as error:
        check_interrupted()  # which the error may have come of
        if _concerns_all(error) or (processes.world > 1 and not _is_met_by_all(error, has_begun)):
            raise
        trouble = traceback.format_exc()
        cell = replace(planned.found, state="failed", numbers={}, reason=_reason(error), version=version("robustvit"))
    if processes.rank == 0:
        _record(cell, place, measuring, planned, trouble)
    processes.gather(None)
    return cell


def complete_cell(planned: PlannedCell, folder: Path, processes: Processes) -> bool:
    """Writes those files of a finished cell's evaluation again that are missing; False if its results are damaged."""
    place = folder / planned.found.folder / "evaluation"
    try:
        results = Results.load(place)
    except (FileNotFoundError, NotADirectoryError):
        return True  # deleted by the user; the numbers are in cell.json
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        processes.gather(None)  # all have seen it
        if processes.rank == 0:
            set_aside(place / "results.json", error)
        return False
    if processes.rank == 0:
        results.complete(place)
    return True


def _concerns_all(error: Exception) -> bool:
    """Whether the next cell would fail as this one did: nothing can be written."""
    return isinstance(error, OSError) and (is_full(error) or isinstance(error, PermissionError))


def _is_met_by_all(error: Exception, has_begun: bool) -> bool:
    """Whether every process of a torchrun has this error: a loss that is not a number, or what cannot even begin."""
    return isinstance(error, NotFiniteError) or (not has_begun and isinstance(error, ValueError | TypeError | AssertionError))


def _reason(error: Exception) -> str:
    """The message on one line; the type as well if the error is not meant for users."""
    kind = "" if isinstance(error, ValueError | OSError | RuntimeError) else f"{type(error).__name__}: "
    return " ".join("; ".join([f"{kind}{error}", *getattr(error, "__notes__", ())]).split())


def _trained_and_measured(
    planned: PlannedCell, place: Path, measuring: Measuring, processes: Processes, told: Told
) -> dict[str, float]:
    config = planned.config

    def training(progress: Progress) -> None:
        terms = " ".join(f"{name} {value:.3f}" for name, value in progress.terms.items())
        told("training", progress.update, progress.updates, f"{progress.images_per_second:.0f} images/s {terms}")

    def evaluating(what: str, done: int, total: int) -> None:
        told("evaluating", done, total, "")

    train(config, place, resume=True, report=training).check_finished()
    check_interrupted()  # during the last update
    processes.gather(None)  # the weights are written
    network: Any = create_model(f"local-dir:{place / 'weights'}", pretrained=True)
    network = network.to(choose_device(config.loop.device)).eval()

    def measured() -> Results:
        return evaluate(
            {planned.cell.name: network},
            measuring.source(config),
            measuring.suites,
            task=measuring.task(config),
            limit=measuring.limit,
            batch_size=measuring.batch_size,
            ignore_orientation=config.data.ignore_orientation,
            output=place / "evaluation",
            resume=True,
            report=evaluating,
        )

    try:
        results = measured()
    except (FinishedRunError, UnfinishedRunError):  # of other weights or images; no cell has its numbers any more
        if processes.rank == 0:
            remove_folder(place / "evaluation")
        processes.gather(None)
        results = measured()
    found = {name: value.value for name, value in results.models[0].summary.items()}
    return {name: value for name, value in found.items() if math.isfinite(value)}


def _record(cell: SweepCell, place: Path, measuring: Measuring, planned: PlannedCell, trouble: str = "") -> None:
    place.mkdir(parents=True, exist_ok=True)
    record: dict[str, Any] = {"state": cell.state, "numbers": dict(cell.numbers), "reason": cell.reason}
    record |= {"version": cell.version, "measured": measuring.to_json(), "inputs": planned.inputs}
    record |= {"weights": weights_digest(place)} if cell.state == "done" else {}
    write_checked_json(place / RECORD, {**record, **({"traceback": trouble} if trouble else {})})
