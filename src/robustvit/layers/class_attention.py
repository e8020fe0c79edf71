"""The class-attention blocks at the end of FAN: the class token gathers what the patch tokens know."""

from __future__ import annotations

from functools import partial

import torch
from timm.layers import Mlp
from timm.models.cait import ClassAttn
from torch import Tensor, nn

__all__ = ["ClassAttentionBlock"]


class ClassAttentionBlock(nn.Module):
    """Class attention as FAN released it (the paper says CaiT; patch tokens are altered here as well).

    Only the class token attends and goes through the MLP. A patch token is changed pointwise, and leaves doubled because the
    second residual starts from the normalised value: `t <- 2 * LN2(t + gamma1 * LN1(t))`. The class logits cannot see the
    doubling; whatever reads patch tokens here can.
    """

    def __init__(
        self,
        dim: int,
        num_heads: int,
        *,
        mlp_ratio: float = 4.0,
        proj_drop: float = 0.0,
        attn_drop: float = 0.0,
        init_values: float = 1.0,
    ) -> None:
        super().__init__()
        norm = partial(nn.LayerNorm, eps=1e-6)
        self.norm1 = norm(dim)
        self.attn: nn.Module = ClassAttn(dim, num_heads, qkv_bias=True, attn_drop=attn_drop, proj_drop=proj_drop)
        self.norm2 = norm(dim)
        self.mlp: nn.Module = Mlp(dim, int(dim * mlp_ratio), drop=proj_drop)
        self.gamma1 = nn.Parameter(self.norm1.weight.new_full((dim,), init_values))
        self.gamma2 = nn.Parameter(self.norm1.weight.new_full((dim,), init_values))

    def keep_patches_only(self) -> None:
        """Drops what only the class token uses; `forward_patches` still works."""
        self.attn = self.mlp = nn.Identity()
        del self.gamma2

    def forward(self, x: Tensor) -> Tensor:
        """[B, 1 + N, C], class token first."""
        y = self.norm1(x)
        x = x + self.gamma1 * torch.cat((self.attn(y), y[:, 1:]), dim=1)
        x = self.norm2(x)
        cls, patches = x[:, :1], x[:, 1:]
        cls = torch.addcmul(cls, self.mlp(cls), self.gamma2)
        return torch.cat((cls, 2 * patches), dim=1)

    def forward_patches(self, t: Tensor) -> Tensor:
        """The patch tokens [B, N, C] alone: what a dense head needs, without the class attention."""
        t = torch.addcmul(t, self.norm1(t), self.gamma1)
        return 2 * self.norm2(t)
