"""What each severity means: the published parameters of the four families, as data.

`imagenet` is for exactly 224 x 224 pixels (ImageNet-C), `cifar` for 32 x 32 (CIFAR-10-C, CIFAR-100-C), `tiny` for 64 x 64
(Tiny-ImageNet-C) and `arbitrary` for any size from 32 x 32 on (Cityscapes-C, COCO-C). `arbitrary` has the parameters of
`imagenet` but for elastic_transform; what else differs is in the corruptions themselves. Parameters are not rescaled with the
image: 3 pixels of blur are milder on a large image.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

__all__ = ["FAMILIES", "SEVERITIES", "Family", "family_of_size", "parameters"]

Family = Literal["imagenet", "cifar", "tiny", "arbitrary"]
FAMILIES: tuple[Family, ...] = get_args(Family)
SIZES: dict[Family, int] = {"imagenet": 224, "cifar": 32, "tiny": 64}
SEVERITIES: tuple[int, ...] = (1, 2, 3, 4, 5)
SMALLEST = 32
"""Pixels that the shorter side of an image must have."""


def _zooms(*ranges: tuple[float, int]) -> list[tuple[float, ...]]:
    """Zoom factors `1 + i * d` with `d = (1 + step) - 1` in floating point, as published: 1.25 is 1.2500000000000002."""
    return [tuple(1 + i * ((1 + step) - 1) for i in range(count)) for step, count in ranges]


def _elastic(side: int, *rows: tuple[float, float, float]) -> list[tuple[float, float, float]]:
    return [(side * alpha, side * sigma, side * affine) for alpha, sigma, affine in rows]


_SMALL_SNOW = [
    (0.1, 0.2, 1, 0.6, 8, 3),
    (0.1, 0.2, 1, 0.5, 10, 4),
    (0.15, 0.3, 1.75, 0.55, 10, 4),
    (0.25, 0.3, 2.25, 0.6, 12, 6),
    (0.3, 0.3, 1.25, 0.65, 14, 12),
]
_SMALL_ZOOMS = _zooms((0.01, 7), (0.01, 12), (0.01, 16), (0.01, 21), (0.01, 26))

# Each row has the parameters of severities 1 to 5; their meaning is in the function of the same name.
IMAGENET: dict[str, list[Any]] = {
    "gaussian_noise": [0.08, 0.12, 0.18, 0.26, 0.38],
    "shot_noise": [60, 25, 12, 5, 3],
    "impulse_noise": [0.03, 0.06, 0.09, 0.17, 0.27],
    "defocus_blur": [(3, 0.1), (4, 0.5), (6, 0.5), (8, 0.5), (10, 0.5)],
    "glass_blur": [(0.7, 1, 2), (0.9, 2, 1), (1, 2, 3), (1.1, 3, 2), (1.5, 4, 2)],
    "motion_blur": [(10, 3), (15, 5), (15, 8), (15, 12), (20, 15)],
    "zoom_blur": _zooms((0.01, 12), (0.01, 16), (0.02, 11), (0.02, 13), (0.03, 11)),
    "snow": [
        (0.1, 0.3, 3, 0.5, 10, 4, 0.8),
        (0.2, 0.3, 2, 0.5, 12, 4, 0.7),
        (0.55, 0.3, 4, 0.9, 12, 8, 0.7),
        (0.55, 0.3, 4.5, 0.85, 12, 8, 0.65),
        (0.55, 0.3, 2.5, 0.85, 12, 12, 0.55),
    ],
    "frost": [(1, 0.4), (0.8, 0.6), (0.7, 0.7), (0.65, 0.7), (0.6, 0.75)],
    "fog": [(1.5, 2), (2, 2), (2.5, 1.7), (2.5, 1.5), (3, 1.4)],
    "brightness": [0.1, 0.2, 0.3, 0.4, 0.5],
    "contrast": [0.4, 0.3, 0.2, 0.1, 0.05],
    # 244, not 224: a published slip that is part of the benchmark
    "elastic_transform": _elastic(
        244, (2, 0.7, 0.1), (2, 0.08, 0.2), (0.05, 0.01, 0.02), (0.07, 0.01, 0.02), (0.12, 0.01, 0.02)
    ),
    "pixelate": [0.6, 0.5, 0.4, 0.3, 0.25],
    "jpeg_compression": [25, 18, 15, 10, 7],
    "speckle_noise": [0.15, 0.2, 0.35, 0.45, 0.6],
    "gaussian_blur": [1, 2, 3, 4, 6],
    "spatter": [
        (0.65, 0.3, 4, 0.69, 0.6, 0),
        (0.65, 0.3, 3, 0.68, 0.6, 0),
        (0.65, 0.3, 2, 0.68, 0.5, 0),
        (0.65, 0.3, 1, 0.65, 1.5, 1),
        (0.67, 0.4, 1, 0.65, 1.5, 1),
    ],
    "saturate": [(0.3, 0), (0.1, 0), (2, 0), (5, 0.1), (20, 0.2)],
}

CIFAR: dict[str, list[Any]] = {
    "gaussian_noise": [0.04, 0.06, 0.08, 0.09, 0.10],
    "shot_noise": [500, 250, 100, 75, 50],
    "impulse_noise": [0.01, 0.02, 0.03, 0.05, 0.07],
    "defocus_blur": [(0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1, 0.2), (1.5, 0.1)],
    "glass_blur": [(0.05, 1, 1), (0.25, 1, 1), (0.4, 1, 1), (0.25, 1, 2), (0.4, 1, 2)],
    "motion_blur": [(6, 1), (6, 1.5), (6, 2), (8, 2), (9, 2.5)],
    "zoom_blur": _SMALL_ZOOMS,
    "snow": [(*row, keep) for row, keep in zip(_SMALL_SNOW, (0.95, 0.9, 0.9, 0.85, 0.8), strict=True)],
    "frost": [(1, 0.2), (1, 0.3), (0.9, 0.4), (0.85, 0.4), (0.75, 0.45)],
    "fog": [(0.2, 3), (0.5, 3), (0.75, 2.5), (1, 2), (1.5, 1.75)],
    "brightness": [0.05, 0.1, 0.15, 0.2, 0.3],
    "contrast": [0.75, 0.5, 0.4, 0.3, 0.15],
    "elastic_transform": _elastic(
        32, (0, 0, 0.08), (0.05, 0.2, 0.07), (0.08, 0.06, 0.06), (0.1, 0.04, 0.05), (0.1, 0.03, 0.03)
    ),
    "pixelate": [0.95, 0.9, 0.85, 0.75, 0.65],
    "jpeg_compression": [80, 65, 58, 50, 40],
    "speckle_noise": [0.06, 0.1, 0.12, 0.16, 0.2],
    "gaussian_blur": [0.4, 0.6, 0.7, 0.8, 1],
    "spatter": [
        (0.62, 0.1, 0.7, 0.7, 0.5, 0),
        (0.65, 0.1, 0.8, 0.7, 0.5, 0),
        (0.65, 0.3, 1, 0.69, 0.5, 0),
        (0.65, 0.1, 0.7, 0.69, 0.6, 1),
        (0.65, 0.1, 0.5, 0.68, 0.6, 1),
    ],
    "saturate": [(0.3, 0), (0.1, 0), (1.5, 0), (2, 0.1), (2.5, 0.2)],
}

TINY: dict[str, list[Any]] = {
    "gaussian_noise": [0.04, 0.08, 0.12, 0.15, 0.18],
    "shot_noise": [250, 100, 50, 30, 15],
    "impulse_noise": [0.01, 0.02, 0.05, 0.08, 0.14],
    "defocus_blur": [(0.5, 0.6), (1, 0.1), (1.5, 0.1), (2.5, 0.01), (3, 0.1)],
    "glass_blur": [(0.1, 1, 1), (0.5, 1, 1), (0.6, 1, 2), (0.7, 2, 1), (0.9, 2, 2)],
    "motion_blur": [(10, 1), (10, 1.5), (10, 2), (10, 2.5), (12, 3)],
    "zoom_blur": _SMALL_ZOOMS,
    "snow": [(*row, keep) for row, keep in zip(_SMALL_SNOW, (0.8, 0.8, 0.7, 0.65, 0.6), strict=True)],
    "frost": [(1, 0.3), (0.9, 0.4), (0.8, 0.45), (0.75, 0.5), (0.7, 0.55)],
    "fog": [(0.4, 3), (0.7, 3), (1, 2.5), (1.5, 2), (2, 1.75)],
    "brightness": IMAGENET["brightness"],
    "contrast": IMAGENET["contrast"],
    "elastic_transform": _elastic(
        64, (0, 0, 0.08), (0.05, 0.3, 0.06), (0.1, 0.08, 0.06), (0.1, 0.03, 0.03), (0.16, 0.03, 0.02)
    ),
    "pixelate": [0.9, 0.8, 0.7, 0.6, 0.5],
    "jpeg_compression": [65, 58, 50, 40, 25],
    "speckle_noise": [0.15, 0.2, 0.25, 0.3, 0.35],
    "gaussian_blur": [0.5, 0.75, 1, 1.25, 1.5],
    "spatter": [
        (0.62, 0.1, 0.7, 0.7, 0.6, 0),
        (0.65, 0.1, 0.8, 0.7, 0.6, 0),
        (0.65, 0.3, 1, 0.69, 0.6, 0),
        (0.65, 0.1, 0.7, 0.68, 0.6, 1),
        (0.65, 0.1, 0.5, 0.67, 0.6, 1),
    ],
    "saturate": [(0.3, 0), (0.1, 0), (2, 0), (5, 0.1), (30, 0.2)],
}

# alpha alone: without the affine part, the field follows from the size of the image
ARBITRARY = {**IMAGENET, "elastic_transform": [12.5, 16.25, 21.25, 25, 30]}

_TABLES: dict[Family, dict[str, list[Any]]] = {"imagenet": IMAGENET, "cifar": CIFAR, "tiny": TINY, "arbitrary": ARBITRARY}


def parameters(name: str, severity: int, family: Family) -> Any:
    """The published parameters of one cell."""
    return _TABLES[family][name][severity - 1]


def family_of_size(H: int, W: int) -> Family:
    """The family made for images of this size; `arbitrary` where none is."""
    return next((family for family, side in SIZES.items() if H == W == side), "arbitrary")
