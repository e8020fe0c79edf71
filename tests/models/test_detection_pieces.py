"""The arithmetic of detectors gives the published numbers: boxes, anchors, assignment, regions and masks."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from reference_weights import FOLDER
from torch import Tensor

from robustvit.models.heads.anchors import anchors_of, base_anchors, is_inside
from robustvit.models.heads.assignment import Assigner
from robustvit.models.heads.box_coder import BoxCoder, clip_boxes, giou_losses
from robustvit.models.heads.region_heads import mask_targets, paste_masks
from robustvit.models.heads.region_network import RegionNetwork, StageSettings
from robustvit.models.heads.regions import moved
from robustvit.models.heads.roi_pooling import pool_regions, region_levels

PIECES = json.loads((FOLDER / "dense" / "detection_pieces.json").read_text())
STAGES = ("rpn", "stage1", "stage2", "stage3")


def close(got: Tensor, expected: object, tolerance: float = 1e-4) -> None:
    torch.testing.assert_close(got, torch.as_tensor(expected, dtype=got.dtype), rtol=1e-4, atol=tolerance)


def ellipse() -> Tensor:
    y, x = np.mgrid[:60, :90] + 0.5
    return torch.from_numpy(((x - 45) / 26) ** 2 + ((y - 30) / 22) ** 2 <= 1)


@pytest.mark.parametrize("stage", STAGES)
def test_boxes_are_encoded_and_decoded_with_the_published_deviations(stage: str) -> None:
    given = PIECES["box_coder"]
    proposals, deltas = torch.tensor(given["proposals"]), torch.tensor(given["deltas"])
    coder = BoxCoder(tuple(given["stds"][stage]))
    close(coder.encode(proposals, torch.tensor(given["targets"])), given["encode"][stage])
    decoded = coder.decode(torch.cat([proposals, proposals[:2]]), deltas)
    close(decoded, given["decode"][stage], 1e-3)
    close(clip_boxes(decoded, tuple(given["clip"])), given["decode_clipped"][stage], 1e-3)


def test_generalised_iou_and_its_gradient_are_the_published_ones() -> None:
    given = PIECES["giou"]
    boxes = torch.tensor(given["predicted"], requires_grad=True)
    losses = giou_losses(boxes, torch.tensor(given["target"]))
    close(losses, given["loss_each"])
    loss = given["loss_weight"] * losses.sum() / given["sampled_rois"]
    close(loss, given["loss"])
    loss.backward()
    assert boxes.grad is not None
    close(boxes.grad, given["gradient"], 1e-5)


def test_anchors_are_not_rounded_and_those_over_the_edge_are_known() -> None:
    given, image = PIECES["anchors"], tuple(PIECES["anchors"]["image"])
    for i, (size, stride) in enumerate(zip(given["feature_sizes"], (4, 8, 16, 32, 64), strict=True)):
        base = base_anchors(8 * stride)
        close(base, given["base"][i])
        anchors = anchors_of(tuple(size), stride, base)
        assert len(anchors) == given["counts"][i]
        first, last = (torch.tensor(given[name][i]) for name in ("first", "last"))
        close(anchors[: len(first)], first)
        close(anchors[-len(last) :], last)
        assert int(is_inside(anchors, image).sum()) == given["inside_with_zero_border"][i]


@pytest.mark.parametrize(("stage", "iou"), list(zip(STAGES, (None, 0.5, 0.6, 0.7), strict=True)))
def test_candidates_answer_for_the_published_boxes(stage: str, iou: float | None) -> None:
    given = PIECES["assignment"]
    assigner = Assigner(0.7, 0.3, 0.3) if iou is None else Assigner(iou, iou)
    assigned = assigner(torch.tensor(given["boxes"]), torch.tensor(given["gt"]))
    assert (assigned + 1).tolist() == given[stage]


def test_without_boxes_all_candidates_are_negative() -> None:
    assert (Assigner(0.5, 0.5)(torch.rand(4, 4), torch.zeros(0, 4)) == -1).all()


@pytest.mark.parametrize("side", [7, 14])
def test_regions_are_aligned_and_sampled_by_their_size(side: int) -> None:
    given = PIECES["roi_align"]
    feature = torch.from_numpy(np.random.RandomState(62).standard_normal((2, 4, 15, 24)).astype("float32"))
    rois, expected = torch.tensor(given["rois"]), given[f"{side}x{side}"]
    order = rois[:, 0].argsort(stable=True)
    pooled = pool_regions([feature], [4], [rois[rois[:, 0] == i, 1:] for i in range(2)], side)
    got = torch.empty_like(pooled).index_copy_(0, order, pooled)
    assert list(got.shape) == expected["shape"]
    close(got.flatten()[expected["at"]], expected["values"])


def test_regions_are_read_on_the_published_levels() -> None:
    given = PIECES["roi_levels"]
    boxes = torch.tensor([[0, 0, *size] for size in given["width_height"]], dtype=torch.float32)
    assert region_levels(boxes).tolist() == given["level"]


def test_masks_are_cut_to_regions_as_published() -> None:
    given = PIECES["masks"]
    rois = torch.tensor(given["rois"])
    targets = mask_targets(ellipse()[None], torch.zeros(len(rois), dtype=torch.long), rois)
    assert targets.sum((1, 2)).int().tolist() == given["target_28x28_ones"]
    assert targets.sum(2).int().tolist() == given["target_row_sums"]


def test_masks_are_pasted_as_published() -> None:
    given = PIECES["masks"]["paste"]
    noise = np.random.RandomState(66).standard_normal((2, 1, 28, 28)).astype("float32")
    pasted = paste_masks(torch.from_numpy(noise).sigmoid()[:, 0], torch.tensor(given["boxes"]), given["image"])
    assert pasted.sum((1, 2, 3)).tolist() == given["pixels_at_least_half"]


def test_regions_move_by_their_own_class_and_labelled_boxes_stay_behind() -> None:
    given = PIECES["refine"]
    rois, deltas = torch.tensor(given["rois"]), torch.tensor(given["deltas"]).unflatten(1, (-1, 4))
    coder, classes = BoxCoder(tuple(given["stds"])), torch.tensor(given["class"])
    refined = moved(rois[:, 1:], torch.zeros(len(rois), 4), deltas, coder, tuple(given["image"]), classes)
    for i, (expected, is_given) in enumerate(zip(given["refined"], given["is_ground_truth"], strict=True)):
        own = refined[rois[:, 0] == i]
        close(own[~torch.tensor(is_given, dtype=torch.bool)], expected, 1e-3)


def test_objects_are_chosen_within_each_class_as_published() -> None:
    given = PIECES["class_nms"]
    boxes = torch.tensor(given["boxes"])
    shifts = torch.tensor([0.0, 1.0, -1.0])  # of the boxes of the three classes
    logits = torch.tensor(given["logits (last column: background)"])
    network = RegionNetwork(4, 3, (4,), StageSettings((), most=1000), has_masks=False, head={})
    all_boxes, size = boxes[:, None] + shifts[None, :, None], (60, 90)
    found = network._chosen(all_boxes, logits.softmax(-1), size, size)
    assert len(found.boxes) == given["kept_in_all"]
    best = torch.tensor(given["max_per_image_6"])
    assert found.labels[:6].tolist() == best[:, 0].tolist()
    close(torch.cat([found.boxes, found.scores[:, None]], dim=1)[:6], best[:, 1:])
