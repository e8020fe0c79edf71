"""Zip files from anywhere (checkpoints, .npz), looked through before anybody unpacks them."""

from __future__ import annotations

import struct
import zipfile
import zlib
from pathlib import Path

__all__ = ["DamagedZipError", "check_zip", "is_zip"]

LARGEST_RATIO = 4
"""Of what a file unpacks to and its size. torch packs nothing, and weights hardly shrink."""
ALWAYS_ALLOWED = 2**30
"""Bytes that any file may unpack to: arrays of zeros shrink to nothing."""
_CHUNK = 2**20
_BROKEN = (zipfile.BadZipFile, zlib.error, struct.error, RuntimeError, NotImplementedError, EOFError, ValueError, KeyError)


class DamagedZipError(ValueError):
    """A zip file that is damaged, or that would unpack to much more than it is."""


def is_zip(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"PK\x03\x04"


def check_zip(path: Path, *, contents: bool = True) -> None:
    """Compares the size that a zip file unpacks to with its own, then every part with its checksum.

    Args:
        path: of the file.
        contents: read all parts and compare checksums; those that were stored without one (0) are not compared.

    Raises:
        DamagedZipError: it is damaged, or a bomb.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
            _check_sizes(sum(entry.file_size for entry in entries), path.stat().st_size)
            for entry in entries if contents else ():
                if entry.CRC:
                    with archive.open(entry) as part:
                        while part.read(_CHUNK):
                            pass
    except DamagedZipError:
        raise
    except _BROKEN as error:
        raise DamagedZipError(f"it is damaged or cut short ({error})") from error


def _check_sizes(unpacked: int, packed: int) -> None:
    if unpacked > max(LARGEST_RATIO * packed, ALWAYS_ALLOWED):
        raise DamagedZipError(f"it has {packed:,} bytes and would unpack to {unpacked:,}")
