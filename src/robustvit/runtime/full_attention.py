"""Attention in float32 within half precision: for training on the CPU, where PyTorch's fused attention has a backward pass in
half precision that takes several times as long as that in float32."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

__all__ = ["full_attention"]


@contextmanager
def full_attention() -> Iterator[None]:
    """Inside, `F.scaled_dot_product_attention` of tensors in half precision computes in float32 on the CPU, and answers in
    theirs. Everything else stays as it is.

    The function of PyTorch is replaced for a while: activation checkpointing calls it in the backward pass, too, where modes
    of PyTorch are off. Not for `torch.compile`.
    """
    own = F.scaled_dot_product_attention

    @wraps(own)
    def attend(query: Tensor, *args: Any, **options: Any) -> Tensor:
        if query.device.type != "cpu" or query.dtype not in (torch.float16, torch.bfloat16):
            return own(query, *args, **options)
        with torch.autocast("cpu", enabled=False):
            given = {name: _in_full(value) for name, value in options.items()}
            return own(query.float(), *map(_in_full, args), **given).to(query.dtype)

    F.scaled_dot_product_attention = attend
    try:
        yield
    finally:
        F.scaled_dot_product_attention = own


def _in_full(value: Any) -> Any:
    return value.float() if isinstance(value, Tensor) and value.is_floating_point() else value
