"""What segmenters and detectors have in common: a backbone that gives four maps, and weights in two parts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from robustvit.models.levels import Backbone, levels_of
from robustvit.models.published_tensors import Weights
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
        dropped_weights: names of tensors that the last weights loaded had, and that nothing reads.
    """

    unread_parts: tuple[str, ...] = ()
    """Names of tensors that published weights have besides, and that nothing reads."""
    dropped_weights: tuple[str, ...] = ()

    def __init__(self, backbone: Backbone, num_classes: int) -> None:
        super().__init__()
        self.backbone, self.level_indices = backbone.network, backbone.indices
        self.channels, self.strides, self.multiple = backbone.channels, backbone.strides, backbone.multiple
        self.num_classes, self.num_features = num_classes, backbone.channels[-1]
        self.unread = frozenset(f"{_PREFIX}{name}" for name in backbone.unused) | frozenset(self.unread_parts)
        self.implied_args: dict[str, Any] = {}
        self.pretrained_cfg = self.default_cfg = {**backbone.cfg, "num_classes": num_classes}

    def forward_features(self, images: Tensor) -> list[Tensor]:
        """[B, 3, H, W] -> four maps [B, C_i, H_i, W_i], finest first."""
        return levels_of(self.backbone, self.level_indices, images, self.multiple)

    @torch.jit.ignore
    def set_grad_checkpointing(self, enable: bool = True) -> None:
        self.backbone.set_grad_checkpointing(enable)  # type: ignore[operator]

    def native_weights(self, weights: Mapping[str, Tensor]) -> Weights:
        """The backbone's part by the rules of its family, the rest by those of the heads; without what nothing reads."""
        own = {name.removeprefix(_PREFIX): value for name, value in weights.items() if name.startswith(_PREFIX)}
        rest = {name: value for name, value in weights.items() if not name.startswith(_PREFIX)}
        native = {f"{_PREFIX}{name}": value for name, value in weight_rules(self.backbone).native_weights(own).items()}
        native |= self.from_published(rest)
        self.dropped_weights = tuple(name for name in native if name in self.unread)
        return {name: value for name, value in native.items() if name not in self.unread}

    def initialise_backbone(self, source: str | Path | Mapping[str, Any], *, use_ema: bool = True) -> Initialised:
        """Starts the backbone from weights of a classifier: ours, published, or timm's.

        Args:
            source: file or state dict, also as training programs wrap it.
            use_ema: take averaged weights where there are any.

        Raises:
            CheckpointError: they are of another network; nothing has been changed then.
        """
        weights = weight_rules(self.backbone).native_weights(weights_of(source, use_ema))
        expected = self.backbone.state_dict()
        missing = [n for n in expected if n not in weights and not n.endswith("num_batches_tracked")]
        other = [n for n, value in weights.items() if n in expected and value.shape != expected[n].shape]
        fitting = {n: value for n, value in weights.items() if n in expected}
        if other or len(fitting) < len(expected) / 2:
            told = f"{other[0]} has the shape {list(weights[other[0]].shape)}" if other else f"they lack {missing[0]}"
            raise CheckpointError(
                f"these are weights of another network than the backbone: {told}; give those of a classifier of its kind"
            )
        self.backbone.load_state_dict(fitting, strict=False)
        return Initialised(tuple(missing), tuple(n for n in weights if n not in expected))
