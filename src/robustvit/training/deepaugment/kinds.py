"""DeepAugment without foreign weights: images distorted by broken or random image-to-image networks.

The idea is that of Hendrycks et al., "The many faces of robustness", ICCV 2021; AFAT trains on it in Table 1.
Results belong under the names of the kinds: they are not those of the published DeepAugment, whose networks are not available.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from torch import Tensor

from robustvit.training.deepaugment.distortion import Distortion, DistortionKind
from robustvit.training.deepaugment.noise2net import Noise2Net
from robustvit.training.deepaugment.self_autoencoder import SelfAutoencoder
from robustvit.training.deepaugment.self_upscaler import SelfUpscaler

__all__ = ["build_distortion"]


def build_distortion(
    kind: DistortionKind,
    *,
    mean: Sequence[float],
    std: Sequence[float],
    images: Tensor | None = None,
    cache: Path | None = None,
    seed: int = 0,
) -> Distortion:
    """The DeepAugment equivalent of a recipe's `augment.deepaugment`.

    Args:
        kind: "noise2net", "self-cae" or "self-sr".
        mean, std: of the normalisation.
        images: uint8 [n, 3, H, W], of the training set, that "self-cae" and "self-sr" learn; a thousand is enough.
        cache: file (.safetensors) where the trained network is kept, and taken from if it was trained on the same images.
        seed: of that training.
    """
    if kind not in get_args(DistortionKind):
        raise ValueError(f"deepaugment={kind!r} is not known; choose one of {', '.join(get_args(DistortionKind))}")
    if kind == "noise2net":
        return Noise2Net(mean, std)
    if images is None:
        raise ValueError(f"deepaugment={kind!r} trains a network first: give it training images (images=)")
    learned = SelfAutoencoder if kind == "self-cae" else SelfUpscaler
    return learned.trained(images, mean, std, cache=cache, seed=seed)
