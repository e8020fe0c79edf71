"""Files that appear whole or not at all."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["check_writable", "explained", "is_full", "write_whole"]


def check_writable(path: Path) -> None:
    """Raises FileNotFoundError, NotADirectoryError, IsADirectoryError or what `explained` gives, unless `path` can be made."""
    _check_place(path)
    try:
        tempfile.TemporaryFile(dir=path.parent).close()
    except OSError as error:
        raise explained(error, path.parent) from error


def _check_place(path: Path) -> None:
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; give the name of a file")
    folder = path.parent
    if not folder.exists():
        raise FileNotFoundError(f"there is no folder {folder} to write {path.name} into; create it first")
    if not folder.is_dir():
        raise NotADirectoryError(f"{folder} is not a folder, so {path.name} cannot be written into it")


def is_full(error: OSError) -> bool:
    """Whether there was no room on the disk, or none left for this user."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def explained(error: OSError, folder: Path) -> OSError:
    """An error of writing into `folder` in words: OSError for a full disk, else PermissionError; `errno` is kept."""
    if is_full(error):
        told = OSError(f"the disk of {folder} is full; make room and run again")
    else:
        told = PermissionError(f"cannot write into the folder {folder}: {error.strerror or error}")
    told.errno = error.errno
    return told


@contextmanager
def write_whole(path: Path) -> Iterator[Path]:
    """A temporary file beside `path` to write to. It takes the place of `path` at the end, and is gone after an error.

    Its name is hidden, and has the suffix of `path`, which exporters look at.
    """
    _check_place(path)
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.stem[:40]}-", suffix=path.suffix, dir=path.parent)
    except OSError as error:
        raise explained(error, path.parent) from error
    os.close(handle)
    file = Path(name)
    try:
        yield file
        umask = os.umask(0)
        os.umask(umask)
        file.chmod(0o666 & ~umask)  # temporary files are private
        file.replace(path)
    except OSError as error:
        if is_full(error):
            raise explained(error, path.parent) from error
        raise
    finally:
        file.unlink(missing_ok=True)
