"""How many groups the tokens of a block fall into: eigenvalues of their affinity S = Z Z^T (FAN 2.2, Fig. 3 a, b).

S has the non-zero spectrum of Z^T Z, so the smaller of the two is taken. Only the number of eigenvalues above a threshold is
wanted, which is the number of positive pivots of S - threshold I (Sylvester): no spectrum is computed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from robustvit.block_outputs import block_tokens

__all__ = ["EPSILON", "EigenvalueCounts", "count_above", "eigenvalue_counts", "largest_eigenvalue", "significant_eigenvalues"]

EPSILON = 0.01
POWER_STEPS, TOLERANCE = 40, 1e-6
LEAST_IN_SINGLE = 1e-3
"""Thresholds from here on are far above the rounding of single precision."""


@dataclass(frozen=True)
class EigenvalueCounts:
    """Per block, the mean over pictures.

    Attributes:
        significant: [L], eigenvalues of S above epsilon times the largest.
        zero: [L], the others; together they are as many as there are tokens.
        epsilon: relative threshold.
    """

    significant: Tensor
    zero: Tensor
    epsilon: float

    @property
    def definition(self) -> str:
        return (
            f"eigenvalues of S = Z Z^T, Z the image tokens after a block; significant: above {self.epsilon:g} of the largest, "
            "zero: the others; the threshold is ours"
        )


def significant_eigenvalues(tokens: Tensor, epsilon: float = EPSILON) -> Tensor:
    """int64 [B]: how many eigenvalues of `Z Z^T` are above `epsilon` times the largest.

    Args:
        tokens: Z [B, N, C].
        epsilon: relative threshold, 0 < epsilon < 1.
    """
    if not 0 < epsilon < 1:
        raise ValueError(f"epsilon={epsilon!r} is not possible; give a share of the largest eigenvalue, between 0 and 1")
    Z = tokens.cpu() if tokens.device.type == "mps" else tokens  # mps has no double precision
    Z = Z.to(torch.promote_types(Z.dtype, torch.float32 if epsilon >= LEAST_IN_SINGLE else torch.float64))
    if not Z.isfinite().all():
        raise ValueError("the tokens are not finite numbers (NaN or infinity), so that they have no eigenvalues")
    gram = Z @ Z.mT if Z.shape[1] < Z.shape[2] else Z.mT @ Z
    return count_above(gram, epsilon * largest_eigenvalue(gram))


def largest_eigenvalue(matrices: Tensor) -> Tensor:
    """[B], of positive semi-definite matrices [B, n, n]: power iterations until they stand still, else by the spectrum."""
    column = matrices.diagonal(dim1=-2, dim2=-1).argmax(-1)
    vector = matrices[torch.arange(len(matrices)), :, column, None]  # B n 1, not 0 unless the matrix is
    tiny = torch.finfo(matrices.dtype).tiny
    value = torch.zeros_like(vector[:, 0, 0])
    stands = torch.zeros_like(value, dtype=torch.bool)
    for _ in range(POWER_STEPS):
        vector = vector / vector.norm(dim=1, keepdim=True).clamp(min=tiny)
        product = matrices @ vector
        before, value = value, (vector * product).sum((1, 2))  # a Rayleigh quotient, which only grows
        stands = value - before <= TOLERANCE * value
        if stands.all():
            return value
        vector = product
    value[~stands] = torch.linalg.eigvalsh(matrices[~stands])[:, -1]
    return value


def count_above(matrices: Tensor, threshold: Tensor) -> Tensor:
    """int64 [B]: eigenvalues of the symmetric matrices [B, n, n] above the threshold [B], by the inertia of A - t I."""
    n = matrices.shape[-1]
    shifted = matrices - threshold[:, None, None] * torch.eye(n, dtype=matrices.dtype, device=matrices.device)
    factors, pivots = torch.linalg.ldl_factor(shifted)
    in_pair = pivots < 0  # a 2 x 2 pivot has one positive and one negative eigenvalue
    positive = ((factors.diagonal(dim1=-2, dim2=-1) > 0) & ~in_pair).sum(-1)
    return positive + in_pair.sum(-1) // 2


def eigenvalue_counts(model: nn.Module, batches: Iterable[Tensor], epsilon: float = EPSILON) -> EigenvalueCounts:
    """Over a data set.

    Args:
        model: a network with attention, or a CNN of residual blocks, whose positions are the tokens.
        batches: normalised pictures [B, 3, H, W].
        epsilon: see `significant_eigenvalues`.
    """
    total, tokens, count = torch.zeros(()), torch.zeros(()), 0
    for images in batches:
        features = [block.tokens for block in block_tokens(model, images)]
        total = total + torch.stack([significant_eigenvalues(Z, epsilon).sum().cpu() for Z in features])
        tokens = torch.tensor([Z.shape[1] for Z in features])
        count += len(images)
    if not count:
        raise ValueError("there are no pictures to look at; give at least one batch")
    significant = total / count
    return EigenvalueCounts(significant, tokens - significant, epsilon)
