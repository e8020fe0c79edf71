"""What corruption costs beside the network: `common15` against the bare forward passes over as many images.

    python benchmarks/evaluation.py                        fan_vit_tiny at 224 pixels, 2 threads
    python benchmarks/evaluation.py --precision bf16 --images 160

Both sides take turns: one `robustvit.evaluate` of all 75 cells and the clean one (decoding, corruption, normalising, network,
metrics; in half precision also the comparison of the first images with fp32), and the same number of forward passes of the
same batch size and precision over one batch that lies in memory. Then, what comes after the network: numbers with their
intervals, the images of the report and the page, as shares of the evaluation.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from robustvit.runtime.kept_memory import keep_memory

keep_memory()

import torch
from PIL import Image

import robustvit
from robustvit.data.scenes.dataset import Scenes
from robustvit.evaluation import runner
from robustvit.runtime.precision import answering_in


def save_images(folder: Path, count: int) -> None:
    """Class folders of JPEG files, 320 x 320."""
    scenes = Scenes("test", count, (320, 320))
    for i in range(count):
        pixels, label = scenes[i]
        place = folder / scenes.classes[label]
        place.mkdir(exist_ok=True)
        Image.fromarray(pixels.permute(1, 2, 0).numpy()).save(place / f"{i}.jpg", quality=90)
    for name in scenes.classes:  # every class has a picture
        (folder / name).mkdir(exist_ok=True)
        if not any((folder / name).iterdir()):
            Image.new("RGB", (320, 320)).save(folder / name / "black.jpg")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", default="fan_vit_tiny")
    parser.add_argument("--images", type=int, default=32)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--examples", type=int, default=0, help="images of the report, which are corrupted and asked about anew"
    )
    parser.add_argument("--suite", default="common15")
    parser.add_argument("--precision", default="fp32", choices=["fp32", "bf16", "fp16"])
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    model = robustvit.create_model(options.network, num_classes=10).eval()
    with tempfile.TemporaryDirectory() as name:
        save_images(Path(name), options.images)
        robustvit.evaluate(model, name, options.suite, batch_size=options.batch_size, examples=0, limit=1)  # imports, textures
        after = Stopwatch()
        after.watch(runner, "_measurement", "numbers and intervals")
        after.watch(runner, "cells_of", "numbers and intervals")
        after.watch(runner, "_examples", "images of the report")
        measured: list[float] = []
        bare: list[float] = []
        for repeat in range(options.repeats):
            start = time.perf_counter()
            how = dict(batch_size=options.batch_size, examples=options.examples, precision=options.precision)
            results = robustvit.evaluate(model, name, options.suite, **how)
            measured.append(time.perf_counter() - start)
            with after.of("page and files"):
                results.save(Path(name) / "out")
            shutil.rmtree(Path(name) / "out")
            cells = results.models[0].cells
            with answering_in(options.precision, model):
                bare.append(forward_passes(model, sum(cell.images for cell in cells), options.batch_size))
            print(f"repeat {repeat + 1}: evaluate {measured[-1]:.1f} s, forward passes {bare[-1]:.1f} s", flush=True)
    images = sum(cell.images for cell in cells)
    print(
        f"{options.network}, {options.precision}, {options.suite}, {images} images in batches of {options.batch_size}, "
        f"{options.threads} threads:"
    )
    print(f"evaluate takes {median(measured) / median(bare):.2f}x the bare forward passes (medians of {options.repeats})")
    for what, seconds in after.seconds.items():
        each = seconds / options.repeats
        print(f"{what}: {each:.2f} s, {each / median(measured):.1%} of the evaluation")


class Stopwatch:
    """Adds up what parts of a program take."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def of(self, what: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[what] = self.seconds.get(what, 0.0) + time.perf_counter() - start

    def watch(self, module: Any, name: str, what: str) -> None:
        """From now on, calls of a function of a module count."""
        function = getattr(module, name)

        def watched(*arguments: Any, **options: Any) -> Any:
            with self.of(what):
                return function(*arguments, **options)

        setattr(module, name, watched)


def forward_passes(model: torch.nn.Module, images: int, batch_size: int) -> float:
    """Seconds for the network alone on that many images."""
    batch = torch.randn(batch_size, *model.pretrained_cfg["input_size"])  # type: ignore[index]
    start = time.perf_counter()
    with torch.inference_mode():
        for first in range(0, images, batch_size):
            model(batch[: min(batch_size, images - first)])
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
