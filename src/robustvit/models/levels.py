"""Backbones of dense networks: any network as four maps, finest first.

FAN-Hybrid, FAN-Swin and convolutional networks have four stages of strides 4 to 32. In FAN-ViT, RVT and ViT every block has
one stride; they give maps from four depths.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from timm.models._features import FeatureGetterNet
from torch import Tensor, nn

from robustvit.models.building import build_by_name
from robustvit.models.fan import FAN
from robustvit.models.image_sizes import takes_option

__all__ = ["Backbone", "build_backbone", "levels_of"]

LEVELS = 4


class Backbone(NamedTuple):
    """A network that gives levels.

    Attributes:
        network: without its classifier.
        indices: of the maps that `forward_intermediates` is asked for; None where `network` returns the levels itself.
        channels: of the levels.
        strides: of the levels.
        cfg: `pretrained_cfg` of the network.
        unused: names of tensors that the classifier has and the levels do not need.
        multiple: images are padded with zeros, below and on the right, to multiples of so many pixels.
    """

    network: nn.Module
    indices: tuple[int, ...] | None
    channels: tuple[int, ...]
    strides: tuple[int, ...]
    cfg: dict[str, Any]
    unused: frozenset[str]
    multiple: int = 1


def build_backbone(
    name: str, pretrained: bool = False, *, img_size: int | tuple[int, int] | None = None, **options: Any
) -> Backbone:
    """The backbone of a dense network.

    Args:
        name: of a network of ours, the authors or timm.
        pretrained: with the weights of the classifier.
        img_size: for which those are built that do not take any size: RVT with masks.
        options: of `create_model`.

    Raises:
        ValueError: there is no such network, or it has no maps.
    """
    of_network = {key: value for key, value in options.items() if key != "checkpoint_path"}
    with torch.device("meta"):
        classifier = build_by_name(name, **of_network)
    how = _any_size(classifier, options)
    if img_size is not None and getattr(classifier, "masked_blocks", False):
        how["img_size"] = img_size
    if hasattr(classifier, "forward_intermediates"):
        how["feature_cls"] = "getter"  # the network itself, with its own names of tensors
    how |= dict(features_only=True, out_indices=_chosen(classifier, how))
    try:
        with torch.device("meta"):
            build_by_name(name, **of_network, **how)
    except (RuntimeError, AttributeError, AssertionError, TypeError) as error:
        reason = f"{name} has no maps for a dense head ({error})"
        raise ValueError(f"{reason}; give a backbone that timm builds with features_only") from error
    features = build_by_name(name, pretrained, **options, **how)
    is_getter = isinstance(features, FeatureGetterNet)
    network = features.model if is_getter else features
    return Backbone(
        network=network,
        indices=tuple(features.out_indices) if is_getter else None,
        channels=tuple(features.feature_info.channels()),
        strides=tuple(features.feature_info.reduction()),
        cfg=dict(features.pretrained_cfg),
        unused=frozenset(classifier.state_dict()) - frozenset(network.state_dict()),
        multiple=_patch(classifier) if "strict_img_size" in how else 1,
    )


def levels_of(network: nn.Module, indices: Sequence[int] | None, images: Tensor, multiple: int = 1) -> list[Tensor]:
    """The maps [B, C_i, H_i, W_i] of a `Backbone`."""
    below, right = (-side % multiple for side in images.shape[2:])
    if below or right:
        images = F.pad(images, (0, right, 0, below))
    if indices is None:
        return list(network(images))
    return network.forward_intermediates(images, indices=list(indices), intermediates_only=True)  # type: ignore[operator]


def _patch(classifier: Any) -> int:
    """Side of the patches of a network that takes multiples of it."""
    side = classifier.patch_embed.patch_size
    return side if isinstance(side, int) else max(side)


def _any_size(classifier: nn.Module, options: dict[str, Any]) -> dict[str, Any]:
    """What makes a network take images of any size, and FAN give the four maps that were published."""
    wanted: dict[str, Any] = dict(dynamic_img_size=True, dynamic_img_pad=True, strict_img_size=False)
    if isinstance(classifier, FAN):
        wanted = dict(last_level="same") if classifier.downsample is None else {}
    return {key: value for key, value in wanted.items() if key not in options and takes_option(classifier, key)}


def _chosen(classifier: Any, how: dict[str, Any]) -> int | tuple[int, ...]:
    """The last four stages; of a network with a map per block, the last blocks of its four quarters."""
    count = len(getattr(classifier, "feature_info", ()))
    strides = {entry["reduction"] for entry in classifier.feature_info} if count else set()
    if how.get("last_level") or count <= len(strides) + 1:
        return LEVELS
    return tuple(-(-count * quarter // LEVELS) - 1 for quarter in range(1, LEVELS + 1))
