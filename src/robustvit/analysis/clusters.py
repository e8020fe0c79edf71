"""Groups of tokens by spectral clustering, as Ng, Jordan and Weiss do it (FAN A.6, Fig. 1, 4 and 9).

Tokens of a block pass a softmax over channels; S is their Gram matrix, A = D^-1/2 S D^-1/2 the normalised affinity; its first
k eigenvectors, rows normalised, are grouped by k-means. k is given, or where the eigenvalues of A drop most.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from robustvit.recording.block_outputs import BlockTokens, block_tokens

__all__ = ["MOST_CLUSTERS", "Clustering", "agreement", "cluster_tokens", "clusters_in", "clusters_of", "matched"]

MOST_CLUSTERS = 8
"""The most that the largest eigengap may choose."""
LEAST = 1e-10
"""Eigenvalues below this share of the largest are too small to divide by."""
DEFINITION = (
    "spectral clustering (Ng, Jordan, Weiss) of the tokens of a block, after a softmax over channels, by their Gram matrix; "
    f"k as given or at the largest gap of the first {MOST_CLUSTERS + 1} eigenvalues"
)


@dataclass(frozen=True)
class Clustering:
    """The groups of one image.

    Attributes:
        labels: int [Hp, Wp], 0 .. k - 1, the largest group first.
        eigenvalues: the first of the normalised affinity, descending.
    """

    labels: np.ndarray
    eigenvalues: np.ndarray

    @property
    def k(self) -> int:
        return int(self.labels.max()) + 1


def cluster_tokens(tokens: Tensor, grid: tuple[int, int], k: int | None = None, *, seed: int = 0) -> Clustering:
    """Groups the tokens [N, C] of one image.

    Args:
        tokens: image tokens of a block, row-major on `grid`.
        grid: (Hp, Wp).
        k: number of groups; None chooses by the largest eigengap, 2 to `MOST_CLUSTERS`.
        seed: of k-means.

    Raises:
        ImportError: scikit-learn is not installed.
        ValueError: there are fewer tokens than groups.
    """
    N = len(tokens)
    if max(k or 2, 2) > N:
        raise ValueError(f"{N} tokens cannot be divided into {k or 2} groups; use a larger image or an earlier block")
    z = tokens.double().softmax(-1)
    degree = z @ z.sum(0)  # the row sums of S = z z^T
    values, vectors = _spectrum(z * degree.rsqrt()[:, None], max(k or 0, min(MOST_CLUSTERS + 1, N)))
    if k is None:
        most = min(MOST_CLUSTERS, N - 1)
        gaps = values[1:most] - values[2 : most + 1]  # after the second, the third, ...
        k = int(gaps.argmax()) + 2 if len(gaps) else 2
    rows = torch.nn.functional.normalize(vectors[:, :k], dim=1).numpy()
    labels = _sklearn("cluster").KMeans(k, n_init=10, random_state=seed).fit_predict(rows)
    order = np.argsort(-np.bincount(labels, minlength=k), kind="stable")
    return Clustering(np.argsort(order)[labels].reshape(grid), values[: MOST_CLUSTERS + 1].numpy())


def _spectrum(Y: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The first eigenvalues, descending, and eigenvectors [N, .] of A = Y Y^T, at least `count` of them.

    Those of Y^T Y are the same where they are not 0; it is smaller for many tokens, and A need not exist.
    """
    N, C = Y.shape
    if C < N:
        values, vectors = torch.linalg.eigh(Y.T @ Y)
        values, vectors = values.flip(0), vectors.flip(1)
        if count <= C and values[count - 1] > LEAST * values[0]:  # v -> Y v / sqrt(lambda)
            return values, Y @ vectors[:, :count] / values[:count].sqrt()
    values, vectors = torch.linalg.eigh(Y @ Y.T)
    return values.flip(0), vectors.flip(1)


def clusters_of(model: nn.Module, images: Tensor, *, layer: int = -2, k: int | None = None, seed: int = 0) -> list[Clustering]:
    """The groups of every image of a batch.

    Args:
        model: a network with attention, or a CNN of residual blocks, whose positions are the tokens.
        images: normalised [B, 3, H, W].
        layer: index of the block; the papers take the second-last.
        k, seed: see `cluster_tokens`.
    """
    blocks = block_tokens(model, images)
    if not -len(blocks) <= layer < len(blocks):
        raise ValueError(f"layer={layer}: this network has {len(blocks)} blocks")
    return clusters_in(blocks[layer], k, seed=seed)


def clusters_in(block: BlockTokens, k: int | None = None, *, seed: int = 0) -> list[Clustering]:
    """The groups of every image in what came out of a block; arguments as in `cluster_tokens`."""
    return [cluster_tokens(z, block.grid, k, seed=seed) for z in block.tokens.cpu()]


def agreement(first: Clustering, second: Clustering) -> float:
    """Adjusted Rand index: 1 for the same groups, about 0 for chance."""
    return float(_sklearn("metrics").adjusted_rand_score(first.labels.ravel(), second.labels.ravel()))


def matched(reference: Clustering, other: Clustering) -> Clustering:
    """`other` with its groups numbered as those of `reference` that they overlap most: for the same colours."""
    a, b = reference.labels.ravel(), other.labels.ravel()
    size = max(reference.k, other.k)
    overlap = np.zeros((size, size), np.int64)
    np.add.at(overlap, (b, a), 1)
    rows, columns = importlib.import_module("scipy.optimize").linear_sum_assignment(-overlap)
    number = np.empty(size, np.int64)
    number[rows] = columns
    return Clustering(number[other.labels], other.eigenvalues)


def _sklearn(part: str) -> Any:
    try:
        return importlib.import_module(f"sklearn.{part}")
    except ImportError as error:
        raise ImportError("clusters need scikit-learn: pip install 'robustvit[analysis]'") from error
