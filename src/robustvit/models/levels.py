"""Backbones of dense networks: any network as four maps, finest first.

FAN-Hybrid, FAN-Swin and convolutional networks have four stages of strides 4 to 32. In FAN-ViT, RVT and ViT every block has
one stride; they give maps from four depths. Of a network with fewer stages, the last map stands for those that are not there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from timm.models._features import FeatureGetterNet
from torch import Tensor, nn

from robustvit.layers.convnext_stem import ConvNeXtStem
from robustvit.models.building import build_by_name
from robustvit.models.fan import FAN
from robustvit.models.image_sizes import takes_option

__all__ = ["Backbone", "build_backbone", "levels_of"]

LEVELS = 4
ODD_SIZE = (129, 163)
"""Of images that a network must take that takes any size."""
MULTIPLES = (1, 4, 16, 32, 64)
"""Of pixels, which images may be padded to."""


class Backbone(NamedTuple):
    """A network that gives levels.

    Attributes:
        network: without its classifier.
        indices: of the maps that `forward_intermediates` is asked for; None where `network` returns the levels itself.
        channels: of the levels.
        strides: of the levels.
        cfg: `pretrained_cfg` of the network.
        unused: shapes of the tensors that the classifier has and the levels do not need, by name.
        multiple: images are padded with zeros, below and on the right, to multiples of so many pixels.
        only_size: (H, W) of the images, of a network that takes one size only.
    """

    network: nn.Module
    indices: tuple[int, ...] | None
    channels: tuple[int, ...]
    strides: tuple[int, ...]
    cfg: dict[str, Any]
    unused: Mapping[str, torch.Size]
    multiple: int = 1
    only_size: tuple[int, int] | None = None


def build_backbone(
    name: str,
    pretrained: bool = False,
    *,
    img_size: int | tuple[int, int] | None = None,
    last_level: str = "same",
    **options: Any,
) -> Backbone:
    """The backbone of a dense network.

    Args:
        name: of a network of ours, the authors or timm.
        pretrained: with the weights of the classifier.
        img_size: for which those are built that do not take any size: RVT with masks.
        last_level: the fourth map of FAN-Hybrid: "same" for segmenters, "conv" for detectors, or "pool"; others have their
            own.
        options: of `create_model`.

    Raises:
        ValueError: there is no such network, or it has no maps.
    """
    of_network = {key: value for key, value in options.items() if key != "checkpoint_path"}
    with torch.device("meta"):
        classifier = build_by_name(name, **of_network)
    how = _any_size(classifier, options, last_level)
    how |= dict(features_only=True, out_indices=_chosen(classifier, how))
    if img_size is not None and getattr(classifier, "masked_blocks", False):
        how["img_size"] = img_size
    itself = dict(feature_cls="getter")  # the network itself, with its own names of tensors
    try:
        trial = _tried(name, of_network | how | itself) if hasattr(classifier, "forward_intermediates") else None
    except ValueError:  # some of timm's cannot be had so, but as a list of their layers
        trial = None
    how |= {} if trial is None else itself
    trial = trial or _tried(name, of_network | how)
    if trial.multiple is None and img_size is not None and "img_size" not in how and takes_option(classifier, "img_size"):
        how["img_size"] = img_size
        trial = _tried(name, of_network | how)
    features = build_by_name(name, pretrained, **options, **how)
    network, indices = _parts(features)
    kept = network.state_dict()
    for unread in trial.unread:
        network.get_parameter(unread).requires_grad_(False)  # processes wait for gradients that never come
    return Backbone(
        network=network,
        indices=indices,
        channels=tuple(_four(features.feature_info.channels())),
        strides=tuple(_four(features.feature_info.reduction())),
        cfg=dict(features.pretrained_cfg),
        unused={key: value.shape for key, value in classifier.state_dict().items() if key not in kept},
        multiple=trial.multiple or 1,
        only_size=trial.size if trial.multiple is None else None,
    )


def _parts(features: Any) -> tuple[nn.Module, tuple[int, ...] | None]:
    """The network, and the indices of its maps; None where it returns the maps itself."""
    is_getter = isinstance(features, FeatureGetterNet)
    return (features.model, tuple(features.out_indices)) if is_getter else (features, None)


class _Trial(NamedTuple):
    """What a network without weights shows.

    Attributes:
        size: (H, W) that it was made for.
        multiple: of how many pixels images must be; None where it takes that size only.
        unread: names of parameters that no level depends on.
    """

    size: tuple[int, int]
    multiple: int | None
    unread: tuple[str, ...]


def _tried(name: str, options: dict[str, Any]) -> _Trial:
    """Runs the network on the meta device: without numbers, in a fraction of a second.

    Raises:
        ValueError: it has no maps.
    """
    with torch.inference_mode(False), torch.enable_grad(), torch.device("meta"):  # wherever it is called
        return _try(name, options)


def _try(name: str, options: dict[str, Any]) -> _Trial:
    refusal = f"{name} has no maps for a dense head ({{}}); give another backbone that timm builds with features_only"
    try:
        features = build_by_name(name, **options)
    except (RuntimeError, AttributeError, AssertionError, TypeError) as error:
        raise ValueError(refusal.format(error)) from error
    network, indices = _parts(features.eval())
    size = options.get("img_size") or features.pretrained_cfg["input_size"][1:]
    size = (size, size) if isinstance(size, int) else (size[0], size[1])
    problem: Exception | None = None
    for multiple, shape in (*((multiple, ODD_SIZE) for multiple in MULTIPLES), (None, size)):
        images = torch.empty(1, options.get("in_chans", 3), *shape)
        try:
            levels = levels_of(network, indices, images, multiple or 1)
            _check_levels(levels, features.feature_info, [side + -side % (multiple or 1) for side in shape])
        except NotImplementedError:  # an operation that the meta device does not have tells nothing
            return _Trial(size, 1, ())
        except (RuntimeError, ValueError, AssertionError, IndexError) as error:
            if "meta tensors" in str(error):  # it reads numbers, which are not there: whole patches are right for most
                return _Trial(size, max(features.feature_info.reduction()), ())
            problem = error
            continue
        return _Trial(size, multiple, _unread(network, levels))
    raise ValueError(refusal.format(problem)) from problem


def _check_levels(levels: Sequence[Tensor], info: Any, size: Sequence[int]) -> None:
    """Raises ValueError where maps are not [B, C, H, W] with the channels and about the strides that the network says."""
    for level, channels, stride in zip(levels, _four(info.channels()), _four(info.reduction()), strict=True):
        pairs = zip(level.shape[2:], size, strict=True)
        covers = all(abs(side * stride - wanted) <= max(4 * stride, 0.15 * wanted) for side, wanted in pairs)
        if level.shape[1] != channels or not covers:  # unpadded convolutions leave some pixels out
            raise ValueError(
                f"for {size[0]}x{size[1]} pixels it gives a map {list(level.shape)}, and says {channels} channels at stride "
                f"{stride}"
            )


def _unread(network: nn.Module, levels: Sequence[Tensor]) -> tuple[str, ...]:
    """Names of the parameters that the levels do not depend on."""
    named = {name: parameter for name, parameter in network.named_parameters() if parameter.requires_grad}
    gradients = torch.autograd.grad([level.sum() for level in levels], list(named.values()), allow_unused=True)
    return tuple(name for name, gradient in zip(named, gradients, strict=True) if gradient is None)


def levels_of(network: nn.Module, indices: Sequence[int] | None, images: Tensor, multiple: int = 1) -> list[Tensor]:
    """The four maps [B, C_i, H_i, W_i] of a `Backbone`."""
    below, right = (-side % multiple for side in images.shape[2:])
    if below or right:
        images = F.pad(images, (0, right, 0, below))
    if indices is None:
        return _four(network(images))
    maps = network.forward_intermediates(images, indices=list(indices), intermediates_only=True)  # type: ignore[operator]
    return _four(maps)


def _four(of_levels: Iterable[Any]) -> list[Any]:
    """What is given of each level, for four levels."""
    given = list(of_levels)
    return given + given[-1:] * (LEVELS - len(given))


def _any_size(classifier: nn.Module, options: dict[str, Any], last_level: str) -> dict[str, Any]:
    """What makes a network take images of any size, and FAN give the four maps that were published."""
    wanted: dict[str, Any] = dict(dynamic_img_size=True, dynamic_img_pad=True, strict_img_size=False)
    if isinstance(classifier, FAN):
        is_hybrid = isinstance(classifier.patch_embed, ConvNeXtStem)
        wanted = dict(last_level=last_level if is_hybrid else "same") if classifier.downsample is None else {}
    return {key: value for key, value in wanted.items() if key not in options and takes_option(classifier, key)}


def _chosen(classifier: Any, how: dict[str, Any]) -> int | tuple[int, ...]:
    """The last four stages, or all; of a network with a map per block, the last blocks of its four quarters."""
    count = len(getattr(classifier, "feature_info", ()))
    strides = {entry["reduction"] for entry in classifier.feature_info} if count else set()
    if how.get("last_level") or count <= len(strides) + 1:
        return min(LEVELS, count or LEVELS)
    return tuple(-(-count * quarter // LEVELS) - 1 for quarter in range(1, LEVELS + 1))
