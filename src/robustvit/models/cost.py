"""What an image costs: the multiply-adds of a network, which papers call FLOPs.

Counted by PyTorch's `FlopCounterMode`, which knows matrix products, convolutions and fused attention, and counts two
operations for a multiply-add; norms, activations and sums are left out. On the meta device nothing is computed.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from robustvit.models.heads.token_head import has_token_head
from robustvit.runtime.evaluation_mode import evaluation_mode

__all__ = ["multiply_adds"]


def multiply_adds(network: nn.Module, size: tuple[int, int, int]) -> int:
    """Of one image through a classifier, with the token head where it has one.

    Args:
        network: on any device; "meta" is the fastest.
        size: (channels, height, width) of the image.
    """
    parameter = next(network.parameters())
    image = torch.zeros(1, *size, dtype=parameter.dtype, device=parameter.device)
    answer = network.forward_tokens if has_token_head(network) else network
    # evaluation mode is without gradients; inference mode would hide products from the counter
    with evaluation_mode(network), FlopCounterMode(display=False) as counter:
        answer(image)  # type: ignore[operator]
    return counter.get_total_flops() // 2
