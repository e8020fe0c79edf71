"""One process writes into a folder at a time; the second is told who does.

The lock is the kernel's (`flock`), on a hidden file with the holder's facts: it ends with its process, however that ends, and
works between machines on NFS. Where a file system has no such locks (Lustre without `-o flock`), the facts alone decide.
"""

from __future__ import annotations

import errno
import functools
import inspect
import json
import os
import re
import shlex
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import ParamSpec, TypeVar

from robustvit.runtime.files import is_alive, remove_stale_files
from robustvit.runtime.interruption import postponing_signals
from robustvit.runtime.ranks import is_first_process

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

__all__ = ["FolderInUseError", "locked", "locking_output"]

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
_NAME = re.compile(r"\.robustvit-(\d+)-of-(\d+)\.lock")
_UNSUPPORTED = (errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOLCK)


class FolderInUseError(RuntimeError):
    """Another process writes into the folder."""


@dataclass(frozen=True)
class _Holder:
    """Who has a lock: process, machine, what was typed, and when."""

    pid: int
    host: str
    command: str
    since: str

    @classmethod
    def this_process(cls) -> _Holder:
        program = Path(sys.argv[0])
        name = program.parent.name if program.name == "__main__.py" else program.name or "python"
        command = shlex.join([name, *sys.argv[1:]])
        command = command if len(command) <= 120 else f"{command[:117]}..."
        return cls(os.getpid(), socket.gethostname(), command, datetime.now().astimezone().isoformat(" ", "seconds"))

    @classmethod
    def read(cls, path: Path) -> _Holder | None:
        """None where nobody has written down who it is."""
        try:
            found = cls(**json.loads(path.read_text()))
        except (OSError, ValueError, TypeError):
            return None
        return found if isinstance(found.pid, int) else None

    def __str__(self) -> str:
        return f"`{self.command}` (process {self.pid} on {self.host}, since {self.since})"


_held: dict[Path, tuple[int, int]] = {}
"""Lock files of this process -> (descriptor, thread)."""


@contextmanager
def locked(folder: str | Path | None, share: tuple[int, int] | None = None) -> Iterator[None]:
    """Nobody else writes into `folder` while the body runs. It is made if needed, and removed again if nothing came of it.

    Also removes what killed processes have left of files there, and in the folders in it.

    Args:
        folder: None locks nothing. A folder that this thread has locked already stays so.
        share: (rank, world) of processes that write into the folder together. By default the first process of a torchrun
            holds the lock for all.

    Raises:
        FolderInUseError: another process has it; the message names it.
    """
    if folder is None or (share is None and not is_first_process()):
        yield
        return
    place = Path(folder)
    rank, world = share or (0, 1)
    path = place.resolve() / f".robustvit-{rank}-of-{world}.lock"
    if path in _held and _held[path][1] == threading.get_ident():
        yield
        return
    made, is_locked = list[Path](), False
    try:
        with postponing_signals():  # between the making of its file and the note that it is ours
            made = _make(place)
            is_locked = _take(path, place)
        if is_locked:
            _check_others(path, place)
            _remove_stale(place)
        yield
    finally:
        with postponing_signals():
            if is_locked:
                _release(path)
            for empty in made:
                with suppress(OSError):
                    empty.rmdir()


def locking_output(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """A function that has its argument `output`, a folder or None, for itself while it runs (`locked`)."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def alone(*arguments: Parameters.args, **options: Parameters.kwargs) -> Result:
        given = signature.bind(*arguments, **options)
        given.apply_defaults()
        with locked(given.arguments["output"]):
            return function(*arguments, **options)

    return alone


def _make(folder: Path) -> list[Path]:
    """The folders that had to be made, the innermost first; whoever writes into them finds out if that was not possible."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
    return missing


def _take(path: Path, folder: Path) -> bool:
    """Takes the lock; False where nothing can be written."""
    if path in _held:
        raise FolderInUseError(_told(folder, _Holder.this_process()))
    while True:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError:
            return False
        try:
            is_current = _lock(descriptor, path, folder) and _is_same_file(descriptor, path)
        except BaseException:
            os.close(descriptor)
            raise
        if is_current:
            break
        os.close(descriptor)  # its holder removed it meanwhile
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, json.dumps(asdict(_Holder.this_process())).encode(), 0)
    _held[path] = (descriptor, threading.get_ident())
    return True


def _lock(descriptor: int, path: Path, folder: Path) -> bool:
    if fcntl is not None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            raise FolderInUseError(_told(folder, _Holder.read(path))) from None
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise
    holder = _Holder.read(path)
    if holder is not None and (holder.host != socket.gethostname() or is_alive(holder.pid)):
        raise FolderInUseError(f"{_told(folder, holder)}. If that process is gone, delete {path}")
    return True


def _is_same_file(descriptor: int, path: Path) -> bool:
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(descriptor), path.stat())
    return False


def _check_others(own: Path, folder: Path) -> None:
    """Raises FolderInUseError where processes of a run with another number of them are at work."""
    world = own.name.rpartition("-of-")[2]
    for path in folder.glob(".robustvit-*.lock"):
        if not _NAME.fullmatch(path.name) or path.name.endswith(f"-of-{world}"):
            continue
        with suppress(OSError):
            descriptor = os.open(path, os.O_RDWR)
            try:
                _lock(descriptor, path, folder)
                path.unlink(missing_ok=True)  # of a process that was killed
            finally:
                os.close(descriptor)


def _told(folder: Path, holder: _Holder | None) -> str:
    who = str(holder) if holder is not None else "another process"
    return f"{folder} is in use by {who}; wait for it, stop it, or give another folder"


def _release(path: Path) -> None:
    descriptor, _ = _held.pop(path)
    with suppress(OSError):
        path.unlink(missing_ok=True)
    os.close(descriptor)


def _remove_stale(folder: Path) -> None:
    remove_stale_files(folder)
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False) and not any(Path(entry.path).glob(".robustvit-*.lock")):
                remove_stale_files(Path(entry.path))  # others may be at work in folders with a lock of their own


def _forget_in_child() -> None:
    """A forked worker must not keep the lock when its parent is killed."""
    for descriptor, _ in _held.values():
        os.close(descriptor)
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)
