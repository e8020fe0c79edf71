"""The toy tasks as an installed package."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from robustvit.metrics import measures
from robustvit.runtime.plugins import installed

TOYS = ("mean_colour", "light_maps")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The toy tasks as an installed package; their measures are gone again afterwards."""
    folder = tmp_path / "site"
    (folder / "toy-0.1.dist-info").mkdir(parents=True)
    (folder / "toy-0.1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: toy\nVersion: 0.1\n")
    points = "[robustvit.tasks]\nmean_colour = mean_colour:MeanColour\nlight_maps = light_maps:LightMaps\n"
    (folder / "toy-0.1.dist-info" / "entry_points.txt").write_text(points)
    for name in TOYS:
        shutil.copy(Path(__file__).with_name(f"{name}.py"), folder)
    monkeypatch.syspath_prepend(str(folder))
    own = {measure.key: measure for measure in measures.measures()}  # whose modules are imported once only
    monkeypatch.setattr(measures, "_TABLE", own)
    installed.cache_clear()
    yield folder
    installed.cache_clear()
    for name in TOYS:
        sys.modules.pop(name, None)
