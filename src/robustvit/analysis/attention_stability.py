"""Does a network look at the same things when the image is spoiled? (TAP Fig. 1 and 5, AFAT Fig. 4)"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from robustvit.analysis.attention_chunks import map_chunks, observe, tokens_per_window
from robustvit.analysis.batches import image_pairs
from robustvit.recording.tape import Tape

__all__ = ["Stability", "attention_cosines", "attention_stability"]

LEAST_SQUARES = 1e-30
"""Sums of squares below this are not accurate in single precision: where class tokens get all the attention, image tokens get
next to none."""
FLAT = 1e-10
"""Share of the sum of squares of a map below which what is left without the means of its rows is rounding."""
DEFINITION = (
    "cosine between the attention maps of the clean and of the corrupted image, for every block and head, prefix tokens "
    "left out; an image has the mean over blocks and heads (Swin: over windows first); centred: the same after the mean of "
    "each row is taken from it, so that what is alike because it is even does not count; 0 where a map is even"
)


def attention_cosines(
    clean: Tape, spoiled: Tape, pictures: int, *, rows: int | None = None, centred: bool = False
) -> list[Tensor]:
    """`cos(vec A_clean[l, h], vec A_spoiled[l, h])`: per layer [B, heads], the mean over windows.

    Args:
        clean, spoiled: from `observe`, of the same images.
        pictures: B.
        rows: of the maps that exist at a time.
        centred: without the mean of each row, see `DEFINITION`.
    """
    return [found[0] for found in _cosines(clean, spoiled, pictures, rows, (centred,))]


def _cosines(clean: Tape, spoiled: Tape, pictures: int, rows: int | None, kinds: Sequence[bool]) -> list[Tensor]:
    """Per layer [kinds, B, heads]; `kinds` says of each whether it is centred."""
    found = []
    for layer in range(len(clean.grids)):
        sums = _sums(clean, spoiled, layer, pictures, rows, torch.float32)
        if sums[0, 1:].min() < LEAST_SQUARES:
            sums = _sums(clean, spoiled, layer, pictures, rows, torch.float64)
        cosines = []
        for is_centred in kinds:
            product, first, second = sums[int(is_centred)]
            lengths = (first.clamp(min=0).sqrt() * second.clamp(min=0).sqrt()).clamp(min=torch.finfo(product.dtype).tiny)
            is_flat = torch.minimum(first / sums[0, 1], second / sums[0, 2]) < FLAT
            cosines.append((product / lengths).masked_fill(is_flat & is_centred, 0.0).mean(1))
        found.append(torch.stack(cosines).float())
    return found


def _sums(clean: Tape, spoiled: Tape, layer: int, pictures: int, rows: int | None, dtype: torch.dtype) -> Tensor:
    """<a, b>, <a, a> and <b, b> of the maps of a layer, as they are and centred: [2, 3, B, windows, heads]."""
    total = torch.zeros(())
    for one, other in zip(map_chunks(clean, layer, pictures, rows), map_chunks(spoiled, layer, pictures, rows), strict=True):
        a, b = ((x.cpu() if x.device.type == "mps" else x).to(dtype) for x in (one, other))  # mps has no double precision
        tokens = tokens_per_window(clean, layer).to(a)[:, None, None, None]  # W 1 1 1
        mean_a, mean_b = (x.sum(-1, keepdim=True) / tokens.clamp(min=1) for x in (a, b))  # B W h R 1
        padding = a.shape[-1] - tokens  # each of which the centred rows have -mean in
        raw = [(x * y).sum((-1, -2)) for x, y in ((a, b), (a, a), (b, b))]
        pairs = ((a, mean_a, b, mean_b), (a, mean_a, a, mean_a), (b, mean_b, b, mean_b))
        centred = [((x - p) * (y - q)).sum((-1, -2)) - (padding * p * q).sum((-1, -2)) for x, p, y, q in pairs]
        total = total + torch.stack([torch.stack(raw), torch.stack(centred)])
    return total


@dataclass(frozen=True)
class Stability:
    """What `attention_stability` found.

    Attributes:
        of_pictures: float [images], the mean over layers and heads.
        of_layers: per layer [heads], the mean over images.
        centred_of_pictures, centred_of_layers: the same without the means of the rows.
    """

    of_pictures: Tensor
    of_layers: list[Tensor]
    centred_of_pictures: Tensor
    centred_of_layers: list[Tensor]

    @property
    def mean(self) -> float:
        return float(self.of_pictures.mean())

    @property
    def centred(self) -> float:
        return float(self.centred_of_pictures.mean())

    @property
    def worst(self) -> float:
        """The mean of the worst 5 % of the images, rounded up."""
        count = math.ceil(0.05 * len(self.of_pictures))
        return float(self.of_pictures.sort().values[:count].mean())


def attention_stability(model: nn.Module, pairs: Iterable[tuple[Tensor, Tensor]], *, rows: int | None = None) -> Stability:
    """Attention stability over a dataset, in constant memory.

    Args:
        model: a network with attention; evaluated as it is, and left so.
        pairs: (clean, spoiled) images [B, 3, H, W], normalised: one pair of batches, or many.
        rows: see `attention_cosines`.

    Raises:
        ValueError: there are no images.
    """
    of_pictures: list[Tensor] = []
    sums: list[Tensor] = []
    for clean, spoiled in image_pairs(pairs):
        with observe(model) as first:
            model(clean)
        with observe(model) as second:
            model(spoiled)
        with torch.no_grad():
            cosines = _cosines(first, second, len(clean), rows, (False, True))  # per layer 2 B heads
        of_pictures.append(torch.cat(cosines, dim=2).mean(2).cpu())
        totals = [cosine.sum(1).cpu() for cosine in cosines]
        sums = totals if not sums else [a + b for a, b in zip(sums, totals, strict=True)]
    values = torch.cat(of_pictures, dim=1)  # 2 images
    layers = [total / values.shape[1] for total in sums]
    return Stability(values[0], [layer[0] for layer in layers], values[1], [layer[1] for layer in layers])
