"""The commands of docs/papers.md that look inside networks compute what the figures show."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from robustvit.cli import main

PAGE = Path(__file__).parents[2] / "docs" / "papers.md"


def command(section: str, item: str) -> list[str]:
    """The analysis that a row of the page names, of two nano networks on generated images."""
    text = re.search(rf"^## {section}$(.*?)^## ", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert text is not None
    row = next(line for line in text[1].splitlines() if line.startswith(f"| {item} |"))
    found = re.search(r"`robustvit (analyze [^`]+)`", row)
    assert found is not None
    parts = shlex.split(found[1])
    flags = parts[next(i for i, part in enumerate(parts) if part.startswith("--")) :]
    return ["analyze", "vit_nano", "fan_vit_nano", *flags]


def analysed(section: str, item: str, tmp_path: Path, *more: str) -> dict[str, Any]:
    parts = command(section, item)
    parts[parts.index("PATH")] = "scenes-easy:2"
    if "--img-size" in parts:
        at = parts.index("--img-size")
        parts[at + 1 : at + 3] = ["48", "48"]
    assert main([*parts, *more, "--output", str(tmp_path / "out")]) == 0
    return json.loads((tmp_path / "out" / "analysis.json").read_text())


@pytest.mark.usefixtures("undrawn")
def test_figure_3_of_fan_feeds_noise(tmp_path: Path) -> None:
    stored = analysed("FAN", "Figure 3", tmp_path)
    assert stored["options"]["noise"] == "input"
    arrays = np.load(tmp_path / "out" / "arrays.npz")
    strengths = [arrays[name] for name in arrays.files if "noise-decay" in name]
    assert len(strengths) == 2
    assert all(strength[0] == 1 for strength in strengths)  # of the first block, relative to itself


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(
    ("section", "item", "corruption"),
    [("FAN", "Figure 1", "snow"), ("AFAT", "Figure 1", "patches"), ("AFAT", "Figure 4", "patches")],
)
def test_figures_under_a_corruption_name_it(section: str, item: str, corruption: str, tmp_path: Path) -> None:
    more = ["--masks", "2"] if "occlusion" in command(section, item) else []
    assert analysed(section, item, tmp_path, *more)["options"]["corruption"] == corruption
