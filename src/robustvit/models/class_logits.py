"""What a classifier returns: logits [B, K], plain or as Hugging Face's networks wrap them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

__all__ = ["class_logits"]


def class_logits(output: Any, network: object, count: int) -> Tensor:
    """The logits in what a network returned.

    Args:
        output: a tensor [B, K], or an object or dictionary that has one as `logits`.
        network: for the message.
        count: B.

    Raises:
        ValueError: it is anything else.
    """
    found = output.get("logits") if isinstance(output, Mapping) else getattr(output, "logits", output)
    if isinstance(found, Tensor) and found.ndim == 2 and len(found) == count:
        return found
    raise ValueError(
        f"{type(network).__name__} is no classifier that can be measured: for {count} images it returned "
        f"{_described(output)}; expected logits [{count}, K], or an object or dictionary that has them as `logits`"
    )


def _described(output: Any) -> str:
    if isinstance(output, Tensor):
        return f"a tensor {list(output.shape)}"
    if isinstance(output, Mapping):
        return f"a {type(output).__name__} of {', '.join(map(str, list(output)[:6])) or 'nothing'}"
    if isinstance(output, Sequence) and not isinstance(output, str):
        return f"a {type(output).__name__} of {len(output)}: " + ", ".join(_described(part) for part in output[:4])
    return f"a {type(output).__name__}"
