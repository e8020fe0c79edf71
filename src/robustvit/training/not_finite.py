"""Losses and weights that are NaN or infinite: a run stops there instead of going on with nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

import torch
from torch import nn

from robustvit.training.distributed import STATISTICS

__all__ = ["NotFiniteError", "not_finite_weights"]


class NotFiniteError(RuntimeError):
    """The loss became NaN or infinite, and nothing of this update was applied; or the weights did, and they are not saved.

    Attributes:
        update: from 1.
        terms: the loss terms.
        ids: of the images in the batch, of all processes.
    """

    def __init__(self, message: str, update: int, terms: Mapping[str, float], ids: Sequence[str]) -> None:
        super().__init__(message)
        self.update, self.terms, self.ids = update, dict(terms), list(ids)


def not_finite_weights(network: nn.Module) -> list[str]:
    """Parameters, and statistics of batch norm, with a value that is no number; constant buffers may have infinite ones."""
    statistics = ((name, value) for name, value in network.named_buffers() if name.endswith(STATISTICS))
    tensors = {
        name: getattr(value, "to_local", lambda v=value: v)() for name, value in chain(network.named_parameters(), statistics)
    }
    return [name for name, value in tensors.items() if not bool(torch.isfinite(value.detach()).all())]
