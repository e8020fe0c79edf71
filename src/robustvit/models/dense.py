"""What segmenters and detectors have in common: a backbone that gives four maps, and weights in two parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from timm.models import group_parameters
from torch import Tensor, nn

from robustvit.models.levels import Backbone, levels_of
from robustvit.models.published_tensors import PUBLISHED_DENSE, Weights
from robustvit.models.weights_into import OwnNetwork, weight_rules, weights_of
from robustvit.runtime.weights import CheckpointError

__all__ = ["DenseNetwork", "Initialised"]

_PREFIX = "backbone."


class Initialised(NamedTuple):
    """What starting a backbone from a classifier left over.

    Attributes:
        missing: tensors of the backbone that the weights do not have; they keep their initial values.
        unused: tensors of the weights that the backbone does not have.
    """

    missing: tuple[str, ...]
    unused: tuple[str, ...]


class DenseNetwork(OwnNetwork, nn.Module):
    """A backbone with something on top.

    Args:
        backbone: what gives the levels.
        num_classes: that it tells apart.

    Attributes:
        unread_shapes: shapes of the tensors that the classifier has and that nothing here reads, by name.
        dropped_weights: names of tensors that the last weights loaded had, and that nothing reads.
        initialised: what was left over when the backbone was started from a classifier; None where it was not.
    """

    unread_parts: tuple[str, ...] = ()
    """Names of tensors that published weights have besides, and that nothing reads."""
    dropped_weights: tuple[str, ...] = ()
    initialised: Initialised | None = None

    def __init__(self, backbone: Backbone, num_classes: int) -> None:
        super().__init__()
        self.backbone, self.level_indices = backbone.network, backbone.indices
        self.channels, self.strides = backbone.channels, backbone.strides
        self.multiple, self.only_size = backbone.multiple, backbone.only_size
        self.num_classes, self.num_features = num_classes, backbone.channels[-1]
        self.unread_shapes = {f"{_PREFIX}{name}": shape for name, shape in backbone.unused.items()}
        self.implied_args: dict[str, Any] = {}
        self.pretrained_cfg = self.default_cfg = {**backbone.cfg, "num_classes": num_classes}

    def forward_features(self, images: Tensor) -> list[Tensor]:
        """[B, 3, H, W] -> four maps [B, C_i, H_i, W_i], finest first.

        Raises:
            ValueError: the backbone takes images of another size only.
        """
        if self.only_size is not None and tuple(images.shape[2:]) != self.only_size:
            given, taken = ("x".join(map(str, size)) for size in (images.shape[2:], self.only_size))
            raise ValueError(
                f"{self.pretrained_cfg.get('architecture', 'this backbone')} takes images of {taken} pixels only, and got "
                f"{given}; build it with another img_size, or let windows of {taken} slide over the image"
            )
        return levels_of(self.backbone, self.level_indices, images, self.multiple)

    @property
    def classifiers(self) -> tuple[str, ...]:
        """None, but for those that a subclass has."""
        return ()

    @torch.jit.ignore
    def set_grad_checkpointing(self, enable: bool = True) -> None:
        self.backbone.set_grad_checkpointing(enable)  # type: ignore[operator]

    @torch.jit.ignore
    def no_weight_decay(self) -> set[str]:
        own = getattr(self.backbone, "no_weight_decay", set)
        return {f"{_PREFIX}{name}" for name in own()}

    @torch.jit.ignore
    def group_matcher(self, coarse: bool = False) -> Callable[[str], tuple[int, ...]]:
        """Name of a parameter -> its place: the layers of the backbone in its own order, then the heads.

        Raises:
            ValueError: the backbone does not say which of its layers come first.
        """
        if not hasattr(self.backbone, "group_matcher"):
            raise ValueError(
                f"{type(self.backbone).__name__} has no group_matcher, which orders its layers; leave layer_decay out"
            )
        matcher = self.backbone.group_matcher(coarse=coarse)  # type: ignore[operator]
        places = group_parameters(self.backbone, matcher, reverse=True)
        last = 1 + max(places.values())
        return lambda name: (places[name.removeprefix(_PREFIX)] if name.startswith(_PREFIX) else last,)

    def native_weights(self, weights: Mapping[str, Tensor]) -> Weights:
        """The backbone's part by the rules of its family, the rest by those of the heads; without what nothing reads.

        Raises:
            CheckpointError: they are the authors', whose dense networks encode positions otherwise than this one.
        """
        is_paired = getattr(getattr(self.backbone, "pos_embed", None), "paired", False)
        if is_paired and any(name in weights for name in PUBLISHED_DENSE):
            raise CheckpointError(
                "these are weights of a published dense network, whose position encoding is not the classifier's; build the "
                "network with paired_position=False (model.options.paired_position=false), or by `from_official`"
            )
        own = {name.removeprefix(_PREFIX): value for name, value in weights.items() if name.startswith(_PREFIX)}
        rest = {name: value for name, value in weights.items() if not name.startswith(_PREFIX)}
        native = {f"{_PREFIX}{name}": value for name, value in weight_rules(self.backbone).native_weights(own).items()}
        native |= self.from_published(rest)
        self.dropped_weights = tuple(name for name, value in native.items() if self._is_unread(name, value))
        return {name: value for name, value in native.items() if name not in self.dropped_weights}

    def _is_unread(self, name: str, value: Tensor) -> bool:
        """Whether nothing reads it; one of another shape than the classifier's is unknown, and reported."""
        return name in self.unread_parts or self.unread_shapes.get(name) == value.shape

    def initialise_backbone(self, source: str | Path | Mapping[str, Any], *, use_ema: bool = True) -> Initialised:
        """Starts the backbone from weights of a classifier: ours, published, or timm's.

        Args:
            source: file or state dict, also as training programs wrap it.
            use_ema: take averaged weights where there are any.

        Raises:
            CheckpointError: they are of another network; nothing has been changed then.
        """
        expected = self.backbone.state_dict()
        weights = _flattened(weight_rules(self.backbone).native_weights(weights_of(source, use_ema)), expected)
        missing = [n for n in expected if n not in weights and not n.endswith("num_batches_tracked")]
        other = [n for n, value in weights.items() if n in expected and value.shape != expected[n].shape]
        fitting = {n: value for n, value in weights.items() if n in expected}
        if other or len(fitting) < len(expected) / 2:
            told = f"{other[0]} has the shape {list(weights[other[0]].shape)}" if other else f"they lack {missing[0]}"
            raise CheckpointError(
                f"these are weights of another network than the backbone: {told}; give those of a classifier of its kind"
            )
        self.backbone.load_state_dict(fitting, strict=False)
        self.initialised = Initialised(tuple(missing), tuple(n for n in weights if n not in expected))
        return self.initialised


def _flattened(weights: Weights, expected: Mapping[str, Tensor]) -> Weights:
    """Weights of a classifier by the names that timm's list of features has for them: `features.0` is `features_0` there."""
    flat = {name.replace(".", "_"): name for name in expected}
    return {flat.get(name.replace(".", "_"), name): value for name, value in weights.items()}
