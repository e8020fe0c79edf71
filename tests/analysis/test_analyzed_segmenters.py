"""Looking into segmenters: studies of attention and blocks see their backbone, studies of a classifier's answers refuse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from refusals import refused

import robustvit as rv
from robustvit.analysis.analyze import analyze
from robustvit.analysis.attention_stability import attention_stability
from robustvit.analysis.options import AnalysisOptions
from robustvit.analysis.registry import STUDIES, study_of
from robustvit.corruptions.conditions import Condition, apply_condition
from robustvit.data.layouts import open_samples
from robustvit.data.normalisation import Normalisation
from robustvit.evaluation.unfinished import FinishedRunError

SIDE = 64
OF_ANSWERS = [name for name in STUDIES if study_of(name).tasks]


def segmenter(name: str = "fan_hybrid_nano/segformer") -> Any:
    torch.manual_seed(0)
    return rv.create_model(name, num_classes=5, img_size=SIDE).eval()


def test_studies_that_read_answers_are_those_of_classes() -> None:
    assert OF_ANSWERS == ["occlusion", "even-attention", "token-labels", "patch-corruption"]


def test_every_other_study_is_made_and_the_rest_left_out_with_the_task_as_reason() -> None:
    found = analyze({"one": segmenter(), "other": segmenter("vit_nano/segformer")}, "scenes:3")
    assert set(found.findings) == set(STUDIES) - set(OF_ANSWERS)
    assert set(found.left_out) == set(OF_ANSWERS)
    assert all("segmentation" in reason for reasons in found.left_out.values() for reason in reasons.values())


def test_a_finished_analysis_is_found_again_and_another_segmenter_is_not_it(tmp_path: Path) -> None:
    found = analyze({"network": segmenter()}, "scenes:2", ["overfocus"], output=tmp_path)
    assert (tmp_path / "analysis.html").is_file()
    assert (tmp_path / "figures" / "overfocus.png").is_file()
    again = analyze({"network": segmenter()}, "scenes:2", ["overfocus"], output=tmp_path, resume=True)
    assert again.about["created"] == found.about["created"]
    with refused(FinishedRunError, tmp_path):
        analyze({"network": segmenter("vit_nano/segformer")}, "scenes:2", ["overfocus"], output=tmp_path, resume=True)


@pytest.mark.parametrize("name", OF_ANSWERS)
def test_a_study_of_answers_asked_for_by_name_is_refused(name: str) -> None:
    with refused(ValueError, name, "classification", "segmentation", "stability"):
        analyze({"network": segmenter()}, "scenes:2", [name])


def test_stability_is_that_of_a_classifier_with_the_weights_of_the_backbone() -> None:
    network, options = segmenter(), AnalysisOptions(corruption="fog", severity=3)
    found = analyze({"network": network}, "scenes:2", ["stability"], options)
    samples = list(open_samples("scenes:2", scene_size=(SIDE, SIDE)))
    pixels = torch.stack([torch.from_numpy(np.array(sample.open())).permute(2, 0, 1) for sample in samples])
    spoiled = apply_condition(pixels, [sample.id for sample in samples], Condition("fog", 3), seed=0)
    pair = [Normalisation.of(network)(x) for x in (pixels, spoiled)]
    classifier = rv.create_model("fan_hybrid_nano").eval()
    classifier.load_state_dict(network.backbone.state_dict(), strict=False)
    expected = attention_stability(classifier, [(pair[0], pair[1])]).mean
    assert found.findings["stability"]["network"].numbers["mean"] == pytest.approx(expected, rel=1e-4)


def test_a_cnn_inside_a_segmenter_has_blocks_and_no_attention() -> None:
    found = analyze({"network": segmenter("resnet18/segformer")}, "scenes:2")
    assert {"clusters", "eigenvalues", "noise-decay"} <= set(found.findings)
    assert {"attention", "stability", "head-diversity", "overfocus"} <= set(found.left_out)


@pytest.mark.parametrize("as_dataset", [False, True])
def test_images_come_from_a_folder_with_or_without_label_maps(tmp_path: Path, as_dataset: bool) -> None:
    folder = tmp_path / "images" / "val" if as_dataset else tmp_path
    folder.mkdir(parents=True, exist_ok=True)
    for i in range(3):
        Image.fromarray(np.random.default_rng(i).integers(0, 255, (80, 120, 3), np.uint8)).save(folder / f"{i}.png")
        if as_dataset:
            (tmp_path / "labels" / "val").mkdir(parents=True, exist_ok=True)
            Image.fromarray(np.full((80, 120), i, np.uint8)).save(tmp_path / "labels" / "val" / f"{i}.png")
    found = analyze({"network": segmenter()}, tmp_path, ["overfocus"])
    assert found.about["pictures"]["count"] == 3


def test_networks_of_two_tasks_are_not_compared() -> None:
    with refused(ValueError, "classification", "segmentation"):
        analyze({"a": segmenter(), "b": rv.create_model("vit_nano")}, "scenes:2", ["overfocus"])


def test_a_class_map_is_for_classifiers() -> None:
    with refused(ValueError, "class_map", "segmentation"):
        analyze({"network": segmenter()}, "scenes:2", ["overfocus"], class_map={"road": 0})
