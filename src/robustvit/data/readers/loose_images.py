"""Images without labels: one file, or the files of a folder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from timm.utils.misc import natural_key

from robustvit.data.samples import IMAGE_SUFFIXES, Sample, read_image
from robustvit.runtime.fingerprint import Digest

__all__ = ["NO_LABEL", "LooseImages", "loose_images"]

NO_LABEL = -1
"""Stands for the class of an image that has none."""


class LooseImages:
    """Files that are images, in their natural order, without labels."""

    classes: tuple[str, ...] = ()

    def __init__(self, files: Sequence[Path], name: str, *, ignore_orientation: bool = False) -> None:
        self.files, self.name, self.ignore_orientation = list(files), name, ignore_orientation

    def __len__(self) -> int:
        return len(self.files)

    def __iter__(self) -> Iterator[Sample]:
        yield from map(self.at, range(len(self)))

    def at(self, i: int) -> Sample:
        file = self.files[i]
        return Sample(file.name, lambda: read_image(file, ignore_orientation=self.ignore_orientation), lambda: NO_LABEL)

    def add_to(self, digest: Digest, positions: Sequence[int] | None = None) -> None:
        """The files by name, size and time."""
        files = self.files if positions is None else [self.files[i] for i in positions]
        digest.add_files(Path(), [str(file) for file in files])


def loose_images(path: Path, *, ignore_orientation: bool = False) -> LooseImages | None:
    """The image `path`, or those that lie directly in the folder `path`; None where it is neither."""
    inside = path.iterdir() if path.is_dir() else [path]
    files = [file for file in inside if file.is_file() and file.suffix.lower() in IMAGE_SUFFIXES]
    files.sort(key=lambda file: natural_key(file.name))
    return LooseImages(files, str(path), ignore_orientation=ignore_orientation) if files else None
