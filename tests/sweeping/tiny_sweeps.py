"""Sweeps whose runs take a second: a tiny network, a few updates, a few generated images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from robustvit.sweeping.grid import cells_of, parse_vary
from robustvit.sweeping.result import State, SweepCell, SweepResult
from robustvit.sweeping.sweep import sweep

TINY = (
    "model.options={embed_dims: [32], depths: [1], num_heads: [2]}",
    "data.train=scenes-easy:16",
    "data.val=",
    "loop.batch_size=8",
    "loop.max_updates=2",
    "loop.checkpoint_every=1",
    "loop.device=cpu",
    "schedule.epochs=1",
    "schedule.warmup_epochs=0",
)
RATES = ["optimizer.lr=0.001,0.02"]


def tiny_sweep(output: Path, vary: list[str] = RATES, seeds: tuple[int, ...] = (0, 1), **options: Any) -> SweepResult:
    given: dict[str, Any] = dict(changes=TINY, data="scenes-easy:12", suite="clean", limit=6, batch_size=2)
    recipe = options.pop("recipe", None)
    return sweep(recipe, vary, seeds, output=output, **{**given, **options})


def made_result(
    vary: list[str], numbers: list[dict[str, float]], seeds: tuple[int, ...], states: dict[int, State] | None = None
) -> SweepResult:
    """A result without any run: the numbers of each cell, in the order of the grid."""
    axes = tuple(map(parse_vary, vary))
    cells = []
    for i, (cell, found) in enumerate(zip(cells_of(axes, seeds), numbers, strict=True)):
        state = (states or {}).get(i, "done")
        reason = "the loss is not a number" if state == "failed" else ""
        cells.append(
            SweepCell(cell.settings, cell.seed, Path("runs", cell.name), state, found if state == "done" else {}, reason)
        )
    evaluation = {"data": "scenes", "suites": ["clean", "common15"], "limit": None, "batch_size": 32}
    return SweepResult("recipe.yaml", (), False, axes, seeds, evaluation, tuple(cells), {"robustvit": "0"})
