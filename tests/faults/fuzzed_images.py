"""Image files of every kind that a folder of images may hold, whole and damaged, under ordinary and odd names."""

from __future__ import annotations

import io
import os
import random
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
from damage import damaged_bytes, flipped
from PIL import Image

FORMATS = {
    "JPEG": ("RGB", "L", "CMYK"),
    "PNG": ("RGB", "RGBA", "L", "LA", "P", "1", "I;16"),
    "BMP": ("RGB", "L", "P"),
    "WEBP": ("RGB", "RGBA"),
    "GIF": ("RGB", "L", "P"),
    "TIFF": ("RGB", "CMYK", "I;16", "F", "LAB", "1"),
    "PPM": ("RGB", "L", "I;16"),
}
SUFFIXES = (".png", ".jpg", ".JPEG", ".bmp", ".webp", ".tiff", ".ppm", ".gif")
ODD_NAMES = (
    b"a b",
    b"new\nline",
    b"bytes-\xff\xfe",
    "ünïcödé-🙂".encode(),
    b"-rf",
    b"--output",
    b"=1+1",
    b"quote'\"",
    b"tab\there",
    b"back\\slash",
    b"\r",
    b"%s%n{0}",
    b"[bold]",
    b"CON",
    b"x" * 200,
    b"a.tar",
)


def encoded(draws: random.Random, size: tuple[int, int] | None = None) -> bytes:
    """A whole image of some format, mode and size."""
    kind = draws.choice(list(FORMATS))
    mode = draws.choice(FORMATS[kind])
    width, height = size or (draws.choice((32, 40, 57)), draws.choice((32, 45)))
    values = np.random.default_rng(draws.randrange(2**32)).integers(0, 256, (height, width, 3), np.uint8)
    image = Image.fromarray(values)
    if mode == "I;16":
        image = Image.fromarray(values[..., 0].astype(np.uint16) * 257)
    elif mode == "F":
        image = Image.fromarray(values[..., 0].astype(np.float32))
    elif mode == "LAB":
        image = Image.frombytes("LAB", (width, height), values.tobytes())
    elif mode != "RGB":
        image = image.convert(mode)
    options: dict = {}
    if kind in ("JPEG", "PNG", "WEBP") and draws.random() < 0.5:
        exif = Image.Exif()
        exif[0x0112] = draws.choice((1, 2, 3, 5, 6, 8, 0, 9, 60000))
        content = exif.tobytes()
        options["exif"] = flipped(content, draws) if draws.random() < 0.5 else content
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def _png_header(width: int, height: int) -> bytes:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(5000))) + chunk(b"IEND", b"")


def whole(draws: random.Random) -> bytes:
    return encoded(draws)


def damaged(draws: random.Random) -> bytes:
    return damaged_bytes(encoded(draws), draws)


def tiny(draws: random.Random) -> bytes:
    return encoded(draws, draws.choice(((1, 1), (1, 64), (64, 1), (3, 3), (31, 31))))


def huge_header(draws: random.Random) -> bytes:
    """Says that it has many more pixels than it has."""
    side = draws.choice((20_000, 100_000, 2**31 - 1, 2**32 - 1))
    other = draws.choice((1, 40, side))
    bitmap = struct.pack("<2sIHHI", b"BM", 100, 0, 0, 54) + struct.pack(
        "<IiiHHIIiiII", 40, 10**6, 10**6, 1, 24, 0, 0, 0, 0, 0, 0
    )
    graphic = (
        b"GIF89a"
        + struct.pack("<HHBBB", 65535, 65535, 0x80, 0, 0)
        + bytes(6)
        + b"\x2c"
        + struct.pack("<HHHHB", 0, 0, 65535, 65535, 0)
    )
    text = f"P6\n{side} {other}\n255\n".encode() + bytes(100)
    return draws.choice((_png_header(side, other), bitmap, graphic + b"\x02\x01\x00\x00\x3b", text))


def other_kind(draws: random.Random) -> bytes:
    """No image of a listed format: text, programs for other decoders, an archive, a pickle."""
    postscript = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n%%EOF\n"
    drawing = b'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><rect width="9" height="9"/></svg>'
    metafile = b"\xd7\xcd\xc6\x9a" + bytes(60)
    pickled = b"cposix\nsystem\n(S'touch executed'\ntR."
    return draws.choice(
        (postscript, drawing, metafile, pickled, b"PK\x03\x04" + bytes(40), b"text\n", b"", b"8BPS\x00\x01" + bytes(80))
    )


KINDS: tuple[Callable[[random.Random], bytes], ...] = (damaged, whole, tiny, damaged, huge_header, other_kind, damaged, whole)


def put_image(folder: Path, number: int, draws: random.Random) -> tuple[Path, str]:
    """Writes image `number` into a folder under some name; (its path, its kind)."""
    make = KINDS[number % len(KINDS)]
    if number % 16 == 15:
        return _put_no_file(folder, draws)
    stem = draws.choice(ODD_NAMES) if draws.random() < 0.5 else b"odd"
    path = folder / os.fsdecode(stem + draws.choice(SUFFIXES).encode())
    path.write_bytes(make(draws))
    return path, make.__name__


def _put_no_file(folder: Path, draws: random.Random) -> tuple[Path, str]:
    path = folder / "odd.png"
    how = draws.choice(("folder", "link to nothing", "link to itself", "pipe", "unreadable"))
    if how == "folder":
        path.mkdir()
    elif how == "link to nothing":
        path.symlink_to(folder / "nothing")
    elif how == "link to itself":
        path.symlink_to(path)
    elif how == "pipe":
        os.mkfifo(path)
    else:
        path.write_bytes(whole(draws))
        path.chmod(0)
    return path, how
