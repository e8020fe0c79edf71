"""Speed of our corruptions against the package `imagecorruptions` 1.1.2, one thread, the same pictures and parameters.

    pip install 'robustvit[benchmark]'
    python benchmarks/corruptions.py                        all 19 at 224x224 and 512x1024, severities 1, 3 and 5
    python benchmarks/corruptions.py --names fog snow --sizes 224x224 --severities 5 --repeats 9

Times are CPU milliseconds a picture, so that waiting for a core does not count. Ours are of batches of 32 through
`robustvit.corruptions.corrupt`, the smallest of the repeats. Theirs, which know no batches, are of one picture: the smallest
of the repeats, or of a single call where that takes more than a second. Both do `arbitrary`, the rules for any size. The two
sides take turns. What newer releases of its dependencies broke in `imagecorruptions` is mended in memory.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import numpy as np
import torch
from torch import Tensor

from robustvit.corruptions.registry import CORRUPTIONS, corrupt

BATCH = 32
LONG = 1.0
"""Seconds from which on one call of theirs is enough."""

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


def smooth_pictures(count: int, H: int, W: int) -> Tensor:
    """uint8 [count, 3, H, W]: noise on all scales, as in photographs, with dark and with saturated areas."""
    generator = torch.Generator().manual_seed(0)
    total = torch.zeros(count, 3, H, W)
    for scale in (2, 8, 32, 128):
        coarse = torch.randn(count, 3, -(-H // scale) + 1, -(-W // scale) + 1, generator=generator) * scale**0.5
        total += torch.nn.functional.interpolate(coarse, (H, W), mode="bilinear")
    return (128 + 10 * total).clamp(0, 255).to(torch.uint8)


def seconds(run: Callable[[], object], repeats: int) -> float:
    """The least CPU time of some calls."""
    least = float("inf")
    for _ in range(repeats):
        start = time.process_time()
        run()
        least = min(least, time.process_time() - start)
        if least > LONG:
            break
    return least


def compare(name: str, severity: int, pictures: Tensor, theirs: Theirs, repeats: int) -> tuple[float, float]:
    """Milliseconds a picture: ours, theirs."""
    one = np.ascontiguousarray(pictures[0].permute(1, 2, 0).numpy())
    few = pictures[:1]
    corrupt(few, name, severity, family="arbitrary")  # tables are made once
    ours, other = float("inf"), float("inf")
    for _ in range(repeats):
        ours = min(ours, seconds(lambda: corrupt(pictures, name, severity, family="arbitrary"), 1) / len(pictures))
        if other < LONG or other == float("inf"):
            other = min(other, seconds(lambda: theirs(one, name, severity), 3))
    return 1000 * ours, 1000 * other


def report(size: str, names: list[str], severities: list[int], theirs: Theirs, repeats: int) -> None:
    H, W = (int(side) for side in size.split("x"))
    pictures = smooth_pictures(BATCH, H, W)
    print(f"\n{size}, milliseconds a picture (ours in a batch of {BATCH}, theirs alone), severities {severities}")
    print(f"{'':18}" + "".join(f"{f'ours {s}':>9}{f'theirs {s}':>10}{'ratio':>8}" for s in severities) + f"{'mean ratio':>12}")
    means, ratios = [], []
    for name in names:
        cells = [compare(name, severity, pictures, theirs, repeats) for severity in severities]
        ratio = [other / ours for ours, other in cells]
        means.append(geometric_mean(ratio))
        ratios += [(value, name, severity) for value, severity in zip(ratio, severities, strict=True)]
        columns = "".join(f"{ours:9.2f}{other:10.1f}{other / ours:8.1f}" for ours, other in cells)
        print(f"{name:18}{columns}{means[-1]:12.1f}", flush=True)
    least, name, severity = min(ratios)
    print(f"geometric mean {geometric_mean(means):.1f}; smallest {least:.1f} ({name}, severity {severity})")


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
