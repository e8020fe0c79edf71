"""Which tokens the blocks of a network work on."""

from __future__ import annotations

from collections import Counter

from torch import nn

from robustvit.recording.tape import record
from robustvit.runtime.evaluation_mode import evaluation_mode

__all__ = ["token_grids", "token_stride"]


def token_grids(network: nn.Module, img_size: tuple[int, int]) -> list[tuple[int, int]]:
    """(Hp, Wp) of every block for images of `img_size`, from a pass of one empty image."""
    picture = next(network.parameters()).new_zeros(1, 3, *img_size)
    with evaluation_mode(network), record(network, attention=False) as tape:
        network(picture)
    return tape.grids


def token_stride(network: nn.Module, img_size: tuple[int, int]) -> int:
    """Side in pixels of the tokens that most blocks work on; of equally many, the finer. 16 for all networks of AFAT at 224.

    A pyramid (Swin) has several; its first tokens, of 4 pixels, would make 3136 patches of a 224-pixel image.

    Raises:
        ValueError: the tokens do not tile the image in squares.
    """
    counts = Counter(token_grids(network, img_size))
    rows, columns = max(counts, key=lambda grid: (counts[grid], grid))
    H, W = img_size
    if H % rows or W % columns or H // rows != W // columns:
        raise ValueError(
            f"the {rows}x{columns} tokens of this network do not tile {H}x{W} pixels in squares; give the side of the patches "
            "(patch_size) or another image size"
        )
    return H // rows
