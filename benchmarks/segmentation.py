"""Speed and memory of segmenters: `fan_hybrid_tiny/segformer` with windows of 1024x1024 that slide by 768.

    python benchmarks/segmentation.py                      all comparisons, 2 threads
    python benchmarks/segmentation.py --only windows adl --repeats 3

windows     label maps of an image of 2048x1024, against the plain transcription of the released procedure in
            `plain_segmenter.py`; both compute the same logits from the same weights (checked first) and take turns
memory      peak memory of the same at 2048x1024 and at 4096x2048, with as many windows at once as by default, against what the
            maps themselves take: the normalised image, the logits, the label map
adl         peak memory of a training step on one crop of 1024x1024 with ADL in chunks, against the same step without
corruption  `robustvit.evaluate` with the suite cityscapes-c at one severity on images of 2048x1024 (decoding, corruption,
            normalising, network, metrics), against the bare network on as many images
pipeline    updates of the real loop on crops of 512x512 that are read and augmented beside the network, against the same
            updates on batches that were made before

Memory is how much the resident set grows at most during one step, in a process of its own (Linux only).
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from statistics import median

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

import plain_segmenter
import robustvit as rv
from measuring import Step, medians, memory_in_process, print_memory_of
from robustvit.data.normalisation import Normalisation
from robustvit.data.scenes.dataset import Scenes
from robustvit.methods.adl import AdlConfig
from robustvit.methods.base import Method, MethodContext
from robustvit.methods.base import Step as MethodStep
from robustvit.tasks.segmentation import Segmentation
from robustvit.tasks.windows import Inference
from robustvit.training.distributed import Workers
from robustvit.training.forward import Forward, TrainedNetwork, loss_terms, needs_of
from robustvit.training.run import Run

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from dense_weights import SEGMENTERS, dense_weights

PUBLISHED, OURS, CLASSES = "fan_tiny_8_p4_hybrid", "fan_hybrid_tiny/segformer", 19
WINDOW, STRIDE, CROP = 1024, 768, 1024
SMALL, LARGE = (1024, 2048), (2048, 4096)
INFERENCE = Inference(window=(WINDOW, WINDOW), stride=(STRIDE, STRIDE))
MB = 2**20


def build() -> tuple[dict[str, Tensor], nn.Module]:
    """The same weights for both sides, which are checked to agree."""
    weights = dense_weights(SEGMENTERS[f"{PUBLISHED}/segformer"])
    network = rv.from_official(f"{PUBLISHED}/segformer", weights).eval()
    images = torch.randn(1, 3, 128, 160)
    with torch.inference_mode():
        plain = plain_segmenter.logits(PUBLISHED, weights, images)
        torch.testing.assert_close(network(images), plain, rtol=1e-4, atol=1e-4)
    return weights, network


def image_of(size: tuple[int, int]) -> Tensor:
    return torch.randint(0, 256, (1, 3, *size), dtype=torch.uint8)


def our_step(network: nn.Module, images: Tensor, inference: Inference = INFERENCE) -> Callable[[], Tensor]:
    task, normalisation = Segmentation(inference=inference), Normalisation.of(network)
    return lambda: torch.from_numpy(task.predict_images(network, images, normalisation)[0])


def plain_step(weights: dict[str, Tensor], network: nn.Module, images: Tensor) -> Callable[[], Tensor]:
    normalisation = Normalisation.of(network)

    def run() -> Tensor:
        with torch.inference_mode():
            return plain_segmenter.slide(PUBLISHED, weights, normalisation(images), WINDOW, STRIDE)[0]

    return run


def compare_windows(options: argparse.Namespace) -> None:
    weights, network = build()
    images = image_of(SMALL)
    steps = {"plain": plain_step(weights, network, images), "ours": our_step(network, images)}
    same = (steps["plain"]() == steps["ours"]()).float().mean().item()
    times = medians({**steps}, options.repeats)
    print(f"windows: plain {times['plain']:.2f} s, ours {times['ours']:.2f} s: {times['plain'] / times['ours']:.2f}x ", end="")
    print(f"(target 1.3); {same:.4%} of the pixels have the same class", flush=True)


def maps_mb(size: tuple[int, int]) -> float:
    """The normalised image and the logits in float32, the label map in int64."""
    return size[0] * size[1] * (3 * 4 + CLASSES * 4 + 8) / MB


def compare_memory(options: argparse.Namespace) -> None:
    small, large = (memory_in_process(__file__, [*map(str, ("slide", *size)), *threads(options)]) for size in (SMALL, LARGE))
    grown, maps = large - small, maps_mb(LARGE) - maps_mb(SMALL)
    print(f"memory: {small:.0f} MB at 2048x1024, {large:.0f} MB at 4096x2048: {grown:.0f} MB more; ", end="")
    print(f"the maps themselves take {maps:.0f} MB more", flush=True)


def training_step(with_adl: bool, chunk: int) -> Step:
    """Forward and backward of one crop, by the forward pass of the training loop."""
    torch.manual_seed(0)
    network = rv.create_model(OURS, num_classes=CLASSES).train()
    context = MethodContext(network, CLASSES, (CROP, CROP), torch.device("cpu"), 0, rv.create_model)  # type: ignore[arg-type]
    methods: list[Method] = [AdlConfig(chunk=chunk).build(context)] if with_adl else []
    task, needs = Segmentation(), needs_of(methods)
    forward = Forward(TrainedNetwork(network, task, token_logits=False), network, task, needs)
    images, labels = torch.randn(1, 3, CROP, CROP), torch.randint(0, CLASSES, (1, CROP, CROP), dtype=torch.uint8)

    def run() -> None:
        network.zero_grad()
        step = MethodStep(task, network, lambda x: forward(x, labels), images, labels, [0], 1.0, 0.0, (0.0,) * 3, (1.0,) * 3)
        forward.run(step, methods)
        torch.stack(list(loss_terms(step, methods, 1.0).all.values())).sum().backward()

    return run


def compare_adl(options: argparse.Namespace) -> None:
    without, with_adl = (
        memory_in_process(__file__, ["training", form, str(options.chunk), *threads(options)]) for form in ("plain", "adl")
    )
    print(f"adl: a step on one crop of {CROP}x{CROP} takes {without:.0f} MB, {with_adl:.0f} MB with ADL: ", end="")
    print(f"{with_adl / without - 1:+.1%} (target at most 25 %), {options.chunk} rows at a time", flush=True)


def save_images(folder: Path, count: int, size: tuple[int, int], split: str = "val") -> None:
    """Images and label maps of 19 classes."""
    scenes = Scenes("test", count, size)
    for kind in ("images", "labels"):
        (folder / kind / split).mkdir(parents=True)
    for i in range(count):
        Image.fromarray(scenes[i][0].permute(1, 2, 0).numpy()).save(folder / "images" / split / f"{i}.png")
        labels = np.arange(size[1]) * CLASSES // size[1] * np.ones((size[0], 1))
        Image.fromarray(labels.astype(np.uint8)).save(folder / "labels" / split / f"{i}.png")
    (folder / "classes.json").write_text(json.dumps({"classes": [f"class {i}" for i in range(CLASSES)]}))


def compare_corruption(options: argparse.Namespace) -> None:
    network = rv.create_model(OURS, num_classes=CLASSES).eval()
    task = Segmentation(inference=INFERENCE)
    how = dict(task=task, severity=options.severity, batch_size=1, examples=0)
    measured, bare = [], []
    with tempfile.TemporaryDirectory() as name:
        save_images(Path(name), options.images, SMALL)
        for _ in range(max(1, options.repeats // 3)):
            start = time.perf_counter()
            results = rv.evaluate(network, name, "cityscapes-c", **how)
            measured.append(time.perf_counter() - start)
            cells, run = results.models[0].cells, our_step(network, image_of(SMALL))
            start = time.perf_counter()
            for _ in range(sum(cell.images for cell in cells)):
                run()
            bare.append(time.perf_counter() - start)
    print(f"corruption: cityscapes-c, severity {options.severity}, {len(cells)} cells of {options.images} images: ", end="")
    print(
        f"{median(measured):.1f} s, bare {median(bare):.1f} s: {median(measured) / median(bare):.2f}x (target 1.25)",
        flush=True,
    )


def compare_pipeline(options: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as name:
        save_images(Path(name), 16, SMALL, "train")
        config = ["task=segmentation", f"data.train={name}", "data.val=", f"model.name={OURS}", "loss.smoothing=0"]
        config += ["loop.device=cpu", "loop.batch_size=2", "schedule.epochs=1000", "model.img_size=512"]
        config += ["augment.crop=scene", "augment.crop_size=[512, 512]", "augment.photometric=true"]
        run, memory = (Run(rv.load_config(None, config), Workers(), torch.device("cpu")) for _ in range(2))
        fresh = run.data.batches(2, epochs=1000)
        made = cycle([update for update, _ in zip(memory.data.batches(2, epochs=1), range(4), strict=False)])
        steps: dict[str, Step] = {
            "pipeline": lambda: run.advance(next(fresh)),
            "memory": lambda: memory.advance(next(made)),
        }
        times = medians(steps, 2 * options.repeats)
    print(f"pipeline: crops of 512x512, two at a time, run at {times['memory'] / times['pipeline']:.2f}x ", end="")
    print("the speed of data in memory (target at least 0.9)", flush=True)


def threads(options: argparse.Namespace) -> list[str]:
    return ["--threads", str(options.threads)]


def measure_memory(what: str, *settings: str) -> None:
    if what == "training":
        form, chunk = settings
        print_memory_of(training_step(form == "adl", int(chunk)))
        return
    H, W = map(int, settings)
    network = build()[1]
    print_memory_of(our_step(network, image_of((H, W))))


COMPARISONS: dict[str, Callable[[argparse.Namespace], None]] = {
    "windows": compare_windows,
    "memory": compare_memory,
    "adl": compare_adl,
    "corruption": compare_corruption,
    "pipeline": compare_pipeline,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=list(COMPARISONS), choices=COMPARISONS)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--chunk", type=int, default=256, help="rows of attention maps that ADL has at a time")
    parser.add_argument("--severity", type=int, default=3, help="of the corruptions")
    parser.add_argument("--images", type=int, default=1, help="to corrupt")
    parser.add_argument("--measure-memory", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    if options.measure_memory:
        measure_memory(*options.measure_memory)
        return
    for name in options.only:
        COMPARISONS[name](options)


if __name__ == "__main__":
    main()
