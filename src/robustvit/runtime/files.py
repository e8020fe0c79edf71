"""Files that appear whole or not at all."""

from __future__ import annotations

import errno
import functools
import glob
import hashlib
import os
import re
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = [
    "check_writable",
    "discard_unfinished",
    "explained",
    "is_alive",
    "is_full",
    "remove_folder",
    "remove_stale_files",
    "write_whole",
]

_PREFIX = ".robustvit-"
_UNFINISHED = re.compile(r"\.robustvit-([0-9a-f]{8})-(\d+)-.*-[a-z0-9_]{8}(\.[^.]*)?", re.DOTALL)
"""Names that `write_whole` gives: with the machine, the process, the file and what `tempfile` adds."""
FOREIGN_SECONDS = 7 * 24 * 3600
"""When an unfinished file of another machine, whose processes nobody here can see, has been left behind."""
_open: set[Path] = set()
"""Files that `write_whole` has not finished in this process."""


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


def remove_folder(folder: Path) -> None:
    """Removes a folder and all that is in it, so that it is never seen half removed.

    It is renamed first. What a kill or an error leaves of it has a hidden name, and goes when a folder of this name is removed
    again.

    Raises:
        PermissionError: it cannot even be renamed.
    """
    if folder.is_dir():
        try:
            folder.rename(Path(tempfile.mkdtemp(prefix=f".{folder.name}-removed-", dir=folder.parent), folder.name))
        except OSError as error:
            raise explained(error, folder.parent) from error
    for removed in folder.parent.glob(f".{glob.escape(folder.name)}-removed-*"):
        shutil.rmtree(removed, ignore_errors=True)


@contextmanager
def write_whole(path: Path) -> Iterator[Path]:
    """A temporary file beside `path` to write to. It takes the place of `path` at the end, and is gone after an error.

    Its name is hidden, and has the suffix of `path`, which exporters look at. `remove_stale_files` knows it.
    """
    _check_place(path)
    prefix = f"{_PREFIX}{_machine()}-{os.getpid()}-{path.stem[:40]}-"
    try:
        handle, name = tempfile.mkstemp(prefix=prefix, suffix=path.suffix, dir=path.parent)
    except OSError as error:
        raise explained(error, path.parent) from error
    os.close(handle)
    file = Path(name)
    _open.add(file)
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
        _open.discard(file)


def discard_unfinished() -> None:
    """Removes what `write_whole` has begun in this process, which is about to end without another line of Python."""
    for file in tuple(_open):
        with suppress(OSError):
            file.unlink(missing_ok=True)


def remove_stale_files(folder: Path) -> None:
    """Removes what killed processes left of `write_whole` in a folder, and of nobody else.

    A file of another machine, or of a container with processes of its own, goes when nobody has written to it for a week.
    """
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            name = _UNFINISHED.fullmatch(entry.name)
            if name and Path(entry.path).absolute() not in _open and _is_stale(entry, name[1], int(name[2])):
                with suppress(OSError):
                    Path(entry.path).unlink(missing_ok=True)


def _is_stale(entry: os.DirEntry[str], machine: str, process: int) -> bool:
    if machine == _machine():
        return not is_alive(process)
    with suppress(OSError):
        return time.time() - entry.stat(follow_symlinks=False).st_mtime > FOREIGN_SECONDS
    return False


@functools.cache
def _machine() -> str:
    """Where the numbers of processes mean the same as here: a hash of the host and of its space of processes."""
    space = ""
    with suppress(OSError):
        space = str(Path("/proc/self/ns/pid").readlink())  # containers have their own, some with the name of their host
    return hashlib.sha256(f"{socket.gethostname()} {space}".encode()).hexdigest()[:8]


def is_alive(process: int) -> bool:
    """Whether another process of this machine has this number."""
    if process == os.getpid():
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # somebody else's, or no number of a process
        pass
    return True
