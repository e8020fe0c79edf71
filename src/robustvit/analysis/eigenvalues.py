"""How many groups the tokens of a block fall into: eigenvalues of their affinity S = Z Z^T (FAN 2.2, Fig. 3 a, b).

S has the non-zero spectrum of Z^T Z, so the smaller of the two is taken. Only the number of eigenvalues above a threshold is
wanted, which is the number of positive pivots of S - threshold I (Sylvester): no spectrum is computed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from robustvit.analysis.batches import Images, image_batches
from robustvit.recording.block_outputs import block_tokens

__all__ = ["EPSILON", "EigenvalueCounts", "count_above", "eigenvalue_counts", "largest_eigenvalue", "significant_eigenvalues"]

EPSILON = 0.01
KRYLOV_STEPS = 8
TOLERANCE = 5e-4
"""Relative error of the largest eigenvalue, which the threshold is a share of."""
LEAST_IN_SINGLE = 1e-3
"""Thresholds from here on are far above the rounding of single precision."""


@dataclass(frozen=True)
class EigenvalueCounts:
    """Per block, the mean over images.

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
    Z = Z.detach().to(torch.promote_types(Z.dtype, torch.float32 if epsilon >= LEAST_IN_SINGLE else torch.float64))
    gram = Z @ Z.mT if Z.shape[1] < Z.shape[2] else Z.mT @ Z
    if not gram.diagonal(dim1=-2, dim2=-1).isfinite().all():
        raise ValueError("the tokens are not finite numbers (NaN or infinity), so that they have no eigenvalues")
    with _one_thread():
        return count_above(gram, epsilon * largest_eigenvalue(gram))


@contextmanager
def _one_thread() -> Iterator[None]:
    """LAPACK's own threads make factors of matrices of some hundred rows several times slower."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def largest_eigenvalue(matrices: Tensor) -> Tensor:
    """[B], of positive semi-definite matrices [B, n, n], to `TOLERANCE`: a few steps of Lanczos from a generic vector.

    That is the largest eigenvalue within the space of v, A v, A^2 v, ... for a random v, which is at right angles to no
    eigenvector. Where its vector is not an eigenvector yet, the spectrum is computed.
    """
    B, n, _ = matrices.shape
    start = torch.randn(1, n, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(matrices)
    basis = (start / start.norm()).expand(B, 1, n)  # rows, whose products are much faster than those of columns
    products = basis @ matrices
    for _ in range(min(KRYLOV_STEPS, n) - 1):
        vector = last = products[:, -1:]
        for _ in range(2):  # rounding leaves a rest
            vector = vector - (vector @ basis.mT) @ basis
        length = vector.norm(dim=2, keepdim=True)
        is_new = length > torch.finfo(matrices.dtype).eps * last.norm(dim=2, keepdim=True)
        basis = torch.cat([basis, torch.where(is_new, vector / length, 0)], dim=1)  # 0 adds no eigenvalue but 0
        products = torch.cat([products, basis[:, -1:] @ matrices], dim=1)
    values, vectors = torch.linalg.eigh(products @ basis.mT)
    value, best = values[:, -1].clamp(min=0), vectors[:, None, :, -1]  # B, B 1 steps
    rest = (best @ products - value[:, None, None] * (best @ basis)).norm(dim=(1, 2))  # |A u - lambda u|
    if (is_open := rest > TOLERANCE * value).any():
        value[is_open] = torch.linalg.eigvalsh(matrices[is_open])[:, -1]
    return value


def count_above(matrices: Tensor, threshold: Tensor) -> Tensor:
    """int64 [B]: eigenvalues of the symmetric matrices [B, n, n] above the threshold [B], by the inertia of A - t I."""
    factors, pivots, _ = torch.linalg.ldl_factor_ex(_shifted(matrices, threshold))  # an eigenvalue may be at the threshold
    in_pair = pivots < 0  # a 2 x 2 pivot has one positive and one negative eigenvalue
    positive = ((factors.diagonal(dim1=-2, dim2=-1) > 0) & ~in_pair).sum(-1)
    return positive + in_pair.sum(-1) // 2


def _shifted(matrices: Tensor, shift: Tensor) -> Tensor:
    """A - t I, for matrices [B, n, n] and shifts [B]."""
    shifted = matrices.clone()
    shifted.diagonal(dim1=-2, dim2=-1).sub_(shift[:, None])
    return shifted


def eigenvalue_counts(model: nn.Module, batches: Images, epsilon: float = EPSILON) -> EigenvalueCounts:
    """Over a dataset.

    Args:
        model: a network with attention, or a CNN of residual blocks, whose positions are the tokens.
        batches: normalised images [B, 3, H, W]: a batch, or a loader.
        epsilon: see `significant_eigenvalues`.
    """
    total, tokens, count = torch.zeros(()), torch.zeros(()), 0
    for images in image_batches(batches):
        features = [block.tokens for block in block_tokens(model, images)]
        total = total + torch.stack([significant_eigenvalues(Z, epsilon).sum().cpu() for Z in features])
        tokens = torch.tensor([Z.shape[1] for Z in features])
        count += len(images)
    significant = total / count
    return EigenvalueCounts(significant, tokens - significant, epsilon)
