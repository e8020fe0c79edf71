"""`robustvit demo`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

from robustvit.cli import main
from robustvit.cli.attention_figure import DPI, HEIGHT, WIDTH
from robustvit.reference.picture import draw_shapes


def test_demo_agrees_with_the_reference_and_draws_the_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--output", str(tmp_path / "new" / "demo"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["network"] == "fan_vit_tiny"
    assert told["deviation"] <= 1e-4
    assert {"fan_vit_tiny", "fan_swin_large", "rvt_base_plus"} <= {row["name"] for row in told["networks"]}
    assert [path.name for path in (tmp_path / "new" / "demo").iterdir()] == ["attention.png"]  # nothing temporary left
    with Image.open(told["picture"]) as picture:
        assert picture.format == "PNG"
        assert picture.size == (int(WIDTH * DPI), int(HEIGHT * DPI))


def test_demo_refuses_a_file_as_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "taken").write_text("")
    assert main(["demo", "--output", str(tmp_path / "taken")]) == 2
    assert "is a file; give a folder" in capsys.readouterr().err


def test_picture_is_the_same_every_time() -> None:
    assert draw_shapes(64).shape == (64, 64, 3)
    assert (draw_shapes(64) == draw_shapes(64)).all()
