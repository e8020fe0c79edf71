"""Warnings on the command line."""

from __future__ import annotations

import logging
import sys
import warnings
from contextlib import suppress
from pathlib import Path

import pytest
from PIL import Image

from robustvit.cli import main
from robustvit.cli.one_line_warnings import one_line_warnings


def noisy_logger() -> logging.Logger:
    """The logger of a package that has a handler of its own, as huggingface_hub and torch have."""
    logger = logging.Logger("noisy")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("W1118 %(pathname)s:%(lineno)d] %(message)s"))
    logger.addHandler(handler)
    return logger


def test_warnings_of_any_package_are_one_line_each_and_come_once(capsys: pytest.CaptureFixture[str]) -> None:
    noisy = noisy_logger()
    with one_line_warnings():
        for _ in range(3):
            warnings.warn("this is\n  slow", stacklevel=1)
            noisy.warning("a host does not %s", "answer")
        logging.Logger("quiet").info("of no interest")
    assert capsys.readouterr().err.splitlines() == ["warning: this is slow", "warning: a host does not answer"]


def test_loggers_and_warnings_are_as_before_afterwards(tmp_path: Path) -> None:
    noisy = noisy_logger()
    emit, show = logging.StreamHandler.emit, warnings.showwarning
    with suppress(KeyError), one_line_warnings():
        noisy.addHandler(logging.FileHandler(tmp_path / "log"))
        noisy.warning("kept")
        raise KeyError
    assert (logging.StreamHandler.emit, warnings.showwarning) == (emit, show)
    assert (tmp_path / "log").read_text() == "kept\n"  # files get what they always got


def test_other_processes_of_a_run_leave_warnings_to_the_first(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RANK", "1")
    with one_line_warnings():
        warnings.warn("heard already", stacklevel=1)
    assert capsys.readouterr().err == ""


def test_a_command_warns_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for i in range(10):
        (tmp_path / "set" / f"c{i}").mkdir(parents=True)
        Image.new("RGB", (32, 32)).save(tmp_path / "set" / f"c{i}" / "a.png")
    (tmp_path / "set" / "c0" / "photo.raw").touch()
    command = ["eval", "vit_nano", "vit_pico", "--data", str(tmp_path / "set"), "--suite", "clean"]
    assert main([*command, "--output", str(tmp_path / "out")]) == 0
    told = capsys.readouterr().err.splitlines()
    (warned,) = [line for line in told if ".raw" in line]  # one for two networks
    assert warned.startswith("warning: ")
    assert not any(".py:" in line for line in told)
