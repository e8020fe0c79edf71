"""The token head of STL: a second classifier, shared by all patch tokens.

A network says that it has one through `has_token_head`; it then has `forward_tokens(images)`, which returns class logits and
token logits, and `token_grid(height, width)`, which says where in the image those tokens are.
"""

from __future__ import annotations

from typing import Any

from timm.layers import get_device_dtype, trunc_normal_
from torch import Tensor, nn

from robustvit.layers.token_grid import Grid, grid_of_image

__all__ = ["TokenLogits", "TokenOutputs", "fuse_token_logits", "halved", "has_token_head", "linear_head"]


def has_token_head(network: nn.Module) -> bool:
    """Whether a network classifies its tokens: it has `forward_tokens` and `token_grid` then."""
    return getattr(network, "token_head", None) is not None


def linear_head(features: int, num_classes: int, like: nn.Module | None = None) -> nn.Module:
    """A classifier with weights of std 0.02 and no bias to start with; the identity for 0 classes."""
    if num_classes == 0:
        return nn.Identity()
    head = nn.Linear(features, num_classes, **(get_device_dtype(like) if like is not None else {}))
    trunc_normal_(head.weight, std=0.02)
    nn.init.zeros_(head.bias)
    return head


def fuse_token_logits(class_logits: Tensor, token_logits: Tensor) -> Tensor:
    """STL's published evaluation rule: class logits plus half of the largest token logit of each class.

    The paper does not mention it; its training chooses checkpoints by the class logits alone.

    Args:
        class_logits: [B, K].
        token_logits: [B, N, K].
    """
    return class_logits + 0.5 * token_logits.amax(dim=1)


def halved(grid: Grid, times: int) -> Grid:
    """The grid after `times` steps of stride 2 that keep an odd last row and column."""
    return grid_of_image(grid, [(3, 2, 1)] * times)


class TokenLogits:
    """STL's token head, for any timm-like network: mix in before the class that has `forward_features` and `forward_head`.

    The class says where its tokens are: `_patch_tokens` in the features, `token_grid` in the image.
    """

    token_head: nn.Module | None  # no value here: it would hide the submodule
    token_fusion: bool = False

    def _patch_tokens(self, features: Tensor) -> Tensor:
        """What `forward_features` returns -> [B, N, C], normalised, without prefix tokens."""
        raise TypeError(f"{type(self).__name__} does not say where its patch tokens are")

    def token_grid(self, height: int, width: int) -> Grid:
        """(Hp, Wp) of the tokens that `forward_tokens` classifies in images of `height` x `width` pixels; N = Hp * Wp."""
        raise TypeError(f"{type(self).__name__} does not say where its patch tokens are")

    def _init_token_head(self, token_head: bool, fusion: bool) -> None:
        """For constructors: with or without the head; `fusion` needs it."""
        self.token_head = None
        if token_head or fusion:
            self.add_token_head(fusion)

    def add_token_head(self, fusion: bool = False) -> None:
        """Adds a second classifier, shared by all patch tokens. `fusion`: see `forward`."""
        self.token_head = linear_head(self.num_features, self.num_classes, self)  # type: ignore[attr-defined,arg-type]
        self.token_fusion = fusion

    def forward_tokens(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Class logits [B, K] and token logits [B, N, K]; tokens in row-major order on `token_grid`."""
        if self.token_head is None:
            raise ValueError("this network has no token head; build it with create_model(..., token_head=True)")
        features = self.forward_features(x)  # type: ignore[attr-defined]
        token_logits = self.token_head(self._patch_tokens(features))
        return self.forward_head(features), token_logits  # type: ignore[attr-defined]

    def forward(self, x: Tensor) -> Tensor:
        """Class logits [B, K]; with `token_fusion` set, STL's published fusion of class and token logits."""
        if self.token_fusion:
            return fuse_token_logits(*self.forward_tokens(x))
        return super().forward(x)  # type: ignore[misc]

    def reset_classifier(self, num_classes: int, global_pool: str | None = None) -> None:
        super().reset_classifier(num_classes, global_pool)  # type: ignore[misc]
        if self.token_head is not None:
            self.add_token_head(self.token_fusion)


class TokenOutputs(nn.Module):
    """A network with a token head, as a module whose `forward` returns class logits [B, K] and token logits [B, N, K]."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network: Any = network
        self.train(network.training)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.network.forward_tokens(x)
