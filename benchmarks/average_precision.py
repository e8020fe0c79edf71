"""Speed and memory of COCO's average precision, against the packages pycocotools and faster-coco-eval.

    python benchmarks/average_precision.py                 all comparisons: 5,000 images with 100 detections of 80 classes each
    python benchmarks/average_precision.py --only boxes --images 500 --repeats 1

boxes      matching and the 12 statistics of boxes; the packages have read their data before. Then AP of 200 bootstrap samples,
           against as many evaluations by the packages
masks      matching and the 12 statistics of masks, of a tenth of the images
memory     peak memory of AP of the bootstrap samples, beside tallies and counts, at a quarter, a half and all of the images

All sides give the same statistics (checked to 1e-9) and take turns. Memory is what is allocated. The resident set says nothing
here: what was freed after the images were made goes back to the system during the step, and hides what the step takes.
"""

from __future__ import annotations

import argparse
import sys
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from measuring import Step, medians
from robustvit.metrics.average_precision import Matches, all_statistics, average_precision, match
from robustvit.metrics.bootstrap import resampled_counts
from robustvit.metrics.box_matching import Found, Labelled
from robustvit.runtime.run_lengths import RunLengths
from robustvit.tasks.tallies import Tallies

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from coco_tools import PACKAGES, Pair, prepared, to_coco

CLASSES, DETECTIONS, OBJECTS, SIZE = 80, 100, 7, (480, 640)
FREQUENCIES = 1 / np.arange(1, CLASSES + 1)
"""Of the classes: a few are frequent, as in COCO."""
Kind = Literal["boxes", "masks"]


def random_boxes(random: np.random.Generator, count: int) -> np.ndarray:
    """[count, 4] within the image, of all sizes."""
    centres, sides = random.random((count, 2)) * SIZE[::-1], np.exp(random.normal(4, 1, (count, 2)))
    return np.clip(np.concatenate([centres - sides / 2, centres + sides / 2], axis=1), 0, SIZE[::-1] * 2)


def image(random: np.random.Generator, masks: bool) -> Pair:
    """Seven objects on average; three of ten detections lie near one."""
    m, shares = 1 + random.poisson(OBJECTS - 1), FREQUENCIES / FREQUENCIES.sum()
    boxes, kinds = random_boxes(random, m), random.choice(CLASSES, m, p=shares)
    near, is_near = random.integers(0, m, DETECTIONS), random.random(DETECTIONS) < 0.3
    moved = boxes[near] + 0.1 * random.normal(size=(DETECTIONS, 4)) * np.tile(boxes[near, 2:] - boxes[near, :2], 2)
    moved[:, 2:] = np.maximum(moved[:, 2:], moved[:, :2])
    found = np.where(is_near[:, None], moved, random_boxes(random, DETECTIONS))
    found_kinds = np.where(
        is_near & (random.random(DETECTIONS) < 0.8), kinds[near], random.choice(CLASSES, DETECTIONS, p=shares)
    )
    scores = 0.5 * random.random(DETECTIONS) + np.where(is_near, 0.5 * random.random(DETECTIONS), 0)
    areas, is_crowd = np.prod(boxes[:, 2:] - boxes[:, :2], axis=1), random.random(m) < 0.01
    shapes, outlines = (ellipses(boxes), ellipses(found)) if masks else (None, None)
    return Found(found, scores, found_kinds, outlines), Labelled(boxes, kinds, areas, is_crowd, shapes)


def ellipses(boxes: np.ndarray) -> RunLengths:
    angles = np.linspace(0, 2 * np.pi, 25)[:-1]
    circle = np.stack([np.cos(angles), np.sin(angles)], axis=1) / 2 + 0.5
    corners = boxes[:, None, :2] + circle * (boxes[:, None, 2:] - boxes[:, None, :2])
    return RunLengths.from_coco([[polygon] for polygon in corners.reshape(len(boxes), -1).tolist()], SIZE)


def images_of(count: int, masks: bool = False) -> list[Pair]:
    random = np.random.default_rng(0)
    return [image(random, masks) for _ in range(count)]


def ours(pairs: Sequence[Pair], kind: Kind) -> dict[str, float]:
    return all_statistics(Matches.stack([match(found, labelled, CLASSES, kind) for found, labelled in pairs]))[0]


def steps_of(pairs: Sequence[Pair], kind: Kind) -> dict[str, Step]:
    """Ours and those of the packages, which are checked to agree."""
    truth, detections = to_coco(pairs, CLASSES, SIZE, boxes=kind == "boxes")
    theirs = {package: prepared(package, truth, detections, kind) for package in PACKAGES}
    values = list(ours(pairs, kind).values())
    for package, evaluate in theirs.items():
        np.testing.assert_allclose(values, evaluate().statistics, rtol=0, atol=1e-9, err_msg=package)
    return {"ours": lambda: ours(pairs, kind), **theirs}


def ratios(times: dict[str, float], to: float, times_each: int = 1) -> str:
    return ", ".join(f"{package} {times_each * times[package] / to:.1f}x" for package in PACKAGES)


def compare_boxes(options: argparse.Namespace) -> None:
    pairs = images_of(options.images)
    steps, matches = steps_of(pairs, "boxes"), matches_in(tallies_of(pairs))
    counts = draws(options.images, options.resamples)
    times = medians({**steps, "bootstrap": lambda: average_precision(matches, counts)}, options.repeats)
    print(f"boxes: {options.images} images, ours {times['ours']:.2f} s; {ratios(times, times['ours'])} ", end="")
    print("(target at least 1 for pycocotools)", flush=True)
    drawn = times["bootstrap"]
    print(f"bootstrap: AP of {options.resamples} samples {drawn:.2f} s (target 60 s for 200 of 5,000 images); ", end="")
    print(f"as many evaluations: {ratios(times, drawn, options.resamples)}", flush=True)


def compare_masks(options: argparse.Namespace) -> None:
    pairs = images_of(max(1, options.images // 10), masks=True)
    times = medians(steps_of(pairs, "masks"), options.repeats)
    print(f"masks: {len(pairs)} images, ours {times['ours']:.2f} s; {ratios(times, times['ours'])} ", end="")
    print("(target at least 1 for pycocotools)", flush=True)


def tallies_of(pairs: Sequence[Pair]) -> Tallies:
    return Tallies.stack([match(found, labelled, CLASSES, "boxes") for found, labelled in pairs])


def matches_in(tallies: Tallies) -> Matches:
    return Matches.of(tallies.arrays)


def draws(images: int, resamples: int) -> np.ndarray:
    return np.concatenate(list(resampled_counts(images, resamples, seed=0)))


def compare_memory(options: argparse.Namespace) -> None:
    for images in (options.images // 4, options.images // 2, options.images):
        tallies, counts = tallies_of(images_of(images)), draws(images, options.resamples)
        average_precision(matches_in(tallies), counts[:1])  # what is made once
        tracemalloc.start()
        average_precision(matches_in(tallies), counts)
        peak = tracemalloc.get_traced_memory()[1] / 2**20
        tracemalloc.stop()
        size = sum(array.nbytes for array in tallies.arrays.values())
        print(f"memory: {images} images: {peak:.1f} MB beside tallies of {size / 2**20:.1f} MB ", end="")
        print(f"({size / images:.0f} bytes per image)", flush=True)


COMPARISONS: dict[str, Callable[[argparse.Namespace], None]] = {
    "boxes": compare_boxes,
    "masks": compare_masks,
    "memory": compare_memory,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=list(COMPARISONS), choices=COMPARISONS)
    parser.add_argument("--images", type=int, default=5000)
    parser.add_argument("--resamples", type=int, default=200, help="bootstrap samples")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    for name in options.only:
        COMPARISONS[name](options)


if __name__ == "__main__":
    main()
