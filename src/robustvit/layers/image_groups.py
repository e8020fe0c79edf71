"""Evaluating a layer on a few images at a time, so that its widest map stays small.

Images do not influence each other in evaluation, so wide layers can take them in groups. That bounds the peak memory of a
large batch and keeps the working set near the processor. `docs/benchmarks.md` has the peak memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

__all__ = ["GROUP_BYTES", "in_image_groups"]

GROUP_BYTES = 7 * 2**20
"""What the widest map of one group may take."""
MOST_COMPILED_GROUPS = 6
"""torch.compile writes every group out, so that many groups would take it minutes."""


def in_image_groups(module: nn.Module, run: Callable[[Tensor], Tensor], x: Tensor, *, widest: int) -> Tensor:
    """`run(x)`, a group of images at a time where that pays: evaluation on a CPU without gradients, not exported or traced.

    Nobody can tell the difference: while hooks wait anywhere inside `module`, they get the whole batch.

    Args:
        module: whose computation it is.
        run: maps [B, ...] to [B, ...]; in evaluation, every image by itself.
        x: [B, ...].
        widest: elements of the widest map of one image.
    """
    groups = math.ceil(x.shape[0] * widest * x.element_size() / GROUP_BYTES)
    if groups < 2 or module.training or torch.is_grad_enabled() or x.device.type != "cpu":
        return run(x)
    if torch.compiler.is_exporting() or torch.jit.is_tracing() or _has_hooks(module):
        return run(x)
    if torch.compiler.is_compiling():
        return torch.cat([_run_compiled(run, images) for images in x.chunk(min(groups, MOST_COMPILED_GROUPS))])
    return torch.cat([run(images) for images in x.chunk(groups)])


@torch.compiler.nested_compile_region
def _run_compiled(run: Callable[[Tensor], Tensor], images: Tensor) -> Tensor:
    """A region that torch.compile can compile once for groups of equal size."""
    return run(images)


def _has_hooks(module: nn.Module) -> bool:
    return any(m._forward_hooks or m._forward_pre_hooks for m in module.modules())
