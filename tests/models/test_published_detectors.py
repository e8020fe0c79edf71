"""Published detectors load whole and give the published numbers: maps, proposals, regions, objects and losses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from dense_weights import DETECTION, DETECTORS, assert_described, dense_keys, dense_weights
from reference_weights import reference_input
from refusals import refused
from torch import Tensor

import robustvit as rv
from robustvit.models.heads.region_heads import paste_masks
from robustvit.runtime.weights import CheckpointError

CASCADE = "fan_tiny_8_p4_hybrid/cascade_mask_rcnn"
DETECT = DETECTION[f"{CASCADE}#detect"]
SIZES, ORIGINALS = [tuple(DETECT["img_shape"])] * 2, [tuple(DETECT["original"])] * 2


def detecting_weights() -> dict[str, Tensor]:
    """Those of the variant whose scores exceed the threshold."""
    factors = {"fc_cls.weight": 8.0, "rpn_reg.weight": 0.1}
    return {
        name: value * next((f for ending, f in factors.items() if name.endswith(ending)), 1)
        for name, value in dense_weights(DETECTORS[CASCADE]).items()
    }


@pytest.fixture(scope="module")
def detector() -> Any:
    return rv.from_official(CASCADE, detecting_weights()).eval()


@pytest.fixture(scope="module")
def pyramid(detector: Any) -> list[Tensor]:
    with torch.inference_mode():
        return detector.forward_pyramid(detector.forward_features(reference_input(*DETECT["input"])))


def given_proposals() -> list[Tensor]:
    return [torch.tensor(boxes) for boxes in DETECT["given_proposals"]]


@pytest.mark.parametrize("entry", [name for name in DETECTION if "@" in name])
def test_maps_are_those_of_the_published_programs(entry: str) -> None:
    name, expected = entry.partition("@")[0], DETECTION[entry]
    network = rv.from_official(name, dense_weights(DETECTORS[name])).eval()
    with torch.inference_mode():
        levels = network.forward_features(reference_input(*expected["input"]))
        found = {"levels": levels}
        if "fpn" in expected:
            found["fpn"] = network.forward_pyramid(levels)
            found["rpn_scores"], found["rpn_deltas"] = network.forward_rpn(found["fpn"])
    for key, maps in found.items():
        for ours, described in zip(maps, expected[key], strict=True):
            assert_described(ours, described)


def test_proposals_are_the_published_ones(detector: Any, pyramid: list[Tensor]) -> None:
    with torch.inference_mode():
        found = detector.proposals.proposals(*detector.forward_rpn(pyramid), SIZES)
    for (boxes, scores), expected in zip(found, DETECT["proposals"], strict=True):
        assert len(boxes) == expected["count"]
        first = torch.cat([boxes, scores[:, None]], dim=1)[: len(expected["first"])]
        wanted = torch.tensor(expected["first"])
        by_place = [rows[rows[:, 0].argsort()] for rows in (first, wanted)]  # scores tie in their last bits
        torch.testing.assert_close(*by_place, rtol=0, atol=1e-3)


def test_heads_of_all_stages_answer_as_published(detector: Any, pyramid: list[Tensor]) -> None:
    rois = torch.tensor(DETECT["rois"])
    order = rois[:, 0].argsort(stable=True).argsort()
    boxes = [rois[rois[:, 0] == i, 1:] for i in range(2)]
    regions = detector.regions
    with torch.inference_mode():
        pooled, outlined = (regions.pooled(pyramid, boxes, side)[order] for side in (7, 14))
        for number, expected in enumerate(DETECT["stages"]):
            assert_described(pooled, expected["pooled"])
            logits, deltas = regions.boxes[number](pooled)
            assert_described(logits, expected["class_logits"])
            assert_described(deltas.flatten(1), expected["deltas"])
            assert_described(regions.masks[number](outlined), expected["mask_logits"])


def test_objects_are_the_published_ones_in_pixels_of_the_original_image(detector: Any, pyramid: list[Tensor]) -> None:
    with torch.inference_mode():
        _, probabilities = detector.regions.refined(pyramid, given_proposals(), SIZES)
        found = detector.regions.detect(pyramid, given_proposals(), SIZES, ORIGINALS)
    best, classes = torch.cat(probabilities)[:, :-1].max(1)
    assert classes.tolist() == DETECT["scores"]["best_class"]
    torch.testing.assert_close(best, torch.tensor(DETECT["scores"]["best_score"]), rtol=1e-4, atol=1e-4)
    for own, expected in zip(found, DETECT["detections"], strict=True):
        assert len(own.boxes) == expected["count"]
        wanted = torch.tensor(expected["first"])  # class, box, score, pixels of the mask
        n = len(wanted)
        assert own.masks is not None
        pixels = paste_masks(own.masks, own.boxes, ORIGINALS[0]).sum((1, 2, 3))[:n]
        assert own.labels[:n].tolist() == wanted[:, 0].tolist()
        got = torch.cat([own.boxes[:n], own.scores[:n, None]], dim=1)
        torch.testing.assert_close(got, wanted[:, 1:6], rtol=0, atol=1e-3)
        assert (pixels - wanted[:, 6]).abs().max() <= 1


@pytest.mark.slow
def test_the_call_does_all_of_it(detector: Any) -> None:
    images = reference_input(*DETECT["input"])
    with torch.inference_mode():
        found = detector(images, sizes=SIZES, originals=ORIGINALS)
    for own in found:
        assert set(own) == {"boxes", "scores", "labels", "masks"}
        n = len(own["boxes"])
        assert 0 < n <= 100
        assert own["masks"].shape == (n, 1, *ORIGINALS[0])
        assert own["boxes"].min() >= 0
        assert (own["boxes"] <= torch.tensor([45.0, 30, 45, 30]) + 1e-4).all()
        assert (own["scores"].diff() <= 0).all()


def ellipse(box: list[float], size: list[int]) -> np.ndarray:
    y, x = np.mgrid[: size[0], : size[1]] + 0.5
    (x1, y1, x2, y2) = box
    return ((x - (x1 + x2) / 2) / ((x2 - x1) / 2)) ** 2 + ((y - (y1 + y2) / 2) / ((y2 - y1) / 2)) ** 2 <= 1


def test_losses_of_the_cascade_are_the_published_ones(detector: Any, pyramid: list[Tensor]) -> None:
    labelled, labels = DETECT["gt"]["boxes"], DETECT["gt"]["labels"]
    masks = torch.from_numpy(np.stack([ellipse(box, DETECT["input"]) for box in labelled]))
    targets = [{"boxes": torch.tensor(labelled[:m]), "labels": torch.tensor(labels[:m]), "masks": masks[:m]} for m in (3, 2)]
    with torch.inference_mode():
        found = detector.regions.losses(pyramid, given_proposals(), targets, SIZES)
    totals = {name: loss.sum(0) for name, loss in found.items()}
    ours = {"cls": "loss_classifier", "bbox": "loss_box_reg", "mask": "loss_mask"}
    for name, expected in DETECT["losses"].items():
        stage, _, kind = name.partition(".loss_")
        total, count = totals[f"{ours[kind]}_{int(stage[1:]) + 1}"]
        assert float(total / count) == pytest.approx(expected, rel=1e-4)


def test_losses_of_proposals_are_the_published_ones(detector: Any) -> None:
    given = DETECT["rpn_training"]
    with torch.inference_mode():
        maps = detector.forward_pyramid(detector.forward_features(reference_input(*given["input"])))
        labelled = [torch.tensor(boxes) for boxes in given["gt"]]
        found = detector.proposals.losses(*detector.forward_rpn(maps), [tuple(given["img_shape"])] * 2, labelled)
    for name, expected in (("loss_objectness", given["loss_cls"]), ("loss_rpn_box_reg", given["loss_bbox"])):
        total, count = found[name].sum(0)
        assert int(count) == given["positives"] + given["negatives"]
        assert float(total / count) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("name", DETECTORS)
def test_every_published_detector_loads_whole_and_names_what_nothing_reads(name: str) -> None:
    entry = DETECTORS[name]
    with torch.device("meta"):
        given = {key: torch.empty(shape) for key, shape in dense_keys(entry).items()}
    given = {key: torch.zeros(()).expand(value.shape) for key, value in given.items()}
    network = rv.from_official(name, given)
    dropped = network.dropped_weights
    assert all(".cls_attn_blocks." in key or "cls_token" in key for key in dropped)
    kept = sum(p.numel() for p in network.parameters())
    assert kept + sum(given[key].numel() for key in dropped) == entry["params"]


def test_the_names_of_the_detection_programs_are_understood() -> None:
    state = {
        key: torch.zeros(()).expand(shape)
        for key, shape in dense_keys(DETECTORS["stl_fan_base_16_p4_hybrid/detection_backbone"]).items()
    }
    network = rv.from_official("fan_base_12_p4_hybrid/detection_backbone", state)
    assert network.channels == (128, 256, 448, 768)
    assert network.strides == (4, 8, 16, 32)


def test_a_tensor_too_few_or_too_many_is_refused() -> None:
    given = {key: torch.zeros(()).expand(shape) for key, shape in dense_keys(DETECTORS[CASCADE]).items()}
    with refused(CheckpointError, "neck.extra"):
        rv.from_official(CASCADE, {**given, "neck.extra": torch.zeros(1)})
    del given["roi_head.bbox_head.1.fc_reg.weight"]
    with refused(CheckpointError, "regions.boxes.1.deltas.weight"):
        rv.from_official(CASCADE, given)


def test_weights_of_a_published_detector_need_its_position_encoding() -> None:
    network = rv.create_model("fan_hybrid_tiny/cascade_mask_rcnn")
    with refused(CheckpointError, "paired_position"):
        network.native_weights(detecting_weights())
