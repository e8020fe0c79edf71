"""TAP and STL's token head on timm's own ViT, DeiT and Swin.

Both leave the network's code and its parameter names alone, so that timm's checkpoints load into it: what is added has names
of its own (`...norm1.tap.*`, `token_head.*`).
"""

from __future__ import annotations

from typing import Any

import torch
from timm.models.deit import VisionTransformerDistilled
from timm.models.swin_transformer import PatchMerging, SwinTransformer, SwinTransformerBlock
from timm.models.vision_transformer import ResPostBlock, VisionTransformer
from torch import Tensor, nn

from robustvit.layers.token_grid import Grid
from robustvit.layers.token_pooling import TapBlocks, TapKind, build_token_pooling, pooled_blocks
from robustvit.models.heads.token_head import TokenLogits, halved, has_token_head

__all__ = ["add_token_head", "add_token_pooling"]


class PooledNorm(nn.LayerNorm):
    """The norm in front of an attention, with a token pooling before it. Parameters keep the names of the norm."""

    tap: nn.Module

    @classmethod
    def wrap(cls, norm: nn.LayerNorm, tap: nn.Module) -> PooledNorm:
        """A norm that shares the parameters of `norm`."""
        pooled = cls(norm.normalized_shape, norm.eps)
        pooled.weight, pooled.bias = norm.weight, norm.bias
        pooled.tap = tap.to(device=norm.weight.device, dtype=norm.weight.dtype)
        pooled.train(norm.training)
        return pooled


class PooledMapNorm(PooledNorm):
    """For Swin: pools the whole map [B, H, W, C] before it is padded, shifted or cut into windows."""

    def forward(self, x: Tensor) -> Tensor:
        H, W = x.shape[1:3]
        return super().forward(self.tap(x.flatten(1, 2), (H, W)).reshape(x.shape))


class PooledTokenNorm(PooledNorm):
    """For ViT: pools the image tokens of [B, prefix + N, C]; prefix tokens have no neighbours and stay as they are."""

    grid_source: tuple[nn.Module]
    prefix_tokens: int

    def forward(self, x: Tensor) -> Tensor:
        p = self.prefix_tokens
        grid: Grid = self.grid_source[0].token_grid  # type: ignore[assignment]
        if x.shape[1] != p + grid[0] * grid[1]:
            raise ValueError(
                f"TAP needs all {grid[0]}x{grid[1]} image tokens on their grid and got {x.shape[1] - p}; "
                "build the network without patch dropout (patch_drop_rate=0)"
            )
        pooled = self.tap(x[:, p:].contiguous(), grid)
        return super().forward(torch.cat((x[:, :p], pooled), dim=1) if p else pooled)


def _note_grid(patch_embed: nn.Module, inputs: tuple[Tensor, ...], output: Any) -> None:
    """Forward hook: the grid of the image that is going through. Takes the module as argument, so copies keep their own."""
    patch_embed.token_grid = patch_embed.dynamic_feat_size(tuple(inputs[0].shape[-2:]))  # type: ignore[operator]


def add_token_pooling(model: nn.Module, tap: TapKind, tap_blocks: TapBlocks = "all") -> None:
    """Puts TAP, or one of its alternatives, between the residual stream and the attention norm of a timm ViT or Swin.

    Args:
        model: timm's VisionTransformer (ViT, DeiT, ...) or SwinTransformer; changed in place.
        tap: see `build_token_pooling`.
        tap_blocks: see `pooled_blocks`; blocks are counted over all stages.
    """
    blocks: list[Any] = [m for m in model.modules() if isinstance(m, SwinTransformerBlock)]  # also inside `features_only`
    if blocks:
        norm_class: type[PooledNorm] = PooledMapNorm
    elif isinstance(model, VisionTransformer) and all(
        hasattr(block, "norm1") and not isinstance(block, ResPostBlock) for block in model.blocks
    ):
        blocks = list(model.blocks)
        norm_class = PooledTokenNorm
    else:
        raise TypeError(f"TAP works on FAN, RVT and timm's ViT, DeiT and Swin, not on {type(model).__name__}")
    tapped = pooled_blocks(tap, tap_blocks, len(blocks))
    for i, block in enumerate(blocks):
        norm = block.norm1
        if not isinstance(norm, nn.LayerNorm):
            raise TypeError(f"TAP needs a LayerNorm before the attention; this network has {type(norm).__name__}")
        pooling = build_token_pooling(norm.normalized_shape[0], tap)
        if i not in tapped or pooling is None:
            continue
        block.norm1 = norm_class.wrap(norm, pooling)
        if isinstance(block.norm1, PooledTokenNorm):
            block.norm1.prefix_tokens = model.num_prefix_tokens  # type: ignore[assignment]
            block.norm1.grid_source = (model.patch_embed,)  # type: ignore[assignment] # in a tuple: not a submodule
            if _note_grid not in model.patch_embed._forward_hooks.values():  # type: ignore[union-attr]
                model.patch_embed.register_forward_hook(_note_grid)  # type: ignore[union-attr]


class ViTTokens(TokenLogits):
    """Where the tokens of timm's ViT are."""

    def _patch_tokens(self, features: Tensor) -> Tensor:
        return self.fc_norm(features[:, self.num_prefix_tokens :])  # type: ignore[attr-defined]

    def token_grid(self, height: int, width: int) -> Grid:
        return self.patch_embed.dynamic_feat_size((height, width))  # type: ignore[attr-defined]


class SwinTokens(TokenLogits):
    """Where the tokens of the last stage of timm's Swin are."""

    def _patch_tokens(self, features: Tensor) -> Tensor:
        return features.flatten(1, 2)  # B H W C -> B N C

    def token_grid(self, height: int, width: int) -> Grid:
        merges = sum(isinstance(stage.downsample, PatchMerging) for stage in self.layers)  # type: ignore[attr-defined]
        return halved(self.patch_embed.dynamic_feat_size((height, width)), merges)  # type: ignore[attr-defined]


class VisionTransformerWithTokens(ViTTokens, VisionTransformer):
    """timm's ViT and DeiT with a token head."""


class VisionTransformerDistilledWithTokens(ViTTokens, VisionTransformerDistilled):
    """timm's DeiT with a distillation token and a token head."""


class SwinTransformerWithTokens(SwinTokens, SwinTransformer):
    """timm's Swin with a token head."""


_WITH_TOKENS: dict[type, type] = {
    VisionTransformer: VisionTransformerWithTokens,
    VisionTransformerDistilled: VisionTransformerDistilledWithTokens,
    SwinTransformer: SwinTransformerWithTokens,
}


def add_token_head(model: nn.Module, fusion: bool = False) -> None:
    """Gives a timm ViT, DeiT or Swin STL's token head, in place: `forward_tokens`, and `token_fusion` for `forward`."""
    if has_token_head(model):  # which it is built with
        model.token_fusion = fusion  # type: ignore[assignment]
        return
    if type(model) not in _WITH_TOKENS:
        raise TypeError(f"a token head works on FAN, RVT and timm's ViT, DeiT and Swin, not on {type(model).__name__}")
    # A module around it would put a prefix before every name of its state dict, and timm's builders take no other class. So
    # its class changes, as under PyTorch's own `fully_shard` and `parametrize`; unlike theirs, these classes can be pickled.
    model.__class__ = _WITH_TOKENS[type(model)]
    model.add_token_head(fusion)  # type: ignore[operator]
