"""The runs of a sweep and which of them are done. All mistakes are reported here, before the first training."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from robustvit.evaluation.suites.registry import check_suites
from robustvit.runtime.checked_json import read_checked_json
from robustvit.runtime.damage import warn_of_damage
from robustvit.sweeping.grid import Axis, Cell, cells_of, label_of, parse_vary
from robustvit.sweeping.result import State, SweepCell
from robustvit.tasks.base import Task
from robustvit.tasks.registry import task_named
from robustvit.training.config import TrainConfig
from robustvit.training.config_io import changed_settings, config_to_dict, load_config

__all__ = ["Measuring", "PlannedCell", "SweepPlan", "SweepSettingsError", "plan_sweep"]

RUNS = "runs"
RECORD = "cell.json"
"""In the folder of a run: how the cell ended."""


class SweepSettingsError(ValueError):
    """The folder has a sweep already, or one with other settings."""


@dataclass(frozen=True)
class Measuring:
    """How every run is measured: arguments of `evaluate`.

    Attributes:
        data: None for the recipe's own data.val.
        options: of the task.
    """

    data: str | None
    suites: tuple[str, ...]
    limit: int | None
    batch_size: int
    options: Mapping[str, Any] = field(default_factory=dict)

    def source(self, config: TrainConfig) -> str:
        return self.data or config.data.val

    def task(self, config: TrainConfig) -> Task:
        """The task of a run, as it is measured: with the options of its validation, and those of the sweep before them."""
        return task_named(config.task).with_options(**{**config.validation, **self.options})

    def to_json(self) -> dict[str, Any]:
        plain = {**vars(self), "suites": list(self.suites)}
        return plain if self.options else {name: value for name, value in plain.items() if name != "options"}


@dataclass(frozen=True)
class PlannedCell:
    """A run to be: its place in the grid, its configuration, and how an earlier call left it.

    Attributes:
        inputs: fingerprint of images and starting weights that it was begun with; empty if it was not.
        weights: digest of the weights that were measured; empty if they were not.
    """

    cell: Cell
    config: TrainConfig
    found: SweepCell
    inputs: str = ""
    weights: str = ""


@dataclass(frozen=True)
class SweepPlan:
    """All cells of a sweep in `folder`; the attributes are those of `SweepResult`."""

    folder: Path
    recipe: str | None
    changes: tuple[str, ...]
    twin: bool
    axes: tuple[Axis, ...]
    seeds: tuple[int, ...]
    measuring: Measuring
    cells: tuple[PlannedCell, ...]


def plan_sweep(
    recipe: str | Path | None,
    vary: Sequence[str],
    seeds: Sequence[int],
    measuring: Measuring,
    folder: Path,
    *,
    changes: Sequence[str] = (),
    twin: bool = False,
) -> SweepPlan:
    """Loads the configuration of every cell and looks at what is in `folder`; writes nothing.

    Args:
        recipe, vary, seeds, changes, twin: see `sweep`.
        measuring: how runs are measured.
        folder: of the sweep.

    Raises:
        ConfigError: a cell's configuration cannot be understood.
        SweepSettingsError: `folder` has a sweep with other settings.
        ValueError: an impossible grid, an unknown suite, no images to measure on.
    """
    axes = tuple(map(parse_vary, vary))
    cells = cells_of(axes, seeds, changes)
    configs = [load_config(recipe, cell.changes, twin=twin) for cell in cells]
    _check_different(cells, configs)
    _check(measuring, configs)
    _check_stored(folder, axes, measuring)
    pairs = zip(cells, configs, strict=True)
    planned = tuple(_planned(folder, cell, config, measuring) for cell, config in pairs)
    name = None if recipe is None else str(recipe)
    return SweepPlan(folder, name, tuple(changes), twin, axes, tuple(seeds), measuring, planned)


def _check_different(cells: Sequence[Cell], configs: Sequence[TrainConfig]) -> None:
    seen: dict[str, Cell] = {}
    for cell, config in zip(cells, configs, strict=True):
        key = json.dumps(config_to_dict(config), sort_keys=True, default=str)
        if key in seen:
            one, other = (" and ".join(f"{k}={label_of(v)}" for k, v in c.settings.items()) for c in (seen[key], cell))
            raise ValueError(f"{one} is the same run as {other}; leave one of them out")
        seen[key] = cell


def _check(measuring: Measuring, configs: Sequence[TrainConfig]) -> None:
    check_suites(measuring.suites)
    if not measuring.suites:
        raise ValueError("there is nothing to measure; give --suite clean common15")
    for what, number in (("limit", measuring.limit), ("batch_size", measuring.batch_size)):
        if number is not None and number < 1:
            raise ValueError(f"{what}={number} is not possible; give at least 1")
    for config in configs:
        measuring.task(config)  # says at once that it has no such option
    if not all(measuring.source(config) for config in configs):
        raise ValueError("the recipe has no data.val to measure the runs on; give --data PATH")


def _check_stored(folder: Path, axes: Sequence[Axis], measuring: Measuring) -> None:
    """Refuses a folder whose sweep varies or measures something else."""
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"{folder} is a file; give a folder for the sweep")
    stored = _read(folder / "sweep.json")
    if stored is None:
        return
    now = {"varied": [axis.name for axis in axes], **measuring.to_json()}
    try:
        then = {"varied": list(stored["vary"]), **stored["evaluation"]}
    except (KeyError, TypeError) as error:
        warn_of_damage(folder / "sweep.json", error)
        return
    names = dict.fromkeys([*now, *(["options"] if "options" in then else [])])
    if changed := [f"{k} was {then.get(k)!r} and is {now.get(k)!r}" for k in names if then.get(k) != now.get(k)]:
        raise SweepSettingsError(f"the sweep in {folder} has other settings: {', '.join(changed)}; give another --output")


def _planned(folder: Path, cell: Cell, config: TrainConfig, measuring: Measuring) -> PlannedCell:
    """A cell, and how an earlier call left it.

    Raises:
        SweepSettingsError: its run was begun with another configuration.
    """
    place = Path(RUNS, cell.name)
    _check_config(folder / place, config)
    waiting = SweepCell(cell.settings, cell.seed, place)
    record = _read(folder / place / RECORD)
    if record is None:
        return PlannedCell(cell, config, waiting)
    inputs, weights = str(record.get("inputs", "")), str(record.get("weights", ""))
    if record.get("measured") != measuring.to_json():  # the weights stay, their numbers do not
        return PlannedCell(cell, config, waiting, inputs)
    try:
        found = SweepCell(cell.settings, cell.seed, place, *_end(record))
    except (KeyError, TypeError, ValueError) as error:
        warn_of_damage(folder / place / RECORD, error)
        return PlannedCell(cell, config, waiting, inputs)
    return PlannedCell(cell, config, found, inputs, weights)


def _end(record: dict[str, Any]) -> tuple[State, dict[str, float], str, str]:
    """How a cell ended: state, numbers, reason, version."""
    state = record["state"]
    if state not in get_args(State):
        raise ValueError(f"the state {state!r} is not known")
    numbers = {str(name): float(value) for name, value in record["numbers"].items()}
    return state, numbers, str(record["reason"]), str(record["version"])


def _check_config(place: Path, config: TrainConfig) -> None:
    stored = place / "config.yaml"
    if not stored.is_file():
        return
    try:
        then = load_config(stored)
    except ValueError as error:
        raise SweepSettingsError(f"{stored} cannot be read ({error}); delete {place} to repeat that run") from error
    changed = changed_settings(then, config)
    if then.loop.max_updates != config.loop.max_updates:  # may change in a run, but its numbers belong to this one
        changed["loop.max_updates"] = (then.loop.max_updates, config.loop.max_updates)
    if changed:
        told = ", ".join(f"{key} was {was!r} and is {now!r}" for key, (was, now) in list(changed.items())[:5])
        raise SweepSettingsError(f"{place} was trained with other settings: {told}; give another --output")


def _read(path: Path) -> dict[str, Any] | None:
    """What a JSON file holds; None where there is none, or a damaged one."""
    try:
        return read_checked_json(path)
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError) as error:
        warn_of_damage(path, error)
        return None
