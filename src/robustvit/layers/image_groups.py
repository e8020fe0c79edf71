"""Evaluating a layer on a few images at a time, so that its widest map stays small.

Images do not influence each other in evaluation, so wide layers can take them in groups. That bounds the peak memory of a
large batch and keeps the working set near the processor. `docs/benchmarks.md` has the peak memory.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

__all__ = ["GROUP_BYTES", "in_image_groups"]

GROUP_BYTES = 6 * 2**20
"""What the widest map of one group may take."""


def in_image_groups(layer: Callable[[Tensor], Tensor], x: Tensor, *, widest: int, training: bool) -> Tensor:
    """`layer(x)`, a group of images at a time where that pays: evaluation on a CPU without gradients, not compiled or traced.

    Args:
        layer: maps [B, ...] to [B, ...]; in evaluation, every image by itself.
        x: [B, ...].
        widest: elements of the widest map of one image.
        training: whether the layer is being trained (BatchNorm then mixes the images).
    """
    group = max(1, GROUP_BYTES // (widest * x.element_size()))
    if x.shape[0] <= group or training or torch.is_grad_enabled() or x.device.type != "cpu":
        return layer(x)
    if torch.compiler.is_compiling() or torch.jit.is_tracing():
        return layer(x)
    return torch.cat([layer(images) for images in x.split(group)])
