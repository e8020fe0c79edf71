"""Looking into detectors: studies of attention and blocks see their backbone, studies of a classifier's answers refuse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from object_trees import write_coco
from refusals import refused

import robustvit as rv
from robustvit.analysis.analyze import analyze
from robustvit.analysis.attention_stability import attention_stability
from robustvit.analysis.options import AnalysisOptions
from robustvit.analysis.registry import STUDIES, study_of
from robustvit.corruptions.conditions import Condition, apply_condition
from robustvit.data.layouts import open_samples
from robustvit.data.normalisation import Normalisation

SIDE = 64
SMALL: Any = dict(num_classes=10, anchor_scale=4, width=16, hidden=32, proposals=50, img_size=SIDE)
OF_ANSWERS = [name for name in STUDIES if study_of(name).tasks]


def detector(name: str = "fan_hybrid_nano/mask_rcnn") -> Any:
    torch.manual_seed(0)
    return rv.create_model(name, **SMALL).eval()


def test_every_study_of_the_backbone_is_made_and_the_rest_left_out_with_the_task_as_reason() -> None:
    found = analyze({"one": detector(), "other": detector("vit_nano/faster_rcnn")}, "scenes:2")
    assert set(found.findings) == set(STUDIES) - set(OF_ANSWERS)
    assert set(found.left_out) == set(OF_ANSWERS)
    assert all("detection" in reason for reasons in found.left_out.values() for reason in reasons.values())


def test_stability_is_that_of_a_classifier_with_the_weights_of_the_backbone() -> None:
    network, options = detector(), AnalysisOptions(corruption="fog", severity=3)
    found = analyze({"network": network}, "scenes:2", ["stability"], options)
    samples = list(open_samples("scenes:2", scene_size=(SIDE, SIDE)))
    pixels = torch.stack([torch.from_numpy(np.array(sample.open())).permute(2, 0, 1) for sample in samples])
    spoiled = apply_condition(pixels, [sample.id for sample in samples], Condition("fog", 3), seed=0)
    pair = [Normalisation.of(network)(x) for x in (pixels, spoiled)]
    classifier = rv.create_model("fan_hybrid_nano").eval()
    classifier.load_state_dict(network.backbone.state_dict(), strict=False)
    expected = attention_stability(classifier, [(pair[0], pair[1])]).mean
    assert found.findings["stability"]["network"].numbers["mean"] == pytest.approx(expected, rel=1e-4)


def test_images_come_from_a_dataset_with_annotations_and_figures_from_their_attention(tmp_path: Path) -> None:
    write_coco(tmp_path / "coco", {"val": 3})
    found = analyze({"network": detector()}, tmp_path / "coco", ["attention", "overfocus"], output=tmp_path / "out")
    assert found.about["pictures"]["count"] == 3
    assert (tmp_path / "out/figures/attention.png").is_file()


@pytest.mark.parametrize("name", OF_ANSWERS)
def test_a_study_of_answers_asked_for_by_name_is_refused(name: str) -> None:
    with refused(ValueError, name, "classification", "detection", "stability"):
        analyze({"network": detector()}, "scenes:2", [name])


def test_a_class_map_is_for_classifiers_and_other_tasks_are_not_compared() -> None:
    with refused(ValueError, "class_map", "detection"):
        analyze({"network": detector()}, "scenes:2", ["overfocus"], class_map={"disc": 0})
    with refused(ValueError, "segmentation", "detection"):
        analyze({"a": detector(), "b": rv.create_model("fan_hybrid_nano/segformer")}, "scenes:2", ["overfocus"])
