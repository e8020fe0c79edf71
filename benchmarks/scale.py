"""What more of everything costs: processes against threads, and images, classes, tokens and pixels.

    python benchmarks/scale.py                              all of it
    python benchmarks/scale.py --only processes
    python benchmarks/scale.py --only cost --figure docs/images/cost.png

processes  `torchrun` with two processes of one thread each against one process of two threads, for eval, corrupt and train.
           Each command runs with some work and with four times as much, and the difference is its time: starting does not
           count. The two forms take turns; medians.
cost       seconds of an evaluation over images and over classes, of a network over tokens, and of corruptions over pixels,
           with the exponent of each: 1 is linear.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median

import numpy as np

from robustvit.runtime.kept_memory import keep_memory

keep_memory()

import torch
from PIL import Image

import robustvit as rv
from robustvit.corruptions.registry import corruption_names
from robustvit.data.scenes.dataset import Scenes

TIMES = 4
Curve = Mapping[int, float]
"""How much there is -> seconds."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=["processes", "cost"])
    parser.add_argument("--commands", nargs="+", choices=list(COMMANDS), default=list(COMMANDS))
    parser.add_argument("--work", type=int, default=128, help="images of a command, a multiple of 16")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--most", type=int, default=4, choices=[2, 3, 4], help="sizes of each curve")
    parser.add_argument("--figure", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.only != "cost":
        processes(options)
    if options.only != "processes":
        cost(options)


# processes


def eval_command(folder: Path, images: int) -> list[str]:
    about = ["--data", f"scenes:{images}", "--suite", "noise", "--severity", "3", "--untrained", "--batch-size", "16"]
    return ["eval", "fan_vit_tiny", *about, "--output", str(folder / "out")]


def corrupt_command(folder: Path, images: int) -> list[str]:
    source = folder / "images" / "scene"
    if not source.exists():
        source.mkdir(parents=True)
        scenes = Scenes("test", images, (256, 256))
        for i in range(images):
            as_image(scenes[i][0]).save(source / f"{i:05}.png")
    about = ["--names", "common15", "--severities", "3", "--workers", "1"]  # of a process
    return ["corrupt", str(folder / "images"), str(folder / "out"), *about]


def train_command(folder: Path, images: int) -> list[str]:
    settings = {
        "model.name": "fan_vit_tiny",
        "model.img_size": 224,
        "data.train": f"scenes:{images}",
        "data.val": "",
        "loop.batch_size": 16,
        "loop.device": "cpu",
        "schedule.epochs": 1,
    }
    changes = (word for name, value in settings.items() for word in ("--set", f"{name}={value}"))
    return ["train", *changes, "--output", str(folder / "out")]


COMMANDS: dict[str, Callable[[Path, int], list[str]]] = {
    "eval": eval_command,
    "corrupt": corrupt_command,
    "train": train_command,
}


def as_image(pixels: torch.Tensor) -> Image.Image:
    """uint8 [3, H, W]."""
    return Image.fromarray(pixels.permute(1, 2, 0).numpy())


def processes(options: argparse.Namespace) -> None:
    print(f"| command | one process of {options.threads} threads, s | {options.threads} processes of one thread, s | ratio |")
    print("|---|---:|---:|---:|")
    for name in options.commands:
        found: dict[bool, list[float]] = {False: [], True: []}
        for _ in range(options.repeats):
            for many in (False, True):
                more, less = (seconds(name, work, many, options.threads) for work in (TIMES * options.work, options.work))
                found[many].append(more - less)
        one, several = (median(found[many]) for many in (False, True))
        print(f"| {name} | {one:.1f} | {several:.1f} | {one / several:.2f} |", flush=True)


def seconds(name: str, work: int, many: bool, threads: int) -> float:
    """Of a whole command."""
    with tempfile.TemporaryDirectory() as place:
        command = COMMANDS[name](Path(place), work)
        module = ["-m", "robustvit", *command]
        if many:
            module = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={threads}", *module]
        environment = {**os.environ, "OMP_NUM_THREADS": str(1 if many else threads)}
        start = time.perf_counter()
        subprocess.run([sys.executable, *module], check=True, env=environment, capture_output=True)
        return time.perf_counter() - start


# cost


def cost(options: argparse.Namespace) -> None:
    curves = {
        "images (evaluation of fan_vit_nano, 32 px)": timed(of_images, [200, 400, 800, 1600], options),
        "classes (evaluation of fan_vit_nano, 400 images)": timed(of_classes, [10, 100, 1000, 10000], options),
        "tokens (fan_vit_tiny, 4 images)": timed(of_tokens, [49, 196, 784, 1764], options),
        "pixels (common15 at severity 3, one image)": timed(of_pixels, [224**2, 448**2, 896**2, 1792**2], options),
    }
    print("\n| more of | " + " | ".join(f"{i + 1}." for i in range(options.most)) + " | exponent |")
    print("|---|" + "---:|" * (options.most + 1))
    for name, curve in curves.items():
        cells = " | ".join(f"{value:.2f} s ({count})" for count, value in curve.items())
        print(f"| {name} | {cells} | {exponent(curve):.2f} |")
    if options.figure:
        draw(curves, options.figure)


def timed(run: Callable[[int], object], sizes: list[int], options: argparse.Namespace) -> Curve:
    """The median seconds of each size, after a run that does not count."""
    found = {}
    for size in sizes[: options.most]:
        times = []
        for _ in range(1 + options.repeats):
            start = time.perf_counter()
            run(size)
            times.append(time.perf_counter() - start)
        found[size] = median(times[1:])
    return found


def exponent(curve: Curve) -> float:
    """Of the last step: by which power of the size the time grows."""
    (a, first), (b, second) = list(curve.items())[-2:]
    return float(np.log(second / first) / np.log(b / a))


def of_images(count: int) -> None:
    rv.evaluate(network(10), f"scenes-easy:{count}", ["clean", "fog"], severity=3, examples=0)


def of_classes(count: int) -> None:
    labels = np.arange(400) % count
    images = torch.randint(0, 256, (400, 3, 32, 32), dtype=torch.uint8)
    data = [(as_image(image), int(label)) for image, label in zip(images, labels, strict=True)]
    rv.evaluate(network(count), data, ["clean", "fog"], severity=3, examples=0)


def network(classes: int) -> torch.nn.Module:
    model: torch.nn.Module = rv.create_model("fan_vit_nano", num_classes=classes).eval()
    return model


def of_tokens(count: int) -> None:
    side = 16 * round(count**0.5)
    with torch.inference_mode():
        TINY(torch.zeros(4, 3, side, side))


def of_pixels(count: int) -> None:
    side = round(count**0.5)
    image = torch.randint(0, 256, (3, side, side), dtype=torch.uint8)
    for name in corruption_names("common15"):
        rv.corrupt(image, name, severity=3, seed=0)


TINY = rv.create_model("fan_vit_tiny").eval()


def draw(curves: Mapping[str, Curve], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, 2, figsize=(9, 7), layout="constrained")
    for axis, (name, curve) in zip(axes.flat, curves.items(), strict=True):
        sizes, values = np.array(list(curve)), np.array(list(curve.values()))
        axis.loglog(sizes, values, marker="o", label=f"measured, exponent {exponent(curve):.2f}")
        axis.loglog(sizes, values[-1] * sizes / sizes[-1], linestyle=":", color="grey", label="linear")
        axis.set(xlabel=name, ylabel="seconds")
        axis.legend()
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main()
