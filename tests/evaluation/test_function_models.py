"""Functions of other packages are measured as networks are: a list of uint8 images in, answers out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from refusals import refused
from torch import Tensor

import robustvit as rv
from robustvit.data.map_layouts import open_maps
from robustvit.data.normalisation import Normalisation
from robustvit.models.functions import FunctionNetwork, as_network
from robustvit.tasks.segmentation import Segmentation
from robustvit.tasks.windows import Inference

SMALL: Any = dict(suite=["clean", "fog"], severity=3, size=(32, 32))


def background(images: list[Tensor]) -> list[np.ndarray]:
    return [np.zeros(image.shape[1:], np.int64) for image in images]


def test_a_function_that_wraps_a_classifier_measures_as_the_classifier() -> None:
    torch.manual_seed(0)
    network = rv.create_model("vit_pico", num_classes=10).eval()
    normalised = Normalisation.of(network)
    seen: set[tuple[torch.dtype, tuple[int, ...]]] = set()

    def logits(images: list[Tensor]) -> Tensor:
        seen.update((image.dtype, tuple(image.shape)) for image in images)
        with torch.no_grad():
            return network(normalised(torch.stack(images)))

    def probabilities(images: list[Tensor]) -> np.ndarray:
        return logits(images).softmax(-1).numpy()

    own, *others = rv.evaluate(
        {"own": network, "a": logits, "b": probabilities}, "scenes-easy:8", protocol="none", **SMALL
    ).models
    assert seen == {(torch.uint8, (3, 32, 32))}
    for other in others:
        assert other.summary["clean_accuracy"] == own.summary["clean_accuracy"]
        assert [cell.accuracy for cell in other.cells] == [cell.accuracy for cell in own.cells]
        errors = [model.summary["expected_calibration_error"].value for model in (other, own)]
        assert errors[0] == pytest.approx(errors[1], abs=1e-5)


def test_a_function_of_label_maps_is_measured_as_a_segmenter() -> None:
    scenes = open_maps("scenes:4", scene_size=(32, 32))
    results = rv.evaluate(background, "scenes:4", task="segmentation", **SMALL)
    targets = np.stack([scenes.at(i).target() for i in range(4)])
    assert results.models[0].name == "background"
    right = (targets == 0).mean() / len(np.unique(targets))  # of the classes that are there, one has some of its pixels
    assert results.models[0].summary["clean_miou"].value == pytest.approx(right)


@pytest.mark.parametrize(
    ("answer", "named"),
    [
        (lambda images: background(images)[:1], "1 answers"),
        (lambda images: 3, "int"),
        (lambda images: [label.astype(float) for label in background(images)], "float64"),
        (lambda images: [label[1:] for label in background(images)], [31, 32]),
        (lambda images: [label + 11 for label in background(images)], 11),
        (lambda images: [label.tolist() for label in background(images)], "list"),
    ],
)
def test_wrong_label_maps_are_refused(answer: Callable[[list[Tensor]], Any], named: object) -> None:
    with refused(ValueError, named, "[32, 32]"):
        rv.evaluate(answer, "scenes:2", task="segmentation", suite="clean", size=(32, 32))


def test_wrong_logits_are_refused() -> None:
    with refused(ValueError, "[1, 2, 3]"):
        rv.evaluate(lambda images: torch.zeros(len(images), 2, 3), "scenes:2", suite="clean", size=(32, 32))
    with pytest.raises(TypeError):
        as_network("fan_vit_nano")


def test_what_needs_a_network_is_refused_for_a_function() -> None:
    with refused(ValueError, "background"):
        rv.evaluate(background, "scenes:2", task=Segmentation(inference=Inference(flip=True)), suite="clean")
    with refused(ValueError, "<lambda>"):
        rv.evaluate(lambda images: torch.zeros(len(images), 10), "scenes:2", suite="clean", attacks="fgsm", size=(32, 32))


def test_a_function_gets_images_as_they_are_unless_a_size_is_asked_for(tmp_path: Path) -> None:
    for i, (name, side) in enumerate((("cat", 40), ("dog", 48))):
        (tmp_path / name).mkdir()
        Image.new("RGB", (side, 36), (i, i, i)).save(tmp_path / name / "1.png")
    seen: set[tuple[int, ...]] = set()

    def answer(images: list[Tensor]) -> Tensor:
        seen.update(tuple(image.shape) for image in images)
        return torch.zeros(len(images), 2)

    black = (3, 224, 224)  # by which outputs are counted
    rv.evaluate(answer, tmp_path, suite="clean")
    assert seen - {black} == {(3, 36, 40), (3, 36, 48)}
    seen.clear()
    rv.evaluate(answer, tmp_path, suite="clean", size=(32, 32))
    assert seen == {(3, 32, 32)}


def test_pixels_reach_a_function_as_they_are() -> None:
    images = torch.arange(3 * 32 * 32).remainder(256).to(torch.uint8).view(1, 3, 32, 32)
    seen: list[Tensor] = []
    network = FunctionNetwork(lambda given: seen.extend(given) or torch.zeros(len(given), 2))
    network(Normalisation.of(network)(images))
    assert (seen[0] == images[0]).all()


def test_memory_does_not_grow_with_the_images_of_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("robustvit.tasks.segmentation.PIXELS", 2 * 32 * 32)
    network = rv.create_model("fan_hybrid_nano/segformer", num_classes=4).eval()
    counts: list[int] = []
    network.register_forward_pre_hook(lambda module, given: counts.append(len(given[0])))
    images = torch.zeros(5, 3, 32, 32, dtype=torch.uint8)
    task = Segmentation(classes=("a", "b", "c", "d"))
    assert len(task.predict_images(network, images, Normalisation.of(network))) == 5
    assert counts == [2, 2, 1]
