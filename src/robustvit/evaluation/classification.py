"""Running a classifier over pictures, every picture under all its conditions in one pass.

A picture is decoded once; its corruptions are made in a thread beside the network. What a batch gave is kept in memory and, if
there is a place for it, on disk, so that an interrupted run goes on where it stopped. Batches are dealt out to the processes
of a distributed run as wholes, so that the result does not depend on how many there are.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from robustvit.attacks.attack import FIT_BATCH, FIT_REMEDY, Attack
from robustvit.attacks.pixel_network import PixelNetwork
from robustvit.data.protocols import Protocol
from robustvit.data.samples import Sample, SampleSet, UnreadablePictureError
from robustvit.evaluation.attacking import CHANGES, Attacker, size_of_change
from robustvit.evaluation.conditions import Condition, Damage
from robustvit.metrics.accuracy import is_right
from robustvit.metrics.class_subset import keep_classes
from robustvit.models.class_logits import class_logits
from robustvit.runtime.interruption import check_interrupted
from robustvit.runtime.memory import fits_memory
from robustvit.runtime.prefetch import Prefetch
from robustvit.runtime.stored_work import Part, StoredWork
from robustvit.tasks.class_matching import ClassMismatchError, Matching

__all__ = ["NO_ANSWER", "Outcome", "Task", "classify", "logits_of", "predict"]

NO_ANSWER = -1
"""Stands for the class where a network gives numbers that are not finite."""

Progress = Callable[[int, int], None]
"""Told (pictures x conditions done, in all)."""


@dataclass(frozen=True)
class Task:
    """What to run.

    Attributes:
        pictures: the set.
        protocol: how a picture becomes the input.
        conditions: what each picture meets, the clean one first if it is there.
        damage: how conditions are made.
        matching: of the classes of the set and the outputs of the network.
        mean, std: of the input.
        batch_size: pictures at once.
        attacks: made from the clean pictures, after the conditions.
    """

    pictures: SampleSet
    protocol: Protocol
    conditions: tuple[Condition, ...]
    damage: Damage
    matching: Matching
    mean: tuple[float, ...]
    std: tuple[float, ...]
    batch_size: int = 32
    attacks: tuple[Attack, ...] = ()

    @property
    def targets(self) -> tuple[int, ...]:
        """Class of the set -> position among the columns."""
        return self.matching.targets

    @property
    def columns(self) -> tuple[int, ...] | None:
        """Outputs of the network that compete; None for all."""
        return self.matching.columns

    @property
    def outputs(self) -> int:
        """How many compete."""
        return len(self.columns) if self.columns is not None else self.matching.outputs

    def class_name(self, position: int) -> str:
        """What an answer (a position among the columns) is called; the number of the output where nobody knows."""
        if position == NO_ANSWER:
            return "no answer"
        return self.matching.names.get(position) or f"output {position if self.columns is None else self.columns[position]}"

    @property
    def rows(self) -> tuple[Condition, ...]:
        """What there are answers to: the conditions, and a row or more of each attack."""
        return (*self.conditions, *(Condition(row) for attack in self.attacks for row in attack.rows))

    def pixel_network(self, model: nn.Module) -> PixelNetwork:
        """What the attacks work on: pixels in 0 .. 1 -> logits of the outputs that compete."""
        return PixelNetwork(model, self.mean, self.std, self.columns)

    def attacker(self, model: nn.Module) -> Attacker:
        """Who makes the attacks."""
        return Attacker(self.pixel_network(model), self.attacks, self.pictures, self.protocol, self.damage.seed)

    def target(self, picture: Sample) -> int:
        """The position among the columns that is right for this picture."""
        if not 0 <= picture.target() < len(self.targets):
            raise ClassMismatchError(
                f"picture {picture.id} of {self.pictures.name} has label {picture.target()}, but there are only outputs for "
                f"labels 0 to {len(self.targets) - 1}; is this the network for these pictures?"
            )
        return self.targets[picture.target()]


@dataclass
class Outcome:
    """What the network answered.

    Attributes:
        ids: of the pictures, N of them.
        labels: [N] positions among the columns.
        predictions: [conditions, N] likewise, or NO_ANSWER.
        confidences: [conditions, N] the softmax of the prediction.
        skipped: (id, reason) of what could not be read.
        changes: [conditions, N, 3] the `CHANGES` that attacks made; 0 by default.
    """

    ids: list[str]
    labels: np.ndarray
    predictions: np.ndarray
    confidences: np.ndarray
    skipped: list[tuple[str, str]]
    changes: np.ndarray = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if self.changes is None:
            self.changes = np.zeros((*self.predictions.shape, len(CHANGES)), np.float32)

    @property
    def correct(self) -> np.ndarray:
        """[conditions, N] bool."""
        return is_right(self.predictions, self.labels)

    def only(self, condition: int) -> Outcome:
        """The same pictures under one condition."""
        rows = slice(condition, condition + 1)
        answers = (self.predictions[rows], self.confidences[rows])
        return Outcome(self.ids, self.labels, *answers, self.skipped, self.changes[rows])

    def of(self, ids: Sequence[str]) -> Outcome:
        """Only these pictures, in this order."""
        places = {name: i for i, name in enumerate(self.ids)}
        rows = np.array([places[name] for name in ids], np.int64)
        answers = (self.predictions[:, rows], self.confidences[:, rows])
        return Outcome(list(ids), self.labels[rows], *answers, self.skipped, self.changes[:, rows])

    @staticmethod
    def join(parts: Sequence[Outcome], conditions: int) -> Outcome:
        empty = np.zeros((conditions, 0))
        return Outcome(
            ids=[i for part in parts for i in part.ids],
            labels=np.concatenate([np.zeros(0, np.int64), *(part.labels for part in parts)]),
            predictions=np.concatenate([empty.astype(np.int64), *(part.predictions for part in parts)], axis=1),
            confidences=np.concatenate([empty.astype(np.float32), *(part.confidences for part in parts)], axis=1),
            skipped=[s for part in parts for s in part.skipped],
            changes=np.concatenate(
                [np.zeros((conditions, 0, len(CHANGES)), np.float32), *(part.changes for part in parts)], axis=1
            ),
        )

    def to_part(self) -> Part:
        """For `StoredWork`."""
        arrays = {name: getattr(self, name) for name in ("labels", "predictions", "confidences", "changes")}
        return Part({"ids": self.ids, "skipped": self.skipped}, arrays)

    @staticmethod
    def from_part(part: Part) -> Outcome:
        skipped = [(i, reason) for i, reason in part.values["skipped"]]
        return Outcome(ids=part.values["ids"], skipped=skipped, **part.arrays)


def classify(
    model: nn.Module,
    task: Task,
    *,
    attacker: Attacker | None = None,
    stored: StoredWork | None = None,
    rank: int = 0,
    world: int = 1,
    progress: Progress | None = None,
) -> list[tuple[int, Outcome]]:
    """What the network answers to the batches of this process, as (number of the batch, outcome).

    Args:
        model: the network, in evaluation mode, on its device.
        task: what to run.
        attacker: of the task and this network; None makes one.
        stored: where finished batches are kept and found again; None for nowhere.
        rank, world: this process and how many there are.
        progress: called after every forward pass, about the pictures of this process.
    """
    done = dict(_finished(stored, rank, world))
    lessons = sum(attack.learns_from for attack in task.attacks)
    total = _share(len(task.pictures), task.batch_size, rank, world) * len(task.rows) + lessons
    count = sum(len(outcome.ids) + len(outcome.skipped) for outcome in done.values()) * len(task.rows)

    def step(pictures: int) -> None:
        nonlocal count
        check_interrupted()
        count += pictures
        if progress:
            progress(count, max(total, count))

    step(0)
    attacker = attacker or task.attacker(model)
    batches = _batches(task, lambda k: k % world == rank and k not in done)
    with Prefetch(_inputs(task, batches)) as inputs:
        for decoded in inputs:
            assert isinstance(decoded, _Decoded)
            with fits_memory(FIT_BATCH, task.protocol.size, FIT_REMEDY):
                attacker.prepare(step)
            with fits_memory(len(decoded.kept), task.protocol.size):
                outcome = _answer(model, task, decoded, inputs, attacker, step)
            step(len(decoded.skipped) * len(task.rows))
            if stored is not None:
                stored.save(f"batch-{decoded.number:06}", outcome.to_part())
            done[decoded.number] = outcome
    return sorted(done.items())


def _finished(stored: StoredWork | None, rank: int, world: int) -> Iterator[tuple[int, Outcome]]:
    for number in stored.numbers("batch") if stored else ():
        outcome = stored.load(f"batch-{number:06}", Outcome.from_part) if stored and number % world == rank else None
        if outcome is not None:
            yield number, outcome


def _share(pictures: int, batch_size: int, rank: int, world: int) -> int:
    """How many pictures the batches of this process have."""
    batches = range(rank, math.ceil(pictures / batch_size), world)
    return sum(min(batch_size, pictures - k * batch_size) for k in batches)


def _batches(task: Task, wanted: Callable[[int], bool]) -> Iterator[tuple[int, list[Sample]]]:
    """(number, pictures) of the wanted batches; nothing is decoded."""
    size, at = task.batch_size, getattr(task.pictures, "at", None)
    if at is not None:
        for k in filter(wanted, range(math.ceil(len(task.pictures) / size))):
            yield k, [at(i) for i in range(k * size, min((k + 1) * size, len(task.pictures)))]
        return
    pictures = iter(task.pictures)  # a stream: what is not wanted must pass by
    for k in itertools.count():
        batch = list(itertools.islice(pictures, size))
        if not batch:
            return
        if wanted(k):
            yield k, batch


@dataclass
class _Decoded:
    """A batch that could be read, and what could not."""

    number: int
    kept: list[Sample]
    images: Tensor
    skipped: list[tuple[str, str]]


def _inputs(task: Task, batches: Iterator[tuple[int, list[Sample]]]) -> Iterator[_Decoded | Tensor]:
    """Every batch, followed by its pictures under each of the conditions (unless it has none)."""
    with ThreadPoolExecutor(max_workers=2) as pool:
        for number, batch in batches:
            decoded = _decode(number, batch, task.protocol, pool)
            yield decoded
            ids = [picture.id for picture in decoded.kept]
            for condition in task.conditions if ids else ():
                yield task.damage.apply(decoded.images, ids, condition)


def _decode(number: int, batch: list[Sample], protocol: Protocol, pool: ThreadPoolExecutor) -> _Decoded:
    def read(picture: Sample) -> Tensor | str:
        try:
            return protocol.apply(picture.open())
        except (UnreadablePictureError, ValueError) as error:
            return str(error)

    results = list(pool.map(read, batch))
    kept = [(picture, image) for picture, image in zip(batch, results, strict=True) if isinstance(image, Tensor)]
    skipped = [(p.id, reason) for p, reason in zip(batch, results, strict=True) if isinstance(reason, str)]
    H, W = protocol.size
    images = torch.stack([image for _, image in kept]) if kept else torch.empty(0, 3, H, W, dtype=torch.uint8)
    return _Decoded(number, [picture for picture, _ in kept], images, skipped)


def _answer(
    model: nn.Module,
    task: Task,
    decoded: _Decoded,
    inputs: Iterator[_Decoded | Tensor],
    attacker: Attacker,
    step: Callable[[int], None],
) -> Outcome:
    N, ids = len(decoded.kept), [picture.id for picture in decoded.kept]
    labels = np.array([task.target(picture) for picture in decoded.kept], np.int64)
    shape = (len(task.rows), N)
    outcome = Outcome(ids, labels, np.zeros(shape, np.int64), np.zeros(shape, np.float32), decoded.skipped)
    if not N:
        return outcome

    def shown() -> Iterator[Tensor]:
        yield from (next(inputs) for _ in task.conditions)  # type: ignore[misc]
        yield from attacker.rows(decoded.images, labels.tolist(), ids)

    for row, images in enumerate(shown()):
        best, index = predict(model, task, images)
        outcome.predictions[row], outcome.confidences[row] = index.cpu().numpy(), best.cpu().numpy()
        if row >= len(task.conditions):
            outcome.changes[row] = size_of_change(images, decoded.images)
        step(N)
    return outcome


@torch.inference_mode()
def logits_of(model: nn.Module, task: Task, images: Tensor) -> Tensor:
    """uint8 [B, 3, H, W], or float in 0 .. 1 -> logits of the outputs that compete [B, K]."""
    parameter = next(model.parameters(), torch.zeros(()))
    white = 1 if images.is_floating_point() else 255
    scale = torch.tensor(task.std, device=parameter.device)[:, None, None] * white
    shift = torch.tensor(task.mean, device=parameter.device)[:, None, None] * white
    x = ((images.to(parameter.device).float() - shift) / scale).to(parameter.dtype)
    logits = class_logits(model(x), model, len(x)).detach().float()  # a view of a parameter wants gradients even here
    return logits if task.columns is None else keep_classes(logits, task.columns)


def predict(model: nn.Module, task: Task, images: Tensor) -> tuple[Tensor, Tensor]:
    """(confidence, class) of each picture; NO_ANSWER, without confidence, where the logits are not finite."""
    logits = logits_of(model, task, images)
    confidence, answer = logits.softmax(-1).max(-1)
    finite = logits.isfinite().all(-1)
    return torch.where(finite, confidence, 0), torch.where(finite, answer, NO_ANSWER)
