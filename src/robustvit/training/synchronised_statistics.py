"""Batch norms with one set of statistics over all processes, for networks that are trained with few images in each."""

from __future__ import annotations

import torch
from timm.layers import convert_sync_batchnorm
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from robustvit.layers.token_pooling import TokenPooling
from robustvit.training.config import LoopConfig
from robustvit.training.config_io import ConfigError

__all__ = ["check_synchronisation", "synchronise_statistics"]


def check_synchronisation(loop: LoopConfig, world: int, device: torch.device) -> None:
    """Raises ConfigError where the processes of a run cannot share statistics: PyTorch does it between GPUs alone."""
    if loop.sync_batchnorm and world > 1 and device.type != "cuda":
        raise ConfigError(
            f"loop.sync_batchnorm=true needs a GPU for each process, and this run has {world} on {device.type}; give "
            "loop.sync_batchnorm=false (each process then has its own statistics), or start one process"
        )


def synchronise_statistics(network: nn.Module) -> None:
    """Makes the batch norms inside a network synchronised ones, in place, except for those that predict the branches of TAP.

    These stay as they are, as in the published training of segmenters: their statistics are those of one process. timm's
    conversion, unlike PyTorch's, keeps the activation that some of its batch norms contain.
    """
    for name, module in network.named_children():
        if isinstance(module, _BatchNorm):
            setattr(network, name, convert_sync_batchnorm(module))
        elif not isinstance(module, TokenPooling):
            synchronise_statistics(module)
