"""RVT: the Robust Vision Transformer.

A convolutional stem, no class token and no position embedding; position comes from zero padding and, in the plus variants,
from a learned mask that scales the attention logits of the first blocks. Paper: "Towards Robust Vision Transformer", CVPR
2022. Follows the released networks: RVT-B has the plain FFN and masks in its first 5 blocks (the paper's 91.8 M parameters
need 12); `masked_blocks` and `ffn` make every combination.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import torch
from timm.layers import Attention, Mlp
from timm.models import checkpoint, generate_default_cfgs, register_model
from timm.models._features import feature_take_indices
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval

from robustvit.layers.image_groups import in_image_groups
from robustvit.layers.map_gelu import MapGELU
from robustvit.layers.patch_embed import RVTStem
from robustvit.layers.position_scaled_attention import PositionScaledAttention
from robustvit.layers.residual import DropPathRule, add_branch, drop_path, drop_path_rates
from robustvit.layers.token_grid import Grid, map_to_tokens, tokens_to_map
from robustvit.layers.token_pooling import TapBlocks, TapKind, build_token_pooling, pooled_blocks
from robustvit.models.build import build_variant, network_cfg, pretrained_cfgs
from robustvit.models.classifier import Classifier, check_output_stride
from robustvit.models.heads.token_head import TokenLogits, halved
from robustvit.models.published_tensors import rvt_variant, rvt_weights

__all__ = ["RVT", "RVTBlock"]

FFN = Literal["conv", "plain"]


class ConvFFN(nn.Module):
    """Linear, BatchNorm, GELU, 3x3 depth-wise convolution, BatchNorm, GELU, linear, BatchNorm."""

    def __init__(self, dim: int, hidden_dim: int, *, drop: float = 0.0) -> None:
        super().__init__()
        self.fc1 = nn.Linear(dim, hidden_dim)
        self.act = MapGELU()
        self.bn1: nn.Module = nn.BatchNorm2d(hidden_dim)
        self.dwconv = nn.Conv2d(hidden_dim, hidden_dim, 3, padding=1, groups=hidden_dim)
        self.bn2: nn.Module = nn.BatchNorm2d(hidden_dim)
        self.fc2 = nn.Linear(hidden_dim, dim)
        self.bn3: nn.Module = nn.BatchNorm2d(dim)
        self.drop = nn.Dropout(drop)

    def forward(self, x: Tensor, grid: Grid) -> Tensor:
        """[B, N, C] -> [B, N, C]."""
        widest = x.shape[1] * self.fc1.out_features
        return in_image_groups(self, lambda t: self._forward(t, grid), x, widest=widest)

    def _forward(self, x: Tensor, grid: Grid) -> Tensor:
        z = self.drop(self.act(self.bn1(tokens_to_map(self.fc1(x), grid))))
        z = self.act(self.bn2(self.dwconv(z)))
        z = self.bn3(tokens_to_map(self.fc2(map_to_tokens(z)), grid))
        return self.drop(map_to_tokens(z))

    def fold(self) -> None:
        if isinstance(self.bn1, nn.BatchNorm2d):
            self.fc1, self.bn1 = fuse_linear_bn_eval(self.fc1, self.bn1), nn.Identity()
        if isinstance(self.bn2, nn.BatchNorm2d):
            self.dwconv, self.bn2 = fuse_conv_bn_eval(self.dwconv, self.bn2), nn.Identity()
        if isinstance(self.bn3, nn.BatchNorm2d):
            self.fc2, self.bn3 = fuse_linear_bn_eval(self.fc2, self.bn3), nn.Identity()


class PlainFFN(Mlp):
    """Linear, GELU, linear."""

    def forward(self, x: Tensor, grid: Grid) -> Tensor:
        return super().forward(x)


class RVTBlock(nn.Module):
    """`x + Attn(LN1(TAP(x)))`, then `x + FFN(LN2(x))`."""

    def __init__(
        self,
        dim: int,
        num_heads: int,
        *,
        mask_grid: Grid | None = None,
        ffn: FFN = "conv",
        mlp_ratio: float = 4.0,
        tap: nn.Module | None = None,
        drop_path_rate: float = 0.0,
        attn_drop: float = 0.0,
        proj_drop: float = 0.0,
    ) -> None:
        super().__init__()
        if ffn not in ("conv", "plain"):
            raise ValueError(f"ffn={ffn!r} is not known; choose 'conv' or 'plain'")
        self.tap = tap
        self.norm1 = nn.LayerNorm(dim, eps=1e-6)
        drops = dict(attn_drop=attn_drop, proj_drop=proj_drop)
        self.attn: Attention
        if mask_grid is None:
            self.attn = Attention(dim, num_heads, qkv_bias=True, **drops)
        else:
            self.attn = PositionScaledAttention(dim, num_heads, grid=mask_grid, **drops)
        self.norm2 = nn.LayerNorm(dim, eps=1e-6)
        hidden = int(dim * mlp_ratio)
        self.ffn = ConvFFN(dim, hidden, drop=proj_drop) if ffn == "conv" else PlainFFN(dim, hidden, drop=proj_drop)
        self.drop_path = drop_path(drop_path_rate)

    def forward(self, x: Tensor, grid: Grid) -> Tensor:
        """[B, N, C] -> [B, N, C]."""
        z = x if self.tap is None else self.tap(x, grid)
        x = add_branch(x, self.attn(self.norm1(z)), None, self.drop_path)
        return add_branch(x, self.ffn(self.norm2(x), grid), None, self.drop_path)


class RVT(TokenLogits, Classifier):
    """A robust vision transformer.

    Args:
        img_size: the size it is built for. With masks it is the only one; without, any size works.
        in_chans: channels of the images.
        num_classes: outputs of the classifier; 0 for none.
        global_pool: "avg" or "" (no pooling).
        embed_dims, depths, num_heads: one entry a stage; each later stage halves the grid and doubles the width.
        patch_size: stride of the stem, 16 or 4.
        masked_blocks: how many blocks of the first stage have a mask, from the front.
        ffn: "conv" or "plain".
        mlp_ratio: hidden width of the FFN over its width.
        tap, tap_blocks: token-aware pooling and where, see `build_token_pooling` and `pooled_blocks`.
        token_head: adds STL's classifier for patch tokens; `forward_tokens` returns both.
        token_fusion: `forward` returns STL's published fusion of both.
        drop_rate, proj_drop_rate, attn_drop_rate: dropout before the classifier, in projections, on attention.
        drop_path_rate, drop_path_rule: stochastic depth, see `drop_path_rates`.
        output_stride: only 32; asked for by libraries that dilate convolutional networks.
    """

    from_published = staticmethod(rvt_weights)
    pools = ("avg", "")
    first_conv = "patch_embed.conv"

    def __init__(
        self,
        img_size: int | Grid = 224,
        in_chans: int = 3,
        *,
        num_classes: int = 1000,
        global_pool: str = "avg",
        embed_dims: tuple[int, ...] = (384,),
        depths: tuple[int, ...] = (12,),
        num_heads: tuple[int, ...] = (6,),
        patch_size: int = 16,
        masked_blocks: int = 0,
        ffn: FFN = "conv",
        mlp_ratio: float = 4.0,
        tap: TapKind = 0,
        tap_blocks: TapBlocks = "all",
        token_head: bool = False,
        token_fusion: bool = False,
        drop_rate: float = 0.0,
        proj_drop_rate: float = 0.0,
        attn_drop_rate: float = 0.0,
        drop_path_rate: float = 0.0,
        drop_path_rule: DropPathRule = "rvt",
        output_stride: int = 32,
    ) -> None:
        super().__init__()
        check_output_stride(output_stride)
        self._check_pool(global_pool)
        if not 0 <= masked_blocks <= depths[0]:
            raise ValueError(f"masked_blocks={masked_blocks}: only the {depths[0]} blocks of the first stage can have one")
        self.global_pool, self.in_chans, self.num_classes = global_pool, in_chans, num_classes
        self.num_features = self.head_hidden_size = self.embed_dim = embed_dims[-1]
        self.masked_blocks = masked_blocks

        self.patch_embed = RVTStem(embed_dims[0], patch_size=patch_size, in_chans=in_chans)
        self.grid = self._grid_of(img_size)
        self.img_size = (img_size, img_size) if isinstance(img_size, int) else tuple(img_size)
        drops = dict(attn_drop=attn_drop_rate, proj_drop=proj_drop_rate)
        options: dict[str, Any] = dict(ffn=ffn, mlp_ratio=mlp_ratio, **drops)
        tapped = dict.fromkeys(pooled_blocks(tap, tap_blocks, sum(depths)), tap)
        rates = drop_path_rates(drop_path_rate, sum(depths), drop_path_rule)
        self.stages, self.downsamples = nn.ModuleList(), nn.ModuleList()
        self.feature_info: list[dict[str, Any]] = []
        for dim, depth, heads in zip(embed_dims, depths, num_heads, strict=True):
            self._add_stage(dim, depth, heads, tapped, rates, options)
        self.norm: nn.Module = nn.LayerNorm(self.embed_dim, eps=1e-6)
        self.head_drop = nn.Dropout(drop_rate)
        self.head = self._new_head(num_classes)
        self._init_token_head(token_head, token_fusion)

    def _add_stage(
        self, dim: int, depth: int, heads: int, tapped: dict[int, TapKind], rates: list[float], options: dict[str, Any]
    ) -> None:
        """Blocks of one width, after a convolution that halves the grid; `tapped` and `rates` count over all stages."""
        stage, blocks = len(self.stages), nn.ModuleList()
        if stage:  # output channel c reads input channel c // 2 only
            before = self.feature_info[-1]["num_chs"]
            self.downsamples.append(nn.Conv2d(before, dim, 3, stride=2, padding=1, groups=before))
        for i in range(depth):
            block = len(self.feature_info)
            mask = self.grid if stage == 0 and i < self.masked_blocks else None
            pooling = build_token_pooling(dim, tapped[block]) if block in tapped else None
            blocks.append(RVTBlock(dim, heads, mask_grid=mask, tap=pooling, drop_path_rate=rates[block], **options))
            stride = self.patch_embed.patch_size * 2**stage
            self.feature_info.append(dict(num_chs=dim, reduction=stride, module=f"stages.{stage}.{i}"))
        self.stages.append(blocks)

    def variant_of(self, weights: Mapping[str, Tensor]) -> dict[str, Any]:
        variant = rvt_variant(weights)
        return variant | {"masked_blocks": min(variant["masked_blocks"], len(self.stages[0]))}  # type: ignore[arg-type]

    def _new_head(self, num_classes: int) -> nn.Module:
        head = super()._new_head(num_classes)
        if isinstance(head, nn.Linear):
            head.reset_parameters()  # like every layer of RVT, as PyTorch starts it
        return head

    @torch.jit.ignore
    def no_weight_decay(self) -> set[str]:
        return set()

    @torch.jit.ignore
    def group_matcher(self, coarse: bool = False) -> dict[str, Any]:
        blocks = r"^stages\.(\d+)" if coarse else r"^stages\.(\d+)\.(\d+)"
        return dict(
            stem=r"^patch_embed",
            blocks=[(blocks, None), (r"^downsamples\.(\d+)", (99998,)), (r"^norm", (99999,))],
        )

    @torch.jit.ignore
    def set_grad_checkpointing(self, enable: bool = True) -> None:
        self.grad_checkpointing = enable

    def set_input_size(self, img_size: int | Grid) -> None:
        """Makes the network, masks included, fit another image size."""
        self.grid = self._grid_of(img_size)
        self.img_size = (img_size, img_size) if isinstance(img_size, int) else tuple(img_size)
        for module in self.modules():
            if isinstance(module, PositionScaledAttention):
                module.set_grid(self.grid)

    def _check_grid(self, grid: Grid) -> None:
        if self.masked_blocks and grid != self.grid:
            built, got = ("x".join(map(str, g)) for g in (self.img_size, grid))
            raise ValueError(
                f"this network has attention masks for images of {built} pixels ({self.grid[0]}x{self.grid[1]} tokens) and "
                f"got {got} tokens; build it with img_size=(H, W), or call set_input_size((H, W)) to resize its masks"
            )

    def _run_blocks(self, x: Tensor, last: int | None = None) -> list[Tensor]:
        """Image -> the map [B, C, Hp, Wp] after every block, up to block `last`."""
        z = self.patch_embed(x)
        self._check_grid((z.shape[2], z.shape[3]))
        maps: list[Tensor] = []
        for stage, blocks in enumerate(self.stages):
            z = self.downsamples[stage - 1](z) if stage else z
            grid = (z.shape[2], z.shape[3])
            tokens = map_to_tokens(z)
            for block in blocks:  # type: ignore[attr-defined]
                if self.grad_checkpointing and not torch.jit.is_scripting():
                    tokens = checkpoint(block, tokens, grid)
                else:
                    tokens = block(tokens, grid)
                maps.append(tokens_to_map(tokens, grid))
                if last is not None and len(maps) > last:
                    return maps
            z = maps[-1]
        return maps

    def forward_features(self, x: Tensor) -> Tensor:
        """[B, in_chans, H, W] -> [B, C, Hp, Wp], not normalised: RVT averages first."""
        return self._run_blocks(x)[-1]

    def _pool(self, features: Tensor) -> Tensor:
        if self.global_pool == "avg":
            return self.norm(features.mean(dim=(2, 3)))
        return self.norm(map_to_tokens(features))

    def _patch_tokens(self, features: Tensor) -> Tensor:
        return self.norm(map_to_tokens(features))

    def token_grid(self, height: int, width: int) -> Grid:
        return halved(self._grid_of((height, width)), times=len(self.downsamples))

    def _levels(self, x: Tensor, norm: bool, last: int | None) -> tuple[dict[int, Tensor], Tensor | None]:
        maps = self._run_blocks(x, last)
        features = maps[-1] if last is None else None
        if norm:
            maps = [self._norm_map(m) if m.shape[1] == self.embed_dim else m for m in maps]
        return dict(enumerate(maps)), features

    def _norm_map(self, x: Tensor) -> Tensor:
        return self.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)  # over the channels of B C H W

    def prune_intermediate_layers(
        self, indices: int | list[int] = 1, prune_norm: bool = False, prune_head: bool = True
    ) -> list[int]:
        """Drops what the maps at `indices` do not need; returns the indices counted from the front."""
        take, last = feature_take_indices(len(self.feature_info), indices)
        kept = last + 1
        stages = nn.ModuleList()
        for blocks in self.stages:
            if kept > 0:
                stages.append(blocks[:kept])  # type: ignore[index]
            kept -= len(blocks)  # type: ignore[arg-type]
        self.stages, self.downsamples = stages, self.downsamples[: len(stages) - 1]
        if prune_norm:
            self.norm = nn.Identity()
        if prune_head:
            self.reset_classifier(0, "")
        return take


_RVT = network_cfg(first_conv="patch_embed.conv", crop_pct=0.875)
_PLUS = {**_RVT, "fixed_input_size": True}

default_cfgs = generate_default_cfgs(
    pretrained_cfgs(
        {
            "rvt_nano": {**_RVT, "input_size": (3, 32, 32), "num_classes": 10},
            "rvt_tiny": _RVT,
            "rvt_small": _RVT,
            "rvt_base": _RVT,
            "rvt_tiny_plus": _PLUS,
            "rvt_small_plus": _PLUS,
            "rvt_base_plus": _PLUS,
        }
    )
)

_TINY = dict(embed_dims=(192, 384), depths=(10, 2), num_heads=(6, 12))
_SMALL = dict(embed_dims=(384,), depths=(12,), num_heads=(6,))
_BASE = dict(embed_dims=(768,), depths=(12,), num_heads=(12,), ffn="plain")


@register_model
def rvt_nano(pretrained: bool = False, **kwargs: Any) -> RVT:
    values = dict(img_size=32, patch_size=4, embed_dims=(96,), depths=(6,), num_heads=(3,))
    return build_variant(RVT, "rvt_nano", pretrained, values, kwargs)


@register_model
def rvt_tiny(pretrained: bool = False, **kwargs: Any) -> RVT:
    return build_variant(RVT, "rvt_tiny", pretrained, _TINY, kwargs)


@register_model
def rvt_small(pretrained: bool = False, **kwargs: Any) -> RVT:
    return build_variant(RVT, "rvt_small", pretrained, _SMALL, kwargs)


@register_model
def rvt_base(pretrained: bool = False, **kwargs: Any) -> RVT:
    return build_variant(RVT, "rvt_base", pretrained, _BASE, kwargs)


@register_model
def rvt_tiny_plus(pretrained: bool = False, **kwargs: Any) -> RVT:
    return build_variant(RVT, "rvt_tiny_plus", pretrained, dict(_TINY, masked_blocks=10), kwargs)


@register_model
def rvt_small_plus(pretrained: bool = False, **kwargs: Any) -> RVT:
    return build_variant(RVT, "rvt_small_plus", pretrained, dict(_SMALL, masked_blocks=5), kwargs)


@register_model
def rvt_base_plus(pretrained: bool = False, **kwargs: Any) -> RVT:
    return build_variant(RVT, "rvt_base_plus", pretrained, dict(_BASE, masked_blocks=5), kwargs)
