"""Depth, width and heads of a network, as the tables of papers give them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

from torch import nn

from robustvit.recording.tape import attention_blocks, has_attention

__all__ = ["BlockShape", "block_shapes"]


@dataclass(frozen=True)
class BlockShape:
    """Neighbouring blocks of one shape.

    Attributes:
        blocks: how many.
        width: channels of their tokens.
        heads: of their attention.
    """

    blocks: int
    width: int
    heads: int


def block_shapes(network: nn.Module) -> tuple[BlockShape, ...]:
    """The blocks with attention among tokens, from input to output; empty for a network without. Class attention is none."""
    if not has_attention(network):
        return ()
    shapes = [(block.attn.qkv.in_features, block.attn.num_heads) for block in attention_blocks(network)]
    return tuple(BlockShape(len(list(same)), *shape) for shape, same in groupby(shapes))
