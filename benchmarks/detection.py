"""Speed of detectors: `fan_hybrid_tiny/cascade_mask_rcnn` on images of 800x1216, the published size.

    python benchmarks/detection.py                      all comparisons, 2 threads
    python benchmarks/detection.py --only inference --repeats 5

inference   objects with their masks in one image, against the plain transcription of the released procedure in
            `plain_detector.py`; both find the same objects with the same weights (checked first) and take turns
pipeline    updates of the real loop with the published augmentation, at a quarter of its sizes, that are read and augmented
            beside the network, against the same updates on batches that were made before

Average precision and its intervals are in `average_precision.py`.
"""

from __future__ import annotations

import argparse
import sys
from itertools import cycle
from pathlib import Path

import torch
from torch import Tensor, nn

import plain_detector
import robustvit as rv
from measuring import Step, medians
from robustvit.training.distributed import Workers
from robustvit.training.run import Run

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from dense_weights import DETECTORS, dense_weights

PUBLISHED = "fan_tiny_8_p4_hybrid"
SIZE, SMALL = (800, 1216), (64, 96)
SHARPNESS = {"fc_cls.weight": 8.0, "rpn_reg.weight": 0.1}
"""Factors on the reference weights, with which scores exceed the threshold."""


def build() -> tuple[dict[str, Tensor], nn.Module]:
    """The same weights for both sides, which are checked to find the same objects."""
    given = dense_weights(DETECTORS[f"{PUBLISHED}/cascade_mask_rcnn"])
    weights = {
        name: value * next((f for end, f in SHARPNESS.items() if name.endswith(end)), 1) for name, value in given.items()
    }
    network = rv.fuse(rv.from_official(f"{PUBLISHED}/cascade_mask_rcnn", weights))
    image = torch.randn(1, 3, *SMALL)
    with torch.inference_mode():
        plain, (ours,) = plain_detector.detect(PUBLISHED, weights, image), network(image)
    torch.testing.assert_close(ours["scores"], plain["scores"], rtol=1e-3, atol=1e-4)
    apart = (ours["boxes"][:, None] - plain["boxes"]).abs().amax(-1) + 1e3 * (ours["labels"][:, None] != plain["labels"])
    assert (apart.amin(1) < 1e-2).float().mean() > 0.97, "both sides find the same objects, but for ties"
    return weights, network


def compare_inference(options: argparse.Namespace) -> None:
    weights, network = build()
    image = torch.randn(1, 3, *options.size)

    def plain() -> None:
        with torch.inference_mode():
            plain_detector.detect(PUBLISHED, weights, image)

    def ours() -> None:
        with torch.inference_mode():
            network(image)

    times = medians({"plain": plain, "ours": ours}, options.repeats)
    print(
        f"inference: plain {times['plain']:.2f} s, ours {times['ours']:.2f} s: {times['plain'] / times['ours']:.2f}x ", end=""
    )
    print("(target 1.2)", flush=True)


def compare_pipeline(options: argparse.Namespace) -> None:
    config = [
        "task=detection",
        "data.train=scenes:64",
        "data.val=",
        "model.name=fan_hybrid_nano/faster_rcnn",
        "loss.smoothing=0",
    ]
    config += ["model.img_size=192", "loop.device=cpu", "loop.batch_size=4", "schedule.epochs=1000", "augment.crop=multiscale"]
    config += ["augment.short_sides=[120, 160, 200]", "augment.long_side=333", "augment.first_short_sides=[100, 150]"]
    config += ["augment.crop_range=[96, 150]", "augment.photometric=true"]
    run, memory = (Run(rv.load_config(None, config), Workers(), torch.device("cpu")) for _ in range(2))
    fresh = run.data.batches(4, epochs=1000)
    made = cycle([update for update, _ in zip(memory.data.batches(4, epochs=1), range(8), strict=False)])
    steps: dict[str, Step] = {
        "pipeline": lambda: run.advance(next(fresh)),
        "memory": lambda: memory.advance(next(made)),
    }
    times = medians(steps, 4 * options.repeats)
    print(f"pipeline: scenes at many sizes, four at a time, run at {times['memory'] / times['pipeline']:.2f}x ", end="")
    print("the speed of data in memory", flush=True)


COMPARISONS = {"inference": compare_inference, "pipeline": compare_pipeline}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=COMPARISONS, default=list(COMPARISONS))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--size", type=int, nargs=2, default=SIZE, help="height and width of the image")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    for name in options.only:
        COMPARISONS[name](options)


if __name__ == "__main__":
    main()
