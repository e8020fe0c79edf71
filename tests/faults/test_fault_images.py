"""Whatever lies among the pictures: it is used or named as left out, and the others are measured and copied as without it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fault_cases import Outcome, command, draws_of, left_over, numbered, observed
from fuzzed_images import put_image
from PIL import Image
from torch import nn

import robustvit as rv
from robustvit.data.copies.listed_names import open_list, parsed_line

COPYING = ("--names", "brightness", "--severities", 1, "--size", 32, "--workers", 1, "--format", "png")


class ByBrightness(nn.Module):
    """Two classes: bright and dark."""

    num_classes = 2
    pretrained_cfg = {"input_size": (3, 32, 32), "mean": (0.0, 0.0, 0.0), "std": (1.0, 1.0, 1.0), "crop_pct": 1.0}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mean = x.mean((1, 2, 3))
        return torch.stack([mean - 0.5, 0.5 - mean], 1)


def save_set(folder: Path) -> Path:
    """Four ordinary pictures: two dark ones and two bright ones."""
    noise = np.random.default_rng(0).integers(0, 60, (4, 40, 48, 3), np.uint8)
    for name, level in (("bright", 180), ("dark", 10)):
        (folder / name).mkdir(parents=True)
        for i in range(2):
            Image.fromarray(noise[2 * (level < 50) + i] + np.uint8(level)).save(folder / name / f"{i}.png")
    return folder


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What the copies of the ordinary images are when nothing else is there."""
    root = tmp_path_factory.mktemp("alone")
    assert command("corrupt", save_set(root / "set"), root / "copies", *COPYING).kind == "done"
    return {path.relative_to(root / "copies").as_posix(): path.read_bytes() for path in (root / "copies").rglob("*.png")}


@numbered(150, 8)
def test_odd_images_are_used_or_named_and_change_nothing_else(
    number: int, copies: dict[str, bytes], tmp_path: Path, record_property: Callable[[str, Any], None]
) -> None:
    draws = draws_of("pictures", number)
    folder = save_set(tmp_path / "set")
    odd, kind = put_image(folder / "dark", number, draws)
    copied = _copied(folder, odd, tmp_path / "copies", copies)
    measured = _measured(folder, tmp_path / "out") if number % 2 else copied
    assert not (tmp_path / "executed").exists()
    assert not Path("executed").exists()
    record_property("fault", f"images, {kind}: {measured.kind}")


def _copied(folder: Path, odd: Path, destination: Path, copies: dict[str, bytes]) -> Outcome:
    outcome = command("corrupt", folder, destination, *COPYING)
    assert outcome.kind == "done", outcome.said
    for name, content in copies.items():
        assert (destination / name).read_bytes() == content, f"{name} is another one"
    assert left_over(destination) == []
    skipped = destination / "skipped-0-of-1.txt"
    named = []
    if skipped.exists():
        with open_list(skipped) as lines:
            named = [(parsed_line(line) or "").rpartition("\t")[0] for line in lines]
    copy = destination / "brightness" / "1" / odd.relative_to(folder).with_suffix(".png")
    is_named = odd.relative_to(folder).as_posix() in named
    assert is_named != copy.exists() or odd.is_dir()
    return Outcome("left out" if is_named else "used", outcome.said)


def _measured(folder: Path, output: Path) -> Outcome:
    outcome = observed(lambda: rv.evaluate(ByBrightness(), folder, "clean", output=output, examples=0, protocol="squash"))
    if outcome.kind == "refused":
        assert not (output / "results.json").exists()
        return outcome
    cell, skipped = outcome.value.models[0].cells[0], outcome.value.models[0].skipped
    assert cell.images + len(skipped) in (4, 5)
    assert cell.accuracy.value * cell.images >= 4 - 1e-6
    assert json.dumps(rv.Results.load(output).to_json()) == json.dumps(outcome.value.to_json())
    assert left_over(output) == []
    return Outcome("left out" if skipped else "used", "")
