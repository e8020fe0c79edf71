"""`robustvit analyze` as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from robustvit.analysis.registry import STUDIES
from robustvit.cli import main

FEW = ["--limit", "3", "--masks", "2", "--shown", "2"]
FAST = [*FEW, "--fit-steps", "2"]


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing takes longer than a small analysis; tests/report looks at the page."""
    monkeypatch.setattr("robustvit.report.analysis_page.write_analysis", lambda *_: [])


@pytest.mark.usefixtures("undrawn")
def test_without_networks_and_images_the_shipped_ones_are_analysed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert main(["analyze", "--what", "all", "--output", str(out), *FAST]) == 0
    printed = capsys.readouterr()
    assert "vit_nano" in printed.out
    assert "fan_vit_nano" in printed.out
    assert "token-labels of vit_nano was left out" in printed.err
    stored = json.loads((out / "analysis.json").read_text())
    assert set(stored["analyses"]) == set(STUDIES)
    assert set(stored["analyses"]["token-labels"]["networks"]) == {"vit_pico"}
    assert all(study["definition"] for study in stored["analyses"].values())
    with np.load(out / "arrays.npz") as arrays:
        assert arrays["stability/vit_nano/pictures"].shape == (3,)


def test_json_is_what_the_file_holds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    arguments = ["analyze", "vit_nano", "--what", "head-diversity", "--limit", "2", "--output", str(out), "--json"]
    assert main(arguments) == 0
    assert json.loads(capsys.readouterr().out) == json.loads((out / "analysis.json").read_text())


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["vit_nano", "--what", "stabilty"], "stability"),
        (["vit_nano", "--images", "nowhere"], "nowhere"),
        (["vit_nano", "--images", "empty"], "empty"),
        (["vit_nano", "--what", "stability", "--masks", "5"], "occlusion"),
        (["vit_nano", "--severity", "9"], "severity=9"),
        (["vit_nan"], "vit_nano"),
        (["resnet10t", "--untrained", "--what", "stability"], "ResNet"),
        (["vit_nano", "--what", "token-labels"], "token_head"),
        (["vit_nano", "--corruption-model", "nowhere", "--what", "patch-corruption", "--limit", "2"], "nowhere"),
    ],
)
def test_wrong_requests_end_with_code_2_and_a_message(
    arguments: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    assert main(["analyze", *arguments, "--output", str(tmp_path / "out")]) == 2
    assert told in capsys.readouterr().err
    assert not (tmp_path / "out" / "analysis.json").exists()


def test_a_cnn_is_analysed_at_a_size_of_your_own_beside_a_transformer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    networks = ["resnet10t", "vit_tiny_patch16_224", "--untrained", "--img-size", "64", "64"]
    what = ["--what", "clusters", "noise-decay", "--clusters", "11", "--limit", "2"]
    assert main(["analyze", *networks, *what, "--output", str(tmp_path / "out")]) == 0
    told = capsys.readouterr()
    assert "adjusted rand index, last chosen block" in told.out
    assert "2 images are smaller" not in told.err  # generated at that size
    assert "untrained" in told.err
    facts = json.loads((tmp_path / "out" / "analysis.json").read_text())["networks"]
    assert [network["is_untrained"] for network in facts.values()] == [True, True]
    page = (tmp_path / "out" / "analysis.html").read_text()
    assert page.index("Untrained.") < page.index("<h1>")


@pytest.mark.usefixtures("undrawn")
def test_a_grey_image_and_one_of_one_pixel_are_analysed(tmp_path: Path) -> None:
    Image.new("L", (40, 30), 90).save(tmp_path / "grey.png")
    Image.new("RGB", (1, 1)).save(tmp_path / "pixel.png")
    what = ["--what", "attention", "stability", "clusters", "occlusion"]
    for name in ("grey", "pixel"):
        out, picture = tmp_path / name, tmp_path / f"{name}.png"
        assert main(["analyze", "vit_nano", "--images", str(picture), *what, "--output", str(out), *FEW]) == 0
        assert (out / "analysis.json").exists()
