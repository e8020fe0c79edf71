"""RandAugment and colour jitter, and the pair of views that STL trains with.

The student's view gets every operation that was drawn, the labeler's view the spatial ones alone, with the same sign,
magnitude and filter (STL, Table 1): tokens of the two at the same place show the same thing. The operations and their draws
are timm's.

Deviation: published code draws the filter of a spatial operation for each view on its own. One draw serves both here, so that
the views are equal, bit by bit, where no colour was touched.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from PIL import Image, ImageEnhance

from robustvit.runtime.randomness import keyed_seed
from robustvit.training.augment.keyed_timm import keyed_copy, reseed

__all__ = ["SPATIAL_OPERATIONS", "RandAugmentPair", "jitter_colors"]

SPATIAL_OPERATIONS = frozenset({"Rotate", "ShearX", "ShearY", "TranslateX", "TranslateY", "TranslateXRel", "TranslateYRel"})
Color = tuple[int, ...]


class RandAugmentPair:
    """timm's RandAugment for a sample and, where asked for, for its spatial view.

    Args:
        recipe: timm's string, as `rand-m9-mstd0.5-inc1`.
        fill: colour of what comes in from outside the image.
        size: (H, W), of which translations are a share.
        interpolation: "bilinear", "bicubic" or "random" of the two, in spatial operations.

    Raises:
        ValueError: timm does not understand the recipe.
    """

    def __init__(self, recipe: str, *, fill: Color, size: tuple[int, int], interpolation: str) -> None:
        self.settings = (recipe, fill, size, interpolation)
        _rand_augment(*self.settings)  # says at once what is wrong with it

    def __call__(self, image: Image.Image, seed: int, *, with_view: bool) -> tuple[Image.Image, Image.Image | None]:
        """(the image with all operations, with the spatial ones alone or None)."""
        policy = _rand_augment(*self.settings)  # not kept: it cannot be sent to a worker
        student = view = image
        for k, operation in enumerate(_chosen(policy, seed)):
            key = keyed_seed(seed, "operation", k)
            are_equal = view is student
            reseed(key)
            student = operation(student)
            if with_view and operation.name in SPATIAL_OPERATIONS:
                reseed(key)
                view = student if are_equal else operation(view)
        return student, view if with_view else None


def _chosen(policy: Any, seed: int) -> Sequence[Any]:
    """As timm chooses: with replacement, but without where the operations have weights."""
    draw = reseed(keyed_seed(seed, "operations"))
    if policy.choice_weights is None:
        return draw.choices(policy.ops, k=policy.num_layers)
    timm_numpy = keyed_copy("auto_augment").np
    return timm_numpy.random.choice(policy.ops, policy.num_layers, replace=False, p=policy.choice_weights)


@lru_cache(maxsize=8)
def _rand_augment(recipe: str, fill: Color, size: tuple[int, int], interpolation: str) -> Any:
    timm_ops = keyed_copy("auto_augment")
    for name in timm_ops.NAME_TO_OP:
        if name.startswith("Posterize"):
            timm_ops.NAME_TO_OP[name] = _posterize
    hparams: dict[str, Any] = dict(translate_const=int(min(size) * 0.45), img_mean=fill)
    if interpolation != "random":
        hparams["interpolation"] = Image.Resampling[interpolation.upper()]
    try:
        return timm_ops.rand_augment_transform(recipe, hparams)
    except (AssertionError, ValueError, KeyError) as error:
        raise ValueError(
            f"augment.rand_augment={recipe!r} is no recipe of timm's RandAugment ({error or 'unknown part'}); give one as "
            "rand-m9-mstd0.5-inc1, or '' for none"
        ) from error


def _posterize(image: Image.Image, bits_to_keep: int, **_: Any) -> Image.Image:
    """timm asks for 0 bits at the greatest magnitude, which Pillow refuses; one bit is kept."""
    return keyed_copy("auto_augment").posterize(image, max(1, bits_to_keep))


def jitter_colors(image: Image.Image, seed: int, strength: float) -> Image.Image:
    """Brightness, contrast and saturation times U[1 - strength, 1 + strength], in random order."""
    draw = reseed(keyed_seed(seed, "colours"))
    enhancers = [ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color]
    draw.shuffle(enhancers)
    for enhance in enhancers:
        image = enhance(image).enhance(draw.uniform(max(0.0, 1 - strength), 1 + strength))
    return image
