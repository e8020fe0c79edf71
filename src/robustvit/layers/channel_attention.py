"""FAN's channel branch: which channels count, decided by attention over the tokens.

Three forms share one MLP and one call, `(tokens, grid) -> (value, gate)`: what the branch says, [B, N, C], and how much each
channel of it counts, [B, 1, C] or None. Whoever adds the branch to the stream multiplies, in the same pass:
`EfficientChannelAttention` (Eq. 7, the default), `ChannelSelfAttention` (Eq. 6, "SA" in Table 6) and
`ChannelSqueezeExcite` (the SE variant).
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from robustvit.layers.conv_mlp import ConvMlp
from robustvit.layers.token_grid import Grid

__all__ = ["ChannelSelfAttention", "ChannelSqueezeExcite", "EfficientChannelAttention", "SoftmaxAxis"]

SoftmaxAxis = Literal["key", "query"]


class EfficientChannelAttention(nn.Module):
    """One gate per channel, from how its query agrees with a prototype of its head (FAN Eq. 7, as released).

    The released network differs from Eq. 7: no division by sqrt(n); the softmax over tokens follows the query
    projection; the prototype averages per-channel softmaxes inside each head; a learned temperature per head multiplies after
    the sigmoid. `query.bias` cannot change the result (the softmax cancels it) and exists for the checkpoints.
    """

    def __init__(self, dim: int, *, num_heads: int, mlp: ConvMlp, attn_drop: float = 0.0) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.query = nn.Linear(dim, dim)
        self.temperature = nn.Parameter(self.query.weight.new_ones(num_heads, 1, 1))
        self.gate_drop = nn.Dropout(attn_drop)
        self.mlp = mlp
        self.norm = nn.LayerNorm(dim)

    def gate(self, x: Tensor) -> Tensor:
        """[B, N, C] -> [B, 1, C]: temperature * sigmoid(Q^T k)."""
        B, N, C = x.shape
        q = self.query(x).softmax(dim=1).reshape(B, N, self.num_heads, C // self.num_heads)  # B N H D, over tokens
        k = x.softmax(dim=1).reshape(B, N, self.num_heads, C // self.num_heads).mean(-1)  # B N H, the prototype of each head
        scores = (q * k.unsqueeze(-1)).sum(1)  # B N H D -> B H D
        gate = self.temperature.squeeze(-1) * scores.sigmoid()
        return self.gate_drop(gate).reshape(B, 1, C)

    def forward(self, x: Tensor, grid: Grid) -> tuple[Tensor, Tensor]:
        return self.norm(self.mlp(x, grid)), self.gate(x)


class ChannelSelfAttention(nn.Module):
    """A channel-by-channel attention matrix multiplies the MLP's output (FAN Eq. 6).

    Never released. Determined by the paper: `softmax(Q K^T / sqrt(n))` with Q = W_q z, K = W_k z over channels, no projection
    afterwards. Our reading of the rest: heads as in the block (block-diagonal), the MLP and norm of the efficient form,
    no temperature. `softmax="key"` normalises over the K channels (the last axis, as Eq. 6 implies), `"query"` over the other.
    """

    def __init__(
        self, dim: int, *, num_heads: int, mlp: ConvMlp, attn_drop: float = 0.0, softmax: SoftmaxAxis = "key"
    ) -> None:
        super().__init__()
        if softmax not in ("key", "query"):
            raise ValueError(f"channel_softmax={softmax!r} is not known; choose 'key' (Eq. 6) or 'query'")
        self.num_heads = num_heads
        self.softmax_dim = -1 if softmax == "key" else -2
        self.query = nn.Linear(dim, dim)
        self.key = nn.Linear(dim, dim)
        self.gate_drop = nn.Dropout(attn_drop)
        self.mlp = mlp
        self.norm = nn.LayerNorm(dim)

    def forward(self, x: Tensor, grid: Grid) -> tuple[Tensor, None]:
        B, N, C = x.shape

        def heads(t: Tensor) -> Tensor:  # B N C -> B H D N
            return t.reshape(B, N, self.num_heads, C // self.num_heads).permute(0, 2, 3, 1)

        q, k = heads(self.query(x)), heads(self.key(x))
        attention = (q * N**-0.5 @ k.transpose(-2, -1)).softmax(self.softmax_dim)  # B H D D
        v = heads(self.norm(self.mlp(x, grid)))
        z = self.gate_drop(attention) @ v  # B H D N
        return z.permute(0, 3, 1, 2).reshape(B, N, C), None


class ChannelSqueezeExcite(nn.Module):
    """The MLP's output, gated per channel by its own mean over the tokens."""

    def __init__(self, dim: int, *, mlp: ConvMlp) -> None:
        super().__init__()
        self.mlp = mlp
        self.reduce = nn.Linear(dim, dim // 4)
        self.expand = nn.Linear(dim // 4, dim)
        self.init_gate()

    def init_gate(self) -> None:
        """Normal weights of std sqrt(2 / out), zero bias."""
        for layer in (self.reduce, self.expand):
            nn.init.normal_(layer.weight, std=(2 / layer.out_features) ** 0.5)
            nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor, grid: Grid) -> tuple[Tensor, Tensor]:
        y = self.mlp(x, grid)
        squeezed = torch.relu(self.reduce(y.mean(dim=1, keepdim=True)))  # B N C -> B 1 C/4
        return y, self.expand(squeezed).sigmoid()
