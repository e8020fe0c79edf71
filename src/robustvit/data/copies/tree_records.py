"""What a corrupted tree says about itself: settings and source, the files that are finished, the images left out.

`manifest.json` has the settings, `checksums-*.sha256` every file that was written (for `sha256sum -c`), `skipped-*.txt` the
images that could not be read, `sources-*.tsv` what the images were (`source_records`). The processes of a distributed run
have files of their own.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from robustvit.data.copies.listed_names import listed_checksum, listed_line, open_list
from robustvit.runtime.files import write_whole

__all__ = ["agree_on_manifest", "finished_copies", "listing", "record_skipped"]

GROWING = ("names", "severities")
"""Settings that a later run may add to."""


def agree_on_manifest(
    destination: Path, source: Path, pictures: Sequence[Path], settings: dict[str, Any], *, write: bool
) -> list[str]:
    """Compares this run with those before it, and notes it down; returns what the user should know.

    A tree has one source. The folder may move, if it has the same images (names and sizes) as before, and images may be
    added to it where it is, but not both between two runs.

    Raises:
        ValueError: the runs before had other settings or another source.
    """
    path = destination / "manifest.json"
    stored = _read(path) if path.exists() else {}
    before = stored.get("settings", {})
    for key in set(settings) & set(before) - set(GROWING):
        if before[key] != settings[key]:
            raise ValueError(
                f"{destination} was made with {key}={before[key]!r} and this run has {settings[key]!r}; "
                "give another folder, or the same settings"
            )
    here = str(source.resolve())
    is_elsewhere = stored.get("source", here) != here
    if not (write or is_elsewhere):
        return []
    contents = _contents(source, pictures)
    if is_elsewhere and stored.get("pictures") != contents:
        raise ValueError(
            f"{destination} was made from {stored['source']}, and {here} has other images; give another folder. If it is "
            f'the same dataset with images added, write its new place into {path} ("source")'
        )
    notes = [f"{stored['source']} has moved to {here}: the same images by name and size"] if is_elsewhere else []
    versions = list(dict.fromkeys([*stored.get("robustvit", []), version("robustvit")]))
    if len(versions) > 1:
        notes.append(f"{destination} has files made by robustvit {' and '.join(versions)}, which may differ")
    if write:
        merged = {**settings, **{key: _merged(before.get(key, []), settings[key]) for key in GROWING}}
        with write_whole(path) as file:
            about = {"robustvit": versions, "torch": version("torch"), "source": here, "pictures": contents}
            file.write_text(json.dumps({**about, "settings": merged}, indent=1))
    return notes


def _read(path: Path) -> dict[str, Any]:
    try:
        stored = json.loads(path.read_text())
    except ValueError as error:
        raise ValueError(f"{path} is damaged ({error}); move it away, or give another folder") from error
    if not isinstance(stored, dict) or "settings" not in stored:
        raise ValueError(f"{path} is not of this program; give another folder")
    return stored


def _merged(before: Sequence[Any], now: Sequence[Any]) -> list[Any]:
    merged = list(dict.fromkeys([*before, *now]))
    return sorted(merged) if all(isinstance(value, int) for value in merged) else merged


def _contents(source: Path, pictures: Sequence[Path]) -> dict[str, Any]:
    """How many images, and a digest of their names and sizes."""
    digest = hashlib.sha256()
    for picture in pictures:
        try:
            size = (source / picture).stat().st_size
        except OSError:  # a link that leads nowhere, which is named as unreadable
            size = -1
        digest.update(os.fsencode(f"{picture.as_posix()}\t{size}\n"))
    return {"count": len(pictures), "sha256_of_names_and_sizes": digest.hexdigest()}


def finished_copies(destination: Path, bits: dict[str, int], stale: Mapping[str, Collection[str]]) -> dict[str, int]:
    """Image (below its place) -> the sum of the bits of the places where its copy is finished and listed.

    Args:
        destination: the tree.
        bits: place of a cell, as "fog/3" or "fog_3" -> its bit. A set of all paths would fill the memory at ImageNet's size.
        stale: name of a list -> images (below their places) for which it does not count.
    """
    depth = max((place.count("/") + 1 for place in bits), default=1)
    finished: dict[str, int] = {}
    for path in destination.glob("checksums-*.sha256"):
        ignored = stale.get(path.name, ())
        with open_list(path) as lines:
            for name in map(listed_checksum, lines):
                *place, picture = (name or "").split("/", depth)
                bit = bits.get("/".join(place), 0)
                if bit and picture not in ignored:
                    finished[picture] = finished.get(picture, 0) | bit
    return finished


@contextmanager
def listing(path: Path) -> Iterator[Callable[[Sequence[str]], None]]:
    """Gives a function that appends lines to a file, whose last line may have been cut by a kill."""
    if path.exists() and (size := path.stat().st_size):
        with path.open("rb+") as before:
            before.seek(max(0, size - 4096))
            end = before.read()
            if not end.endswith(b"\n"):
                before.truncate(size - len(end) + end.rfind(b"\n") + 1)
    with open_list(path, "a") as file:

        def append(lines: Sequence[str]) -> None:
            file.writelines(lines)
            file.flush()

        yield append


def record_skipped(path: Path, skipped: Sequence[tuple[str, str]]) -> None:
    """Names what was left out; no file where nothing was, also after a run that left something out."""
    if not skipped:
        path.unlink(missing_ok=True)
        return
    with write_whole(path) as file, open_list(file, "w") as stream:
        stream.writelines(listed_line("", f"{name}\t{' '.join(reason.split())}") for name, reason in skipped)
