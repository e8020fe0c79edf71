"""Self-attention as an information bottleneck (FAN 2.3 and A.1): clustering by its equations, and the same as attention.

For points x_i [N, d] and clusters with centres mu_c, shares n_c / N and one shared covariance Sigma, the papers derive

    mu_c <- sum_i  log(n_c / N) / (N det Sigma)  softmax_c(2 mu_c^T Sigma^-1 x_i)  x_i          (Eq. 15)
          = softmax(Q^T K / d) V  with  Q = Sigma^-1 X, K = [mu], d = 1/2, the factor in V        (Eq. 16)

It rests on a shared Sigma and on mu_c^T Sigma^-1 mu_c being the same for all clusters. As printed, log(n_c / N) is negative,
so that every step flips the sign of the centres; `factor="magnitude"` takes its magnitude.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

__all__ = ["Factor", "attention_step", "bottleneck_step", "group_points"]

Factor = Literal["printed", "magnitude", "mean"]
"""What multiplies the weighted sum of the points: as printed, its magnitude, or the reciprocal of the weights, which makes the
new centre the weighted mean of its points (the step that converges)."""


def bottleneck_step(points: Tensor, centres: Tensor, shares: Tensor, covariance: Tensor, factor: Factor = "printed") -> Tensor:
    """One iteration from the Gaussian posteriors themselves: q(c | x) is prop. to exp(-(x - mu_c)^T Sigma^-1 (x - mu_c)).

    Args:
        points: x [N, d].
        centres: mu [C, d].
        shares: n_c / N [C], sum 1.
        covariance: Sigma [d, d], shared.
        factor: see `Factor`.

    Returns:
        The new centres [C, d].
    """
    inverse = torch.linalg.inv(covariance)
    difference = points[:, None] - centres[None]  # N C d
    distance = torch.einsum("ncd,de,nce->nc", difference, inverse, difference)
    posterior = (-distance).softmax(1)  # N C
    return _factor(posterior, shares, covariance, factor)[:, None] * (posterior.T @ points)


def attention_step(points: Tensor, centres: Tensor, shares: Tensor, covariance: Tensor, factor: Factor = "printed") -> Tensor:
    """The same as attention, softmax(Q K^T / (1/2)) V (Eq. 16); equal to `bottleneck_step` where mu^T Sigma^-1 mu is constant.

    Args: as in `bottleneck_step`.
    """
    Q = points @ torch.linalg.inv(covariance)  # N d
    posterior = (Q @ centres.T / 0.5).softmax(1)  # over clusters
    return _factor(posterior, shares, covariance, factor)[:, None] * (posterior.T @ points)


def _factor(posterior: Tensor, shares: Tensor, covariance: Tensor, factor: Factor) -> Tensor:
    """[C]."""
    if factor == "mean":
        return 1 / posterior.sum(0).clamp(min=torch.finfo(posterior.dtype).tiny)
    value = shares.log() / (len(posterior) * torch.linalg.det(covariance))
    return value if factor == "printed" else value.abs()


def group_points(points: Tensor, centres: Tensor, covariance: Tensor, steps: int) -> list[Tensor]:
    """Centres [C, d] before and after each of `steps` iterations towards the weighted means: what the figure shows.

    Each new centre is the mean of the points by their posteriors, in which the shares of the clusters have no part.
    """
    shares = torch.full((len(centres),), 1 / len(centres), dtype=points.dtype)
    found = [centres]
    for _ in range(steps):
        found.append(bottleneck_step(points, found[-1], shares, covariance, "mean"))
    return found
