"""Perturbation sequences: how often a network changes its mind while a picture changes little by little."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor, nn

from robustvit.corruptions.sequences import SEQUENCES, Benchmark
from robustvit.data.readers.films import FilmSet
from robustvit.data.samples import UnreadablePictureError
from robustvit.evaluation.classification import Task, logits_of
from robustvit.evaluation.results import CellResult
from robustvit.evaluation.scores import Scores
from robustvit.metrics.alexnet import ALEXNET_FLIPS
from robustvit.metrics.bootstrap import Statistic
from robustvit.metrics.flips import flip_probability, mfp, mfr, sequence_rule
from robustvit.metrics.top5_distance import LARGEST_DISTANCE, mean_ut5d, rank_classes, sequence_top5_distance
from robustvit.runtime.interruption import check_interrupted
from robustvit.runtime.prefetch import Prefetch
from robustvit.runtime.processes import Processes
from robustvit.runtime.stored_work import Part, StoredWork

__all__ = ["FILM_SIZES", "SequenceOutcome", "evaluate_sequences", "film_kinds", "score_sequences", "sequence_cells"]

FILM_SIZES: dict[tuple[int, int], Benchmark] = {(224, 224): "imagenet", (32, 32): "cifar"}
"""Size of the frames -> whose parameters make them."""


def film_kinds(benchmark: Benchmark) -> tuple[str, ...]:
    """The 10 kinds that count: CIFAR-P has spatter in place of snow."""
    kinds = [name for name, sequence in SEQUENCES.items() if not sequence.is_extra]
    return tuple("spatter" if kind == "snow" and benchmark == "cifar" else kind for kind in kinds)


@dataclass(frozen=True)
class SequenceOutcome:
    """What a network did.

    Attributes:
        ids: of the subjects.
        flips: [subjects, kinds] flip probability of every film.
        distances: [subjects, kinds] top-5 distance (uT5D); NaN for networks with fewer than 5 outputs.
        skipped: (id, reason) of what could not be read.
    """

    ids: list[str]
    flips: np.ndarray
    distances: np.ndarray
    skipped: list[tuple[str, str]]


def evaluate_sequences(
    model: nn.Module,
    task: Task,
    films: FilmSet,
    processes: Processes,
    *,
    stored: StoredWork | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> SequenceOutcome:
    """Shows the network every film.

    Args:
        model: the network, in evaluation mode.
        task: how frames become its input.
        films: what to show.
        processes: among whom the subjects are shared out.
        stored: where finished subjects are kept and found again; None for nowhere.
        progress: told (subjects done, in all) of this process.
    """
    mine = range(processes.rank, len(films), processes.world)
    found = {i: row for i in mine if stored and (row := stored.load(_name(i), _row)) is not None}
    waiting = [i for i in mine if i not in found]

    def made() -> Iterator[tuple[int, list[Tensor] | str]]:
        for i in waiting:
            try:
                yield i, films.frames(i)
            except UnreadablePictureError as error:
                yield i, str(error)

    with Prefetch(made(), ahead=1) as prepared:
        for i, frames in prepared:
            skipped = isinstance(frames, str)
            row = {"id": films.id(i), "skipped": frames} if skipped else _scores(model, task, films, frames)  # type: ignore[arg-type]
            found[i] = row
            if stored is not None:
                stored.save(_name(i), Part(row, {}))
            if progress is not None:
                progress(len(found), len(mine))
    rows = {i: row for part in processes.gather(found) for i, row in part.items()}
    kept = [i for i in sorted(rows) if "skipped" not in rows[i]]
    shape = (-1, len(films.kinds))
    return SequenceOutcome(
        ids=[films.id(i) for i in kept],
        flips=np.array([rows[i]["flips"] for i in kept], np.float64).reshape(shape),
        distances=np.array([rows[i]["distances"] for i in kept], np.float64).reshape(shape),
        skipped=[(rows[i]["id"], rows[i]["skipped"]) for i in sorted(rows) if "skipped" in rows[i]],
    )


def _scores(model: nn.Module, task: Task, films: FilmSet, frames: list[Tensor]) -> dict[str, Any]:
    flips, distances = [], []
    for kind, film in zip(films.kinds, frames, strict=True):
        check_interrupted()
        ranked = [_best_five(logits_of(model, task, part)) for part in film.split(task.batch_size)]
        ranking, rule = np.concatenate(ranked)[None], sequence_rule(kind)  # 1 T 5
        flips.append(flip_probability(ranking[..., 0], rule))
        distances.append(sequence_top5_distance(ranking, rule) if ranking.shape[-1] == 5 else float("nan"))
    return {"flips": flips, "distances": distances}


def _best_five(logits: Tensor) -> np.ndarray:
    """Classes from the best on [B, 5], or fewer where there are fewer; of equal logits the lower class comes first."""
    return rank_classes(logits)[:, :5].cpu().numpy()


def _row(part: Part) -> dict[str, Any]:
    """The scores of a subject as they were stored, or why it was skipped."""
    wanted = ("id", "skipped") if "skipped" in part.values else ("flips", "distances")
    return {key: part.values[key] for key in wanted}


def _name(i: int) -> str:
    """Of the stored films of a subject."""
    return f"films-{i:06}"


def sequence_cells(outcome: SequenceOutcome, kinds: Sequence[str], suite: str) -> list[CellResult]:
    """A cell for each kind."""
    subjects = len(outcome.flips)
    return [
        CellResult(suite, kind, 0, subjects, None, flip_probability=float(p), top5_distance=None if d != d else float(d))
        for kind, p, d in zip(kinds, outcome.flips.mean(0), outcome.distances.mean(0), strict=True)
    ]


def score_sequences(outcome: SequenceOutcome, kinds: Sequence[str], benchmark: Benchmark) -> Scores:
    """The means over the kinds.

    Args:
        outcome: of the network, one subject or more.
        kinds: of films.
        benchmark: "imagenet" divides by AlexNet's flips as well.
    """
    K = len(kinds)
    summary: dict[str, Statistic] = {"mean_flip_probability": lambda means: mfp(means[..., :K])}
    if benchmark == "imagenet":
        baseline = np.array([ALEXNET_FLIPS.values[kind] for kind in kinds])
        summary["mean_flip_rate"] = lambda means: mfr(means[..., :K], baseline)
    cells, table = [(kind, 0) for kind in kinds], outcome.flips.T
    if np.isfinite(outcome.distances).all():
        cells += [(f"{kind} top-5 distance", 0) for kind in kinds]
        table = np.concatenate([table, outcome.distances.T / LARGEST_DISTANCE])  # as fractions
        summary["mean_top5_distance"] = lambda means: LARGEST_DISTANCE * mean_ut5d(means[..., K:])
    return Scores(outcome.ids, tuple(cells), table, summary)
