"""Folding what is constant at inference into the layers around it."""

from __future__ import annotations

from copy import deepcopy
from typing import TypeVar

from torch import nn

from robustvit.layers.linear import quicken

__all__ = ["fuse"]

Network = TypeVar("Network", bound=nn.Module)


def fuse(model: Network) -> Network:
    """A copy of `model` for inference, with BatchNorm and layer scale folded into convolutions and linear layers.

    Same outputs to rounding. What stays in FAN: the second layer scale, which only multiplies the gate of each channel; the
    layer scales of the class attention; the BatchNorm between GELU and the second depth-wise convolution, because zero padding
    comes after it. The copy is in evaluation mode, cannot be trained further, and has a state dict of its own. The linear
    layers of any network are `robustvit.layers.linear.Linear` in it.

    Args:
        model: one of our networks, with or without TAP, or a timm network with TAP; of others, nothing is folded.
    """
    fused = deepcopy(model).eval()
    quicken(fused)
    for module in list(fused.modules()):
        fold = getattr(module, "fold", None)
        if callable(fold):
            fold()
    return fused.requires_grad_(False)
