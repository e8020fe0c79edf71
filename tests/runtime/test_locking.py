"""One process writes into a folder at a time."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from robustvit.cli import main
from robustvit.runtime.files import write_whole
from robustvit.runtime.locking import FolderInUseError, locked

LOCK = ".robustvit-0-of-1.lock"
HOLD = """
import os, sys, time
from robustvit.runtime.locking import locked
with locked(sys.argv[1]):
    if "forks" not in sys.argv or not os.fork():
        print(os.getpid(), flush=True)
    time.sleep(60)
"""


@contextmanager
def held_by_a_process(folder: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """(The process, its forked worker's number); it does not import torch."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(folder), *arguments], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    worker = int(process.stdout.readline())
    try:
        yield process, worker
    finally:
        process.kill()
        process.wait(timeout=60)
        process.stdout.close()


def in_a_thread(work: Callable[[], Any]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def test_the_second_process_is_told_who_has_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with held_by_a_process(folder, "--some option") as (process, _), pytest.raises(FolderInUseError) as told, locked(folder):
        pass
    message = str(told.value)
    assert all(part in message for part in (str(tmp_path / "run"), f"process {process.pid} ", socket.gethostname(), "--some"))
    assert re.search(r"since \d{4}-\d\d-\d\d \d\d:\d\d", message)


def test_the_lock_of_a_killed_process_is_taken_over_although_its_worker_lives(tmp_path: Path) -> None:
    with held_by_a_process(tmp_path, "forks") as (process, worker):
        process.kill()
        process.wait(timeout=60)
        assert (tmp_path / LOCK).exists()
        os.kill(worker, 0)  # it lives
        with locked(tmp_path):
            assert json.loads((tmp_path / LOCK).read_text())["pid"] == os.getpid()
        os.kill(worker, signal.SIGKILL)
    assert not list(tmp_path.iterdir())


def test_a_thread_may_lock_again_what_it_has_locked_and_no_other(tmp_path: Path) -> None:
    seen = []

    def other() -> None:
        with pytest.raises(FolderInUseError), locked(tmp_path):
            pass
        seen.append(True)

    with locked(tmp_path):
        with locked(tmp_path / "a" / ".."):
            assert (tmp_path / LOCK).exists()
        assert (tmp_path / LOCK).exists()
        in_a_thread(other)
    assert seen == [True]
    assert not list(tmp_path.iterdir())


def test_folders_in_which_nothing_was_made_are_gone(tmp_path: Path) -> None:
    with pytest.raises(KeyError), locked(tmp_path / "a" / "b"):
        raise KeyError
    assert not list(tmp_path.iterdir())
    with locked(tmp_path / "a" / "b"):
        (tmp_path / "a" / "b" / "result").touch()
    assert [path.name for path in (tmp_path / "a" / "b").iterdir()] == ["result"]


@pytest.mark.parametrize("place", ["/proc/nothing", "a file"])
def test_what_cannot_be_written_is_left_to_whoever_writes(place: str, tmp_path: Path) -> None:
    (tmp_path / "a file").touch()
    with locked(tmp_path / place):
        assert [path.name for path in tmp_path.iterdir()] == ["a file"]
    assert (tmp_path / "a file").is_file()


def test_processes_that_share_the_work_share_the_folder(tmp_path: Path) -> None:
    with locked(tmp_path, (0, 2)), locked(tmp_path, (1, 2)):
        with pytest.raises(FolderInUseError), locked(tmp_path, (0, 1)):
            pass
        with pytest.raises(FolderInUseError), locked(tmp_path, (0, 3)):
            pass
    with locked(tmp_path, (0, 1)):
        pass
    assert not list(tmp_path.iterdir())


def test_other_processes_of_a_torchrun_leave_the_lock_to_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with held_by_a_process(tmp_path):
        before = {path: path.read_text() for path in tmp_path.iterdir()}
        monkeypatch.setenv("RANK", "1")
        with locked(tmp_path):
            assert {path: path.read_text() for path in tmp_path.iterdir()} == before
        assert {path: path.read_text() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize(("pid", "host", "is_taken"), [(1, "", True), (1, "elsewhere", True), (2**22 + 1, "", False)])
def test_where_files_cannot_be_locked_the_facts_decide(
    pid: int, host: str, is_taken: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", refuse)
    facts = dict(pid=pid, host=host or socket.gethostname(), command="robustvit train", since="yesterday")
    (tmp_path / LOCK).write_text(json.dumps(facts))
    if is_taken:
        with pytest.raises(FolderInUseError, match=rf"`robustvit train` \(process 1 on .*delete {tmp_path}"), locked(tmp_path):
            pass
        return
    with locked(tmp_path):
        assert json.loads((tmp_path / LOCK).read_text())["pid"] == os.getpid()
    assert not list(tmp_path.iterdir())


def unfinished_file(folder: Path) -> tuple[str, str, str]:
    """(Up to the machine, the machine, what follows the process) in the name of a file that is being written."""
    with write_whole(folder / "results.json") as file:
        name = re.fullmatch(rf"(\.robustvit-)(\w+)-{os.getpid()}(-results-\w+\.json)", file.name)
    assert name is not None
    (folder / "results.json").unlink()
    return name[1], name[2], name[3]


def test_files_that_killed_processes_left_are_removed_and_no_others(tmp_path: Path) -> None:
    dead, alive = 2**22 + 1, os.getppid()
    before, machine, after = unfinished_file(tmp_path)
    left, used = f"{before}{machine}-{dead}{after}", f"{before}{machine}-{alive}{after}"
    stale = [left, f"best/{left}"]
    kept = [used, ".results-abcd1234.json", ".robustvit-notes.txt", "results.json"]
    kept += [f"other/{left}", f"other/{LOCK}", f"other/deeper/{left}"]
    for name in (*stale, *kept):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    with locked(tmp_path):
        pass
    assert {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()} == set(kept)


def test_files_of_another_machine_are_left_alone_until_they_are_old(tmp_path: Path) -> None:
    before, machine, after = unfinished_file(tmp_path)
    foreign = [f"{before}{'0' * 8}-{number}{after}" for number in (2**22 + 1, 2**22 + 2)]
    assert machine != "0" * 8
    for name in foreign:
        (tmp_path / name).touch()
    long_ago = time.time() - 8 * 24 * 3600
    os.utime(tmp_path / foreign[1], (long_ago, long_ago))
    with locked(tmp_path):
        pass
    assert [path.name for path in tmp_path.iterdir()] == foreign[:1]


IMAGES = ("--data", "scenes-easy:8")
COMMANDS = {
    "train": ["train", "--output", "OUT"],
    "resume": ["train", "--resume", "--set", "data.val=", "--output", "OUT"],
    "eval": ["eval", "vit_pico", *IMAGES, "--output", "OUT"],
    "attack": ["attack", "vit_pico", *IMAGES, "--attack", "fgsm", "--output", "OUT"],
    "analyze": ["analyze", "vit_pico", "--images", "scenes-easy:8", "--what", "occlusion", "--output", "OUT"],
    "sweep": ["sweep", "--vary", "optimizer.lr=1,2", "--output", "OUT"],
    "demo": ["demo", "--output", "OUT"],
    "corrupt": ["corrupt", "SET", "OUT"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_refuses_a_folder_in_use(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from PIL import Image

    (tmp_path / "SET" / "class").mkdir(parents=True)
    Image.new("RGB", (40, 40)).save(tmp_path / "SET" / "class" / "a.png")
    line = [str(tmp_path / part) if part in ("OUT", "SET") else part for part in COMMANDS[name]]
    codes: list[int] = []
    with locked(tmp_path / "OUT"):
        in_a_thread(lambda: codes.append(main(line)))
        assert [path.name for path in (tmp_path / "OUT").iterdir()] == [LOCK]
    told = capsys.readouterr().err
    assert codes == [2]
    assert f"{tmp_path / 'OUT'} is in use by" in told
    assert f"process {os.getpid()} " in told
