"""Batch norms that keep their running statistics in training, for batches that are too small to have their own."""

from __future__ import annotations

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from robustvit.tasks.base import Task
from robustvit.training.config import LoopConfig

__all__ = ["freeze_statistics", "is_freezing"]

FEWEST = 4
"""Images of which "auto" lets one process take statistics."""


def is_freezing(loop: LoopConfig, task: Task, world: int) -> bool:
    """Whether a run freezes the statistics.

    The published dense networks are trained with one image per GPU and statistics over all GPUs; a single process has no
    others to ask.
    """
    if loop.freeze_batchnorm != "auto":
        return loop.freeze_batchnorm
    return task.is_dense and world == 1 and loop.batch_size // loop.accumulate < FEWEST


def freeze_statistics(network: nn.Module) -> int:
    """Puts the batch norms of a network in training mode into evaluation mode; their scales and biases are still trained.

    Returns:
        How many there are.
    """
    norms = [module for module in network.modules() if isinstance(module, _BatchNorm)]
    for module in norms:
        module.eval()
    return len(norms)
