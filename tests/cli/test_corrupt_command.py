"""`robustvit corrupt` as a user types it, stops it and kills it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from robustvit.cli import main
from robustvit.runtime.cores import available_cores

COMMAND = [sys.executable, "-m", "robustvit", "corrupt"]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


def fill(root: Path, count: int = 2, side: int = 48) -> Path:
    for i in range(count):
        path = root / f"c{i % 2}" / f"{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.random.default_rng(i).integers(0, 255, (side, side, 3), np.uint8)).save(path)
    return root


def copies(root: Path) -> dict[str, bytes]:
    return {p.relative_to(root).as_posix(): p.read_bytes() for p in root.rglob("*.JPEG")}


def test_grey_palette_and_tiny_images_are_copied_or_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = fill(tmp_path / "set", 1)
    Image.new("L", (48, 40), 7).save(source / "c0" / "grey.png")
    Image.new("P", (48, 40)).save(source / "c0" / "palette.gif")
    Image.new("RGB", (1, 1)).save(source / "c0" / "tiny.png")
    options = ["--names", "contrast", "--severities", "1", "--size", "32", "--json"]
    assert main(["corrupt", str(source), str(tmp_path / "out"), *options]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["written"], printed["skipped"]) == (3, [["c0/tiny.png", "it has 1x1 pixels; corruptions need 32x32"]])
    assert set(copies(tmp_path / "out")) == {f"contrast/1/c0/{n}.JPEG" for n in ("0", "grey", "palette")}


def test_what_cannot_work_is_refused_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = fill(tmp_path / "set")
    (tmp_path / "file").touch()
    for arguments, named in [
        (["nowhere", "out"], "nowhere"),
        ([source / "c0", tmp_path / "out"], f"{source / 'c0'}/CLASS"),
        ([source, tmp_path / "file"], str(tmp_path / "file")),
        ([source, "/proc/out"], "/proc"),
        ([source, tmp_path / "out", "--frost-folder", tmp_path / "nowhere"], "nowhere"),
        ([source, tmp_path / "out", "--severities", "6"], "--severities 6"),
        ([source, tmp_path / "out", "--layout", "cityscapes"], "_leftImg8bit.png"),
    ]:
        assert main(["corrupt", *map(str, arguments)]) == 2
        assert named in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_replaced_image_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = fill(tmp_path / "set")
    command = ["corrupt", str(source), str(tmp_path / "out"), "--names", "contrast", "--size", "32", "--workers", "1"]
    assert main(command) == 0
    Image.new("RGB", (60, 50), (9, 9, 9)).save(source / "c0" / "0.png")
    capsys.readouterr()
    assert main(command) == 0
    printed = capsys.readouterr()
    assert "1 images" in printed.err
    assert "c0/0.png" in printed.err
    assert "5 files written, 5 " in printed.out


def test_cores_are_shared_among_the_processes_of_a_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    alone = available_cores()
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    assert available_cores() == max(1, alone // 2)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "1000")
    assert available_cores() == 1


@pytest.mark.slow
def test_under_torchrun_one_summary_is_printed(tmp_path: Path) -> None:
    source = fill(tmp_path / "set", 3)
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", *COMMAND[1:]]
    options = ["--names", "contrast", "--severities", "1", "2", "--size", "32", "--workers", "1", "--json"]
    done = subprocess.run(
        [*launcher, str(source), str(tmp_path / "out"), *options],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    printed = json.loads(done.stdout)
    assert (printed["processes"], printed["written"]) == (2, 4)
    assert len(copies(tmp_path / "out")) == 6


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    ("how", "code"),
    [(signal.SIGTERM, 143), pytest.param(signal.SIGINT, 130, marks=SLOW), pytest.param(signal.SIGKILL, -9, marks=SLOW)],
)
def test_a_run_that_was_stopped_goes_on(how: signal.Signals, code: int, tmp_path: Path) -> None:
    source, out = fill(tmp_path / "set", 24, side=80), tmp_path / "out"
    places, names = [str(source), str(out)], ["contrast", "fog"]
    size, all_files = ["--size", "64"], 24 * 19 * 5
    process = subprocess.Popen(  # of all corruptions, so that it cannot be finished before the signal
        [*COMMAND, *places, *size, "--workers", "2"],
        env=ENVIRONMENT,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 120
    while not any(out.rglob("*.JPEG")) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    if how is signal.SIGKILL:
        process.kill()
    else:
        os.killpg(process.pid, how)  # as a terminal does
    _, errors = process.communicate(timeout=60)
    assert process.returncode == code
    if how is not signal.SIGKILL:
        assert errors.startswith("stopped")
        assert "same command" in errors
        assert not list(out.glob(".*"))
    deadline = time.monotonic() + 20
    while _group_lives(process.pid) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not _group_lives(process.pid)  # no worker is left behind
    before = copies(out)
    assert 0 < len(before) < all_files
    assert all(Image.open(out / name).size == (64, 64) for name in before)
    assert main(["corrupt", *places, *size, "--names", *names, "--workers", "1"]) == 0
    assert not list(out.glob(".*"))
    assert main(["corrupt", str(source), str(tmp_path / "whole"), *size, "--names", *names, "--workers", "1"]) == 0
    whole = copies(tmp_path / "whole")
    assert len(whole) == 24 * 2 * 5
    assert {name: file for name, file in copies(out).items() if name in whole} == whole


def _group_lives(group: int) -> bool:
    """Whether a process of the group runs; those that ended but were not waited for by whoever adopted them do not count."""
    found = subprocess.run(["ps", "-o", "stat=", "-g", str(group)], capture_output=True, text=True).stdout.split()
    return any(not state.startswith("Z") for state in found)
