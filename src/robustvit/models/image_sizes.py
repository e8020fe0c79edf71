"""Image sizes of networks: those that are built for one take `img_size`; those that take any, as CNNs do, are not told."""

from __future__ import annotations

import inspect
from typing import Any

import timm
import torch
from torch import nn

__all__ = ["takes_any_size", "takes_option"]

_WRAPPING = ("img_size", "features_only", "out_indices", "feature_cls", "checkpoint_path", "device")
"""Arguments that do not change whose class it is; a wrapper around the features would hide it."""


def takes_option(network: nn.Module, option: str) -> bool:
    """Whether the class of a network has an argument, also one that it hands on to the class it is derived from."""
    for cls in type(network).__mro__:
        if "__init__" not in vars(cls):
            continue
        parameters = inspect.signature(vars(cls)["__init__"]).parameters
        if option in parameters:
            return True
        if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
            return False
    return False


def takes_any_size(name: str, size: tuple[int, int], options: dict[str, Any]) -> bool:
    """Whether a timm network is not built for a size; it is tried out on the meta device, which costs next to nothing.

    Args:
        name: as timm takes it.
        size: (H, W) that it has to take.
        options: of `timm.create_model`.

    Raises:
        ValueError: it is not built for a size, and cannot take this one.
    """
    with torch.device("meta"):
        network = timm.create_model(name, **{key: value for key, value in options.items() if key not in _WRAPPING})
    if takes_option(network, "img_size"):
        return False
    try:
        network.eval()(torch.empty(1, options.get("in_chans", 3), *size, device="meta"))
    except NotImplementedError:  # an operation that the meta device does not have tells nothing
        return True
    except (RuntimeError, ValueError, AssertionError, IndexError) as error:
        default = "x".join(map(str, network.pretrained_cfg["input_size"][1:]))
        raise ValueError(f"{name} cannot take images of {size[0]}x{size[1]} pixels; it was made for {default}") from error
    return True
