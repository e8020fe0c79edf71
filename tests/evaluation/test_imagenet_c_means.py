"""ImageNet-C on disk gives the means of each paper: over 15, over FAN's 17, and mCE with and without noise."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from grey_network import ByGrey, save_classes
from PIL import Image
from refusals import refused
from safetensors.torch import save_file

import robustvit as rv
from robustvit.cli import main
from robustvit.data.layouts import LayoutError
from robustvit.metrics import mean_corruption_error
from robustvit.metrics.imagenet_classes import IMAGENET_WNIDS
from robustvit.report.headline import ranking_measure

LEVELS = (0, 51, 102, 153)
WNIDS = {IMAGENET_WNIDS[round(999 * level / 255)]: level for level in LEVELS}
"""Class -> grey that `ByGrey(1000)` answers right."""
WRONG = {"zoom_blur": 4, "spatter": 2, "gaussian_noise": 1, "fog": 1}
"""How many of the four answers are wrong."""


def _save(root: Path, wrong: int) -> None:
    for i, (wnid, level) in enumerate(WNIDS.items()):
        (root / wnid).mkdir(parents=True)
        Image.fromarray(np.full((32, 32, 3), 204 if i < wrong else level, np.uint8)).save(root / wnid / "a.png")


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """val/, and imagenet-c/ as its archives unpack: blur/, noise/, ... and extra/."""
    root = tmp_path_factory.mktemp("imagenet")
    _save(root / "val", 0)
    groups = {group: rv.corruption_names(group) for group in ("noise", "blur", "weather", "digital")}
    for group, names in {**groups, "extra": rv.corruption_names("extra4")}.items():
        for name in names:
            for severity in range(1, 6):
                _save(root / "imagenet-c" / group / name / str(severity), WRONG.get(name, 0))
    return root


def _shares(names: tuple[str, ...]) -> float:
    return float(np.mean([1 - WRONG.get(name, 0) / 4 for name in names]))


def test_fan17_reads_the_extra_folders_and_leaves_zoom_and_elastic_out(published: Path) -> None:
    model = rv.evaluate(ByGrey(1000), published, ["clean", "imagenet-c-fan17"], examples=0).models[0]
    measured = {cell.condition for cell in model.cells if cell.suite == "imagenet-c-fan17"}
    assert measured == {*rv.corruption_names("fan17")}
    by_hand = (14 * 1 + 0.5 + 0.75 + 0.75) / 17
    assert model.summary["imagenet_c_accuracy_fan17"].value == pytest.approx(by_hand)
    assert model.summary["imagenet_c_retention_fan17"].value == pytest.approx(by_hand)
    assert "mean_corruption_error" not in model.summary, "it is over 15, and two of them are missing"
    assert "mean_corruption_error_without_noise" not in model.summary


def test_both_suites_share_a_pass_and_each_number_is_over_its_own_corruptions(published: Path) -> None:
    model = rv.evaluate(ByGrey(1000), published, ["clean", "imagenet-c", "imagenet-c-fan17"], examples=0).models[0]
    assert [m.suites for m in model.measurements] == [("clean",), ("imagenet-c", "imagenet-c-fan17")]
    assert len(model.cells) == 1 + 19 * 5
    assert {cell.suite for cell in model.cells if cell.condition in ("fog", "zoom_blur")} == {"imagenet-c"}
    assert {cell.suite for cell in model.cells if cell.condition == "spatter"} == {"imagenet-c-fan17"}
    summary = {key: value.value for key, value in model.summary.items()}
    errors = {name: [WRONG.get(name, 0) / 4] * 5 for name in rv.corruption_names("common15")}
    expected = {
        "imagenet_c_accuracy_fan17": (14 * 1 + 0.5 + 0.75 + 0.75) / 17,
        "mean_accuracy_15": (12 * 1 + 0 + 0.75 + 0.75) / 15,
        "mean_accuracy_19": _shares(rv.corruption_names("all19")),
        "retention": (12 * 1 + 0 + 0.75 + 0.75) / 15,
        "mean_corruption_error": mean_corruption_error(errors),
        "mean_corruption_error_without_noise": (1 / 0.798360 + 0.25 / 0.819324) / 12,  # zoom_blur and fog
    }
    assert {key: summary[key] for key in expected} == pytest.approx(expected, abs=1e-6)


def test_a_tree_without_the_extra_archive_says_where_the_missing_folders_are(tmp_path: Path) -> None:
    for name in rv.corruption_names("common15"):
        for severity in range(1, 6):
            save_classes(tmp_path / name / str(severity), {f"c{k}": k for k in range(10)})
    with refused(LayoutError, "lacks speckle_noise/1", "extra.tar", "--suite"):
        rv.evaluate(ByGrey(), tmp_path, "imagenet-c-fan17")
    assert rv.evaluate(ByGrey(), tmp_path, "imagenet-c", examples=0).models[0].summary["mean_accuracy_15"].value > 0


def test_fan17_made_in_memory_is_named_as_well(tmp_path: Path) -> None:
    save_classes(tmp_path, {f"c{k}": k for k in range(10)}, side=80)
    model = rv.evaluate(ByGrey(side=64), tmp_path, "imagenet-c-fan17", examples=0, limit=2).models[0]
    assert len(model.cells) == 1 + 17 * 5
    mean = np.mean([cell.accuracy.value for cell in model.cells if cell.accuracy and cell.severity])
    assert model.summary["imagenet_c_accuracy_fan17"].value == pytest.approx(mean)
    assert model.summary["imagenet_c_retention_fan17"].value == pytest.approx(mean)  # clean ones are all right
    assert ranking_measure([model]) == "imagenet_c_accuracy_fan17", "networks are compared by the number that is shown"


def test_the_command_prints_the_mean_by_its_name(
    published: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    torch.manual_seed(0)
    save_file(rv.create_model("vit_pico", num_classes=1000).state_dict(), tmp_path / "w.safetensors")
    command = ["eval", f"vit_pico={tmp_path / 'w.safetensors'}", "--data", str(published), "--num-classes", "1000"]
    out = tmp_path / "out"
    assert main([*command, "--suite", "clean", "imagenet-c", "imagenet-c-fan17", "--output", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "ImageNet-C accuracy (fan17)" in printed
    assert "mCE without noise (AlexNet = 100 %)" in printed
    about = json.loads((out / "results.json").read_text())["measures"]["imagenet_c_accuracy_fan17"]
    assert "all but zoom_blur and elastic_transform" in about["meaning"]
    assert "ImageNet-C accuracy (fan17)" in (out / "report.html").read_text()
