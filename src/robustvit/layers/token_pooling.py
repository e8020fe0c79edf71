"""Token-aware average pooling (TAP) and the local aggregations it is compared with in Table 1 of its paper.

All of them sit between the residual stream and the norm of the attention branch: `x + Attn(LN1(pool(x)))`. The residual keeps
the tokens as they were.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from robustvit.layers.token_grid import Grid, map_to_tokens, tokens_to_map

__all__ = ["TapBlocks", "TapKind", "TokenPooling", "build_token_pooling", "pooled_blocks"]

TapKind = int | str
"""K for TAP, or "avg3x3", "avg5x5", "conv3x3", "conv5x5", "multi_kernelK"."""
TapBlocks = Literal["all", "shallow", "deep"] | Sequence[int]

DENSE_LIMIT = 400
"""Up to this many tokens the branches are one [N, N] matrix an image; beyond it, N * N costs more than the pooled maps."""


class TokenPooling(nn.Module):
    """Every token is a mixture of itself and of averages around it; the mixture is predicted for each token.

    Branch 0 is the token itself. Branch r = 1 .. K-1 is a 3x3 mean with dilation r (`dilated`, TAP proper) or a (2r+1)x(2r+1)
    mean (`multi_kernel`). Zero padding counts in the mean: the divisor is always the size of the window.
    """

    diagnosed_as = "tap"
    """What training calls the numbers of `diagnose` in its log."""

    def __init__(self, dim: int, branches: int = 4, *, window: Literal["dilated", "multi_kernel"] = "dilated") -> None:
        super().__init__()
        if branches < 2:
            raise ValueError(f"TAP with {branches} branches is no TAP: one branch is the identity; build none instead")
        self.branches, self.window = branches, window
        self.predictor = nn.Sequential(
            nn.Conv2d(dim, branches, 3, padding=1, bias=False),
            nn.BatchNorm2d(branches),
            nn.Conv2d(branches, branches, 3, padding=1, bias=False),
        )

    def forward(self, x: Tensor, grid: Grid) -> Tensor:
        """[B, N, C] -> [B, N, C]."""
        z = tokens_to_map(x, grid)
        weights = self.predictor(z).softmax(dim=1)  # B K Hp Wp
        if grid[0] * grid[1] <= DENSE_LIMIT:
            return self._mix_by_matrix(x, weights, grid)
        pooled = weights[:, :1] * z
        for r in range(1, self.branches):
            pooled = torch.addcmul(pooled, weights[:, r : r + 1], self._average(z, r))
        return map_to_tokens(pooled)

    @property
    def watched(self) -> nn.Module:
        """Whose output `diagnose` takes."""
        return self.predictor

    def diagnose(self, logits: Tensor) -> dict[str, float]:
        """The mean weight of each branch over images and tokens, from the predictor's [B, K, Hp, Wp]."""
        weights = logits.detach().float().softmax(dim=1).mean((0, 2, 3))
        return {f"branch_{r}": weight for r, weight in enumerate(weights.tolist())}

    def _average(self, z: Tensor, r: int) -> Tensor:
        if self.window == "multi_kernel" or r == 1:
            return F.avg_pool2d(z, 2 * r + 1, stride=1, padding=r)
        kernel = z.new_full((1, 1, 3, 3), 1 / 9).expand(z.shape[1], -1, -1, -1)
        return F.conv2d(z, kernel, padding=r, dilation=r, groups=z.shape[1])

    def _mix_by_matrix(self, x: Tensor, weights: Tensor, grid: Grid) -> Tensor:
        """The same sum as one matrix an image: `M[n] = sum_r w_r[n] P_r[n]`, with P_r the averaging matrix of branch r."""
        N = grid[0] * grid[1]
        rows, columns = (self._neighbours(n, x) for n in grid)  # K n n
        size = [(2 * r + 1) ** 2 if self.window == "multi_kernel" else 9 for r in range(1, self.branches)]
        divisor = torch.tensor([1, *size], dtype=x.dtype, device=x.device)
        average = torch.einsum("kab,kcd->kacbd", rows / divisor[:, None, None], columns)  # K Hp Wp Hp Wp
        mixture = torch.einsum("bkn,knm->bnm", weights.flatten(2), average.reshape(-1, N, N))
        return mixture @ x

    def _neighbours(self, n: int, like: Tensor) -> Tensor:
        """[K, n, n]: 1 where position j of an axis lies in the window of position i."""
        position = torch.arange(n, device=like.device)
        distance = (position[:, None] - position).abs()
        if self.window == "multi_kernel":
            inside = [distance <= r for r in range(self.branches)]
        else:
            inside = [(distance == 0) | (distance == r) for r in range(self.branches)]
        return torch.stack(inside).to(like.dtype)

    def fold(self) -> None:
        conv, norm = self.predictor[0], self.predictor[1]
        if isinstance(norm, nn.BatchNorm2d):
            fused = torch.nn.utils.fusion.fuse_conv_bn_eval(conv, norm)  # type: ignore[type-var]
            self.predictor[0], self.predictor[1] = fused, nn.Identity()


class FixedPooling(nn.Module):
    """The same k x k average for every token (Table 1: AvgPool3x3, AvgPool5x5)."""

    def __init__(self, kernel: int) -> None:
        super().__init__()
        self.kernel = kernel

    def forward(self, x: Tensor, grid: Grid) -> Tensor:
        return map_to_tokens(F.avg_pool2d(tokens_to_map(x, grid), self.kernel, stride=1, padding=self.kernel // 2))


class ConvPooling(nn.Module):
    """A full k x k convolution in place of the pooling (Table 1: Conv3x3, Conv5x5); C * C * k * k weights a block."""

    def __init__(self, dim: int, kernel: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(dim, dim, kernel, padding=kernel // 2, bias=False)

    def forward(self, x: Tensor, grid: Grid) -> Tensor:
        return map_to_tokens(self.conv(tokens_to_map(x, grid)))


def build_token_pooling(dim: int, tap: TapKind) -> nn.Module | None:
    """The layer that `tap` names; None for 0 and 1, which are the network without TAP."""
    if isinstance(tap, int) and not isinstance(tap, bool) and tap >= 0:
        return TokenPooling(dim, tap) if tap > 1 else None
    if isinstance(tap, str):
        if match := re.fullmatch(r"(avg|conv)([35])x\2", tap):
            kernel = int(match[2])
            return FixedPooling(kernel) if match[1] == "avg" else ConvPooling(dim, kernel)
        if match := re.fullmatch(r"multi_kernel([2-9])", tap):
            return TokenPooling(dim, int(match[1]), window="multi_kernel")
    choices = "a number of branches (4 in the paper), 'avg3x3', 'avg5x5', 'conv3x3', 'conv5x5' or 'multi_kernel4'"
    raise ValueError(f"tap={tap!r} is not known; give {choices}")


def pooled_blocks(tap: TapKind, tap_blocks: TapBlocks, depth: int) -> set[int]:
    """Which of `depth` blocks get the pooling `tap`: "all", "shallow" (the first 30 %), "deep" (the other 70 %) or indices."""
    if tap in (0, 1) and tap_blocks != "all":
        raise ValueError(f"tap_blocks={tap_blocks!r} places token-aware pooling, but tap={tap} builds none; give tap=4")
    boundary = round(0.3 * depth)
    named = {"all": range(depth), "shallow": range(boundary), "deep": range(boundary, depth)}
    if isinstance(tap_blocks, str):
        if tap_blocks not in named:
            raise ValueError(f"tap_blocks={tap_blocks!r} is not known; give 'all', 'shallow', 'deep' or block indices")
        return set(named[tap_blocks])
    blocks = {i + depth if i < 0 else i for i in tap_blocks}
    if wrong := sorted(i for i in blocks if not 0 <= i < depth):
        raise ValueError(f"tap_blocks={list(tap_blocks)} names block {wrong[0]}, but there are blocks 0 to {depth - 1}")
    return blocks
