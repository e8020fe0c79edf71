"""Attention in float32 within half precision."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import robustvit as rv
from robustvit.runtime.full_attention import full_attention


def qkv(dtype: torch.dtype) -> list[Tensor]:
    return [torch.randn(2, 4, 9, 8, dtype=dtype, requires_grad=True) for _ in range(3)]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("has_bias", [True, False])
def test_attention_is_that_of_float32_rounded_once(dtype: torch.dtype, has_bias: bool) -> None:
    q, k, v = qkv(dtype)
    bias = torch.randn(4, 9, 9, dtype=dtype) if has_bias else None
    expected = F.scaled_dot_product_attention(q.float(), k.float(), v.float(), None if bias is None else bias.float())
    with torch.autocast("cpu", dtype), full_attention():
        found = F.scaled_dot_product_attention(q, k, value=v, attn_mask=bias)
    assert found.dtype == dtype
    assert torch.equal(found, expected.to(dtype))
    gradients = torch.autograd.grad(found.float().square().sum(), (q, k, v))
    assert all(gradient.dtype == dtype and gradient.isfinite().all() for gradient in gradients)


def test_masks_of_booleans_stay_masks() -> None:
    q, k, v = qkv(torch.bfloat16)
    mask = torch.rand(9, 9) > 0.3
    mask[:, 0] = True
    expected = F.scaled_dot_product_attention(q.float(), k.float(), v.float(), mask)
    with full_attention():
        assert torch.equal(F.scaled_dot_product_attention(q, k, v, attn_mask=mask), expected.bfloat16())


def test_float32_and_other_operations_stay_as_they_are() -> None:
    q, k, v = qkv(torch.float32)
    own = F.scaled_dot_product_attention
    expected = own(q, k, v)
    with full_attention():
        assert torch.equal(F.scaled_dot_product_attention(q, k, v), expected)
        assert (q.bfloat16() @ k.bfloat16().transpose(-1, -2)).dtype == torch.bfloat16
    assert F.scaled_dot_product_attention is own


@pytest.mark.parametrize("name", ["fan_vit_nano", "fan_swin_nano", "rvt_nano", "vit_nano"])
def test_networks_learn_the_same_with_and_without_checkpointing(name: str) -> None:
    images, initial = torch.randn(2, 3, 32, 32), rv.create_model(name, num_classes=3).train()

    def gradients(is_checkpointed: bool) -> list[Tensor]:
        model = copy.deepcopy(initial)
        with full_attention():
            with torch.autocast("cpu", torch.bfloat16):
                answer = checkpoint(model, images, use_reentrant=False) if is_checkpointed else model(images)
            answer.float().logsumexp(1).sum().backward()
        return [p.grad for p in model.parameters() if p.grad is not None]

    for one, other in zip(gradients(False), gradients(True), strict=True):
        torch.testing.assert_close(one, other)
