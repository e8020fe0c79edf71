"""Files appear whole, and what is wrong with a place is told with the number of the error."""

from __future__ import annotations

import errno
import tempfile
from pathlib import Path
from typing import Any

import pytest

from robustvit.runtime.files import check_writable, write_whole


@pytest.mark.parametrize(
    ("number", "kind", "told"),
    [
        (errno.ENOSPC, OSError, "is full; make room"),
        (errno.EDQUOT, OSError, "is full; make room"),
        (errno.EROFS, PermissionError, "cannot write into the folder"),
    ],
)
def test_the_number_of_the_error_is_kept(
    number: int, kind: type[OSError], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(number, "no")

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    monkeypatch.setattr(tempfile, "mkstemp", refuse)
    with pytest.raises(kind, match=told) as first:
        check_writable(tmp_path / "a.txt")
    with pytest.raises(kind, match=told) as second, write_whole(tmp_path / "a.txt"):
        pass
    assert first.value.errno == second.value.errno == number
    assert not str(first.value).startswith("[Errno")


def test_a_disk_that_fills_up_on_the_way_is_told_and_nothing_is_left(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="is full; make room") as told, write_whole(tmp_path / "a.txt"):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert told.value.errno == errno.ENOSPC
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_written_with_one_temporary_file_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "TemporaryFile", None)
    with write_whole(tmp_path / f"{'a' * 250}.txt") as file:
        assert [p.name for p in tmp_path.iterdir()] == [file.name]
        assert file.name.startswith(".")
        file.write_text("whole")
    assert [p.name for p in tmp_path.iterdir()] == [f"{'a' * 250}.txt"]
