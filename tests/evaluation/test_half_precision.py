"""Evaluations in half precision: what is computed in it, and what results say about the difference."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from map_trees import write_acdc
from PIL import Image
from torch import nn

import robustvit as rv
from robustvit.data.scenes.dataset import Scenes
from robustvit.evaluation.precision_check import PrecisionCheck
from robustvit.evaluation.results import Results
from robustvit.evaluation.value import Value
from robustvit.metrics.box_matching import Found, missed_by_each_other


class Rounded(nn.Module):
    """Answers class 0 where 1 + 2^-10 is larger than 1 in the products of the network: not in bfloat16."""

    num_classes = 10

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([[1 + 2.0**-10]]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        one = x.new_ones(len(x), 1) @ self.weight  # B 1
        is_exact = one.float() > 1
        logits = torch.zeros(len(x), 10)
        logits[:, 0], logits[:, 1] = is_exact[:, 0].float(), (~is_exact)[:, 0].float()
        return logits


def measured(precision: str, **options: Any) -> Results:
    data = Scenes("test", 20)
    how: Any = dict(suite=["clean", "fog"], severity=3, protocol="none", size=(32, 32), batch_size=8)
    return rv.evaluate(Rounded(), data, precision=precision, **{**how, **options})


def test_half_precision_is_what_the_network_computes_in() -> None:
    full, half = measured("fp32"), measured("bf16")
    labels = [label for _, label in Scenes("test", 20)]
    assert full.clean == pytest.approx(labels.count(0) / 20)
    assert half.clean == pytest.approx(labels.count(1) / 20)
    assert full.models[0].protocol["precision"] == "fp32"
    assert half.models[0].protocol["precision"] == "bf16"


def test_results_say_how_far_half_precision_moved_the_first_images(tmp_path: Path) -> None:
    assert measured("fp32").models[0].measurements[0].precision_check is None
    results = measured("bf16", output=tmp_path)
    check = results.models[0].measurements[0].precision_check
    assert check is not None
    labels = [label for _, label in Scenes("test", 8)]
    assert (check.precision, check.images, check.changed) == ("bf16", 8, 1.0)
    assert check.changes["clean_accuracy"].value == pytest.approx((labels.count(1) - labels.count(0)) / 8)
    assert Results.load(tmp_path).models[0].measurements[0].precision_check == check
    (note,) = (note for _, note in results.remarks() if note.kind == "precision")
    assert "100.0\N{NO-BREAK SPACE}% of the predictions" in note.text
    assert "Half precision" in (tmp_path / "report.html").read_text()


def test_a_note_names_only_numbers_whose_digits_change() -> None:
    changes = {"clean_accuracy": Value(-0.004), "mean_accuracy": Value(0.0001)}
    assert "changes clean accuracy by -0.4 points." in PrecisionCheck("bf16", 64, 0.01, changes).note().text
    assert "none of the numbers" in PrecisionCheck("bf16", 64, 0.0, {"clean_accuracy": Value(0.0)}).note().text


def test_a_run_in_another_precision_is_another_run(tmp_path: Path) -> None:
    measured("fp32", output=tmp_path)
    with pytest.raises(ValueError, match="settings"):
        measured("bf16", output=tmp_path, resume=True)


def test_an_unknown_precision_is_refused_before_the_work() -> None:
    with pytest.raises(ValueError, match="bf8"):
        measured("bf8")


def test_numbers_under_attack_are_compared_too() -> None:
    results = rv.evaluate(
        rv.create_model("fan_vit_nano", pretrained=True), "scenes-easy:20", "clean", attacks="fgsm", precision="bf16"
    )
    check = results.models[0].measurements[0].precision_check
    assert check is not None
    assert {"clean_accuracy", "fgsm_accuracy"} <= check.changes.keys()


def test_files_on_disk_are_compared_too(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 255, (32, 32, 3), np.uint8)
    for severity, label in itertools.product((1, 2), range(10)):
        place = tmp_path / "fog" / str(severity) / str(label)
        place.mkdir(parents=True)
        Image.fromarray(pixels).save(place / "0.png")
    how: dict[str, Any] = dict(severity=(1, 2), protocol="none", size=(32, 32), batch_size=4)
    results = rv.evaluate(Rounded(), tmp_path, "fog", precision="bf16", **how)
    check = results.models[0].measurements[0].precision_check
    assert check is not None
    assert (check.images, check.changed) == (8, 1.0)


def test_attacks_that_learn_first_are_not_learned_again_for_the_comparison() -> None:
    attacks = {"fgsm": {}, "patches-adversarial": {"fit_steps": 2}}
    told: list[int] = []
    results = rv.evaluate(
        rv.create_model("vit_nano", pretrained=True),
        "scenes-easy:16",
        "clean",
        attacks=attacks,
        precision="bf16",
        batch_size=8,
        report=lambda what, done, total: told.append(total),
    )
    measurement = results.models[0].measurements[0]
    assert measurement.precision_check is not None
    assert "fgsm_accuracy" in measurement.precision_check.changes
    assert not [key for key in measurement.precision_check.changes if "patches" in key]
    assert [key for key in measurement.summary if "patches" in key]


def test_the_conditions_of_a_dataset_in_parts_are_compared_too(tmp_path: Path) -> None:
    write_acdc(tmp_path / "acdc")
    network = rv.create_model("fan_hybrid_nano/segformer", num_classes=19).eval()
    results = rv.evaluate(network, tmp_path, "acdc", precision="bf16", examples=0)
    measurement = results.models[0].measurements[0]
    assert measurement.precision_check is not None
    assert measurement.precision_check.images == measurement.data["images"]


def test_what_is_not_compared_is_said() -> None:
    network = rv.create_model("vit_nano", num_classes=10, depth=1).eval()
    measurement = rv.evaluate(network, Scenes("test", 2), "imagenet-p", precision="bf16").models[0].measurements[0]
    assert measurement.precision_check is None
    assert [note.text for note in measurement.notes if note.kind == "precision"] == [
        "Computed in bf16, and not compared with fp32."
    ]


def test_a_function_has_a_precision_of_its_own() -> None:
    def answer(images: list[torch.Tensor]) -> torch.Tensor:
        return torch.zeros(len(images), 10)

    with pytest.raises(ValueError, match="FunctionNetwork"):
        rv.evaluate(answer, Scenes("test", 4), "clean", precision="bf16")
    found = rv.evaluate(answer, Scenes("test", 4), "clean", precision="auto")
    assert found.models[0].protocol["precision"] == "fp32"


@pytest.mark.parametrize(
    ("first", "second", "share"),
    [
        ([], [], 0.0),
        ([(0, 0, 10, 10, 0.9, 1)], [], 1.0),
        ([(0, 0, 10, 10, 0.9, 1)], [(0, 0, 10, 9, 0.8, 1)], 0.0),
        ([(0, 0, 10, 10, 0.9, 1)], [(0, 0, 10, 9, 0.8, 2)], 1.0),  # another class
        ([(0, 0, 10, 10, 0.9, 1)], [(0, 0, 10, 9, 0.1, 1)], 1.0),  # too faint to be drawn
        ([(0, 0, 10, 10, 0.9, 1), (20, 0, 30, 10, 0.9, 1)], [(0, 0, 10, 10, 0.9, 1)], 1 / 3),
    ],
)
def test_detections_differ_by_what_the_other_does_not_find(first: list[Any], second: list[Any], share: float) -> None:
    def found(rows: list[Any]) -> Found:
        table = np.array(rows, float).reshape(-1, 6)
        return Found(table[:, :4], table[:, 4], table[:, 5].astype(int))

    assert missed_by_each_other(found(first), found(second), 0.3) == pytest.approx(share)
    assert missed_by_each_other(found(second), found(first), 0.3) == pytest.approx(share)
