"""The block of FAN: attention over tokens, then attention over channels."""

from __future__ import annotations

from typing import Literal

from timm.layers import Attention
from torch import Tensor, nn

from robustvit.layers.channel_attention import (
    ChannelSelfAttention,
    ChannelSqueezeExcite,
    EfficientChannelAttention,
    SoftmaxAxis,
)
from robustvit.layers.conv_mlp import ConvMlp
from robustvit.layers.residual import add_branch, drop_path
from robustvit.layers.token_grid import Grid
from robustvit.layers.token_pooling import TapBlocks, TapKind, build_token_pooling, pooled_blocks

__all__ = ["ChannelKind", "FANBlock", "fan_blocks"]

ChannelKind = Literal["eca", "ca", "se"]


class FANBlock(nn.Module):
    """`x + gamma1 * TokenMixing(LN1(TAP(x)))`, then `x + gamma2 * ChannelProcessing(LN2(x))`."""

    gamma1: nn.Parameter | None

    def __init__(
        self,
        dim: int,
        num_heads: int,
        *,
        channel: nn.Module,
        tap: nn.Module | None = None,
        drop_path_rate: float = 0.0,
        attn_drop: float = 0.0,
        proj_drop: float = 0.0,
        init_values: float = 1.0,
    ) -> None:
        super().__init__()
        self.tap = tap
        self.norm1 = nn.LayerNorm(dim, eps=1e-6)
        self.attn = Attention(dim, num_heads, qkv_bias=True, attn_drop=attn_drop, proj_drop=proj_drop)  # Eq. 1
        self.norm2 = nn.LayerNorm(dim, eps=1e-6)
        self.channel = channel
        self.gamma1 = nn.Parameter(self.norm1.weight.new_full((dim,), init_values))
        self.gamma2 = nn.Parameter(self.norm1.weight.new_full((dim,), init_values))
        self.drop_path = drop_path(drop_path_rate)

    def forward(self, x: Tensor, grid: Grid) -> Tensor:
        """[B, N, C] -> [B, N, C]."""
        z = x if self.tap is None else self.tap(x, grid)
        x = add_branch(x, self.attn(self.norm1(z)), self.gamma1, self.drop_path)
        value, gate = self.channel(self.norm2(x), grid)
        scale = self.gamma2 if gate is None else self.gamma2 * gate
        return add_branch(x, value, scale, self.drop_path)

    def fold(self) -> None:
        """Moves the first layer scale into the projection before it; the second one costs nothing beside the gate."""
        if self.gamma1 is not None:
            self.attn.proj.weight.data.mul_(self.gamma1.data[:, None])
            self.attn.proj.bias.data.mul_(self.gamma1.data)
            self.gamma1 = None


def fan_blocks(
    dims: tuple[int, ...],
    depths: tuple[int, ...],
    heads: tuple[int, ...],
    rates: list[float],
    tap: TapKind,
    tap_blocks: TapBlocks,
    *,
    channel: ChannelKind,
    channel_heads: int | None,
    channel_softmax: SoftmaxAxis,
    mlp_ratio: float,
    **options: float,
) -> nn.ModuleList:
    """The blocks of all stages.

    Args:
        dims, depths, heads: width, blocks and heads of each stage.
        rates: stochastic depth of each block.
        tap, tap_blocks: see `build_token_pooling` and `pooled_blocks`.
        channel, channel_heads, channel_softmax, mlp_ratio: see `FAN`.
        options: attn_drop, proj_drop and init_values of `FANBlock`.
    """
    tapped = pooled_blocks(tap, tap_blocks, sum(depths))
    blocks = nn.ModuleList()
    for stage, depth in enumerate(depths):
        dim, num_heads = dims[stage], heads[stage]
        for i in range(len(blocks), len(blocks) + depth):
            mlp = ConvMlp(dim, hidden_dim=int(dim * mlp_ratio), drop=options["proj_drop"])
            attending = channel_heads or num_heads
            mixer = _build_channel(channel, dim, attending, mlp, options["attn_drop"], channel_softmax)
            pooling = build_token_pooling(dim, tap) if i in tapped else None
            blocks.append(FANBlock(dim, num_heads, channel=mixer, tap=pooling, drop_path_rate=rates[i], **options))
    return blocks


def _build_channel(kind: ChannelKind, dim: int, heads: int, mlp: ConvMlp, attn_drop: float, softmax: SoftmaxAxis) -> nn.Module:
    if kind == "eca":
        return EfficientChannelAttention(dim, num_heads=heads, mlp=mlp, attn_drop=attn_drop)
    if kind == "ca":
        return ChannelSelfAttention(dim, num_heads=heads, mlp=mlp, attn_drop=attn_drop, softmax=softmax)
    if kind == "se":
        return ChannelSqueezeExcite(dim, mlp=mlp)
    raise ValueError(f"channel={kind!r} is not known; choose 'eca' (Eq. 7), 'ca' (Eq. 6) or 'se'")
