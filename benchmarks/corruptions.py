"""Speed of our corruptions against the package `imagecorruptions` 1.1.2, one thread, the same pictures and parameters.

    pip install 'robustvit[benchmark]'
    python benchmarks/corruptions.py                        all 19 at 224x224 and 512x1024, severities 1, 3 and 5
    python benchmarks/corruptions.py --names fog snow --sizes 224x224 --severities 5 --repeats 9

Times are CPU milliseconds a picture, so that waiting for a core does not count; the median of the repeats, in which the two
sides take turns, and the process keeps its memory, as all commands do. Both get the same pictures and keep what they make:
ours as one batch of 32, or as many as have 8 million pixels; theirs, which know no batches, one by one, as many of them as
they do in a second (at least one). Both do `arbitrary`, the rules for any size. What newer releases of its dependencies broke
in `imagecorruptions` is mended in memory.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

from robustvit.runtime.kept_memory import keep_memory

keep_memory()

import numpy as np
import torch
from torch import Tensor

from robustvit.corruptions.registry import CORRUPTIONS, corrupt

BATCH, PIXELS = 32, 2**23
LONG = 1.0
"""Seconds: as many pictures as fit in are given to the other side in each repeat."""

Theirs = Callable[[np.ndarray, str, int], np.ndarray]


def published() -> Theirs:
    """`imagecorruptions.corrupt`, made to run with the installed NumPy, scikit-image and setuptools."""
    try:
        importlib.import_module("skimage.filters")
        _mend()
        package = importlib.import_module("imagecorruptions")
        importlib.import_module("cv2").setNumThreads(1)
    except ImportError as error:
        sys.exit(f"{error}. To compare, install the other side: pip install imagecorruptions==1.1.2")

    def run(picture: np.ndarray, name: str, severity: int) -> np.ndarray:
        return package.corrupt(picture, corruption_name=name, severity=severity)

    return run


def _mend() -> None:
    """Names that are gone: `pkg_resources`, `numpy.float_`, and `multichannel` in scikit-image."""

    def resource_filename(module: str, name: str) -> str:
        return str(Path(str(sys.modules[module].__file__)).parent / name)

    resources = types.ModuleType("pkg_resources")
    resources.resource_filename = resource_filename  # type: ignore[attr-defined]
    sys.modules.setdefault("pkg_resources", resources)
    if not hasattr(np, "float_"):
        np.float_ = np.float64  # type: ignore[attr-defined]
    filters: Any = importlib.import_module("skimage.filters")
    gaussian = filters.gaussian

    def with_multichannel(image: np.ndarray, *args: object, multichannel: bool = False, **options: object) -> np.ndarray:
        return gaussian(image, *args, channel_axis=-1 if multichannel else None, **options)

    filters.gaussian = with_multichannel


def smooth_images(count: int, H: int, W: int) -> Tensor:
    """uint8 [count, 3, H, W]: noise on all scales, as in photographs, with dark and with saturated areas."""
    generator = torch.Generator().manual_seed(0)
    total = torch.zeros(count, 3, H, W)
    for scale in (2, 8, 32, 128):
        coarse = torch.randn(count, 3, -(-H // scale) + 1, -(-W // scale) + 1, generator=generator) * scale**0.5
        total += torch.nn.functional.interpolate(coarse, (H, W), mode="bilinear")
    return (128 + 10 * total).clamp(0, 255).to(torch.uint8)


def seconds(run: Callable[[], object]) -> float:
    """CPU time of a call, with what it returns still in memory."""
    start = time.process_time()
    kept = run()
    taken = time.process_time() - start
    del kept
    return taken


def compare(name: str, severity: int, pictures: Tensor, theirs: Theirs, repeats: int) -> tuple[float, float]:
    """Milliseconds a picture: ours, theirs."""
    arrays = [np.ascontiguousarray(picture.permute(1, 2, 0).numpy()) for picture in pictures]
    corrupt(pictures[:1], name, severity, family="arbitrary")  # tables and textures are made once
    other = seconds(lambda: theirs(arrays[0], name, severity))
    arrays = arrays[: max(1, int(LONG / other))]
    ours, others = [], [other] if other >= LONG else []
    for _ in range(repeats):
        ours.append(seconds(lambda: corrupt(pictures, name, severity, family="arbitrary")) / len(pictures))
        if other < LONG:
            others.append(seconds(lambda: [theirs(array, name, severity) for array in arrays]) / len(arrays))
    return 1000 * median(ours), 1000 * median(others)


def report(size: str, names: list[str], severities: list[int], theirs: Theirs, repeats: int) -> None:
    H, W = (int(side) for side in size.split("x"))
    batch = max(1, min(BATCH, PIXELS // (H * W)))
    pictures = smooth_images(batch, H, W)
    print(f"\n{size}, milliseconds a picture (ours in a batch of {batch}, theirs one by one), severities {severities}")
    print(f"{'':18}" + "".join(f"{f'ours {s}':>9}{f'theirs {s}':>10}{'ratio':>8}" for s in severities) + f"{'mean ratio':>12}")
    means, ratios = [], []
    for name in names:
        cells = [compare(name, severity, pictures, theirs, repeats) for severity in severities]
        ratio = [other / ours for ours, other in cells]
        means.append(geometric_mean(ratio))
        ratios += [(value, name, severity) for value, severity in zip(ratio, severities, strict=True)]
        columns = "".join(f"{ours:9.2f}{other:10.2f}{other / ours:8.2f}" for ours, other in cells)
        print(f"{name:18}{columns}{means[-1]:12.2f}", flush=True)
    least, name, severity = min(ratios)
    smallest, its_name = min(zip(means, names, strict=True))
    print(
        f"geometric mean {geometric_mean(means):.1f}; smallest mean {smallest:.2f} ({its_name}), "
        f"smallest of all {least:.2f} ({name}, severity {severity})"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", nargs="+", default=["224x224", "512x1024"], metavar="HxW")
    parser.add_argument("--names", nargs="+", default=list(CORRUPTIONS), choices=list(CORRUPTIONS))
    parser.add_argument("--severities", nargs="+", type=int, default=[1, 3, 5], choices=range(1, 6))
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    theirs = published()
    for size in options.sizes:
        report(size, options.names, options.severities, theirs, options.repeats)


if __name__ == "__main__":
    main()
