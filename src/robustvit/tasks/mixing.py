"""How the images of a batch are mixed with each other: in parts, each with itself reversed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from torch import Tensor

from robustvit.runtime.nested import concatenate, map_tensors

__all__ = ["Mix", "MixedPart", "mix_parts"]


@dataclass(frozen=True)
class Mix:
    """How B images were mixed with themselves reversed: image i has the share `lam` of itself, the rest is image B-1-i.

    Attributes:
        lam: share of the own image, corrected to the area of the box.
        box: (top, bottom, left, right) in pixels of the pasted box; None for mixup.
    """

    lam: float
    box: tuple[int, int, int, int] | None = None


@dataclass(frozen=True)
class MixedPart:
    """Images of a batch, one after the other, that are mixed among themselves.

    Attributes:
        count: of these images.
        mix: how; None for not at all.
    """

    count: int
    mix: Mix | None


def mix_parts(parts: Sequence[MixedPart], values: Any, mix_one: Callable[[Any, Mix | None], Any]) -> Any:
    """What `mix_one(values, mix)` returns for each part, put together again.

    Args:
        parts: of the batch, in order; none for a batch that is not mixed.
        values: tensors [B, ...] in lists, tuples and dictionaries.
        mix_one: mixes the values of one part; values without mixing go through it, too.
    """
    if len(parts) < 2:
        return mix_one(values, parts[0].mix if parts else None)

    def taken(start: int, stop: int) -> Any:
        def rows(tensor: Tensor) -> Tensor:
            return tensor[start:stop]

        return map_tensors(values, rows)

    stops = accumulate(part.count for part in parts)
    return concatenate([mix_one(taken(stop - part.count, stop), part.mix) for stop, part in zip(stops, parts, strict=True)])
