"""Two untrained segmenters through a real evaluation, for tests of its page."""

from __future__ import annotations

import torch

import robustvit as rv
from robustvit.evaluation.results import Results

DATA, IMAGES, SEVERITIES = "scenes-easy:6", 6, (1, 4)


def segmenters(*seeds: int) -> dict[str, torch.nn.Module]:
    """Networks with the eleven classes of the scenes and 32 pixels, by their seeds."""
    found = {}
    for seed in seeds:
        torch.manual_seed(seed)
        found[f"seed {seed}"] = rv.create_model("fan_hybrid_nano/segformer", num_classes=11, img_size=32).eval()
    return found


def segmented() -> Results:
    """Clean, and under Cityscapes-C at two severities, of which noise has one."""
    return rv.evaluate(segmenters(0, 1), DATA, ["clean", "cityscapes-c"], severity=SEVERITIES, examples=4)
