"""Does a network look at the same things when the image is spoiled? (TAP Fig. 1 and 5, AFAT Fig. 4)"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from robustvit.analysis.attention_chunks import map_chunks, observe
from robustvit.analysis.batches import image_pairs
from robustvit.recording.tape import Tape

__all__ = ["Stability", "attention_cosines", "attention_stability"]

LEAST_SQUARES = 1e-30
"""Sums of squares below this are not accurate in single precision: where class tokens get all the attention, image tokens get
next to none."""
DEFINITION = (
    "cosine between the attention maps of the clean and of the corrupted image, for every block and head, prefix tokens "
    "left out; an image has the mean over blocks and heads (Swin: over windows first)"
)


def attention_cosines(clean: Tape, spoiled: Tape, pictures: int, *, rows: int | None = None) -> list[Tensor]:
    """`cos(vec A_clean[l, h], vec A_spoiled[l, h])`: per layer [B, heads], the mean over windows.

    Args:
        clean, spoiled: from `observe`, of the same images.
        pictures: B.
        rows: of the maps that exist at a time.
    """
    found = []
    for layer in range(len(clean.grids)):
        product, first, second = _sums(clean, spoiled, layer, pictures, rows, torch.float32)
        if min(first.min(), second.min()) < LEAST_SQUARES:
            product, first, second = _sums(clean, spoiled, layer, pictures, rows, torch.float64)
        cosine = product / (first.sqrt() * second.sqrt()).clamp(min=torch.finfo(product.dtype).tiny)
        found.append(cosine.mean(1).float())
    return found


def _sums(
    clean: Tape, spoiled: Tape, layer: int, pictures: int, rows: int | None, dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor]:
    """<a, b>, <a, a> and <b, b> of the maps of a layer, each [B, windows, heads]."""
    product = first = second = torch.zeros(())
    for one, other in zip(map_chunks(clean, layer, pictures, rows), map_chunks(spoiled, layer, pictures, rows), strict=True):
        a, b = ((x.cpu() if x.device.type == "mps" else x).to(dtype) for x in (one, other))  # mps has no double precision
        product = product + (a * b).sum((-1, -2))
        first, second = first + a.square().sum((-1, -2)), second + b.square().sum((-1, -2))
    return product, first, second


@dataclass(frozen=True)
class Stability:
    """What `attention_stability` found.

    Attributes:
        of_pictures: float [images], the mean over layers and heads.
        of_layers: per layer [heads], the mean over images.
    """

    of_pictures: Tensor
    of_layers: list[Tensor]

    @property
    def mean(self) -> float:
        return float(self.of_pictures.mean())

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
            cosines = attention_cosines(first, second, len(clean), rows=rows)
        of_pictures.append(torch.cat(cosines, dim=1).mean(1).cpu())
        totals = [cosine.sum(0).cpu() for cosine in cosines]
        sums = totals if not sums else [a + b for a, b in zip(sums, totals, strict=True)]
    values = torch.cat(of_pictures)
    return Stability(values, [total / len(values) for total in sums])
