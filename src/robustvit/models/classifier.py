"""What every network of ours does with its features: classify the image, and offer maps to dense networks."""

from __future__ import annotations

from typing import Any

import torch
from timm.models._features import feature_take_indices
from torch import Tensor, nn

from robustvit.layers.token_grid import Grid, map_to_tokens
from robustvit.models.heads.token_head import linear_head
from robustvit.models.weights_into import OwnNetwork

__all__ = ["Classifier", "check_output_stride"]


class Classifier(OwnNetwork, nn.Module):
    """The classifier part of a timm model, over `forward_features` and `_pool`."""

    classifier = "head"
    grad_checkpointing = False

    pools: tuple[str, ...] = ("token", "avg", "")
    num_features: int
    num_classes: int
    global_pool: str
    head: nn.Module
    head_drop: nn.Module
    patch_embed: Any
    feature_info: list[dict[str, Any]]

    def forward_features(self, x: Tensor) -> Tensor:
        raise TypeError(f"{type(self).__name__} has no features")

    def _pool(self, features: Tensor) -> Tensor:
        raise TypeError(f"{type(self).__name__} has no pooling")

    def forward_head(self, x: Tensor, pre_logits: bool = False) -> Tensor:
        """What `forward_features` returned -> logits [B, K], or the pooled features [B, C] with `pre_logits`."""
        x = self.head_drop(self._pool(x))
        return x if pre_logits else self.head(x)

    def forward(self, x: Tensor) -> Tensor:
        return self.forward_head(self.forward_features(x))

    @torch.jit.ignore
    def get_classifier(self) -> nn.Module:
        return self.head

    def reset_classifier(self, num_classes: int, global_pool: str | None = None) -> None:
        """A fresh classifier for `num_classes` (0: none)."""
        if global_pool is not None:
            self._check_pool(global_pool)
            self.global_pool = global_pool
        self.num_classes = num_classes
        self.head = self._new_head(num_classes)

    def _new_head(self, num_classes: int) -> nn.Module:
        return linear_head(self.num_features, num_classes, self)

    def set_input_size(self, img_size: int | Grid) -> None:
        """Makes the network fit another image size; ValueError where none can."""
        self._grid_of(img_size)

    def _levels(self, x: Tensor, norm: bool, last: int | None) -> tuple[dict[int, Tensor], Tensor | None]:
        """The maps [B, C, H', W'] by their position in `feature_info`, up to `last`; with None all, and the final features."""
        raise TypeError(f"{type(self).__name__} has no levels")

    def forward_intermediates(
        self,
        x: Tensor,
        indices: int | list[int] | None = None,
        norm: bool = False,
        stop_early: bool = False,
        output_fmt: str = "NCHW",
        intermediates_only: bool = False,
    ) -> list[Tensor] | tuple[Tensor, list[Tensor]]:
        """Feature maps at the positions `indices` of `feature_info`; unless `intermediates_only`, after the final features.

        Args:
            x: [B, in_chans, H, W].
            indices: positions, or how many from the end; None for all.
            norm: apply the final norm to the maps that it fits: those of the last stage, the last level of a hybrid.
            stop_early: as in timm; when only maps are wanted, nothing after the last of them is computed anyway.
            output_fmt: "NCHW" or "NLC".
            intermediates_only: leave the final features out.
        """
        if output_fmt not in ("NCHW", "NLC"):
            raise ValueError(f"output_fmt={output_fmt!r} is not known; choose 'NCHW' or 'NLC'")
        take, last = feature_take_indices(len(self.feature_info), indices)
        maps, features = self._levels(x, norm, last if intermediates_only else None)
        chosen = [map_to_tokens(maps[i]) if output_fmt == "NLC" else maps[i].contiguous() for i in take]
        return chosen if intermediates_only else (features, chosen)  # type: ignore[return-value]

    def _check_pool(self, global_pool: str) -> None:
        if global_pool not in self.pools:
            raise ValueError(f"global_pool={global_pool!r} is not possible here; choose one of {list(self.pools)}")

    def _grid_of(self, img_size: int | Grid) -> Grid:
        """The token grid of an image size; ValueError where the network cannot take it."""
        H, W = (img_size, img_size) if isinstance(img_size, int) else img_size
        grid = self.patch_embed.grid_of((H, W))
        if min(grid) < 1:
            smallest = self.patch_embed.smallest
            raise ValueError(f"img_size={H}x{W} is too small: this network takes any size from {smallest}x{smallest} up")
        return grid


def check_output_stride(output_stride: int) -> None:
    """Libraries for dense prediction ask convolutional networks to dilate; these networks cannot."""
    if output_stride != 32:
        message = f"output_stride={output_stride} is not possible: this network cannot be dilated; leave it at 32"
        raise NotImplementedError(message)
