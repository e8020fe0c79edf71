"""The deterministic weights and inputs of the reference values, by published name."""

from __future__ import annotations

import gzip
import json
import math
from functools import cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from robustvit.reference import fill_weights

FOLDER = Path(__file__).parent / "reference"
OUTPUTS: dict[str, dict] = json.loads((FOLDER / "outputs.json").read_text())
STATE_DICTS: dict[str, dict] = json.loads(gzip.decompress((FOLDER / "state_dicts.json.gz").read_bytes()))
SHIFT, WINDOW = 3, 7


def split_entry(entry: str) -> tuple[str, str]:
    """`name[@HxW][#variant]` -> (name, variant)."""
    name, _, variant = entry.partition("#")
    return name.partition("@")[0], variant


def reference_input(H: int, W: int, batch: int = 2) -> Tensor:
    """The first images of the deterministic input [2, 3, H, W]."""
    images = np.random.RandomState(0).standard_normal(size=(2, 3, H, W)).astype("float32")
    return torch.from_numpy(images)[:batch]


def fill(name: str, shape: list[int], variant: str = "") -> Tensor:
    """The value of the entry `name` of a published state dict."""
    last = name.rpartition(".")[2]
    if last == "num_batches_tracked":
        return torch.tensor(0)
    if last == "relative_position_index":
        return relative_position_index()
    if last == "attn_mask":
        return shift_mask(shape[0])
    value = fill_weights({name: shape})[name]
    if variant == "sharp" and name.endswith(("mlp.q.weight", "norm2.weight")):
        return 8 * value
    if variant == "strongmask" and last == "att_mask":
        return 40 * value  # 4 x in place of 0.1 x
    return value


def relative_position_index() -> Tensor:
    """[49, 49] of Swin: the entry of the table of biases for each pair of positions in a window."""
    rows, columns = (a.flatten() for a in torch.meshgrid(torch.arange(WINDOW), torch.arange(WINDOW), indexing="ij"))
    down, right = (a[:, None] - a[None] + WINDOW - 1 for a in (rows, columns))
    return down * (2 * WINDOW - 1) + right


def shift_mask(windows: int) -> Tensor:
    """[windows, 49, 49] of Swin: -100 between positions that only the cyclic shift made neighbours."""
    side = math.isqrt(windows) * WINDOW
    band = torch.bucketize(torch.arange(side), torch.tensor([side - WINDOW, side - SHIFT]), right=True)
    region = 3 * band[:, None] + band[None]
    region = region.unfold(0, WINDOW, WINDOW).unfold(1, WINDOW, WINDOW).reshape(windows, -1)
    return -100.0 * (region[:, :, None] != region[:, None, :])


def published_weights(name: str, variant: str = "") -> dict[str, Tensor]:
    """The filled state dict of the published network `name`. The tensors may be shared between calls: do not change them."""
    made = _small_weights if STATE_DICTS[name]["params"] < 12e6 else _weights
    return dict(made(name, variant))


def _weights(name: str, variant: str) -> dict[str, Tensor]:
    return {key: fill(key, shape, variant) for key, shape in STATE_DICTS[name]["keys"].items()}


_small_weights = cache(_weights)


def meta_weights(name: str) -> dict[str, Tensor]:
    """Names and shapes of the published network `name` without values."""
    return {key: torch.empty(shape, device="meta") for key, shape in STATE_DICTS[name]["keys"].items()}
