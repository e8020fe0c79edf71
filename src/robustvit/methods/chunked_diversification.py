"""ADL without attention maps: some rows at a time, computed again for the gradient.

The map of one layer has heads * N^2 entries: 268 MB for 4 heads and the 4096 tokens of a 1024x1024 image, and several times
that on the way to the loss and back. Here the network keeps its fused attention, and ADL computes rows from queries and keys
(`Tape.rows`) twice, once for their centre and once for their cosines with it, and both again in the backward pass. Values and
gradients are those of `attention_diversification` to rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from robustvit.methods.attention_diversification import (
    EPS,
    Variant,
    attention_diversification,
    check_options,
    keep_above,
)
from robustvit.recording.tape import AttentionRows

__all__ = ["chunked_attention_diversification"]


def chunked_attention_diversification(
    rows: Sequence[AttentionRows | None],
    *,
    chunk: int,
    tau: float = 2.0,
    variant: Variant = "paper",
    prefix_tokens: int = 0,
    regions: Sequence[Tensor | None] | None = None,
    per_head: bool = False,
) -> Tensor:
    """ADL as `attention_diversification` gives it for the maps of these layers.

    Args:
        rows: per layer, from `Tape.rows`.
        chunk: rows of every image that exist at a time. Windows of Swin are small and stay whole: their layers are computed
            one at a time.
        tau, variant, prefix_tokens, regions, per_head: see `attention_diversification`.

    Raises:
        ValueError: there are no layers, or a layer's rows cannot be computed again.
    """
    check_options(tau, variant)
    if chunk < 1:
        raise ValueError(f"chunk={chunk} is not a number of rows; give 1 or more")
    if not len(rows):
        raise ValueError("there are no attention rows; record a forward pass with gradients enabled first")
    losses = []
    for layer, region in zip(rows, regions if regions is not None else [None] * len(rows), strict=True):
        _check_layer(layer)
        one = _Layer(layer, tau, variant, prefix_tokens, per_head)  # type: ignore[arg-type]
        losses.append(one.whole(region) if one.rows.bias is not None else one.chunked(chunk))
    return torch.stack(losses).mean()  # Eq. 2, left


def _check_layer(layer: AttentionRows | None) -> None:
    problem = None
    if layer is None:
        problem = "a layer computes its map in another way than ViT, RVT and Swin"
    elif layer.dropout:
        problem = f"dropout on attention (rate {layer.dropout:g}) draws anew each time"
    if problem:
        raise ValueError(f"rows of the attention map cannot be computed again: {problem}; use chunk=0, which keeps the maps")


@dataclass(frozen=True)
class _Layer:
    """L_l of one layer, whose arguments are those of `attention_diversification`."""

    rows: AttentionRows
    tau: float
    variant: Variant
    prefix_tokens: int
    per_head: bool

    def whole(self, regions: Tensor | None) -> Tensor:
        """From the whole map, which is not kept."""

        def loss() -> Tensor:
            return attention_diversification(
                [self.rows.compute()],
                tau=self.tau,
                variant=self.variant,
                prefix_tokens=self.prefix_tokens,
                regions=[regions],
                per_head=self.per_head,
            )

        return _compute_again(loss)

    def chunked(self, chunk: int) -> Tensor:
        """In two passes over the rows."""
        N = self.rows.k.shape[2] - self.prefix_tokens
        threshold = self.tau / N
        chunks = self.rows.split(chunk, skip=self.prefix_tokens)

        def sum_of_rows(part: AttentionRows) -> Tensor:
            A = self._map(part)
            return (keep_above(A, threshold, self.variant) if self.variant == "paper" else A).sum(1, keepdim=True)

        centre = torch.stack([_compute_again(sum_of_rows, part) for part in chunks]).sum(0) / N  # B 1 N
        if self.variant == "released":
            centre = keep_above(centre, threshold, self.variant)

        def sum_of_cosines(part: AttentionRows) -> Tensor:
            kept = keep_above(self._map(part), threshold, self.variant)
            return F.cosine_similarity(kept, centre, dim=-1, eps=EPS).sum()  # Eq. 2, right

        total = torch.stack([_compute_again(sum_of_cosines, part) for part in chunks]).sum()
        return total / (centre.shape[0] * N)

    def _map(self, part: AttentionRows) -> Tensor:
        """Rows of the map [B, R, N], heads averaged, or [B * heads, R, N]."""
        A = part.compute()[..., self.prefix_tokens :]
        return A.flatten(0, 1) if self.per_head else A.mean(1)


def _compute_again(run: Callable[..., Tensor], *arguments: AttentionRows) -> Tensor:
    """`run(*arguments)`, of which nothing is kept for the backward pass."""
    return checkpoint(run, *arguments, use_reentrant=False, preserve_rng_state=False)
