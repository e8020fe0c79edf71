"""`robustvit train`: a recipe, trained."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from robustvit.cli.console import going_on, note, print_json, working
from robustvit.runtime.progress import EveryMinute
from robustvit.runtime.ranks import is_first_process

if TYPE_CHECKING:
    from robustvit.training.result import TrainingResult
    from robustvit.training.train import Progress

__all__ = ["train"]


def train(
    recipe: Annotated[tyro.conf.Positional[Path | None], tyro.conf.arg(metavar="RECIPE")] = None,
    *,
    set: Annotated[tyro.conf.UseAppendAction[tuple[str, ...]], tyro.conf.arg(metavar="NAME=VALUE")] = (),  # noqa: A002
    output: Annotated[Path, tyro.conf.arg(metavar="FOLDER")] = Path("runs/train"),
    resume: bool = False,
    twin: bool = False,
    as_json: Annotated[bool, tyro.conf.arg(name="json")] = False,
) -> None:
    """Train a network from a recipe: any backbone, any combination of TAP, ADL, AFAT, STL and distillation.

    robustvit train fan/vit_tiny --set data.train=imagenet/train --set data.val=imagenet/val

    By default fan_vit_nano on the embedded dataset. Under torchrun, all processes work on one batch.

    Args:
        recipe: a name that `robustvit recipes` lists, or a YAML file; see docs/training.md for its sections.
        set: change a setting of the recipe, as in optimizer.lr=1e-3; may be repeated.
        output: folder of the run.
        resume: continue the run in the folder; RECIPE may then be omitted.
        twin: use the recipe's CPU-size twin, to try it out.
        as_json: print JSON.
    """
    with working("Loading"):
        from robustvit.training.config_io import load_config, load_saved_config
        from robustvit.training.train import train as run_training

        stored = output / "config.yaml"
        if resume and recipe is None and (stored.is_file() or not set):
            config = load_saved_config(stored, set) if stored.is_file() else None
        else:
            config = load_config(recipe, set, twin=twin)
    with going_on(f"`robustvit train --resume --output {output}` continues"), _progress() as report:
        result = run_training(config, output, resume=resume, report=report)
    if not is_first_process():
        result.check_finished()
        return
    for remark in result.notes:
        note(remark)
    if as_json:
        print_json(result.to_json())
    else:
        _print(result)
    with going_on(f"`robustvit train --resume --output {output}` continues after update {result.updates_done}"):
        result.check_finished()


def _print(result: TrainingResult) -> None:
    lines = {"updates": f"{result.updates_done} of {result.updates}"}
    if result.score is not None:
        measure = result.measure
        lines[f"validation {measure.label.lower()}"] = f"{measure.text(result.score)} (best {measure.text(result.best_score)})"
    if result.unreadable:
        lines["unreadable images"] = f"{len(result.unreadable)}; summary.json names them"
    places = [f"{result.folder}/{name}" for name in ("best", "weights") if (result.folder / name).is_dir()]
    lines["weights"] = f"{' and '.join(places)} (model.safetensors, config.json)"
    lines["curves"] = f"{result.folder}/training.png"
    width = max(map(len, lines))
    for label, text in lines.items():
        print(f"{label:<{width}}  {text}")


@contextmanager
def _progress() -> Iterator[Callable[[Progress], None] | None]:
    """Shows images/s, time left and loss terms on stderr, in the first process; one line per minute without a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    if not is_first_process():
        yield None
        return
    if not sys.stderr.isatty():
        yield _lines()
        return
    columns = (TextColumn("epoch {task.fields[epoch]:.2f}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Bar(*columns, TimeRemainingColumn(), TextColumn("{task.fields[told]}"), console=Console(stderr=True)) as bar:
        task = bar.add_task("", epoch=0.0, told="")

        def report(progress: Progress) -> None:
            told, done = _told(progress), progress.update
            bar.update(task, completed=done, total=progress.updates, epoch=progress.epoch, told=told)

        yield report


def _told(progress: Progress) -> str:
    terms = " ".join(f"{name} {value:.3f}" for name, value in progress.terms.items())
    measure = progress.measure
    score = "" if progress.score is None else f" {measure.label.lower()} {measure.text(progress.score)}"
    return f"{progress.images_per_second:.0f} images/s {terms}{score}"


def _lines() -> Callable[[Progress], None]:
    minute, started = EveryMinute(), time.monotonic()
    first: int | None = None

    def report(progress: Progress) -> None:
        nonlocal first
        first = progress.update - 1 if first is None else first
        if minute.is_due():
            left = (time.monotonic() - started) / (progress.update - first) * (progress.updates - progress.update)
            note(f"update {progress.update} of {progress.updates}, {left / 60:.0f} min left: {_told(progress)}")

    return report
