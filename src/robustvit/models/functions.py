"""Models that robustvit did not build: any function from images to answers, as a network.

    predict(images: list of uint8 [3, H, W]) -> [B, K] logits or probabilities      a classifier
    predict(images: list of uint8 [3, H, W]) -> list of integer [H, W] label maps   a segmenter

The function resizes, normalises and chooses its device itself. Its answers are checked by the task.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

__all__ = ["FunctionNetwork", "Predict", "as_network", "own_protocol"]

Predict = Callable[[list[Tensor]], Any]
SUM_TOLERANCE = 1e-3
"""Of the sum of probabilities, which may come in half precision."""


class FunctionNetwork(nn.Module):
    """A function of the contract above, in the place of a network.

    Args:
        function: from a list of uint8 [3, H, W] to answers.
    """

    has_own_precision = True

    def __init__(self, function: Predict) -> None:
        super().__init__()
        self.function = function
        # pixels reach `forward` in 0 .. 1: what else happens to them is the function's business
        self.pretrained_cfg = {"architecture": _name(function), "mean": (0.0, 0.0, 0.0), "std": (1.0, 1.0, 1.0)}

    def ask(self, images: Tensor) -> Any:
        """What the function answers to uint8 [B, 3, H, W], or to values in 0 .. 1; arrays come as tensors."""
        if images.is_floating_point():
            images = (images * 255).round_().clamp_(0, 255).to(torch.uint8)
        answer = self.function(list(images.cpu()))
        return torch.from_numpy(answer) if isinstance(answer, np.ndarray) else answer

    def forward(self, inputs: Tensor) -> Any:
        """Values in 0 .. 1 [B, 3, H, W] -> the answer; probabilities [B, K] as logits, which have them as their softmax."""
        answer = self.ask(inputs)
        return _logits(answer) if isinstance(answer, Tensor) and answer.ndim == 2 else answer

    def extra_repr(self) -> str:
        return str(self.pretrained_cfg["architecture"])


def as_network(model: Any) -> nn.Module:
    """A network as it is, a function as a `FunctionNetwork`.

    Raises:
        TypeError: it is neither.
    """
    if isinstance(model, nn.Module):
        return model
    if callable(model):
        return FunctionNetwork(model)
    raise TypeError(f"a {type(model).__name__} is no model; give a network, or a function from a list of images to answers")


def own_protocol(network: nn.Module, size: tuple[int, int] | None, protocol: str = "model") -> str:
    """`protocol`; but a function gets images as they are in place of "model", unless a size is asked for.

    Args:
        network: to be asked.
        size: (H, W) of the input, if somebody gave one.
        protocol: of `PROTOCOLS`.
    """
    return "native" if protocol == "model" and size is None and isinstance(network, FunctionNetwork) else protocol


def _logits(answer: Tensor) -> Tensor:
    values = answer.float()
    total = values.sum(-1)
    are_shares = bool((values >= 0).all()) and bool(((total - 1).abs() <= SUM_TOLERANCE).all())
    return values.clamp_min(torch.finfo(torch.float32).tiny).log() if are_shares else values


def _name(function: Predict) -> str:
    return getattr(function, "__name__", None) or type(function).__name__
