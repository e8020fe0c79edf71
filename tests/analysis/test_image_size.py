"""Segmenters are looked at on images at their own size, within bounds; too coarse a grid is said."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import robustvit as rv
from robustvit.analysis.analyze import analyze
from robustvit.analysis.image_size import FEW_TOKENS, MOST_TOKENS
from robustvit.analysis.options import AnalysisOptions
from robustvit.analysis.registry import study_of
from robustvit.recording.token_grids import token_grids


def segmenter(name: str = "fan_hybrid_nano/segformer", **options: Any) -> Any:
    torch.manual_seed(0)
    return rv.create_model(name, num_classes=5, **options).eval()


def image(folder: Path, H: int, W: int) -> Path:
    pixels = np.random.default_rng(0).integers(0, 255, (H, W, 3), np.uint8)
    Image.fromarray(pixels).save(folder / f"{H}x{W}.png")
    return folder / f"{H}x{W}.png"


def seen(networks: dict[str, Any], images: Path, **how: Any) -> dict[str, tuple[int, int]]:
    found = analyze(networks, images, ["overfocus"], **how)
    return {name: tuple(facts["input"]) for name, facts in found.networks.items()}


def test_a_segmenter_is_shown_an_image_at_its_own_size_in_whole_tokens(tmp_path: Path) -> None:
    network = segmenter()
    assert seen({"network": network}, image(tmp_path, 96, 160)) == {"network": (96, 160)}
    assert seen({"network": network}, image(tmp_path, 90, 170)) == {"network": (80, 160)}
    assert seen({"network": network}, image(tmp_path, 96, 160), size=(64, 64)) == {"network": (64, 64)}


def test_a_large_image_is_made_smaller_until_there_are_few_enough_tokens(tmp_path: Path) -> None:
    network = segmenter()
    size = seen({"network": network}, image(tmp_path, 600, 1200))["network"]
    tokens = [rows * columns for rows, columns in token_grids(network, size)]
    assert 0.8 * MOST_TOKENS < max(tokens) < 1.1 * MOST_TOKENS
    assert size[1] / size[0] == pytest.approx(2, rel=0.1)


def test_networks_that_are_compared_see_images_of_one_size(tmp_path: Path) -> None:
    networks = {"fine": segmenter("vit_nano/segformer"), "coarse": segmenter()}
    sizes = seen(networks, image(tmp_path, 300, 400))
    assert sizes["fine"] == sizes["coarse"]
    assert max(rows * columns for rows, columns in token_grids(networks["fine"], sizes["fine"])) < 1.1 * MOST_TOKENS


def test_a_classifier_keeps_the_size_of_its_input(tmp_path: Path) -> None:
    assert seen({"network": rv.create_model("fan_vit_nano")}, image(tmp_path, 96, 160)) == {"network": (32, 32)}


def test_a_grid_of_few_tokens_is_warned_of(tmp_path: Path) -> None:
    assert FEW_TOKENS == 25
    with pytest.warns(UserWarning, match=r"coarse has 4x4 tokens for images of 64x64 pixels.*--img-size"):
        analyze({"coarse": segmenter()}, image(tmp_path, 64, 64), ["overfocus"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        analyze({"fine": segmenter()}, image(tmp_path, 80, 80), ["overfocus"])
        analyze({"classifier": rv.create_model("fan_vit_nano")}, image(tmp_path, 16, 16), ["overfocus"])


def test_headings_say_image() -> None:
    options: Any = AnalysisOptions()
    found = analyze(
        {"network": rv.create_model("vit_pico", num_classes=10)}, "scenes:2", ["clusters", "stability", "token-labels"]
    )
    for name, findings in found.findings.items():
        plates = study_of(name).plates(findings, study_of(name).own_options(vars(options)))
        texts = [text.get_text() for plate in plates for axis in plate.figure.axes for text in (axis.title, axis.xaxis.label)]
        headings = [heading for plate in plates for _, entries in plate.rows for heading, _ in entries]
        assert not [text for text in (*texts, *headings) if "picture" in text]
