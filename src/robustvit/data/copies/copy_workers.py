"""The processes that make corrupted copies: an image at a time, each decoded once."""

from __future__ import annotations

import hashlib
import io
import multiprocessing
import os
import socket
import threading
from collections import deque
from collections.abc import Generator, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from PIL import Image

from robustvit.corruptions.parameters import SMALLEST
from robustvit.corruptions.registry import corrupt
from robustvit.data.copies.copying import Cell, Copying
from robustvit.data.copies.source_records import SourceRecord
from robustvit.data.protocols import Protocol
from robustvit.data.samples import UnreadablePictureError, read_image
from robustvit.runtime.files import explained
from robustvit.runtime.image_files import check_is_file
from robustvit.runtime.interruption import WorkersEnd, leave_signals_to_parent, starting_workers
from robustvit.runtime.kept_memory import keep_memory

__all__ = ["Copied", "Job", "Work", "results"]

AHEAD = 4
"""Images per process that are queued before the first of them is done."""


@dataclass(frozen=True)
class Work:
    """What all jobs have in common."""

    source: Path
    destination: Path
    copying: Copying
    unfinished: Path


@dataclass(frozen=True)
class Job:
    """An image, the cells that it lacks, and how many it has."""

    work: Work
    picture: Path
    missing: tuple[Cell, ...]
    present: int


@dataclass(frozen=True)
class Copied:
    """What was done for an image.

    Attributes:
        files: (path, checksum) of what was written.
        source: what the image was.
        problem: (image, reason) if it is unreadable.
    """

    files: tuple[tuple[str, str], ...] = ()
    source: SourceRecord | None = None
    problem: tuple[str, str] | None = None


def results(jobs: Iterator[Job], workers: int) -> Generator[tuple[Job, Copied], None, None]:
    """The jobs with what was done, in order; only a few are handed out ahead, however many there are.

    Close it to end the processes early.
    """
    if workers == 1:
        yield from ((job, _copy(job)) for job in jobs)
        return
    context = multiprocessing.get_context("spawn")
    stop, end = context.Event(), WorkersEnd()
    waiting: deque[tuple[Job, Future[Copied] | None]] = deque()

    def first() -> tuple[Job, Copied]:
        job, future = waiting.popleft()
        return job, future.result() if future else Copied()

    with ProcessPoolExecutor(workers, mp_context=context, initializer=_begin_worker, initargs=(stop, end)) as pool:
        try:
            for job in jobs:
                with starting_workers():  # the first jobs do
                    waiting.append((job, pool.submit(_copy, job) if job.missing else None))
                if len(waiting) == AHEAD * workers:
                    yield first()
            while waiting:
                yield first()
        except BrokenProcessPool as error:
            end.tell()  # the others; the pool waits for them
            raise RuntimeError(
                "a process was ended from outside, perhaps for want of memory; run again with fewer --workers: files stay"
            ) from error
        except BaseException:
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise


_stop: Any = None
"""In a worker: set when the run ends early."""


def _begin_worker(stop: Any, end: WorkersEnd) -> None:
    global _stop
    _stop = stop
    leave_signals_to_parent(end)
    keep_memory()  # a process of its own, which does not come through the command line
    torch.set_num_threads(1)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A worker whose run was killed would wait for work for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _copy(job: Job) -> Copied:
    work, picture = job.work, job.picture
    if not job.missing:
        return Copied()
    paths = {cell: Path(work.copying.place(*cell)) / work.copying.file_name(picture) for cell in job.missing}
    try:
        check_is_file(work.source / picture)
        source = SourceRecord.of(work.source / picture)
        image = read_image(work.source / picture, ignore_orientation=work.copying.ignore_orientation)
        pixels = _fit(image, work.copying.size)
    except (UnreadablePictureError, OSError, ValueError) as error:
        for path in paths.values():  # of an image that could be read before it was changed
            (work.destination / path).unlink(missing_ok=True)
        return Copied(problem=(picture.as_posix(), str(error)))
    files = []
    for cell, path in paths.items():
        if _stop is not None and _stop.is_set():
            break
        data = _encode(_corrupted(pixels, picture, cell, work.copying), path, work.copying.quality)
        _put(data, work.destination / path, work.unfinished)
        files.append((path.as_posix(), hashlib.sha256(data).hexdigest()))
    return Copied(tuple(files), source)


def _fit(image: Image.Image, size: int | None) -> torch.Tensor:
    if min(image.size) < SMALLEST:
        raise UnreadablePictureError(f"it has {image.height}x{image.width} pixels; corruptions need {SMALLEST}x{SMALLEST}")
    if size is None:
        return Protocol("none", (image.height, image.width)).apply(image)
    return Protocol("imagenet-c", (size, size), short_side=round(size * 256 / 224)).apply(image)


def _corrupted(pixels: torch.Tensor, picture: Path, cell: Cell, copying: Copying) -> Image.Image:
    spoiled = corrupt(
        pixels,
        *cell,
        seed=copying.seed,
        sample_ids=picture.as_posix(),
        channel_order=copying.channel_order,
        frost_folder=copying.frost_folder,
    )
    return Image.fromarray(spoiled.permute(1, 2, 0).numpy())


def _encode(image: Image.Image, path: Path, quality: int) -> bytes:
    file = io.BytesIO()
    kind = Image.registered_extensions()[path.suffix.lower()]
    image.save(file, kind, **(dict(quality=quality, optimize=True) if kind == "JPEG" else {}))
    return file.getvalue()


def _put(data: bytes, path: Path, unfinished: Path) -> None:
    """Written aside, in a file that no reader takes for an image, then moved to its place."""
    file = unfinished / f"{socket.gethostname()}-{os.getpid()}.tmp"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        file.replace(path)
    except OSError as error:
        raise explained(error, path.parent) from error
