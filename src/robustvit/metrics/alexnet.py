"""What AlexNet scores, by which ImageNet-C and ImageNet-P results are divided. Data only; every table says its name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["ALEXNET_ERRORS", "ALEXNET_EXTRA_ERRORS", "ALEXNET_FLIPS", "ErrorTable", "ValueTable"]


@dataclass(frozen=True)
class ErrorTable:
    """Top-1 errors of a reference network under corruption.

    Attributes:
        name: to be printed with every result that was divided by this table.
        clean_error: on clean images; only relative mCE uses it.
        errors: corruption -> errors at severities 1 to 5.
    """

    name: str
    clean_error: float
    errors: Mapping[str, tuple[float, float, float, float, float]]


@dataclass(frozen=True)
class ValueTable:
    """One value of a reference network for each type.

    Attributes:
        name: to be printed with every result that was divided by this table.
        values: type -> value.
        confirmed: False while the values have no published file behind them.
    """

    name: str
    values: Mapping[str, float]
    confirmed: bool = True


ALEXNET_ERRORS = ErrorTable(
    name="AlexNet (torchvision), ImageNet-C",
    clean_error=0.4348,
    errors={
        "gaussian_noise": (0.69528, 0.82542, 0.93554, 0.98138, 0.99452),
        "shot_noise": (0.71224, 0.85108, 0.93574, 0.98182, 0.99146),
        "impulse_noise": (0.78374, 0.89808, 0.94870, 0.98720, 0.99548),
        "defocus_blur": (0.65624, 0.73202, 0.85036, 0.91364, 0.94714),
        "glass_blur": (0.64308, 0.75054, 0.88806, 0.91622, 0.93344),
        "motion_blur": (0.58430, 0.70048, 0.82108, 0.89750, 0.92638),
        "zoom_blur": (0.70008, 0.76992, 0.80784, 0.84198, 0.87198),
        "snow": (0.71726, 0.88392, 0.86468, 0.91870, 0.94952),
        "frost": (0.61390, 0.79734, 0.88790, 0.89942, 0.93430),
        "fog": (0.67474, 0.76050, 0.84378, 0.87260, 0.94500),
        "brightness": (0.45140, 0.48502, 0.54048, 0.62166, 0.72440),
        "contrast": (0.64548, 0.76150, 0.88874, 0.97760, 0.99270),
        "elastic_transform": (0.52596, 0.70116, 0.55686, 0.64076, 0.80554),
        "pixelate": (0.52218, 0.54620, 0.73728, 0.87092, 0.91262),
        "jpeg_compression": (0.51002, 0.54718, 0.57294, 0.65458, 0.74778),
    },
)
"""The 15 common corruptions: the table behind mCE."""

ALEXNET_EXTRA_ERRORS = ValueTable(
    name="AlexNet (extra types, from one public evaluation script)",
    values={"speckle_noise": 0.845388, "gaussian_blur": 0.787108, "spatter": 0.717512, "saturate": 0.658248},
)
"""Errors averaged over the severities for the 4 extra corruptions, which never count in mCE."""

ALEXNET_FLIPS = ValueTable(
    name="AlexNet flip probabilities, ImageNet-P (to be confirmed)",
    values={
        "gaussian_noise": 0.2365,
        "shot_noise": 0.3006,
        "motion_blur": 0.0930,
        "zoom_blur": 0.0594,
        "snow": 0.1193,
        "brightness": 0.0489,
        "translate": 0.1101,
        "rotate": 0.1310,
        "tilt": 0.0705,
        "scale": 0.2353,
    },
    confirmed=False,
)
"""To be confirmed: reproduces published mFR in aggregate; no published file was found. Replace it if you have one."""
