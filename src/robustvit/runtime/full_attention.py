"""Attention in float32 within half precision: for training on the CPU, where PyTorch's fused attention has a backward pass in
half precision that takes several times as long as that in float32."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

__all__ = ["FullAttention"]


class FullAttention(TorchFunctionMode):
    """Inside, `F.scaled_dot_product_attention` of tensors in half precision computes in float32 on the CPU, and answers in
    theirs. Everything else stays as it is.

    Not for `torch.compile`. With activation checkpointing, the backward pass belongs inside, too.
    """

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        options = dict(kwargs or {})
        query = (args[0] if args else options["query"]) if func is F.scaled_dot_product_attention else None
        if query is None or query.device.type != "cpu" or query.dtype not in (torch.float16, torch.bfloat16):
            return func(*args, **options)
        with torch.autocast("cpu", enabled=False):
            answer: Tensor = func(*map(_in_full, args), **{name: _in_full(value) for name, value in options.items()})
        return answer.to(query.dtype)


def _in_full(value: Any) -> Any:
    return value.float() if isinstance(value, Tensor) and value.is_floating_point() else value
