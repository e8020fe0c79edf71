"""Running a classifier over pictures, every picture under all its conditions in one pass.

A picture is decoded once; its corruptions are made in a thread beside the network. What a batch gave is kept in memory and, if
there is a folder for it, on disk, so that an interrupted run goes on where it stopped. Batches are dealt out to the processes
of a distributed run as wholes, so that the result does not depend on how many there are.
"""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from robustvit.data.pictures import Picture, PictureSet, UnreadablePictureError
from robustvit.data.protocols import Protocol
from robustvit.evaluation.conditions import Condition, Damage
from robustvit.files import write_whole

__all__ = ["Outcome", "Task", "classify", "logits_of", "predict"]

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
        targets: class of the set -> position among the columns.
        columns: outputs of the network that compete; None for all.
        mean, std: of the input.
        batch_size: pictures at once.
    """

    pictures: PictureSet
    protocol: Protocol
    conditions: tuple[Condition, ...]
    damage: Damage
    targets: tuple[int, ...]
    columns: tuple[int, ...] | None
    mean: tuple[float, ...]
    std: tuple[float, ...]
    batch_size: int = 32


@dataclass
class Outcome:
    """What the network answered.

    Attributes:
        ids: of the pictures, N of them.
        labels: [N] positions among the columns.
        predictions: [conditions, N] likewise.
        confidences: [conditions, N] the softmax of the prediction.
        skipped: (id, reason) of what could not be read.
    """

    ids: list[str]
    labels: np.ndarray
    predictions: np.ndarray
    confidences: np.ndarray
    skipped: list[tuple[str, str]]

    @property
    def correct(self) -> np.ndarray:
        """[conditions, N] bool."""
        return self.predictions == self.labels

    @staticmethod
    def join(parts: Sequence[Outcome], conditions: int) -> Outcome:
        empty = np.zeros((conditions, 0))
        return Outcome(
            ids=[i for part in parts for i in part.ids],
            labels=np.concatenate([np.zeros(0, np.int64), *(part.labels for part in parts)]),
            predictions=np.concatenate([empty.astype(np.int64), *(part.predictions for part in parts)], axis=1),
            confidences=np.concatenate([empty.astype(np.float32), *(part.confidences for part in parts)], axis=1),
            skipped=[s for part in parts for s in part.skipped],
        )

    def save(self, path: Path) -> None:
        texts = json.dumps({"ids": self.ids, "skipped": self.skipped})
        with write_whole(path) as file, file.open("wb") as stream:
            np.savez(stream, labels=self.labels, predictions=self.predictions, confidences=self.confidences, texts=texts)

    @staticmethod
    def load(path: Path) -> Outcome:
        with np.load(path, allow_pickle=False) as stored:
            texts = json.loads(str(stored["texts"]))
            skipped = [(i, reason) for i, reason in texts["skipped"]]
            return Outcome(texts["ids"], stored["labels"], stored["predictions"], stored["confidences"], skipped)


def classify(
    model: nn.Module,
    task: Task,
    *,
    folder: Path | None = None,
    rank: int = 0,
    world: int = 1,
    progress: Progress | None = None,
) -> list[tuple[int, Outcome]]:
    """What the network answers to the batches of this process, as (number of the batch, outcome).

    Args:
        model: the network, in evaluation mode, on its device.
        task: what to run.
        folder: where finished batches are kept and found again; None for nowhere.
        rank, world: this process and how many there are.
        progress: called after every forward pass.
    """
    total = len(task.pictures) * len(task.conditions)
    done: list[tuple[int, Outcome]] = []
    count = 0
    mine = [(k, batch) for k, batch in enumerate(_batches(task)) if k % world == rank]
    waiting = []
    for k, batch in mine:
        path = folder / f"batch-{k:06}.npz" if folder else None
        if path is not None and path.exists():
            done.append((k, Outcome.load(path)))
            count += len(batch) * len(task.conditions)
        else:
            waiting.append((k, batch, path))
    if progress:
        progress(count, total)

    def step(pictures: int) -> None:
        nonlocal count
        count += pictures
        if progress:
            progress(count, total)

    with _Producer(task, [batch for _, batch, _ in waiting]) as producer:
        for k, batch, path in waiting:
            outcome = _answer(model, task, producer, step)
            missing = (len(batch) - len(outcome.ids)) * len(task.conditions)
            step(missing)
            if path is not None:
                outcome.save(path)
            done.append((k, outcome))
    return sorted(done, key=lambda pair: pair[0])


def _batches(task: Task) -> Iterator[list[Picture]]:
    pictures = iter(task.pictures)
    while batch := list(islice(pictures, task.batch_size)):
        yield batch


@dataclass
class _Decoded:
    """A batch that could be read, and what could not."""

    kept: list[Picture]
    images: Tensor
    skipped: list[tuple[str, str]]


class _Producer:
    """Decodes and corrupts the next batches in a thread of its own, two inputs ahead of the network."""

    def __init__(self, task: Task, batches: list[list[Picture]]) -> None:
        self.task, self.batches = task, batches
        self.queue: queue.Queue[Any] = queue.Queue(maxsize=2)
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> _Producer:
        self.thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop.set()
        self.thread.join()

    def next(self) -> Any:
        item = self.queue.get()
        if isinstance(item, BaseException):
            raise item
        return item

    def _put(self, item: Any) -> bool:
        while not self.stop.is_set():
            try:
                self.queue.put(item, timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    def _run(self) -> None:
        try:
            with ThreadPoolExecutor(max_workers=2) as pool:
                for batch in self.batches:
                    decoded = _decode(batch, self.task.protocol, pool)
                    if not self._put(decoded):
                        return
                    ids = [picture.id for picture in decoded.kept]
                    for condition in self.task.conditions if ids else ():
                        if not self._put(self.task.damage.apply(decoded.images, ids, condition)):
                            return
        except BaseException as error:
            self._put(error)


def _decode(batch: list[Picture], protocol: Protocol, pool: ThreadPoolExecutor) -> _Decoded:
    def read(picture: Picture) -> Tensor | str:
        try:
            return protocol.apply(picture.open())
        except (UnreadablePictureError, ValueError) as error:
            return str(error)

    results = list(pool.map(read, batch))
    kept = [(picture, image) for picture, image in zip(batch, results, strict=True) if isinstance(image, Tensor)]
    skipped = [(p.id, reason) for p, reason in zip(batch, results, strict=True) if isinstance(reason, str)]
    H, W = protocol.size
    images = torch.stack([image for _, image in kept]) if kept else torch.empty(0, 3, H, W, dtype=torch.uint8)
    return _Decoded([picture for picture, _ in kept], images, skipped)


def _answer(model: nn.Module, task: Task, producer: _Producer, step: Callable[[int], None]) -> Outcome:
    decoded: _Decoded = producer.next()
    N = len(decoded.kept)
    predictions = np.zeros((len(task.conditions), N), np.int64)
    confidences = np.zeros((len(task.conditions), N), np.float32)
    for c in range(len(task.conditions) if N else 0):
        best, index = predict(model, task, producer.next())
        predictions[c], confidences[c] = index.cpu().numpy(), best.cpu().numpy()
        step(N)
    labels = np.array([task.targets[picture.label] for picture in decoded.kept], np.int64)
    return Outcome([picture.id for picture in decoded.kept], labels, predictions, confidences, decoded.skipped)


@torch.inference_mode()
def logits_of(model: nn.Module, task: Task, images: Tensor) -> Tensor:
    """uint8 [B, 3, H, W] -> logits of the outputs that compete [B, K]."""
    parameter = next(model.parameters())
    scale = torch.tensor(task.std, device=parameter.device)[:, None, None] * 255
    shift = torch.tensor(task.mean, device=parameter.device)[:, None, None] * 255
    x = ((images.to(parameter.device).float() - shift) / scale).to(parameter.dtype)
    logits = model(x).float()
    return logits if task.columns is None else logits[:, list(task.columns)]


def predict(model: nn.Module, task: Task, images: Tensor) -> tuple[Tensor, Tensor]:
    """(confidence, class) of each picture."""
    confidence, answer = logits_of(model, task, images).softmax(-1).max(-1)
    return confidence, answer
