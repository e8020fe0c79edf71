"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["check_writable", "write_whole"]


def check_writable(path: Path) -> None:
    """Raises FileNotFoundError, NotADirectoryError, IsADirectoryError or PermissionError unless `path` can be written."""
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; give the name of a file")
    folder = path.parent
    if not folder.exists():
        raise FileNotFoundError(f"there is no folder {folder} to write {path.name} into; create it first")
    if not folder.is_dir():
        raise NotADirectoryError(f"{folder} is not a folder, so {path.name} cannot be written into it")
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise PermissionError(f"cannot write into the folder {folder}: {error.strerror}") from error


@contextmanager
def write_whole(path: Path) -> Iterator[Path]:
    """A temporary file beside `path` to write to. It takes the place of `path` at the end, and is gone after an error."""
    check_writable(path)
    handle, name = tempfile.mkstemp(prefix=f".{path.stem}-", suffix=path.suffix, dir=path.parent)
    os.close(handle)
    file = Path(name)
    try:
        yield file
        umask = os.umask(0)
        os.umask(umask)
        file.chmod(0o666 & ~umask)  # temporary files are private
        file.replace(path)
    finally:
        file.unlink(missing_ok=True)
