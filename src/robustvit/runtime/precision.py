"""In which precision networks compute: float32, or half precision by autocast, which leaves their parameters alone.

Imports torch only where it needs it: the command line reads the names from here before.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, wraps
from statistics import median
from typing import TYPE_CHECKING, Any, Literal, get_args

if TYPE_CHECKING:
    import torch
    from torch import nn

__all__ = ["PRECISIONS", "Precision", "answering_in", "chosen_precision", "dtype_of", "half_precision_gain"]

Precision = Literal["fp32", "bf16", "fp16", "auto"]
PRECISIONS = get_args(Precision)
WORTH = 1.2
"""How many times as fast bfloat16 products must be for "auto" to take them; processors that only emulate it are slower."""
REPEATS = 5
CALLED = ("forward", "forward_tokens")
"""Methods of a network that its users call, besides those of its own `called_besides_forward`."""


def dtype_of(precision: str) -> torch.dtype:
    """The type of numbers of "fp32", "bf16" or "fp16"."""
    import torch

    return {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[precision]


def chosen_precision(asked: Precision, device: torch.device | str) -> Precision:
    """ "fp32", "bf16" or "fp16": what was asked for, or for "auto" bf16 where `device` computes in it, and fp32 elsewhere.

    Raises:
        ValueError: there is no such precision.
    """
    if asked not in PRECISIONS:
        raise ValueError(f"precision={asked!r} is not known; choose one of {', '.join(PRECISIONS)}")
    if asked != "auto":
        return asked
    return "bf16" if half_precision_gain(str(device)) >= WORTH else "fp32"


@cache
def half_precision_gain(device: str) -> float:
    """How many times as fast a device multiplies matrices in bfloat16 as in float32, measured now, in less than a second; 0
    where it does not."""
    import torch

    def seconds(dtype: torch.dtype) -> float:
        a, b = torch.ones(3136, 384, dtype=dtype, device=device), torch.ones(384, 768, dtype=dtype, device=device)
        times = []
        for _ in range(1 + REPEATS):
            start = time.perf_counter()
            (a @ b)[0, 0].item()  # waits for the device
            times.append(time.perf_counter() - start)
        return median(times[1:])

    try:
        return seconds(torch.float32) / seconds(torch.bfloat16)
    except (RuntimeError, TypeError):
        return 0.0


@contextmanager
def answering_in(precision: str, network: nn.Module) -> Iterator[None]:
    """Whoever calls the network inside gets answers that were computed in `precision`, as float32.

    Only what the network computes is under autocast, in its own calls: images are made, corrupted and attacked in full
    precision, in whatever thread. Gradients pass.

    Args:
        precision: "fp32", which changes nothing, "bf16" or "fp16".
        network: left as it was.
    """
    if precision == "fp32":
        yield
        return
    called = (*CALLED, *getattr(network, "called_besides_forward", ()))
    names = [name for name in called if callable(getattr(network, name, None))]
    before = {name: vars(network)[name] for name in names if name in vars(network)}
    for name in names:
        setattr(network, name, _in_half(getattr(network, name), network, dtype_of(precision)))
    try:
        yield
    finally:
        for name in names:
            if name in before:
                setattr(network, name, before[name])
            else:
                delattr(network, name)


def _in_half(method: Callable[..., Any], network: nn.Module, half: torch.dtype) -> Callable[..., Any]:
    """A method of a network under autocast, with answers in float32."""
    import torch

    from robustvit.runtime.nested import map_tensors

    @wraps(method)
    def answer(*arguments: Any, **options: Any) -> Any:
        device = next(network.parameters(), torch.zeros(())).device
        with torch.autocast(device.type, half):
            found = method(*arguments, **options)
        return map_tensors(found, lambda tensor: tensor.float() if tensor.dtype == half else tensor)

    return answer
