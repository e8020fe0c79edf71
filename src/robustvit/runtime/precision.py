"""In which precision networks compute: float32, or half precision by autocast, which leaves their parameters alone.

Imports torch only where it needs it: the command line reads the names from here before.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache, wraps
from statistics import median
from typing import TYPE_CHECKING, Any, Literal, get_args

if TYPE_CHECKING:
    import torch
    from torch import nn

    from robustvit.runtime.processes import Processes

__all__ = [
    "PRECISIONS",
    "Precision",
    "agreed_precision",
    "answering_in",
    "chosen_precision",
    "dtype_of",
    "half_precision_gain",
]

Precision = Literal["fp32", "bf16", "fp16", "auto"]
PRECISIONS = get_args(Precision)
WORTH = 1.2
"""How many times as fast bfloat16 products must be for "auto" to take them; processors that only emulate it are slower."""
REPEATS = 5
CALLED = ("forward", "forward_tokens", "forward_features", "forward_head", "forward_pyramid", "forward_rpn")
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


def agreed_precision(asked: Precision, networks: Iterable[nn.Module], processes: Processes) -> Precision:
    """`chosen_precision` for these networks, the same in all processes: a measurement may differ from one to the next.

    Raises:
        ValueError: there is no such precision, or a network is one whose precision is its own business.
    """
    import torch

    asked_of = list(networks)
    fixed = [n for n in asked_of if isinstance(n, torch.jit.ScriptModule) or getattr(n, "has_own_precision", False)]
    if fixed and asked in ("bf16", "fp16"):
        raise ValueError(
            f"precision={asked!r} is for networks, and a {type(fixed[0]).__name__} computes in what it was written for; leave "
            "the option out"
        )
    device = next((p.device for n in asked_of for p in n.parameters()), torch.device("cpu"))
    own = "fp32" if fixed and asked == "auto" else chosen_precision(asked, device)
    first: Precision = processes.gather(own)[0]
    return first


@cache
def half_precision_gain(device: str) -> float:
    """How many times as fast a device multiplies matrices in bfloat16 as in float32, measured now, in less than a second; 0
    where it does not."""
    import torch

    def seconds(dtype: torch.dtype, bound: float = float("inf")) -> float:
        """The median of some products; of fewer where the second one already takes longer than `bound`."""
        a, b = torch.ones(1024, 384, dtype=dtype, device=device), torch.ones(384, 384, dtype=dtype, device=device)
        times = []
        for _ in range(1 + REPEATS):
            start = time.perf_counter()
            (a @ b)[0, 0].item()  # waits for the device
            times.append(time.perf_counter() - start)
            if len(times) > 1 and times[-1] > bound:
                break
        return median(times[1:])

    try:
        full = seconds(torch.float32)
        return full / seconds(torch.bfloat16, 4 * full)
    except (RuntimeError, TypeError):
        return 0.0


@contextmanager
def answering_in(precision: str, network: nn.Module) -> Iterator[None]:
    """Whoever calls the network inside gets answers that were computed in `precision`, as float32.

    Only what the network computes is under autocast, in its own calls: images are made and corrupted in full precision, in
    whatever thread. Gradients pass, so that attacks see the network as it answers.

    Args:
        precision: "fp32", which changes nothing, "bf16" or "fp16".
        network: left as it was; not a traced or scripted one.
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
            vars(network).pop(name, None)
        vars(network).update(before)


def _in_half(method: Callable[..., Any], network: nn.Module, half: torch.dtype) -> Callable[..., Any]:
    """A method of a network under autocast, with answers in float32."""
    import torch

    from robustvit.runtime.nested import map_tensors

    @wraps(method)
    def answer(*arguments: Any, **options: Any) -> Any:
        device = next(network.parameters(), torch.zeros(())).device.type
        if torch.is_autocast_enabled(device):  # called by another of these methods, whose answer counts
            return method(*arguments, **options)
        with torch.autocast(device, half):
            found = method(*arguments, **options)
        return map_tensors(found, lambda tensor: tensor.float() if tensor.dtype == half else tensor)

    return answer
