"""Which images a corrupted tree was made from, so that one that was replaced since then is noticed.

Beside each `checksums-SHARE.sha256` lies a `sources-SHARE.tsv` with checksum, size and time of every image whose copies the
former lists. An image counts as changed when its size differs, or its time and then also its checksum.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from pathlib import Path

from robustvit.data.copies.listed_names import listed_checksum, listed_line, open_list, parsed_line
from robustvit.runtime.files import write_whole

__all__ = ["SourceRecord", "SourceRecords", "drop_copies", "source_line"]


@dataclass(frozen=True)
class SourceRecord:
    """An image as it was when it was copied."""

    size: int
    modified_ns: int
    sha256: str

    @staticmethod
    def of(path: Path) -> SourceRecord:
        status = path.stat()
        return SourceRecord(status.st_size, status.st_mtime_ns, _checksum(path))

    def now(self, path: Path) -> SourceRecord | None:
        """The record if the image is still the same, with its present time; None if it is another one."""
        try:
            status = path.stat()
        except OSError:  # a link that leads nowhere any more
            return None
        if status.st_size != self.size:
            return None
        if status.st_mtime_ns == self.modified_ns:
            return self
        return replace(self, modified_ns=status.st_mtime_ns) if _checksum(path) == self.sha256 else None


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def source_line(picture: str, record: SourceRecord) -> str:
    return listed_line(f"{record.sha256}\t{record.size}\t{record.modified_ns}\t", picture)


class SourceRecords:
    """The records of one list of checksums; none where a version without records made it.

    Args:
        checksums: that list.
    """

    def __init__(self, checksums: Path) -> None:
        self.path = checksums.with_name(f"sources-{checksums.stem.removeprefix('checksums-')}.tsv")
        self.records = _read(self.path) if self.path.exists() else {}
        self.is_outdated = False

    def changed(self, folder: Path, wanted: Collection[str], told: Callable[[], None]) -> set[str]:
        """Those of the wanted images that are not what they were when they were copied. They have no record any more.

        Args:
            folder: of the images.
            wanted: their paths below it.
            told: callback, called after every image.
        """
        found = set()
        for picture in [picture for picture in self.records if picture in wanted]:
            before = self.records.pop(picture)
            record = before.now(folder / picture)
            if record is None:
                found.add(picture)
            else:
                self.records[picture] = record
            self.is_outdated |= record != before
            told()
        return found

    def save(self) -> None:
        with write_whole(self.path) as file, open_list(file, "w") as stream:
            stream.writelines(source_line(picture, record) for picture, record in self.records.items())


def _read(path: Path) -> dict[str, SourceRecord]:
    """The last record of each image; a line that a kill cut is none."""
    records: dict[str, SourceRecord] = {}
    with open_list(path) as lines:
        for line in lines:
            if (text := parsed_line(line)) is not None:
                records.update([_record(text, path)])
    return records


def _record(text: str, path: Path) -> tuple[str, SourceRecord]:
    try:
        digest, size, modified_ns, picture = text.split("\t", 3)
        return picture, SourceRecord(int(size), int(modified_ns), digest)
    except ValueError as error:
        raise ValueError(
            f"{path} is damaged: {text[:80]!r}; delete it together with the checksums beside it, and all copies are made again"
        ) from error


def drop_copies(checksums: Path, copies: Collection[str], places: Collection[str]) -> None:
    """Takes the copies of changed images out of a list of checksums.

    Those that this run makes again stay until then; others would stay for ever, so they are deleted.

    Args:
        checksums: the list.
        copies: what they are called below their places.
        places: that this run makes, as "fog/3" or "fog_3".
    """
    depth = 1 + next(iter(places)).count("/")
    with open_list(checksums) as lines, write_whole(checksums) as file, open_list(file, "w") as stream:
        for line in lines:
            *place, copy = (listed_checksum(line) or "").split("/", depth)
            if copy not in copies:
                stream.write(line)
            elif "/".join(place) not in places:
                (checksums.parent / "/".join(place) / copy).unlink(missing_ok=True)
