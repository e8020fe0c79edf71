"""Pillow against torchvision's decoders: images per second from files in memory, and whether they give the same bytes.

    python benchmarks/decoding.py
    python benchmarks/decoding.py --images FOLDER --repeats 9

One core, and a process that keeps its memory, as all commands do. Pillow's side is `read_image`, which every image of a user
goes through, with the copy into a tensor; the other side is `torchvision.io.decode_image` in mode RGB. Both give uint8
[3, H, W]. "for 224 px" is the whole way to an input: published numbers were made with Pillow's resizing, for which what
torchvision decodes is copied into an image of Pillow. Without a folder, generated scenes are encoded at several sizes, as JPEG
with and without subsampled colours, and as PNG.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

from robustvit.runtime.kept_memory import keep_memory

keep_memory()

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torchvision.io import ImageReadMode, decode_image

from measuring import Step, medians
from robustvit.data.protocols import Protocol
from robustvit.data.scenes.dataset import scenes_batch
from robustvit.runtime.image_files import read_image

SIZES = {(32, 32): 256, (375, 500): 32, (1024, 2048): 4}
"""(H, W) -> images: of CIFAR, of ImageNet, of Cityscapes."""
INPUT = Protocol("imagenet-c", (224, 224), short_side=256)
KINDS: dict[str, dict[str, Any]] = {
    "JPEG 4:2:0": {"format": "JPEG", "quality": 90, "subsampling": "4:2:0"},
    "JPEG 4:4:4": {"format": "JPEG", "quality": 90, "subsampling": "4:4:4"},
    "PNG": {"format": "PNG"},
}


def by_pillow(content: bytes) -> Tensor:
    return torch.from_numpy(np.array(read_image(content, ignore_orientation=True))).permute(2, 0, 1).contiguous()


def by_torchvision(content: bytes) -> Tensor:
    found: Tensor = decode_image(torch.frombuffer(bytearray(content), dtype=torch.uint8), ImageReadMode.RGB)
    return found


def generated() -> Iterator[tuple[str, list[bytes]]]:
    """Kind and size, and the files."""
    for (H, W), count in SIZES.items():
        side = min(H, 256)  # scenes are drawn small, and repeated
        images = scenes_batch(0, range(count), side).images.repeat(1, 1, -(-H // side), -(-W // side))[..., :H, :W]
        for kind, how in KINDS.items():
            yield f"{kind}, {W}x{H}", [encoded(image, how) for image in images]


def encoded(image: Tensor, how: dict[str, Any]) -> bytes:
    """uint8 [3, H, W] as a file."""
    file = BytesIO()
    Image.fromarray(image.permute(1, 2, 0).numpy()).save(file, **how)
    return file.getvalue()


def all_of(decode: Callable[[bytes], Tensor], files: Sequence[bytes]) -> Step:
    def run() -> None:
        for content in files:
            decode(content)

    return run


def ready(content: bytes, decode: Callable[[bytes], Tensor] | None) -> Tensor:
    """An input of 224 pixels, from Pillow's image or from what another decoder gives."""
    image = (
        read_image(content, ignore_orientation=True)
        if decode is None
        else Image.fromarray(decode(content).permute(1, 2, 0).numpy())
    )
    return INPUT.apply(image)


def compare(files: Sequence[bytes], repeats: int) -> str:
    """The cells of a row."""
    steps = {
        "Pillow": all_of(by_pillow, files),
        "torchvision": all_of(by_torchvision, files),
        "Pillow's input": all_of(partial(ready, decode=None), files),
        "torchvision's input": all_of(partial(ready, decode=by_torchvision), files),
    }
    times = medians(steps, repeats)
    distances = [int((by_pillow(content).int() - by_torchvision(content).int()).abs().max()) for content in files]
    rates = " | ".join(f"{len(files) / times[name]:.0f}" for name in ("Pillow", "torchvision"))
    ratio, whole = (times[f"Pillow{what}"] / times[f"torchvision{what}"] for what in ("", "'s input"))
    return f"{rates} | {ratio:.2f} | {whole:.2f} | {distances.count(0)} of {len(files)} | {max(distances)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=Path, help="a folder with images of your own, instead of generated ones")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    groups = generated()
    if options.images:
        paths = sorted(path for path in options.images.rglob("*") if path.suffix.lower() in (".jpg", ".jpeg", ".png"))
        if not paths:
            parser.error(f"{options.images} has no JPEG or PNG files")
        groups = iter([(str(options.images.name), [path.read_bytes() for path in paths])])
    print("| files | Pillow, images/s | torchvision, images/s | ratio | for 224 px, ratio | same bytes | furthest level |")
    print("|---|" + "---:|" * 6)
    for name, files in groups:
        print(f"| {name} | {compare(files, options.repeats)} |", flush=True)


if __name__ == "__main__":
    main()
