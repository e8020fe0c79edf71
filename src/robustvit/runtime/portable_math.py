"""Functions whose results are the same to the last bit on every processor.

Libraries compute exp, sin and their like with the vector instructions that they find, and the last bits differ. Here is only
what the IEEE standard defines to the last bit: decimal arithmetic of the standard library, and single additions,
multiplications, divisions and roots, each rounded by itself.
"""

from __future__ import annotations

import math
from decimal import Context, Decimal
from fractions import Fraction
from functools import lru_cache

import numpy as np

__all__ = ["circle", "exp", "gaussian_taps", "normal_means", "sine_and_cosine", "whole_weights"]

_DIGITS, _SMALLEST = Context(prec=30), Decimal("1e-24")


def exp(x: float) -> float:
    """e^x, correctly rounded."""
    return float(_DIGITS.exp(Decimal(x)))


def sine_and_cosine(angle: float) -> tuple[float, float]:
    """Of an angle in radians, at most some tens, from their series: correct to 1e-24."""
    x, term, k = Decimal(angle), Decimal(1), 0
    parts = [Decimal(0), Decimal(0)]  # of the even powers, which are the cosine, and of the odd ones
    while k < 8 or abs(term) > _SMALLEST:
        parts[k % 2] = _DIGITS.add(parts[k % 2], -term if k % 4 >= 2 else term)
        k += 1
        term = _DIGITS.divide(_DIGITS.multiply(term, x), k)
    return float(parts[1]), float(parts[0])


@lru_cache(maxsize=64)
def circle(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Cosines and sines of `count` angles, a multiple of 2, that divide a circle: float64 [count] each."""
    half = np.array([sine_and_cosine(2 * math.pi * i / count) for i in range(count // 4 + 1)])
    sines, cosines = half[:, 0], half[:, 1]
    rest = count // 2 - len(half)  # of the upper half: sin(pi - a) = sin(a), cos(pi - a) = -cos(a)
    sines = np.concatenate([sines, sines[rest:0:-1]])
    cosines = np.concatenate([cosines, -cosines[rest:0:-1]])
    return np.concatenate([cosines, -cosines]), np.concatenate([sines, -sines])


@lru_cache(maxsize=256)
def gaussian_taps(radius: int, sigma: float) -> tuple[float, ...]:
    """exp(-k^2 / (2 sigma^2)) for k = -radius .. radius, divided by their sum; radius 0 is the single tap 1."""
    if radius == 0:
        return (1.0,)
    half = [exp(-(k * k) / (2 * sigma**2)) for k in range(radius + 1)]
    taps = [*half[:0:-1], *half]
    total = math.fsum(taps)
    return tuple(tap / total for tap in taps)


@lru_cache(maxsize=256)
def whole_weights(weights: tuple[float, ...], total: int) -> tuple[int, ...]:
    """Whole numbers in the proportions of `weights` whose sum is `total`; the largest takes what rounding leaves over."""
    scale = Fraction(total) / sum(map(Fraction, weights))
    whole = [round(Fraction(weight) * scale) for weight in weights]
    whole[whole.index(max(whole))] += total - sum(whole)
    return tuple(whole)


def normal_means(count: int) -> np.ndarray:
    """float64 [count]: the means of the standard normal over `count` (even) equally likely intervals, scaled to variance 1."""
    p = np.arange(1, count // 2) / count
    ends = np.concatenate([[-np.inf], _normal_quantiles(p), [0.0]])
    density = np.concatenate([[0.0], _normal_density(ends[1:])])
    lower = (density[:-1] - density[1:]) * count  # E[n | a < n < b] = (phi(a) - phi(b)) / P(a < n < b)
    variance = math.fsum((lower * lower).tolist()) * 2 / count
    lower = lower / math.sqrt(variance)
    return np.concatenate([lower, -lower[::-1]])


def _normal_quantiles(p: np.ndarray) -> np.ndarray:
    """Phi^-1(p) for 1e-6 < p < 1/2: Newton's method from 0, where it descends without fail, because Phi is convex there."""
    x = np.zeros_like(p)
    for _ in range(24):
        density = _normal_density(x)
        x = x - (0.5 + _normal_series(x) * density - p) / density
    return x


def _normal_series(x: np.ndarray) -> np.ndarray:
    """(Phi(x) - 1/2) / phi(x) = x + x^3 / 3 + x^5 / (3 * 5) + ..."""
    square, term = x * x, x
    total = term
    for k in range(1, 70):
        term = term * square / (2 * k + 1)
        total = total + term
    return total


def _normal_density(x: np.ndarray) -> np.ndarray:
    """phi(x) = exp(-x^2 / 2) / sqrt(2 pi), |x| < 6: the exponential series at a sixteenth, raised to the power of 16."""
    y = x * x / -32
    term = total = np.ones_like(y)
    for k in range(1, 24):
        term = term * y / k
        total = total + term
    for _ in range(4):
        total = total * total
    return total / math.sqrt(2 * math.pi)
