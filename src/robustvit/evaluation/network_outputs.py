"""What a network computes, as a few numbers: the number of heads, say, is neither in its weights nor in its `repr`."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from robustvit.runtime.evaluation_mode import evaluation_mode
from robustvit.runtime.fingerprint import numbers_part
from robustvit.tasks.base import Task

__all__ = ["outputs_part"]

MOST = 16
"""Outputs that are noted, evenly spread."""


def outputs_part(networks: Sequence[tuple[Task, nn.Module, tuple[int, int]]]) -> str:
    """The outputs of networks for a generated image, as a part of a fingerprint.

    They are compared with a tolerance (see `runtime.fingerprint.is_same`), as last bits depend on the number of threads.

    Args:
        networks: each with its task before it, and the (H, W) of its input after it.
    """
    return numbers_part([_outputs(*asked) for asked in networks])


def _outputs(task: Task, network: nn.Module, size: tuple[int, int]) -> list[float]:
    parameter = next(network.parameters(), torch.zeros(()))
    with evaluation_mode(network):
        picture = _image(size).to(device=parameter.device, dtype=parameter.dtype)
        numbers = task.numbers(network, picture).double().cpu()
    places = torch.linspace(0, len(numbers) - 1, min(MOST, len(numbers))).round().long()
    return [float(value) for value in numbers[places]] if len(numbers) else [math.nan]


def _image(size: tuple[int, int]) -> Tensor:
    """[1, 3, H, W] in 0 .. 1, of integers alone: the same everywhere, without symmetry, of another mean in each channel."""
    H, W = size
    c, i, j = torch.meshgrid(torch.arange(3), torch.arange(H), torch.arange(W), indexing="ij")
    waves = (i * (c + 3) * 7 + j * (5 - c) * 11 + i * j) % 97
    coarse = (8 * i // H * 31 + 8 * j // W * 17 + 5 * c) % 23
    return ((c + 1) * (waves.float() / 96 + coarse.float() / 22) / 6)[None]
