"""Groups have intervals, and two networks are compared image by image."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from grey_network import ByGrey, save_classes
from torch import nn

import robustvit as rv
from robustvit.data.scenes.dataset import Scenes
from robustvit.evaluation.results import Value


class Rounds(nn.Module):
    """A network of random weights that sees coarse images, so that some corruptions change its answer."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.weights = nn.Parameter(torch.randn(48, 10, generator=generator))
        self.num_classes, self.pretrained_cfg = 10, {"input_size": (3, 32, 32)}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.adaptive_avg_pool2d(x, 4).flatten(1) @ self.weights


@pytest.fixture(scope="module")
def results() -> rv.Results:
    networks = {name: Rounds(seed) for seed, name in zip((0, 1, 5), ("a", "b", "c"), strict=True)}
    return rv.evaluate(networks, Scenes("test", 24), ["all19", "patches"], protocol="none", examples=0)


def test_groups_and_corruptions_are_means_of_their_cells_with_intervals(results: rv.Results) -> None:
    model = results.models[0]
    measured = model.measurements[0]
    assert list(measured.group_accuracies) == ["noise", "blur", "weather", "digital"]
    for name in rv.corruption_names("all19"):
        mean = np.mean([model.accuracy(name, s) for s in range(1, 6)])
        assert measured.corruption_accuracies[name].value == pytest.approx(mean)
    noise = [n for n in rv.corruption_names("all19") if rv.CORRUPTIONS[n].group == "noise"]
    assert len(noise) == 4
    mean = np.mean([measured.corruption_accuracies[n].value for n in noise])
    assert measured.group_accuracies["noise"].value == pytest.approx(mean)
    for value in (*measured.group_accuracies.values(), *measured.corruption_accuracies.values()):
        assert value.low is not None
        assert value.high is not None
        assert value.low <= value.value <= value.high


def test_every_two_networks_are_compared_in_all_numbers_that_have_intervals(results: rv.Results) -> None:
    assert [(d.first, d.second) for d in results.differences] == [("a", "b"), ("a", "c"), ("b", "c")]
    models = {model.name: model for model in results.models}
    for difference in results.differences:
        first, second = models[difference.first], models[difference.second]
        assert difference.images == 24
        assert set(difference.summary) == set(first.summary) - {"expected_calibration_error"}
        for name, value in difference.summary.items():
            assert value.value == pytest.approx(first.summary[name].value - second.summary[name].value)
        for group, value in difference.group_accuracies.items():
            one, other = (m.measurements[0].group_accuracies[group].value for m in (first, second))
            assert value.value == pytest.approx(one - other)
            assert value.low is not None
            assert value.high is not None
            assert value.low <= value.value <= value.high


def test_differences_are_saved_and_can_be_turned_round(results: rv.Results, tmp_path: Path) -> None:
    again = rv.Results.load(results.save(tmp_path))
    assert again.differences == results.differences
    assert again.models[0].measurements[0].group_accuracies == results.models[0].measurements[0].group_accuracies
    (there,), (back,) = again.between("a", "b"), again.between("b", "a")
    value, turned = there.summary["mean_accuracy"], back.summary["mean_accuracy"]
    assert (turned.value, turned.low, turned.high) == (-value.value, -value.high, -value.low)  # type: ignore[operator]
    assert again.between("a", "nobody") == ()
    assert Value(1.0).negative() == Value(-1.0)


def test_a_network_alone_is_compared_with_nothing() -> None:
    assert rv.evaluate(Rounds(0), Scenes("test", 3), "clean", protocol="none", examples=0).differences == ()


def test_only_images_that_both_networks_saw_are_compared(tmp_path: Path) -> None:
    save_classes(tmp_path, {f"c{k}": k for k in range(9)}, side=50)
    save_classes(tmp_path, {"c9": 9}, side=40)
    networks = {"small": ByGrey(), "large": ByGrey(side=48)}
    results = rv.evaluate(networks, tmp_path, "clean", protocol="crop", examples=0)
    assert [model.cells[0].images for model in results.models] == [10, 9]  # one image is too small for the large network
    assert results.differences[0].images == 9


def test_films_are_compared_as_well() -> None:
    films = rv.evaluate({"a": Rounds(0), "b": Rounds(1)}, Scenes("test", 3), "imagenet-p", examples=0)
    first, second = films.models
    assert set(films.differences[0].summary) == {"mean_flip_probability", "mean_top5_distance"}
    for name, value in films.differences[0].summary.items():
        assert value.value == pytest.approx(first.summary[name].value - second.summary[name].value)
        assert first.summary[name].low is not None
