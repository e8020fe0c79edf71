"""Pictures and statistics made by the published corruption programs; see reference/corruptions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional as F

from robustvit.corruptions.registry import corrupt

FOLDER = Path(__file__).parents[1] / "reference" / "corruptions"
FAMILIES = {
    "imagenet224": "imagenet",
    "cifar32": "cifar",
    "tiny64": "tiny",
    "arbitrary96x160": "arbitrary",
    "arbitrary224": "arbitrary",
}
"""Folder -> family."""
SLACK = {"psnr": 0.05, "ssim": 0.002, "frac_0": 0.002, "frac_255": 0.002}
"""Beside 4 standard errors; 0.3 for quantities in grey levels."""


@cache
def picture(folder: str, name: str = "clean") -> Tensor:
    """uint8 [1, 3, H, W]; `name` is relative to the folder, without .png."""
    array = np.array(Image.open(FOLDER / folder / f"{name}.png").convert("RGB"))
    return torch.from_numpy(array).permute(2, 0, 1)[None].contiguous()


def files(kind: str, name: str = "*") -> list[tuple[str, str, int]]:
    """(folder, corruption, severity) of every golden picture in `kind` ("deterministic" or "seeded")."""
    found = []
    for path in sorted(FOLDER.glob(f"*/{kind}/{name}_?.png")):
        corruption, _, severity = path.stem.rpartition("_")
        found.append((path.parts[-3], corruption, int(severity)))
    return found


def difference(ours: Tensor, golden: Tensor) -> tuple[int, float]:
    """(largest difference in grey levels, share of values that differ)."""
    apart = (ours.to(torch.int16) - golden.to(torch.int16)).abs()
    return int(apart.max()), float((apart > 0).double().mean())


def most_different(folder: str, name: str) -> float:
    """Share of values of a deterministic corruption, computed in float32, that may differ by 1 from the golden image."""
    limits = {"contrast": 0.0, "pixelate": 0.0, "brightness": 0.003, "saturate": 0.02, "defocus_blur": 0.001}
    return limits.get(name, 0.0001 if "224" in folder else 0.001)


def spoil(images: Tensor, name: str, severity: int, *, seed: int = 0, ids: Sequence[int] | None = None) -> Tensor:
    """With the parameters of the family of this size."""
    return corrupt(images, name, severity, seed=seed, sample_ids=ids)


def spoil_as_published(folder: str, name: str, severity: int) -> Tensor:
    """The clean picture of the folder, with the random stream of the golden ones, in double precision."""
    family: Any = FAMILIES[folder]
    return corrupt(picture(folder), name, severity, family=family, seed=1234 + severity, legacy_rng=True)


@cache
def statistics(folder: str, corruption: str, severity: int) -> dict[str, Any]:
    return json.loads((FOLDER / "random_statistics.json").read_text())[folder][corruption][str(severity)]


def measure(spoiled: Tensor, clean: Tensor) -> dict[str, Tensor]:
    """The statistics of each picture of a batch, as the reference defines them: name -> [B]."""
    y, x = spoiled.double(), clean.double().expand(spoiled.shape)
    values: dict[str, Tensor] = {}
    for i, channel in enumerate("rgb"):
        values[f"mean_{channel}"] = y[:, i].mean((1, 2))
        values[f"std_{channel}"] = y[:, i].flatten(1).std(1, correction=0)
    values["mad"] = (y - x).abs().mean((1, 2, 3))
    values["rmse"] = (y - x).square().mean((1, 2, 3)).sqrt()
    values["psnr"] = 20 * torch.log10(255 / values["rmse"])
    values["ssim"] = _ssim(y, x)
    values["absgrad_x"] = y.diff(dim=-1).abs().mean((1, 2, 3))
    values["absgrad_y"] = y.diff(dim=-2).abs().mean((1, 2, 3))
    values["frac_0"], values["frac_255"] = ((y == v).double().mean((1, 2, 3)) for v in (0, 255))
    luminance = (y * torch.tensor([0.299, 0.587, 0.114], dtype=y.dtype)[:, None, None]).sum(1).flatten(1)
    for percent in (5, 50, 95):
        values[f"lum_p{percent:02}"] = luminance.quantile(percent / 100, dim=1)
    return values


def _ssim(y: Tensor, x: Tensor) -> Tensor:
    """7x7 uniform window, unbiased (co)variances, border of 3 pixels left out, mean over pixels and channels."""

    def window(z: Tensor) -> Tensor:
        return F.avg_pool2d(z, 7, stride=1)

    mean_y, mean_x = window(y), window(x)
    unbiased = 49 / 48
    var_y, var_x = (unbiased * (window(z * z) - window(z) ** 2) for z in (y, x))
    cov = unbiased * (window(y * x) - mean_y * mean_x)
    c1, c2 = (0.01 * 255) ** 2, (0.03 * 255) ** 2
    ssim = (2 * mean_y * mean_x + c1) * (2 * cov + c2) / ((mean_y**2 + mean_x**2 + c1) * (var_y + var_x + c2))
    return ssim.mean((1, 2, 3))


def deviations(spoiled: Tensor, folder: str, corruption: str, severity: int) -> dict[str, str]:
    """The statistics of `spoiled` [draws, 3, H, W] that differ from the reference by more than the rule allows; {} is good."""
    reference = statistics(folder, corruption, severity)
    wrong = {}
    for name, ours in measure(spoiled, picture(folder)).items():
        theirs = reference[name]
        allowed = 4 * (float(ours.var()) / len(ours) + theirs["se"] ** 2) ** 0.5 + SLACK.get(name, 0.3)
        if not abs(float(ours.mean()) - theirs["mean"]) <= allowed:
            wrong[name] = f"{float(ours.mean()):.3f}, reference {theirs['mean']:.3f}, allowed {allowed:.3f}"
    return wrong
