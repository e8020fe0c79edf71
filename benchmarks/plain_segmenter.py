"""A FAN-Hybrid with SegFormer's head and inference by sliding windows, written down formula by formula as `plain.py` is.

As in the released procedure, windows go through the network one by one, the class token is appended and attended to although
nothing reads it, attention is explicit, all levels are enlarged and joined before the head's wide product, and every window's
logits are enlarged, added and divided by how often a pixel was seen. It shares no code with the package.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from plain import (
    FAN_HEADS,
    Scope,
    Weights,
    class_attention_block,
    fan_block,
    fourier_position,
    hybrid_stages,
    to_map,
    to_tokens,
)


def enlarged(x: Tensor, size: tuple[int, int]) -> Tensor:
    return F.interpolate(x, size, mode="bilinear", align_corners=False)


def levels(weights: Weights, x: Tensor, heads: int, block: int | None = None) -> list[Tensor]:
    """The four maps of a hybrid; level 2 is the output of `block`, by default of the last one."""
    s = Scope(weights) / "backbone"
    maps = hybrid_stages(s / "patch_embed" / "backbone", x)
    z = (s / "patch_embed" / "proj").conv(maps[-1], stride=2)
    grid = (z.shape[2], z.shape[3])
    x = to_tokens(z) + fourier_position(s / "pos_embed", grid, paired=False)
    depth = s.count("blocks")
    for i in range(depth):
        x = fan_block(s / "blocks" / i, x, grid, heads)
        if i == (depth - 1 if block is None else block):
            maps.append(to_map(x, grid))
    x = torch.cat([s["cls_token"].expand(x.shape[0], -1, -1), x], 1)
    for i in range(s.count("cls_attn_blocks")):
        x = class_attention_block(s / "cls_attn_blocks" / i, x, heads)
    return [*maps, to_map(x[:, 1:], grid)]


def segformer(weights: Weights, maps: list[Tensor]) -> Tensor:
    """Logits [B, K, H/4, W/4]."""
    s = Scope(weights) / "decode_head"
    grids = [(x.shape[2], x.shape[3]) for x in maps]
    wide = [
        enlarged(to_map((s / f"linear_c{i + 1}" / "proj").linear(to_tokens(x)), grids[i]), grids[0])
        for i, x in enumerate(maps)
    ]
    x = (s / "linear_fuse" / "conv").conv(torch.cat(wide[::-1], 1))
    return (s / "linear_pred").conv((s / "linear_fuse" / "bn").batch_norm(x).relu())


def logits(published_name: str, weights: Weights, x: Tensor) -> Tensor:
    """Normalised [B, 3, H, W] -> [B, K, H, W]."""
    heads = FAN_HEADS[published_name]
    assert isinstance(heads, int)
    return enlarged(segformer(weights, levels(weights, x, heads)), (x.shape[2], x.shape[3]))


def slide(published_name: str, weights: Weights, x: Tensor, window: int, stride: int) -> Tensor:
    """Label maps [B, H, W] of normalised images [B, 3, H, W]."""
    B, _, H, W = x.shape
    rows = max(H - window + stride - 1, 0) // stride + 1
    columns = max(W - window + stride - 1, 0) // stride + 1
    total, seen = torch.zeros(()), torch.zeros(B, 1, H, W)
    for i in range(rows):
        for j in range(columns):
            bottom, right = min(i * stride + window, H), min(j * stride + window, W)
            top, left = max(bottom - window, 0), max(right - window, 0)
            part = logits(published_name, weights, x[:, :, top:bottom, left:right])
            total = total + F.pad(part, (left, W - right, top, H - bottom))
            seen[:, :, top:bottom, left:right] += 1
    return enlarged(total / seen, (H, W)).softmax(1).argmax(1)
