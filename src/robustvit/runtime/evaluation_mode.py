"""A network in evaluation mode for a while, and then as it was."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import torch
from torch import nn

__all__ = ["evaluation_mode"]


@contextmanager
def evaluation_mode(network: nn.Module, *, gradients: bool = False) -> Iterator[None]:
    """No stochastic depth, fixed batch statistics and no gradients inside; each module has its own mode back afterwards.

    Args:
        network: to be asked.
        gradients: leave gradients as they are, as attacks need them.
    """
    modes = [(module, module.training) for module in network.modules()]
    network.eval()
    try:
        with nullcontext() if gradients else torch.no_grad():
            yield
    finally:
        for module, training in modes:
            module.training = training
