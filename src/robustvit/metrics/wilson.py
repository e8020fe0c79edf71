"""Wilson's interval for a single proportion: how far an accuracy could lie from k right answers among n images.

A bootstrap of 8 right answers among 8 images draws nothing but right answers, and would call 100 % certain. Wilson's
interval (1927) holds every accuracy p under which k/n would not surprise: |k/n - p| <= z sqrt(p (1 - p) / n).
"""

from __future__ import annotations

import math
from statistics import NormalDist

from robustvit.metrics.intervals import Interval

__all__ = ["wilson_interval"]


def wilson_interval(right: float, images: int, *, level: float = 0.95) -> Interval:
    """Interval for the share of right answers.

    Args:
        right: answers, 0 to `images`. Also a sum of scores in 0..1, one for each image: such scores vary less than right
            and wrong answers of the same mean, so that the interval is too wide for them rather than too narrow.
        images: how many, at least 1.
        level: of confidence.
    """
    if images < 1 or not 0 <= right <= images:
        raise ValueError(f"{right:g} right answers among {images} images is not possible; give 0 to n of n images, n >= 1")
    if not 0 < level < 1:
        raise ValueError(f"level={level:g} is not possible; give more than 0 and less than 1")
    n, p, z = images, right / images, NormalDist().inv_cdf((1 + level) / 2)
    centre = (p + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * math.sqrt(p * (1 - p) / n + z**2 / (4 * n**2))
    low = 0.0 if right == 0 else max(0.0, centre - half)  # exact at the ends, where rounding would leave 1e-17
    high = 1.0 if right == images else min(1.0, centre + half)
    return Interval(p, low, high, level)
