"""A detector learns four scenes by heart, and the stages of a cascade see better and better boxes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torchvision.ops import box_iou

import robustvit as rv
from robustvit.data.normalisation import Normalisation
from robustvit.data.object_layouts import open_objects
from robustvit.models.heads.regions import moved
from robustvit.tasks.detection import Detection
from robustvit.tasks.tallies import Tallies

STEPS, RATE = 200, 2e-3


def four_scenes() -> tuple[Any, Tensor]:
    samples = open_objects("scenes-easy:4", scene_size=(96, 96), split="train")
    images = [np.array(sample.open()).transpose(2, 0, 1) for sample in samples]
    return samples, torch.from_numpy(np.stack(images))


def stage_overlaps(network: Any, inputs: Tensor, targets: list[dict[str, Tensor]]) -> list[float]:
    """Mean overlap of the regions of each stage with the object that they overlap most, of those near an object."""
    sizes = [(inputs.shape[2], inputs.shape[3])] * len(inputs)
    with torch.inference_mode():
        pyramid = network.forward_pyramid(network.forward_features(inputs))
        boxes = [found for found, _ in network.proposals.proposals(*network.forward_rpn(pyramid), sizes)]
        near = [box_iou(own, target["boxes"]).amax(1) >= 0.3 for own, target in zip(boxes, targets, strict=True)]
        boxes, means = [own[is_near] for own, is_near in zip(boxes, near, strict=True)], []
        for stage, head in zip(network.regions.settings.stages, network.regions.boxes, strict=True):
            best = [box_iou(own, target["boxes"]).amax(1) for own, target in zip(boxes, targets, strict=True)]
            means.append(float(torch.cat(best).mean()))
            logits, deltas = head(network.regions.pooled(pyramid, boxes, 7))
            counts = [len(own) for own in boxes]
            parts = zip(boxes, logits.split(counts), deltas.split(counts), sizes, strict=True)
            boxes = [moved(own, z, d, stage.coder, size) for own, z, d, size in parts]
    return means


@pytest.mark.slow
@pytest.mark.parametrize("head", ["mask_rcnn", "cascade_mask_rcnn"])
def test_four_scenes_are_learned_by_heart(head: str) -> None:
    torch.manual_seed(0)
    samples, images = four_scenes()
    network = rv.create_model(f"fan_hybrid_nano/{head}", num_classes=10, anchor_scale=4, region_samples=128)
    normalisation = Normalisation.of(network)
    inputs, targets = normalisation(images), Detection().collate([sample.target() for sample in samples])
    optimizer = torch.optim.AdamW(network.parameters(), lr=RATE, weight_decay=0.01)
    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = RATE * min(1, (step + 1) / 20) * (1 if step < 0.75 * STEPS else 0.1)
        optimizer.zero_grad()
        torch.stack(list(network.train()(inputs, targets).values())).sum().backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 5.0)
        optimizer.step()
    task = Detection().bind(network.eval(), samples, (96, 96))
    found = task.predict_images(network, images, normalisation)
    scores = task.scores(Tallies.stack([task.tally(own, s.target()) for own, s in zip(found, samples, strict=True)]))
    assert scores["box_ap"] >= 0.9
    assert scores["mask_ap"] >= 0.75
    if head.startswith("cascade"):
        first, second, third = stage_overlaps(network, inputs, targets)
        assert first < second < third
