"""Writing a corrupted copy of a dataset: the trees of ImageNet-C, Cityscapes-C and COCO-C, for images of one's own.

Every file appears whole or not at all, and depends on its own path and the settings alone; so many processes can share
the work, and a second run does only what is missing. `tree_records` says what the tree notes about itself.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path

from robustvit.corruptions.frost_textures import frost_textures
from robustvit.corruptions.parameters import SMALLEST
from robustvit.data.copies.copy_workers import Job, Work, results
from robustvit.data.copies.copying import LAYOUTS, Copying, check_names, copied_names, images_below
from robustvit.data.copies.listed_names import checksum_line
from robustvit.data.copies.source_records import SourceRecords, drop_copies, source_line
from robustvit.data.copies.tree_records import agree_on_manifest, finished_copies, listing, record_skipped
from robustvit.runtime.cores import available_cores
from robustvit.runtime.files import check_writable, explained, is_full
from robustvit.runtime.interruption import check_interrupted
from robustvit.runtime.locking import locked

__all__ = ["LAYOUTS", "Copying", "TreeSummary", "copied_names", "corrupt_tree"]

Report = Callable[[str, int, int], None]
"""Progress callback: (description, images done, total)."""


@dataclass(frozen=True)
class TreeSummary:
    """What a run did.

    Attributes:
        written: files.
        present: files that were there already.
        skipped: (image, reason) of those that could not be read.
        notes: what else the user should know.
        changed: images that were replaced since they were copied, and are copied again.
    """

    written: int
    present: int
    skipped: tuple[tuple[str, str], ...]
    notes: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()


def corrupt_tree(
    source: Path,
    destination: Path,
    copying: Copying,
    *,
    workers: int | None = None,
    rank: int = 0,
    world: int = 1,
    report: Report | None = None,
) -> TreeSummary:
    """Writes the corrupted copies that are not there yet, and those of images that were replaced.

    Args:
        source: folder of the images.
        destination: folder for the copies; created.
        copying: how.
        workers: processes on this machine, at most one per core that this process may use; None for as many as that.
        rank, world: this process of a distributed run, and how many there are; each takes its share of the images.
        report: progress callback (description, images done, total).
    """
    pictures = images_below(source, copying.layout)
    _check_places(source, destination)
    with locked(destination, (rank, world)):
        return _write_copies(source, destination, copying, pictures, workers, rank, world, report)


def _write_copies(
    source: Path,
    destination: Path,
    copying: Copying,
    pictures: Sequence[Path],
    workers: int | None,
    rank: int,
    world: int,
    report: Report | None,
) -> TreeSummary:
    notes = _prepare(source, destination, copying, pictures, rank, world)
    count = min(workers or available_cores(), available_cores())
    if workers is not None and workers > count:
        notes.append(f"workers={workers} are more than the cores of this process; it uses {count}")
    share = f"{rank}-of-{world}"
    work = Work(source, destination, copying, destination / f".unfinished-{share}")
    shutil.rmtree(work.unfinished, ignore_errors=True)  # of a run that was killed
    try:
        stale, changed = _forget_changed(work, pictures, rank, world, report)
        work.unfinished.mkdir()
        jobs = _jobs(work, pictures[rank::world], stale)
        written, present, skipped = _copy_all(jobs, len(pictures[rank::world]), destination, share, count, report)
        record_skipped(destination / f"skipped-{share}.txt", skipped)
    except OSError as error:
        if is_full(error):
            raise explained(error, destination) from error
        raise
    finally:
        shutil.rmtree(work.unfinished, ignore_errors=True)
    return TreeSummary(written, present, tuple(skipped), tuple(notes), tuple(changed))


def _copy_all(
    jobs: Iterator[Job], pictures: int, destination: Path, share: str, workers: int, report: Report | None
) -> tuple[int, int, list[tuple[str, str]]]:
    """(files written, files that were there, what was skipped)."""
    written = present = 0
    skipped: list[tuple[str, str]] = []
    count = max(1, min(workers, pictures))
    sums, sources = destination / f"checksums-{share}.sha256", destination / f"sources-{share}.tsv"
    with listing(sums) as append, listing(sources) as append_source, closing(results(jobs, count)) as copied:
        for done, (job, result) in enumerate(copied, start=1):
            check_interrupted()
            if result.source is not None and result.files:  # first: without it, a change would go unnoticed
                append_source([source_line(job.picture.as_posix(), result.source)])
            append([checksum_line(digest, name) for name, digest in result.files])
            written, present = written + len(result.files), present + job.present
            if result.problem:
                skipped.append(result.problem)
            if report is not None:
                report("corrupting", done, pictures)
    return written, present, skipped


def _forget_changed(
    work: Work, pictures: Sequence[Path], rank: int, world: int, report: Report | None
) -> tuple[dict[str, set[str]], list[str]]:
    """(list of checksums -> copies in it that no longer show their image, those images).

    A process takes them out of its own list, the first one also out of those of runs that were shared out otherwise.
    """
    mine, all_of_them = {p.as_posix() for p in pictures[rank::world]}, {p.as_posix() for p in pictures}
    places = {work.copying.place(*cell) for cell in work.copying.cells}
    stale, changed, seen = {}, set(), 0

    def told() -> None:
        nonlocal seen
        check_interrupted()
        seen += 1
        if report is not None:
            report("looking for changed images", min(seen, len(pictures)), len(pictures))

    for checksums in sorted(work.destination.glob("checksums-*.sha256")):
        is_own = checksums.stem == f"checksums-{rank}-of-{world}"
        is_kept_here = is_own or (rank == 0 and not checksums.stem.endswith(f"-of-{world}"))
        records = SourceRecords(checksums)
        found = records.changed(work.source, all_of_them if is_kept_here else mine, told)
        changed |= found
        stale[checksums.name] = {work.copying.file_name(Path(picture)).as_posix() for picture in found}
        if is_kept_here and records.is_outdated:
            drop_copies(checksums, stale[checksums.name], places)
            records.save()  # last: after a kill, the change is noticed again
    return stale, sorted(changed)


def _check_places(source: Path, destination: Path) -> None:
    if destination.resolve().is_relative_to(source.resolve()):
        raise ValueError(f"{destination} is inside {source}, so the copies would count as images; give another folder")


def _prepare(source: Path, destination: Path, copying: Copying, pictures: Sequence[Path], rank: int, world: int) -> list[str]:
    """Finds what can be wrong before the work starts; returns what the user should know."""
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
        for path in destination.glob(".unfinished-*-of-*"):
            if not path.name.endswith(f"-of-{world}"):
                shutil.rmtree(path, ignore_errors=True)
    return notes


def _jobs(work: Work, pictures: Sequence[Path], stale: dict[str, set[str]]) -> Iterator[Job]:
    copying = work.copying
    bits = {copying.place(*cell): 1 << k for k, cell in enumerate(copying.cells)}
    finished = finished_copies(work.destination, bits, stale)
    for picture in pictures:
        name = copying.file_name(picture)
        listed = finished.get(name.as_posix(), 0)
        places = {cell: copying.place(*cell) for cell in copying.cells}
        missing = tuple(
            cell for cell, p in places.items() if not (listed & bits[p] and (work.destination / p / name).exists())
        )
        yield Job(work, picture, missing, len(places) - len(missing))
