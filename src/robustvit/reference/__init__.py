"""Reference weights: made from the names of the tensors, so that a network can be checked without any checkpoint.

The reference logits are what the authors' implementation of a published network gives for these weights and a reference input.
Agreement shows that ours computes the same function and reads the published names. The weights are not trained.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources

import numpy as np
import torch
from torch import Tensor

__all__ = ["NETWORK", "Reference", "fill_weights", "load_reference"]

NETWORK = "fan_tiny_12_p16_224"
"""The published network whose reference values come with the package."""

_NOT_FILLED = ("num_batches_tracked", "relative_position_index", "attn_mask")


@dataclass(frozen=True)
class Reference:
    """Reference values of a published network.

    Args:
        published_name: as `robustvit.from_official` takes it.
        parameters: their number.
        input_size: (H, W) of the reference input.
        logits: [2, 8], the first 8 logits of the 2 reference images.
        entries: name -> shape of every tensor of a published checkpoint, without counters.
    """

    published_name: str
    parameters: int
    input_size: tuple[int, int]
    logits: Tensor
    entries: Mapping[str, Sequence[int]]

    def weights(self) -> dict[str, Tensor]:
        """The reference weights, with published names."""
        return fill_weights(self.entries)


def load_reference() -> Reference:
    """The reference values of `NETWORK`."""
    values = json.loads(resources.files(__name__).joinpath(f"{NETWORK}.json").read_text())
    values |= {"input_size": tuple(values["input_size"]), "logits": torch.tensor(values["logits"])}
    return Reference(**values)


def fill_weights(entries: Mapping[str, Sequence[int]]) -> dict[str, Tensor]:
    """Weights that depend on nothing but the names and shapes of the tensors.

    With x drawn from a standard normal by NumPy's legacy generator (its stream is frozen), seeded by the CRC-32 of the name:

    - `x / sqrt(prod(shape[1:]))` for weights of 2 or more dimensions,
    - `1 + 0.1 x` for weights of 1 dimension, `gamma...` and `temperature`,
    - `1 + 0.1 |x|` for `running_var`,
    - `0.1 x` for everything else: biases, `running_mean`, class tokens, position tables, masks.

    Counters, index tables and Swin's `attn_mask` are not weights and are left out.

    Args:
        entries: name -> shape.

    Returns:
        name -> float32 tensor.
    """
    return {
        name: torch.from_numpy(_fill(name, tuple(shape))) for name, shape in entries.items() if not name.endswith(_NOT_FILLED)
    }


def _fill(name: str, shape: tuple[int, ...]) -> np.ndarray:
    x = np.random.RandomState(zlib.crc32(name.encode())).standard_normal(size=shape).astype("float32")
    last = name.rpartition(".")[2]
    if name.endswith("weight") and len(shape) >= 2:
        x = x / math.sqrt(math.prod(shape[1:]))
    elif (name.endswith("weight") and len(shape) == 1) or last.startswith("gamma") or last == "temperature":
        x = 1 + 0.1 * x
    elif name.endswith("running_var"):
        x = 1 + 0.1 * np.abs(x)
    else:
        x = 0.1 * x
    return x.astype("float32")
