"""How fast scenes are drawn, beside decoding pictures of the same size from memory.

    python benchmarks/scenes.py

One core. Drawing includes labels and semantic maps. PIL decodes the same scenes from PNG and JPEG (quality 90) to RGB bytes.
All take turns in one process and are compared by the median of their times.
"""

from __future__ import annotations

import argparse
from io import BytesIO

import numpy as np
import torch
from PIL import Image

from measuring import medians
from robustvit.data.scenes.dataset import scene, scenes_batch

BATCHES = {32: 512, 64: 256, 224: 32}
"""Side -> pictures drawn together."""


def encode(images: torch.Tensor, kind: str) -> list[bytes]:
    """Files in memory of images uint8 [B, 3, H, W]."""
    files = []
    for image in images:
        file = BytesIO()
        Image.fromarray(image.permute(1, 2, 0).numpy()).save(file, kind, **({"quality": 90} if kind == "JPEG" else {}))
        files.append(file.getvalue())
    return files


def decode(files: list[bytes]) -> None:
    for content in files:
        np.asarray(Image.open(BytesIO(content)).convert("RGB"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{'pixels':>8} {'drawn':>24} {'pictures/s':>11} {'of PNG decoding':>16} {'of JPEG decoding':>17}")
    for side, count in BATCHES.items():
        images = scenes_batch(0, range(count), side).images
        png, jpeg = encode(images, "PNG"), encode(images, "JPEG")
        times = medians(
            {
                f"{count} at once": lambda side=side, count=count: scenes_batch(0, range(count), side),  # type: ignore[misc]
                "one by one": lambda side=side, count=count: [scene(0, i, side) for i in range(count)],  # type: ignore[misc]
                "PNG": lambda png=png: decode(png),  # type: ignore[misc]
                "JPEG": lambda jpeg=jpeg: decode(jpeg),  # type: ignore[misc]
            },
            options.repeats,
        )
        for name in (f"{count} at once", "one by one"):
            ratios = f"{times['PNG'] / times[name]:15.2f}x {times['JPEG'] / times[name]:16.2f}x"
            print(f"{side:>8} {name:>24} {count / times[name]:11.0f} {ratios}")


if __name__ == "__main__":
    main()
