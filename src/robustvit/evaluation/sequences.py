"""Perturbation sequences: how often a network changes its mind while a picture changes little by little."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

import numpy as np
from torch import nn

from robustvit.corruptions.sequences import SEQUENCES, Benchmark, perturbation_sequence, source_frame
from robustvit.data.pictures import Picture, UnreadablePictureError
from robustvit.evaluation.classification import Task, logits_of
from robustvit.evaluation.processes import Processes
from robustvit.evaluation.results import CellResult, Value
from robustvit.metrics.bootstrap import bootstrap_cells
from robustvit.metrics.flips import flip_probability, mean_flip_probability, mean_flip_rate, sequence_rule

__all__ = ["FILM_SIZES", "evaluate_sequences"]

FILM_SIZES: dict[tuple[int, int], Benchmark] = {(224, 224): "imagenet", (32, 32): "cifar"}
"""Size of the frames -> whose parameters make them."""


def evaluate_sequences(
    model: nn.Module, task: Task, processes: Processes, report: Callable[[str, int, int], None] | None
) -> tuple[list[CellResult], dict[str, Value], list[tuple[str, str]]]:
    """A cell for each of the 10 types, the means over them, and (id, reason) of what could not be read.

    Args:
        model: the network, in evaluation mode.
        task: whose pictures become films; networks for 32 pixels get those of CIFAR-P, others those of ImageNet-P.
        processes: among whom the pictures are shared out.
        report: told about progress.
    """
    kinds = [name for name, sequence in SEQUENCES.items() if not sequence.is_extra]
    flips: dict[int, list[float]] = {}
    skipped: list[tuple[str, str]] = []
    mine = islice(enumerate(task.pictures), processes.rank, None, processes.world)
    for done, (i, picture) in enumerate(mine, start=1):
        try:
            flips[i] = _flips(model, task, picture, kinds)
        except UnreadablePictureError as error:
            skipped.append((picture.id, str(error)))
        if report is not None:
            report("imagenet-p", min(done * processes.world, len(task.pictures)), len(task.pictures))
    parts = processes.gather((flips, skipped))
    rows = {i: row for part, _ in parts for i, row in part.items()}
    table = np.array([rows[i] for i in sorted(rows)]).reshape(-1, len(kinds))  # pictures, kinds
    return *_summary(table, kinds, task), [s for _, part in parts for s in part]


def _flips(model: nn.Module, task: Task, picture: Picture, kinds: list[str]) -> list[float]:
    """The flip probability of each kind of film of one picture."""
    benchmark = FILM_SIZES[task.protocol.size]
    source = source_frame(picture.open(), benchmark)
    probabilities = []
    for kind in kinds:
        frames = perturbation_sequence(source, kind, seed=task.damage.seed, sample_id=picture.id, benchmark=benchmark)
        answers = [logits_of(model, task, part).argmax(-1).cpu().numpy() for part in frames.split(task.batch_size)]
        probabilities.append(flip_probability(np.concatenate(answers)[None], sequence_rule(kind)))
    return probabilities


def _summary(table: np.ndarray, kinds: list[str], task: Task) -> tuple[list[CellResult], dict[str, Value]]:
    if not len(table):
        return [], {}
    probabilities = dict(zip(kinds, table.mean(0).tolist(), strict=True))
    cells = [CellResult("imagenet-p", kind, 0, len(table), None, flip_probability=p) for kind, p in probabilities.items()]
    mean = bootstrap_cells(table.T, lambda means: means.mean(-1))
    summary = {"mean_flip_probability": Value(mean_flip_probability(probabilities), mean.low, mean.high)}
    if FILM_SIZES[task.protocol.size] == "imagenet":
        summary["mean_flip_rate"] = Value(mean_flip_rate(probabilities))
    return cells, summary
