"""Reading images between their pixels, to the last bit alike on every processor.

Positions are whole fractions of a pixel and images lie on a canvas whose sides are powers of two: then every number on the
way, from the position on the scale -1 .. 1 to the weighted sum of four pixels, is exact in float32, however it is computed.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from robustvit.corruptions.filters import Border, fill_margins

__all__ = ["read_between"]


def read_between(maps: Tensor, sources: Tensor, unit: int, *, border: Border) -> Tensor:
    """Bilinear interpolation.

    Args:
        maps: float32 [C, H, W], whole multiples of a power of two, in b bits such that b + 2 log2(unit) <= 24.
        sources: [2, h, w]: x and y in 1 / unit pixels, whole numbers of float32; overwritten.
        unit: a power of two.
        border: what lies outside.

    Returns:
        [C, h, w].
    """
    C, H, W = maps.shape
    extremes = torch.stack([sources.flatten(1).amin(1), sources.flatten(1).amax(1)]).div_(unit).floor_().int().tolist()
    (left, top), (right, bottom) = extremes
    margin = max(0, -left, -top, right + 2 - W, bottom + 2 - H)
    sides = [1 << (n + 2 * margin - 1).bit_length() for n in (W, H)]
    canvas = torch.empty(C, sides[1], sides[0], dtype=torch.float32, device=maps.device)
    used = canvas[:, : H + 2 * margin, : W + 2 * margin]
    used[:, margin : margin + H, margin : margin + W] = maps
    fill_margins(used[:, margin : margin + H], 2, margin, border)
    fill_margins(used, 1, margin, border)
    for positions, side in zip(sources, sides, strict=True):  # -1 and 1 are the outer edges of the canvas
        positions.mul_(2 / (unit * side)).add_((2 * margin + 1) / side - 1)
    grid = sources.permute(1, 2, 0)[None]
    return F.grid_sample(canvas[None], grid, padding_mode="zeros", align_corners=False)[0]
