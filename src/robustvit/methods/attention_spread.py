"""How attention is spread over tokens: whether queries look somewhere at all, and what ADL's threshold leaves of them.

Attention that is 1 / N everywhere is neither diverse nor overfocused: no entry reaches ADL's threshold, and the loss is zero.
These numbers tell the two kinds of a small loss apart.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

__all__ = ["attention_spread", "layer_spread"]

_TINY = 1e-12


@torch.no_grad()
def attention_spread(layers: Iterable[tuple[Iterable[Tensor], Tensor | None]], tau: float) -> dict[str, float]:
    """Means over layers of the numbers of `layer_spread`.

    Args:
        layers: (blocks, regions) of each layer.
        tau: of ADL.
    """
    found = [layer_spread(blocks, tau, regions) for blocks, regions in layers]
    return {name: sum(layer[name] for layer in found) / len(found) for name in found[0]}


@torch.no_grad()
def layer_spread(blocks: Iterable[Tensor], tau: float, regions: Tensor | None = None) -> dict[str, float]:
    """Of one layer, with heads averaged and class tokens left out:

    entropy: of the rows, as a share of that of uniform attention: 1 where a query looks everywhere alike, 0 at one token.
    max_times_tokens: N times the largest entry of a row: 1 where a query looks everywhere alike, N at one token.
    column_max_times_tokens: N times the largest mean over queries of a column: what the most attended token draws, 1 to N.
    rows_counted: share of the rows with an entry of at least tau / N; the others have no part in ADL.

    Args:
        blocks: rows of the map [B, R, N], some at a time.
        tau: of ADL.
        regions: int [windows, N], with all rows in one block: tokens with different numbers cannot see each other, and N is
            the number of those that can; -1 marks padding. Windows repeat over the batch. Regions of at most tau tokens are
            left out, as ADL leaves them out.
    """
    sums, columns = [], []
    for block in blocks:
        A = block.float()
        size, counted = _visible_tokens(A, regions, tau)  # B R
        largest = A.amax(-1)
        shares = A / A.sum(-1, keepdim=True).clamp(min=_TINY)  # of the image tokens alone
        entropy = torch.special.entr(shares).sum(-1) / size.clamp(min=2).log()
        values = (entropy, size * largest, (largest >= tau / size).to(A.dtype), torch.ones_like(size))
        sums.append(torch.stack([(value * counted).sum() for value in values]).double())
        columns.append((A * counted[..., None]).sum(1))  # B N
    entropies, maxima, above, rows = torch.stack(sums).sum(0).tolist()
    largest_columns = torch.stack(columns).sum(0).amax(-1)  # N max_j of 1/N sum_i A_ij: N cancels
    return {
        "entropy": entropies / max(rows, 1.0),
        "max_times_tokens": maxima / max(rows, 1.0),
        "column_max_times_tokens": float(largest_columns.mean()),
        "rows_counted": above / max(rows, 1.0),
    }


def _visible_tokens(A: Tensor, regions: Tensor | None, tau: float) -> tuple[Tensor, Tensor]:
    """[B, R] each: how many tokens a row can see, and 1 for rows that count."""
    if regions is None:
        return A.new_full(A.shape[:2], float(A.shape[2])), A.new_ones(A.shape[:2])
    of_image = regions.repeat(A.shape[0] // regions.shape[0], 1)  # B N
    size = (of_image[:, :, None] == of_image[:, None, :]).sum(-1).to(A.dtype)
    return size, ((of_image >= 0) & (size > tau)).to(A.dtype)
