"""Writing a corrupted copy of a data set: the trees of ImageNet-C, Cityscapes-C and COCO-C, for pictures of one's own.

Every file appears whole or not at all, and depends on its own path and the settings alone; so many processes can share
the work, and a second run does only what is missing. `tree_records` says what the tree notes about itself.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path

from robustvit.corruptions.frost_textures import frost_textures
from robustvit.corruptions.parameters import SMALLEST
from robustvit.data.copy_workers import Job, Work, results
from robustvit.data.copying import LAYOUTS, Copying, check_names, copied_names, pictures_below
from robustvit.data.tree_records import agree_on_manifest, finished_copies, listing, record_skipped
from robustvit.files import check_writable, explained, is_full

__all__ = ["LAYOUTS", "Copying", "TreeSummary", "copied_names", "corrupt_tree"]


@dataclass(frozen=True)
class TreeSummary:
    """What a run did.

    Attributes:
        written: files.
        present: files that were there already.
        skipped: (picture, reason) of those that could not be read.
        notes: what else the user should know.
    """

    written: int
    present: int
    skipped: tuple[tuple[str, str], ...]
    notes: tuple[str, ...] = ()


def corrupt_tree(
    source: Path,
    destination: Path,
    copying: Copying,
    *,
    workers: int | None = None,
    rank: int = 0,
    world: int = 1,
    report: Callable[[str, int, int], None] | None = None,
) -> TreeSummary:
    """Writes the corrupted copies that are not there yet.

    Args:
        source: folder of the pictures.
        destination: folder for the copies; created.
        copying: how.
        workers: processes on this machine; None for one a core.
        rank, world: this process of a distributed run, and how many there are; each takes its share of the pictures.
        report: told (what, pictures done, pictures in all).
    """
    pictures = pictures_below(source, copying.layout)
    notes = _prepare(source, destination, copying, pictures, rank, world)
    share = f"{rank}-of-{world}"
    unfinished = destination / f".unfinished-{share}"
    shutil.rmtree(unfinished, ignore_errors=True)  # of a run that was killed
    mine = pictures[rank::world]
    jobs = _jobs(Work(source, destination, copying, unfinished), mine)
    written = present = 0
    skipped: list[tuple[str, str]] = []
    try:
        unfinished.mkdir()
        count = max(1, min(workers or os.cpu_count() or 1, len(mine)))
        with listing(destination / f"checksums-{share}.sha256") as append, closing(results(jobs, count)) as copied:
            for done, (there, (lines, problem)) in enumerate(copied, start=1):
                append(lines)
                written, present = written + len(lines), present + there
                if problem:
                    skipped.append(problem)
                if report is not None:
                    report("corrupting", done, len(mine))
        record_skipped(destination / f"skipped-{share}.txt", skipped)
    except OSError as error:
        if is_full(error):
            raise explained(error, destination) from error
        raise
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return TreeSummary(written, present, tuple(skipped), tuple(notes))


def _prepare(source: Path, destination: Path, copying: Copying, pictures: Sequence[Path], rank: int, world: int) -> list[str]:
    """Finds what can be wrong before the work starts; returns what the user should know."""
    if destination.resolve().is_relative_to(source.resolve()):
        raise ValueError(f"{destination} lies inside {source}, so the copies would become pictures; give another folder")
    check_names(pictures, copying)
    if copying.frost_folder is not None:
        for texture in frost_textures(Path(copying.frost_folder)):
            texture.fitted((SMALLEST, SMALLEST), "arbitrary")
    if destination.exists() and not destination.is_dir():
        raise NotADirectoryError(f"{destination} is a file; give a folder")
    try:
        destination.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise explained(error, destination.parent) from error
    check_writable(destination / "manifest.json")
    settings = json.loads(json.dumps(asdict(copying)))
    notes = agree_on_manifest(destination, source, pictures, settings, write=rank == 0)
    if rank == 0:  # of runs that were shared out otherwise
        for path in destination.glob("skipped-*-of-*.txt"):
            if not path.name.endswith(f"-of-{world}.txt"):
                path.unlink(missing_ok=True)
    return notes


def _jobs(work: Work, pictures: Sequence[Path]) -> Iterator[Job]:
    copying = work.copying
    bits = {copying.place(*cell): 1 << k for k, cell in enumerate(copying.cells)}
    finished = finished_copies(work.destination, bits)
    for picture in pictures:
        name = copying.file_name(picture)
        listed = finished.get(name.as_posix(), 0)
        places = {cell: copying.place(*cell) for cell in copying.cells}
        missing = tuple(
            cell for cell, p in places.items() if not (listed & bits[p] and (work.destination / p / name).exists())
        )
        yield Job(work, picture, missing, len(places) - len(missing))
