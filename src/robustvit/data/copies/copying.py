"""What a corrupted copy of a dataset takes from where, and what the copies are called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from robustvit.corruptions.registry import CORRUPTIONS, ChannelOrder, corruption_names
from robustvit.data.files_below import files_below
from robustvit.data.samples import IMAGE_SUFFIXES
from robustvit.runtime.spelling import nearest

__all__ = ["LAYOUTS", "Cell", "Copying", "Layout", "check_names", "copied_names", "images_below"]

Layout = Literal["imagenet", "cityscapes", "coco"]
LAYOUTS: dict[Layout, str] = {
    "imagenet": "SRC/CLASS/IMAGE -> DST/CORRUPTION/SEVERITY/CLASS/IMAGE, cropped to 224 pixels, JPEG: ImageNet-C",
    "cityscapes": "SRC/.../NAME_leftImg8bit.png -> DST/CORRUPTION/SEVERITY/.../NAME_leftImg8bit.png, whole, in their format",
    "coco": "SRC/IMAGE -> DST/CORRUPTION_SEVERITY/IMAGE, whole, in their format",
}
Cell = tuple[str, int]
"""(corruption, severity)"""


@dataclass(frozen=True)
class Copying:
    """How the copy is made.

    Attributes:
        layout: of `LAYOUTS`.
        names: the corruptions.
        severities: of 1 to 5.
        seed: of the randomness.
        size: side of the square that images are cropped to (short side to size * 256 / 224 first); None leaves them whole.
        file_format: "jpeg", "png", or "same" as the image.
        quality: of JPEG files.
        channel_order, frost_folder: see `corrupt`.
        ignore_orientation: see `read_image`; copies have no tag in either case.
    """

    layout: Layout
    names: tuple[str, ...]
    severities: tuple[int, ...] = (1, 2, 3, 4, 5)
    seed: int = 0
    size: int | None = 224
    file_format: Literal["jpeg", "png", "same"] = "jpeg"
    quality: int = 85
    channel_order: ChannelOrder = "rgb"
    frost_folder: str | None = None
    ignore_orientation: bool = False

    @property
    def cells(self) -> tuple[Cell, ...]:
        return tuple((name, severity) for name in self.names for severity in self.severities)

    def place(self, name: str, severity: int) -> str:
        """The folder of a corruption and severity, below the destination."""
        return f"{name}_{severity}" if self.layout == "coco" else f"{name}/{severity}"

    def file_name(self, relative: Path) -> Path:
        """What the copies of an image are called, below each such folder."""
        suffix = {"jpeg": ".JPEG" if relative.suffix != ".jpg" else ".jpg", "png": ".png", "same": relative.suffix}
        return relative.with_suffix(suffix[self.file_format])


def copied_names(names: Sequence[str]) -> tuple[str, ...]:
    """Corruptions from names and groups, each once."""
    return tuple(dict.fromkeys(n for name in names for n in _members(name)))


def _members(name: str) -> tuple[str, ...]:
    if name in CORRUPTIONS:
        return (name,)
    try:
        return corruption_names(name)
    except ValueError as error:
        raise ValueError(f"{error}, or a corruption by its name{nearest(name, CORRUPTIONS)}") from error


def images_below(source: Path, layout: Layout) -> list[Path]:
    """The images of a dataset, relative to its folder, sorted; without annotations, which may be images as well.

    Raises:
        FileNotFoundError: there is no such folder.
        ValueError: there are no such images in it, or they are not in class folders.
    """
    if not source.is_dir():
        if source.is_file():
            raise NotADirectoryError(f"{source} is a file; give the folder that has the images")
        raise FileNotFoundError(f"there is no folder {source}; give the folder that has the images")
    found = sorted(path for path in files_below(source) if path.suffix.lower() in IMAGE_SUFFIXES)
    if not found:
        raise ValueError(f"{source} has no images; looked for {', '.join(sorted(IMAGE_SUFFIXES))} in it and below")
    if layout == "cityscapes":
        images = [path for path in found if path.stem.endswith("_leftImg8bit")]
        if not images:
            raise ValueError(
                f"{source} has no images called ..._leftImg8bit.png, only such as {found[0]}; for images of other "
                "names give --layout coco"
            )
        return images
    if layout == "coco":
        return [path for path in found if not any(_is_annotation(part) for part in path.parts[:-1])] or found
    if wrong := next((path for path in found if len(path.parts) != 2), None):
        where = "directly in the folder" if len(wrong.parts) == 1 else "deeper than that"
        hint = (
            "" if len(wrong.parts) == 1 else f"; give the folder that has the classes, here perhaps {source / wrong.parts[0]}"
        )
        raise ValueError(
            f"{source / wrong} is {where}; ImageNet-C needs class folders: {source}/CLASS/IMAGE{hint}. For images "
            "without classes give --layout coco"
        )
    return found


def _is_annotation(folder: str) -> bool:
    return folder in ("annotations", "stuffthingmaps") or folder.startswith("panoptic_")


def check_names(pictures: Sequence[Path], copying: Copying) -> None:
    """Two images must not become the same file."""
    names: dict[Path, Path] = {}
    for picture in pictures:
        name = copying.file_name(picture)
        if name in names:
            raise ValueError(f"{names[name]} and {picture} would become the same file {name.name}; give --format same")
        names[name] = picture
