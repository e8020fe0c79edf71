"""Whether an accuracy is what guessing gives: the sign of classes in another order, or of a network without training."""

from __future__ import annotations

import math

from robustvit.metrics.wilson import wilson_interval

__all__ = ["FEWEST_FOR_CHANCE", "is_at_chance", "p_value_of_chance"]

FEWEST_FOR_CHANCE = 20
"""With fewer images, nothing is said about chance."""


def p_value_of_chance(right: int, images: int, classes: int) -> float:
    """`P(X >= right)` for X ~ Binomial(images, 1 / classes): how often guessing is as good as this."""
    if classes < 2 or images < 1 or not 0 <= right <= images:
        raise ValueError(f"{right} right among {images} images of {classes} classes is not possible; give 2 or more classes")
    p = 1 / classes
    if right > images * p + 40 * math.sqrt(images * p) + 40:  # far beyond any doubt, and the sum below is long
        return 0.0
    below = math.fsum(_probability(k, images, p) for k in range(right))
    return min(1.0, max(0.0, 1 - below))


def is_at_chance(right: int, images: int, classes: int, *, level: float = 0.95) -> bool:
    """Whether an accuracy is no better than guessing, and there are enough images to say so.

    Three conditions: at least `FEWEST_FOR_CHANCE` images; the binomial test does not tell the accuracy from guessing
    (p value above 1 - level); and the upper end of Wilson's interval lies in the lower half of what a network could reach
    between chance and all right, so that a network that works well is never accused because the images are few.
    """
    if images < FEWEST_FOR_CHANCE or classes < 2:
        return False
    half_way = (1 / classes + 1) / 2
    return (
        p_value_of_chance(right, images, classes) > 1 - level and wilson_interval(right, images, level=level).high < half_way
    )


def _probability(k: int, n: int, p: float) -> float:
    choices = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
    return math.exp(choices + k * math.log(p) + (n - k) * math.log1p(-p))
