"""DeepAugment without foreign weights: images distorted by broken or random image-to-image networks.

The idea is that of Hendrycks et al., "The many faces of robustness", ICCV 2021; AFAT trains on it in Table 1.
Results belong under the names of the kinds: they are not those of the published DeepAugment, whose networks are not available.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from robustvit.training.deepaugment.distortion import Distortion

__all__ = ["KINDS", "distortion_class"]

KINDS: Mapping[str, tuple[str, str]] = {
    "noise2net": ("noise2net", "Noise2Net"),
    "self-cae": ("self_autoencoder", "SelfAutoencoder"),
    "self-sr": ("self_upscaler", "SelfUpscaler"),
}
"""What `augment.deepaugment` can be -> module and class, imported when needed: recipes are checked without torch."""


def distortion_class(kind: str) -> type[Distortion]:
    """The class of one of `KINDS`."""
    module, name = KINDS[kind]
    return getattr(importlib.import_module(f"robustvit.training.deepaugment.{module}"), name)
