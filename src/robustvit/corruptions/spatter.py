"""Spatter: drops of water or splashes of mud on the lens.

Water shows where a smooth random field is high, and shines at the rim of the drops: the rim is found with Canny's edge
detector, the distance to it is equalised and embossed, as the published program does with 8-bit images. It is all done in
whole numbers, so that no level depends on rounding. Masks are integers with all bits set (-1) for true: on CPUs far faster
than booleans.
"""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import functional as F

from robustvit.corruptions.filters import gaussian_filter
from robustvit.corruptions.pixels import Setting, empty_bytes

__all__ = ["spatter"]

WATER = (175.0, 238.0, 238.0)
MUD = (63.0, 42.0, 20.0)
WEAK, STRONG = 50, 150
"""Gradients that an edge has everywhere, and somewhere."""
FARTHEST = 20
"""Pixels; distances to the next edge are cut here."""
STEPS = (65536, 91750, 143976)
"""Length, in 1/65536 pixels, of a step to the side, along the diagonal and like a knight in chess: 1, 1.4 and 2.1969."""
SHORT_STEPS = (263, 368, 575)
"""16-bit steps under which any two distances below `FARTHEST` compare as they do under `STEPS`."""
PIECE = 1 << 19
"""Pixels worked on at a time: a few images whose maps stay in the cache of a CPU."""


def spatter(images: Tensor, parameters: tuple[float, float, float, float, float, int], setting: Setting) -> Tensor:
    """Drops of water, or from severity 4 on splashes of mud, on the lens.

    Args:
        images: uint8 [B, 3, H, W].
        parameters: (mean, sd, blur, threshold, amount, mud): liquid is where a normal field, blurred, exceeds the threshold;
            amount is the strength of water, or the blur of mud.
        setting: randomness; asked for a normal field H x W.
    """
    mean, sd, blur, threshold, amount, mud = parameters
    H, W = images.shape[-2:]
    fields = setting.draws.normal(mean, sd, (H, W))
    result = empty_bytes(images)
    count = max(1, PIECE // (H * W)) if images.device.type == "cpu" else len(images)
    for pictures, field, out in zip(images.split(count), fields.split(count), result.split(count), strict=True):
        liquid = F.threshold(gaussian_filter(field, blur), threshold, 0)
        if mud:
            _add_mud(pictures, liquid, amount, out)
        else:
            _add_water(pictures, liquid, amount, out)
    return result


def _add_mud(images: Tensor, liquid: Tensor, blur: float, out: Tensor) -> None:
    """x (1 - M) + M mud, where M is how much of the surroundings is covered, if it is 0.8 or more."""
    cover = gaussian_filter(liquid.sign_(), blur)
    cover = F.threshold(cover, math.nextafter(0.8, 0), 0, inplace=True)
    bare = (1 - cover).float()
    for i, colour in enumerate(MUD):
        values = images[:, i].float().mul_(bare).to(cover.dtype).add_(cover * colour)
        out[:, i] = values.clamp_(0, 255).to(torch.int16)


def _add_water(images: Tensor, liquid: Tensor, amount: float, out: Tensor) -> None:
    """x + M water, where M is the depth of the liquid times its shine, at most `amount`."""
    depth = liquid.mul_(255).clamp_(max=255).to(torch.int16)
    shine = _emboss(_equalise(_distance_levels(_edges(depth))))
    shine = depth.float().mul_(shine)
    shine *= amount / shine.amax((1, 2), keepdim=True).clamp_(min=1)
    for i, colour in enumerate(WATER):
        out[:, i] = images[:, i].float().add_(shine * colour).clamp_(max=255).to(torch.int16)


def _edges(depth: Tensor) -> Tensor:
    """Canny's edges of levels 0 .. 255: int16 [B, H, W] -> mask of int16."""
    B, H, W = depth.shape
    gx, gy = _sobel(depth)
    ax, ay = gx.abs(), gy.abs()
    strength = depth.new_zeros(B, H + 2, W + 2)  # 0 outside
    m = strength[:, 1:-1, 1:-1]
    torch.add(ax, ay, out=m)
    flat, steep = _directions(ax, ay)
    rising = _negative(gx ^ gy)  # gradients of opposite sign: compare up-right and down-left
    less = strength - 1
    beside = torch.maximum(strength[:, 1:-1, :-2], less[:, 1:-1, 2:])
    above = torch.maximum(strength[:, :-2, 1:-1], less[:, 2:, 1:-1])
    rival = torch.maximum(strength[:, :-2, :-2], strength[:, 2:, 2:])
    for mask, other in ((rising, torch.maximum(strength[:, :-2, 2:], strength[:, 2:, :-2])), (steep, above), (flat, beside)):
        rival ^= other.bitwise_xor_(rival).bitwise_and_(mask)  # the other where the mask is set
    thin = _negative(rival.clamp_(min=WEAK).sub_(m))  # m > rival, m > WEAK
    return _connected(_negative(STRONG - m).bitwise_and_(thin), thin)


def _sobel(levels: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients (to the right, downwards) by 3 x 3 Sobel masks, the edge replicated."""
    rows = torch.cat([levels[:, :1], levels, levels[:, -1:]], 1)
    around = torch.cat([rows[:, :, :1], rows, rows[:, :, -1:]], 2)
    smooth = around[:, :-2] + around[:, 1:-1] + around[:, 1:-1] + around[:, 2:]
    change = around[:, 2:] - around[:, :-2]
    gy = change[..., :-2] + change[..., 1:-1] + change[..., 1:-1] + change[..., 2:]
    return smooth[..., 2:] - smooth[..., :-2], gy


def _directions(ax: Tensor, ay: Tensor) -> tuple[Tensor, Tensor]:
    """Masks: the gradient is within 22.5 degrees of horizontal; of vertical. Without meaning where there is no gradient."""
    tangent = round(math.tan(math.pi / 8) * 2**15) / 2**15
    rise = ax.float().mul_(tangent).short()  # |gx| tan 22.5: exact, never whole, rounded down
    flat = _negative((ay - rise).sub_(1))  # |gy| < |gx| tan 22.5
    steep = _negative(rise.add_(ax, alpha=2).sub_(ay))  # |gy| > |gx| tan 67.5, which is 2 + tan 22.5
    return flat, steep


def _negative(numbers: Tensor) -> Tensor:
    """Mask of where integers are below 0. Overwrites them."""
    return numbers.clamp_(-1, 0)


def _connected(seeds: Tensor, allowed: Tensor) -> Tensor:
    """What of the mask `allowed` hangs together with the mask `seeds` by sides or corners."""
    reached = seeds
    while True:
        grown = reached.clone()
        grown[:, 1:] |= reached[:, :-1]
        grown[:, :-1] |= reached[:, 1:]
        wide = grown.clone()
        wide[:, :, 1:] |= grown[:, :, :-1]
        wide[:, :, :-1] |= grown[:, :, 1:]
        wide &= allowed
        if torch.equal(wide, reached):
            return reached
        reached = wide


def _distance_levels(edges: Tensor) -> Tensor:
    """Distance to the next edge, cut at `FARTHEST`, mean of 3 x 3, whole pixels: int32 [B, H, W].

    The distance is the shortest way in sideways, diagonal and knight's steps. It is composed of ways along the eight lines in
    these directions. Images lie one after the other in one row of numbers, so that a step in any direction is a distance in
    that row; between them, and between their lines, is a margin too wide to be crossed.
    """
    B, H, W = edges.shape
    start, width = FARTHEST * (W + FARTHEST), W + FARTHEST
    row = torch.full((2 * start + B * (H + FARTHEST) * width,), FARTHEST, dtype=torch.uint8, device=edges.device)
    torch.add(edges, 1, out=_images(row, edges.shape)).mul_(FARTHEST)
    side, diagonal, knight = SHORT_STEPS
    _walk(row, 1, (1, width), start, FARTHEST)
    row = row.short().mul_(side)
    _walk(row, diagonal, (width + 1, width - 1), start, FARTHEST * side // diagonal)
    knights = (width + 2, width - 2, 2 * width + 1, 2 * width - 1)
    _walk(row, knight, knights, start, FARTHEST * side // knight)
    distance = _images(row, edges.shape)
    lengths = _lengths(row.device).index_select(0, distance.int().flatten()).view(B, H, W)
    return _sum_of_nine(lengths).div_(9).int()


def _images(row: Tensor, shape: torch.Size) -> Tensor:
    """The part of the row of numbers that is images [B, H, W]."""
    B, H, W = shape
    width = W + FARTHEST
    start = FARTHEST * width
    return row[start : start + B * (H + FARTHEST) * width].view(B, H + FARTHEST, width)[:, :H, :W]


def _walk(row: Tensor, step: int, lines: tuple[int, ...], start: int, most: int) -> None:
    """Make each number of the row the least of row[p] and row[p + k * line] + |k| * step, |k| <= most, line after line."""
    inside = row[start:-start]
    nearer = torch.empty_like(inside)
    for line in lines:
        covered = 0
        while covered < most:  # steps of doubling length
            k = min(covered + 1, most - covered)
            shift = k * line
            torch.minimum(row[start + shift : len(row) - start + shift], row[start - shift : -start - shift], out=nearer)
            torch.minimum(inside, nearer.add_(_constant(k * step, row.dtype, row.device)), out=inside)
            covered += k


@lru_cache(maxsize=64)
def _constant(value: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Small integers are added faster from a tensor than from a Python number."""
    return torch.tensor(value, dtype=dtype, device=device)


@lru_cache(maxsize=4)
def _lengths(device: torch.device) -> Tensor:
    """Pixels that a sum of `SHORT_STEPS` means."""
    table = torch.full((FARTHEST * SHORT_STEPS[0] + 1,), float(FARTHEST))
    for x in range(FARTHEST + 1):
        for y in range(x + 1):
            counts = (x - 2 * y, 0, y) if 2 * y <= x else (0, 2 * y - x, x - y)  # of side, diagonal and knight's steps
            short, length = (sum(n * step for n, step in zip(counts, steps, strict=True)) for steps in (SHORT_STEPS, STEPS))
            if short < len(table):
                table[short] = min(length / STEPS[0], FARTHEST)
    return table.to(device)


def _equalise(levels: Tensor) -> Tensor:
    """Spread levels 0 .. `FARTHEST` so that all of 0 .. 255 are equally frequent: int32 [B, H, W] -> int16."""
    B, H, W = levels.shape
    bins = FARTHEST + 1
    offset = torch.arange(0, B * bins, bins, dtype=torch.int32, device=levels.device)
    index = levels.flatten(1).add(offset[:, None]).flatten()
    counts = torch.bincount(index, minlength=B * bins).view(B, bins)
    below = counts.cumsum(1)
    lowest = below.masked_fill(below == 0, H * W).amin(1, keepdim=True)  # how many have the lowest level there is
    spread = ((below - lowest).double() * (255 / (H * W - lowest).clamp(min=1))).round_()
    constant = torch.arange(bins, device=levels.device).expand(B, bins)
    table = torch.where(lowest < H * W, spread.clamp_(min=0), constant.double()).short()
    return table.flatten().index_select(0, index).view(B, H, W)


def _emboss(levels: Tensor) -> Tensor:
    """Lit from the top left, then the rounded mean of 3 x 3: int16 0 .. 255 [B, H, W]."""
    z = _mirrored(levels)
    rise = z[:, 2:, 2:] - z[:, :-2, :-2]  # [[-2, -1, 0], [-1, 1, 1], [0, 1, 2]]
    rise = rise + rise + z[:, 1:-1, 2:] + z[:, 2:, 1:-1] + levels - z[:, 1:-1, :-2] - z[:, :-2, 1:-1]
    return _sum_of_nine(rise.clamp_(0, 255)).float().mul_(1 / 9).add_(0.5).short()


def _sum_of_nine(maps: Tensor) -> Tensor:
    """Sum over 3 x 3, mirrored at the border without repeating the edge."""
    z = _mirrored(maps)
    rows = z[:, :-2] + z[:, 1:-1]
    rows += z[:, 2:]
    total = rows[..., :-2] + rows[..., 1:-1]
    return total.add_(rows[..., 2:])


def _mirrored(maps: Tensor) -> Tensor:
    """One more row and column on each side: b | a b ... y z | y."""
    B, H, W = maps.shape
    z = maps.new_empty(B, H + 2, W + 2)
    z[:, 1:-1, 1:-1] = maps
    z[:, 0, 1:-1], z[:, -1, 1:-1] = maps[:, 1], maps[:, -2]
    z[:, :, 0], z[:, :, -1] = z[:, :, 2], z[:, :, -3]
    return z
