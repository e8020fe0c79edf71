"""Names with newlines, or bytes that are no UTF-8, go through copies, evaluations and their files."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from PIL import Image

from robustvit.cli import main
from robustvit.data.copies.listed_names import checksum_line, listed_checksum, listed_line, parsed_line

ODD = [os.fsdecode(b"b\xfe.png"), "c\nd.png", "e\rf.png", "back\\slash\\n.png", "=1+1.png"]
BROKEN = os.fsdecode(b"broken\n\xff.png")
CLASSES = [os.fsdecode(b"d\xffg"), "new\nline"]


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    """Pictures of odd names in classes of odd names, with a broken one."""
    for name in CLASSES:
        folder = tmp_path / "odd" / name
        folder.mkdir(parents=True)
        for i, file in enumerate(ODD):
            Image.new("RGB", (32, 32), (40 * i, 0, 0)).save(folder / file)
        (folder / BROKEN).write_text("no picture")
    return tmp_path / "odd"


def test_odd_names_go_through_copies_and_are_found_again(odd: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copies = odd.with_name("copies")
    command = ["corrupt", f"{odd}", f"{copies}", "--names", "brightness", "--severities", "1", "--whole", "--format", "png"]
    for written, present in ((10, 0), (0, 10)):
        assert main([*command, "--workers", "1", "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert (told["written"], told["present"], len(told["skipped"])) == (written, present, 2)
    assert {path.name for path in (copies / "brightness" / "1" / CLASSES[1]).iterdir()} == {*ODD}
    os.utime(odd / CLASSES[0] / ODD[0], ns=(0, 0))
    Image.new("RGB", (48, 32), (0, 9, 0)).save(odd / CLASSES[1] / ODD[1])
    assert main([*command, "--workers", "1", "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert (again["written"], again["changed"]) == (1, [f"{CLASSES[1]}/{ODD[1]}"])
    if shutil.which("sha256sum"):
        subprocess.run(["sha256sum", "-c", "--quiet", "checksums-0-of-1.sha256"], cwd=copies, check=True)


def test_odd_names_go_through_an_evaluation_and_its_report(odd: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = odd.with_name(os.fsdecode(b"out\xff"))
    command = ["eval", "vit_pico", "--untrained", "--num-classes", "2", "--data", f"{odd}", "--suite", "clean"]
    for more in ([], ["--resume"]):
        assert main([*command, "--output", f"{output}", *more]) == 0
    stored = json.loads((output / "results.json").read_text())
    assert [name for name, _ in stored["models"][0]["skipped"]] == [f"{name}/{BROKEN}" for name in CLASSES]
    assert "<html" in (output / "report.html").read_text(encoding="utf-8")
    assert "could not be read" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["a", "a b", "a\\b", "a\\nb", "a\nb", "\\\n\r\\r", os.fsdecode(b"\xff\\")])
def test_a_listed_name_is_one_line_and_comes_back(name: str) -> None:
    line = checksum_line("0" * 64, name)
    assert line.count("\n") == 1
    assert "\r" not in line
    assert listed_checksum(line) == name
    assert parsed_line(listed_line("1\t", name)) == f"1\t{name}"
    assert parsed_line(line[:-1]) is None
