"""How a branch joins the residual stream: layer scale, stochastic depth and its rules over the depth of a network."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from timm.layers import DropPath, calculate_drop_path_rates
from torch import Tensor, nn

__all__ = ["DropPathRule", "add_branch", "drop_path", "drop_path_rates"]

DropPathRule = Literal["constant", "linear", "rvt"]


def drop_path_rates(rate: float, depth: int, rule: DropPathRule) -> list[float]:
    """The stochastic-depth rate of each of `depth` blocks, counted over all stages.

    Args:
        rate: largest rate, in [0, 1).
        depth: number of blocks.
        rule: `constant` gives every block the same rate (published FAN); `linear` rises from 0 to `rate` (timm, Swin);
            `rvt` is `rate * k / depth`, which never reaches `rate` (published RVT).
    """
    if rule not in get_args(DropPathRule):
        raise ValueError(f"drop_path_rule={rule!r} is not known; choose one of {', '.join(get_args(DropPathRule))}")
    if not 0 <= rate < 1:
        raise ValueError(f"drop_path_rate={rate} must lie in [0, 1): it is the probability of skipping a branch")
    if rule == "constant":
        return [rate] * depth
    if rule == "linear":
        return calculate_drop_path_rates(rate, depth)
    return [rate * k / depth for k in range(depth)]


def drop_path(rate: float) -> nn.Module:
    """Per-sample stochastic depth that divides survivors by the keep probability; nothing at all for rate 0."""
    return DropPath(rate) if rate > 0 else nn.Identity()


def add_branch(x: Tensor, branch: Tensor, gamma: Tensor | None, drop: nn.Module) -> Tensor:
    """`x + drop(gamma * branch)`, in one pass over memory when nothing is dropped.

    Args:
        x: [..., C] residual stream.
        branch: [..., C] what the branch computed.
        gamma: [C] layer scale or [B, 1, C] gate, or None where there is nothing to scale.
        drop: stochastic depth or dropout; an `Identity` never drops.
    """
    if gamma is None:
        return x + drop(branch)
    if isinstance(drop, nn.Identity) or not drop.training:
        return torch.addcmul(x, branch, gamma)
    return x + drop(gamma * branch)
