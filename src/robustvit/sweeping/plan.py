"""What a sweep has to do, and what of it is done. Everything that can be wrong is found here, before the first training."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from robustvit.evaluation.plan import check_suites
from robustvit.sweeping.grid import Axis, Cell, cells_of, label_of, parse_vary
from robustvit.sweeping.result import SweepCell
from robustvit.training.config import TrainConfig
from robustvit.training.config_io import changed_settings, config_to_dict, load_config

__all__ = ["Measuring", "PlannedCell", "SweepPlan", "SweepSettingsError", "check_measuring", "plan_sweep"]

RUNS = "runs"
RECORD = "cell.json"
"""In the folder of a run: how the cell ended."""


class SweepSettingsError(ValueError):
    """The folder has a sweep already, or one with other settings."""


@dataclass(frozen=True)
class Measuring:
    """How every run is measured: arguments of `evaluate`. `data` is None for the recipe's own data.val."""

    data: str | None
    suites: tuple[str, ...]
    limit: int | None
    batch_size: int

    def source(self, config: TrainConfig) -> str:
        return self.data or config.data.val

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "suites": list(self.suites)}


@dataclass(frozen=True)
class PlannedCell:
    """A run to be: its place in the grid, its configuration, and how an earlier call left it."""

    cell: Cell
    config: TrainConfig
    found: SweepCell


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
        ValueError: an impossible grid, an unknown suite, no pictures to measure on.
    """
    axes = tuple(map(parse_vary, vary))
    cells = cells_of(axes, seeds, changes)
    configs = [load_config(recipe, cell.changes, twin=twin) for cell in cells]
    _check_different(cells, configs)
    _check(measuring, configs)
    _check_stored(folder, axes, measuring)
    pairs = zip(cells, configs, strict=True)
    planned = tuple(PlannedCell(cell, config, _found(folder, cell, config, measuring)) for cell, config in pairs)
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
    then = {"varied": list(stored["vary"]), **stored["evaluation"]}
    if changed := [f"{name} was {then.get(name)!r} and is {now[name]!r}" for name in now if then.get(name) != now[name]]:
        raise SweepSettingsError(f"the sweep in {folder} has other settings: {', '.join(changed)}; give another --output")


def _found(folder: Path, cell: Cell, config: TrainConfig, measuring: Measuring) -> SweepCell:
    """How an earlier call left this cell.

    Raises:
        SweepSettingsError: its run was begun with another configuration.
    """
    place = Path(RUNS, cell.name)
    stored = folder / place / "config.yaml"
    if stored.is_file():
        then = load_config(stored)
        changed = changed_settings(then, config)
        if then.loop.max_updates != config.loop.max_updates:  # a run may go on with another, but its numbers are of this one
            changed["loop.max_updates"] = (then.loop.max_updates, config.loop.max_updates)
        if changed:
            told = ", ".join(f"{key} was {was!r} and is {now!r}" for key, (was, now) in list(changed.items())[:5])
            raise SweepSettingsError(f"{folder / place} was trained with other settings: {told}; give another --output")
    record = _read(folder / place / RECORD) or {}
    if record.get("measured") != measuring.to_json():  # the weights stay, their numbers do not
        return SweepCell(cell.settings, cell.seed, place)
    end = (record["state"], record["numbers"], record["reason"], record["version"])
    return SweepCell(cell.settings, cell.seed, place, *end)


def _read(path: Path) -> dict[str, Any] | None:
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise SweepSettingsError(f"{path} cannot be read ({error}); delete it, or give another --output") from error


def check_measuring(plan: SweepPlan) -> None:
    """Opens the pictures to train and to measure on, as the cells that wait will.

    Raises:
        ValueError, OSError: they are not there, or do not fit the network.
    """
    import torch

    from robustvit.data.protocols import protocol_of
    from robustvit.evaluation.plan import Settings
    from robustvit.evaluation.plan import plan as plan_evaluation
    from robustvit.training.networks import build_network
    from robustvit.training.training_sets import training_pictures

    measuring, seen = plan.measuring, set()
    for planned in plan.cells:
        config = planned.config
        if planned.found.state == "done" or config.data in seen:
            continue
        fresh = replace(config.model, pretrained=False, checkpoint="")
        try:
            with torch.device("meta"):  # only to ask what it takes
                size = protocol_of("model", build_network(fresh, 2, config.augment)).size
        except Exception:  # the cell will say so when its turn comes; others may be all right
            continue
        seen.add(config.data)
        pictures = training_pictures(config.data, img_size=size, seed=config.loop.seed)
        with torch.device("meta"):
            network = build_network(fresh, config.model.num_classes or pictures.num_classes, config.augment)
        settings = Settings(limit=measuring.limit, batch_size=measuring.batch_size)
        plan_evaluation(network, measuring.source(config), measuring.suites, settings)
