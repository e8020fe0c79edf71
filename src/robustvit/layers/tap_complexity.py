"""What TAP adds to self-attention, in multiply-adds: Eqs. i to iii of the supplement of TAP and ADL.

The equations count the averages and the weighted sum as `K H W C` each. `TokenPooling` mixes small grids by one matrix an
image instead, which costs more multiply-adds and less time.
"""

from __future__ import annotations

__all__ = ["attention_complexity", "tap_attention_complexity", "tap_complexity"]


def attention_complexity(H: int, W: int, C: int) -> int:
    """`4 H W C^2 + 2 (H W)^2 C`: projections of q, k, v and of the output; `q k^T` and its product with v (Eq. i).

    Args:
        H, W: of the grid of tokens.
        C: channels.
    """
    return 4 * H * W * C**2 + 2 * (H * W) ** 2 * C


def tap_complexity(H: int, W: int, C: int, K: int) -> int:
    """`11 H W C K + 9 H W K^2`: the dilation predictor (9 H W C K + 9 H W K^2), averages and their weighted sum (Eq. ii).

    Args:
        H, W, C: as of `attention_complexity`.
        K: branches.
    """
    return 11 * H * W * C * K + 9 * H * W * K**2


def tap_attention_complexity(H: int, W: int, C: int, K: int) -> int:
    """The sum of both (Eq. iii)."""
    return tap_complexity(H, W, C, K) + attention_complexity(H, W, C)
