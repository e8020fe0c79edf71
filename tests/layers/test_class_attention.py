"""FAN's class attention as released: the class token attends, patch tokens change pointwise."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from robustvit.layers.class_attention import ClassAttentionBlock


@pytest.fixture
def block(shake) -> ClassAttentionBlock:
    return shake(ClassAttentionBlock(12, 3))


@pytest.fixture
def x() -> Tensor:
    return torch.randn(2, 10, 12)


@torch.no_grad()
def test_forward_patches_is_the_patch_part_of_forward(block: ClassAttentionBlock, x: Tensor) -> None:
    torch.testing.assert_close(block.forward_patches(x[:, 1:]), block(x)[:, 1:])


@torch.no_grad()
def test_patches_alone_need_no_class_attention(block: ClassAttentionBlock, x: Tensor) -> None:
    expected = block(x)[:, 1:]
    block.keep_patches_only()
    torch.testing.assert_close(block.forward_patches(x[:, 1:]), expected)
    assert not any(name.startswith(("attn", "mlp", "gamma2")) for name in block.state_dict())


@torch.no_grad()
def test_patch_tokens_leave_doubled_and_do_not_see_each_other(block: ClassAttentionBlock, x: Tensor) -> None:
    t = x[:, 1:] + block.gamma1 * block.norm1(x[:, 1:])
    torch.testing.assert_close(block(x)[:, 1:], 2 * block.norm2(t))


@torch.no_grad()
def test_the_class_token_is_the_formula(block: ClassAttentionBlock, x: Tensor) -> None:
    y = block.norm1(x)
    q, k, v = block.attn.q(y[:, :1]), block.attn.k(y), block.attn.v(y)
    heads = []
    for h in range(3):
        part = slice(4 * h, 4 * h + 4)
        heads.append((q[..., part] @ k[..., part].transpose(1, 2) / 2).softmax(-1) @ v[..., part])
    c = block.norm2(x[:, :1] + block.gamma1 * block.attn.proj(torch.cat(heads, -1)))
    c = c + block.gamma2 * block.mlp.fc2(torch.nn.functional.gelu(block.mlp.fc1(c)))
    torch.testing.assert_close(block(x)[:, :1], c, rtol=1e-4, atol=1e-5)
