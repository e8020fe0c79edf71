"""`sweep`: a grid of training and evaluation runs, with mean and spread at the end.

FOLDER/runs/NAME/         a run as `train` leaves it, its evaluation/, and cell.json: how it ended
FOLDER/sweep.json         all cells, and mean and spread over the seeds
FOLDER/sweep.csv          one row per cell
FOLDER/sweep.md           the table
FOLDER/sweep.png, .svg    the figure
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from robustvit.evaluation.settings import Settings
from robustvit.runtime.files import check_writable, explained
from robustvit.runtime.locking import locking_output
from robustvit.runtime.processes import Processes, join_processes
from robustvit.sweeping.plan import Measuring, SweepPlan, SweepSettingsError, plan_sweep
from robustvit.sweeping.result import SweepCell, SweepResult

__all__ = ["SUITES_OF_A_SWEEP", "SweepProgress", "planned_result", "sweep"]

SUITES_OF_A_SWEEP = ("clean", "common15")


@dataclass(frozen=True)
class SweepProgress:
    """How far a sweep is.

    Attributes:
        number, cells: of the cell, from 1, and how many there are.
        name: of the cell's folder.
        stage: "training", "evaluating", "done" or "failed".
        done, total: steps of that stage.
        told: speed and loss terms, or why the run failed.
    """

    number: int
    cells: int
    name: str
    stage: str
    done: int = 0
    total: int = 0
    told: str = ""


@locking_output
def sweep(
    recipe: str | Path | None,
    vary: Sequence[str],
    seeds: Sequence[int] = (0,),
    *,
    output: str | Path,
    data: str | Path | None = None,
    suite: str | Sequence[str] = SUITES_OF_A_SWEEP,
    limit: int | None = None,
    batch_size: int = Settings.batch_size,
    task_options: Mapping[str, Any] | None = None,
    changes: Sequence[str] = (),
    twin: bool = False,
    resume: bool = False,
    report: Callable[[SweepProgress], None] | None = None,
) -> SweepResult:
    """Trains and measures every combination of the varied values with every seed. Under torchrun, every process calls it.

    A cell that fails is recorded with its reason, and the others continue. The files of the sweep are rewritten after every
    cell.

    Args:
        recipe: YAML file, or name of a recipe of the package; None for the defaults.
        vary: "methods.adl.tau=1,2,5", one or several; values are YAML.
        seeds: values of loop.seed.
        output: folder of the sweep, made if needed.
        data: images to measure on, as `evaluate` takes them; None takes each run's data.val.
        suite: one or several suites of `evaluate`.
        limit: measure on that many images, the same for every run.
        batch_size: images at once in measuring.
        task_options: of the task in measuring, as `Task.with_options` takes them: {"token_fusion": True}.
        changes: "name=value" for all cells, as `load_config` takes them.
        twin: the recipe's CPU-size twin.
        resume: continue the sweep in `output`: finished runs are kept, failed ones are tried again. It may have other values
            and seeds than before, but nothing else may change. Without a sweep there, begins one.
        report: progress callback.

    Raises:
        ConfigError: the configuration of a cell cannot be understood.
        SweepSettingsError: there is a sweep in `output`, and `resume` is False or its settings are others.
        KeyboardInterrupt: it was interrupted; another call with `resume` continues from there.
    """
    suites = (suite,) if isinstance(suite, str) else tuple(dict.fromkeys(suite))
    measuring = Measuring(None if data is None else str(data), suites, limit, batch_size, task_options or {})
    folder = Path(output)
    plan = plan_sweep(recipe, vary, seeds, measuring, folder, changes=changes, twin=twin)
    if (folder / "sweep.json").exists() and not resume:
        done = sum(planned.found.state == "done" for planned in plan.cells)
        raise SweepSettingsError(
            f"there is a sweep in {folder} already, with {done} of these {len(plan.cells)} cells done; --resume continues "
            "it, another --output starts a new one"
        )
    from robustvit.sweeping.inputs import check_inputs

    plan = check_inputs(plan)
    with join_processes(_backend()) as processes:
        return _run(plan, processes, report)


def planned_result(plan: SweepPlan) -> SweepResult:
    """What there is before any work: the cells as an earlier call left them."""
    return _result(plan, [planned.found for planned in plan.cells])


def _backend() -> str:
    import torch

    return "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"


def _run(plan: SweepPlan, processes: Processes, report: Callable[[SweepProgress], None] | None) -> SweepResult:
    from robustvit.sweeping.cell_run import complete_cell, run_cell

    cells = [planned.found for planned in plan.cells]
    _save(plan, cells, processes)
    for i, planned in enumerate(plan.cells):
        if planned.found.state == "done" and complete_cell(planned, plan.folder, processes):
            continue

        def told(stage: str, done: int = 0, total: int = 0, text: str = "", *, number: int = i + 1) -> None:
            if report is not None and processes.rank == 0:
                name = plan.cells[number - 1].cell.name
                report(SweepProgress(number, len(cells), name, stage, done, total, text))

        told("training")
        cells[i] = run_cell(planned, plan.folder, plan.measuring, processes, told)
        told(cells[i].state, text=cells[i].reason)
        _save(plan, cells, processes)
    return _result(plan, cells)


def _save(plan: SweepPlan, cells: Sequence[SweepCell], processes: Processes) -> None:
    """Writes what there is so far, in the first process."""
    from robustvit.sweeping.table import save_sweep

    if processes.rank == 0:
        try:
            plan.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise explained(error, plan.folder.parent) from error
        check_writable(plan.folder / "sweep.json")
        save_sweep(_result(plan, cells), plan.folder)


def _result(plan: SweepPlan, cells: Sequence[SweepCell]) -> SweepResult:
    return SweepResult(
        recipe=plan.recipe,
        changes=plan.changes,
        twin=plan.twin,
        axes=plan.axes,
        seeds=plan.seeds,
        evaluation=plan.measuring.to_json(),
        cells=tuple(cells),
        versions={"python": platform.python_version(), **{p: version(p) for p in ("robustvit", "torch", "timm", "numpy")}},
    )
