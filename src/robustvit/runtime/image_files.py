"""Image files: which formats are opened, which way up their pixels are, and how they become 8-bit RGB.

Every image of a user is opened here. Pillow by itself goes by the content of a file, whatever its name, and starts other
programs for some formats (Ghostscript for EPS); so the formats are listed.
"""

from __future__ import annotations

import io
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from PIL import ExifTags, Image

__all__ = [
    "IMAGE_FORMATS",
    "MOST_BYTES",
    "UnreadablePictureError",
    "check_is_file",
    "image_size",
    "read_image",
    "read_values",
    "to_rgb",
    "upright",
]

IMAGE_FORMATS = ("JPEG", "PNG", "BMP", "WEBP", "AVIF", "JPEG2000", "GIF", "TIFF", "PPM")
"""What is opened, as Pillow names it, whatever the file is called. JPEG includes that of phones with two lenses (MPO)."""
MOST_BYTES = 2**29
"""Of one image file. What an archive holds may be much larger than the archive."""
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""EXIF orientation -> what sets the image upright; 1 is upright."""
_SIDEWAYS = (5, 6, 7, 8)
"""Orientations whose upright image has height and width exchanged."""
_SCALED_GREY = {"L;2": 85, "L;4": 17}
"""Grey of less than 8 bits, which Pillow spreads over 0 .. 255 -> by which factor."""


class UnreadablePictureError(ValueError):
    """A file that is no image, or is damaged."""


def read_image(source: Any, *, ignore_orientation: bool = False) -> Image.Image:
    """A path, an open file, the bytes of a file or an image, as 8-bit RGB. It has pixels only: no tag, no profile.

    Args:
        source: what to read.
        ignore_orientation: take the pixels as Pillow gives them: as they are stored, but for TIFF, which it turns. Otherwise
            they are set upright by the EXIF tag of cameras.

    Raises:
        UnreadablePictureError: it is no image of `IMAGE_FORMATS`, a damaged one, or far too large.
    """
    with _damage_named():
        if isinstance(source, Image.Image):
            return _plain(source, ignore_orientation)
        with Image.open(_file(source), formats=_formats()) as image:
            return _plain(image, ignore_orientation)


def read_values(source: Any) -> np.ndarray:
    """The numbers that a file stores, for images whose pixels are labels: indices of a palette rather than its colours.

    Returns:
        [H, W] of integers: uint8, or more where the file has more than 8 bits; uint8 [H, W, 3] of a file with colours.

    Raises:
        UnreadablePictureError: see `read_image`.
    """
    with _damage_named(), Image.open(_file(source), formats=_formats()) as image:
        rawmode = image.tile[0][3] if image.tile else None  # before loading, which forgets it
        scale = _SCALED_GREY.get(rawmode, 1) if isinstance(rawmode, str) else 1
        if image.mode == "F":
            raise UnreadablePictureError("its values are floating-point numbers, not labels")
        if image.mode in ("LA", "PA"):
            return np.array(image.getchannel(0))
        if image.mode in ("1", "L", "P") or image.mode.startswith("I"):
            values = np.array(image)
            return values.astype(np.uint8) if image.mode == "1" else values // scale if scale > 1 else values
        if image.mode == "RGBA":
            return np.array(image)[..., :3]
        return np.array(image.convert("RGB"))


def image_size(source: str | Path, *, ignore_orientation: bool = False) -> tuple[int, int]:
    """(H, W) of what `read_image` gives, from the beginning of the file.

    Raises:
        UnreadablePictureError: see `read_image`.
    """
    with _damage_named(), Image.open(_file(source), formats=_formats()) as image:
        W, H = image.size
        tags = image.info.get("exif") if image.format != "TIFF" else None  # Pillow turns TIFF, and its size, by itself
        if ignore_orientation or not tags:
            return H, W
        exif = Image.Exif()
        exif.load(tags)
        return (W, H) if exif.get(ExifTags.Base.Orientation) in _SIDEWAYS else (H, W)


@contextmanager
def _damage_named() -> Iterator[None]:
    """Whatever goes wrong inside is an UnreadablePictureError."""
    try:
        yield
    except UnreadablePictureError:
        raise
    except Exception as error:  # a damaged file can fail anywhere in its decoder
        told = re.sub(r" <[^>]* object at 0x[0-9a-f]+>", "", str(error))  # the same text in every run
        raise UnreadablePictureError(told or type(error).__name__) from error


@lru_cache(maxsize=1)
def _formats() -> tuple[str, ...]:
    """Those that this Pillow was built with."""
    Image.init()
    return tuple(name for name in IMAGE_FORMATS if name in Image.OPEN)


def _file(source: Any) -> Any:
    """What Pillow opens: a path, or a file in memory of at most `MOST_BYTES`."""
    if isinstance(source, str | Path):
        check_is_file(source)
        return source
    content = source.read(MOST_BYTES + 1) if hasattr(source, "read") else source
    if len(content) > MOST_BYTES:
        raise UnreadablePictureError(f"it has more than {MOST_BYTES:,} bytes, which is no image")
    return io.BytesIO(content)


def check_is_file(path: str | Path) -> None:
    """Raises UnreadablePictureError for a pipe or a device: whoever opens one may wait for ever."""
    mode = Path(path).stat().st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise UnreadablePictureError("it is a pipe or a device, not a file")


def _plain(image: Image.Image, ignore_orientation: bool) -> Image.Image:
    if image.tell():  # an animation that was left at another frame
        image.seek(0)
    rgb = to_rgb(image if ignore_orientation else upright(image))
    rgb.info = {}  # nobody is to turn it again
    return rgb


def upright(image: Image.Image) -> Image.Image:
    """The image turned as its EXIF tag says; itself where it has none, or one that cannot be understood."""
    image.load()  # Pillow turns TIFF itself while it loads, and drops the tag
    try:
        turn = _TURNS.get(image.getexif().get(ExifTags.Base.Orientation, 1))
    except Exception:  # likewise in its tags, without which the image can be shown
        return image
    return image if turn is None else image.transpose(turn)


def to_rgb(image: Image.Image) -> Image.Image:
    """8-bit RGB: grey is repeated, 16 bits are scaled down, CMYK and palettes converted."""
    if image.mode == "F":
        raise UnreadablePictureError("its values are floating-point numbers, whose range is not known")
    if image.mode.startswith("I"):
        values = np.asarray(image)
        has_8_bits = image.mode == "I" and values.max(initial=0) <= 255  # 32 bits hold either; a dark "I;16" stays dark
        levels = np.clip(values, 0, 65535).astype(np.uint16)
        return Image.fromarray((levels // (1 if has_8_bits else 257)).astype(np.uint8)).convert("RGB")
    if image.mode == "P" and isinstance(image.info.get("transparency"), bytes):
        image = image.convert("RGBA")  # as Pillow would warn otherwise; the colours are the same
    return image.convert("RGB")
