"""What `metrics` defines is what an evaluation reports: change a definition, and the reported number changes with it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from grey_network import ByGrey
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

import robustvit as rv
from robustvit import metrics
from robustvit.data.scenes.dataset import Scenes
from robustvit.metrics.accuracy import is_right
from robustvit.metrics.arrays import FloatArray, IntArray
from robustvit.metrics.calibration import calibration_error
from robustvit.metrics.class_subset import imagenet_subset, keep_classes
from robustvit.metrics.corruption_error import ce, mce, relative_mce
from robustvit.metrics.flips import flip_probability, mfp, mfr
from robustvit.metrics.imagenet_classes import IMAGENET_WNIDS
from robustvit.metrics.mean_accuracy import mean_over_types
from robustvit.metrics.retention import retained
from robustvit.metrics.top5_distance import mean_ut5d, rank_classes, sequence_top5_distance

LEVELS = [10 * k for k in range(6)]
"""Greys of the images of six classes."""
Change = Callable[[Any, Any], None]
Numbers = dict[str, float]


@pytest.fixture
def change(monkeypatch: pytest.MonkeyPatch) -> Change:
    """Gives a definition another body, as an edit of its file does: whoever has imported it calls the new one."""
    return lambda definition, other: monkeypatch.setattr(definition, "__code__", other.__code__)


def _wnid(level: int) -> str:
    """The class that `ByGrey(1000)` answers to a grey image of this level."""
    return IMAGENET_WNIDS[round(999 * level / 255)]


def _save(root: Path, shown: dict[str, int]) -> None:
    for wnid, level in shown.items():
        (root / wnid).mkdir(parents=True)
        Image.fromarray(np.full((32, 32, 3), level, np.uint8)).save(root / wnid / "a.png")


@pytest.fixture(scope="module")
def imagenet_c(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of six answers, one is wrong in val/, two at severity 5 of every corruption, three in fog."""
    root = tmp_path_factory.mktemp("sets")

    def save(folder: str, wrong: int) -> None:
        _save(root / folder, {_wnid(level): 200 if i < wrong else level for i, level in enumerate(LEVELS)})

    save("val", 1)
    for name in rv.corruption_names("common15"):
        for severity in range(1, 6):
            save(f"imagenet-c/{name}/{severity}", 3 if name == "fog" else 1 + severity // 5)
    return root


def _reported(root: Path) -> Numbers:
    model = rv.evaluate(ByGrey(1000), root, ["clean", "imagenet-c"], examples=0).models[0]
    errors = model.measurements[1].corruption_errors
    return {**{name: value.value for name, value in model.summary.items()}, "CE of fog": errors["fog"]}


@pytest.fixture(scope="module")
def before(imagenet_c: Path) -> Numbers:
    return _reported(imagenet_c)


def test_a_report_has_what_the_documented_functions_give(before: Numbers) -> None:
    errors = {name: [1 / 6] * 4 + [1 / 3] for name in rv.corruption_names("common15")} | {"fog": [0.5] * 5}
    accuracies = {name: [1 - error for error in row] for name, row in errors.items()}
    mean = metrics.mean_accuracy(accuracies)
    assert mean == pytest.approx((14 * (4 * 5 / 6 + 2 / 3) / 5 + 1 / 2) / 15)  # by hand
    assert before == pytest.approx(
        {
            **before,
            "clean_accuracy": 5 / 6,
            "mean_accuracy": mean,
            "mean_accuracy_15": mean,
            "retention": metrics.retention(mean, 5 / 6),
            "mean_corruption_error": metrics.mean_corruption_error(errors),
            "relative_mean_corruption_error": metrics.relative_mean_corruption_error(errors, 1 / 6),
            "CE of fog": metrics.corruption_errors(errors)["fog"],
        }
    )


def _largest_error(errors: FloatArray, baseline: FloatArray) -> FloatArray:
    return errors.max(-1)


def _undivided(errors: FloatArray, baseline: FloatArray) -> FloatArray:
    return errors.mean((-2, -1))


def _undivided_loss(lost: FloatArray, baseline: FloatArray, baseline_clean: float) -> FloatArray:
    return lost.mean((-2, -1))


def _first_type(rows: list[Any]) -> Any:
    return np.mean(rows[0])


def _lost(corrupted: FloatArray, clean: FloatArray) -> FloatArray:
    return clean - corrupted


def _wrong(predictions: IntArray, targets: IntArray) -> NDArray[np.bool_]:
    return np.not_equal(predictions, targets)


def _quarter(confidences: FloatArray, correct: FloatArray, *, bins: int = 15) -> float:
    return 0.25


@pytest.mark.parametrize(
    ("definition", "other", "number", "expected"),
    [
        (ce, _largest_error, "CE of fog", 0.5),
        (ce, _largest_error, "mean_corruption_error", (14 / 3 + 1 / 2) / 15),
        (mce, _undivided, "mean_corruption_error", (14 / 5 + 1 / 2) / 15),
        (relative_mce, _undivided_loss, "relative_mean_corruption_error", (14 / 5 + 1 / 2) / 15 - 1 / 6),
        (mean_over_types, _first_type, "mean_accuracy", 4 / 5),
        (mean_over_types, _first_type, "retention", 4 / 5 / (5 / 6)),
        (retained, _lost, "retention", 5 / 6 - (14 * 4 / 5 + 1 / 2) / 15),
        (is_right, _wrong, "clean_accuracy", 1 / 6),
        (calibration_error, _quarter, "expected_calibration_error", 0.25),
    ],
)
def test_another_definition_is_another_number_in_the_report(
    definition: Any, other: Any, number: str, expected: float, change: Change, before: Numbers, imagenet_c: Path
) -> None:
    change(definition, other)
    assert _reported(imagenet_c)[number] == pytest.approx(expected) != pytest.approx(before[number])


def _only_the_first(scores: Tensor, classes: list[int]) -> Tensor:
    return scores[:, [classes[0]] * len(classes)]


def test_the_classes_of_imagenet_a_that_compete_are_those_of_the_definition(change: Change, tmp_path: Path) -> None:
    subset = imagenet_subset("a")
    levels = [round(255 * index / 999) for index in subset.indices]
    _save(tmp_path / "imagenet-a", dict(zip(subset.wnids, levels, strict=True)))

    def reported() -> float:
        return rv.evaluate(ByGrey(1000), tmp_path, "imagenet-a", examples=0).models[0].summary["imagenet_a_accuracy"].value

    assert reported() > 0.5
    change(keep_classes, _only_the_first)
    assert reported() == 1 / 200


def _three(values: FloatArray, *baseline: FloatArray) -> FloatArray:
    return values[..., 0] * 0 + 3


def _half(predictions: IntArray, rule: str, *, difficulty: int = 1) -> float:
    return 0.5


def test_the_means_over_films_are_those_of_the_definitions(change: Change) -> None:
    for definition in (mfp, mfr, mean_ut5d):
        change(definition, _three)
    model = rv.evaluate(ByGrey(side=224), Scenes("test", 1, size=224), "imagenet-p", examples=0).models[0]
    assert {name: value.value for name, value in model.summary.items()} == {
        "mean_flip_probability": 3,
        "mean_flip_rate": 3,
        "mean_top5_distance": 18 * 3,  # of distances as fractions of the largest one
    }


def _same_order(scores: Tensor) -> Tensor:
    return scores.argsort(-1) * 0 + torch.arange(scores.shape[-1])


def test_the_order_of_classes_is_that_of_the_definition(change: Change) -> None:
    change(rank_classes, _same_order)
    model = rv.evaluate(ByGrey(), Scenes("test", 1), "imagenet-p", examples=0).models[0]
    assert {(cell.flip_probability, cell.top5_distance) for cell in model.cells} == {(0, 0)}


def test_flips_and_distances_of_a_film_are_those_of_the_definitions(change: Change) -> None:
    for definition in (flip_probability, sequence_top5_distance):
        change(definition, _half)
    cells = rv.evaluate(ByGrey(), Scenes("test", 1), "imagenet-p", examples=0).models[0].cells
    assert {(cell.flip_probability, cell.top5_distance) for cell in cells} == {(0.5, 0.5)}
