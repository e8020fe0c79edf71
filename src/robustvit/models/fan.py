"""FAN: Fully Attentional Networks, in their ViT and Hybrid forms.

Every block attends twice: over tokens (which places belong together) and over channels (which features they agree on). Paper:
"Understanding The Robustness in Vision Transformers", ICML 2022. The network follows the released weights wherever they differ
from the paper: the channel attention (see `EfficientChannelAttention`), the MLP (`ConvMlp`), the class attention
(`ClassAttentionBlock`), head counts and depths. TAP (`tap=K`) and STL's token head (`token_head=True`) are arguments.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from timm.layers import trunc_normal_
from timm.models import checkpoint, generate_default_cfgs, register_model
from timm.models._features import feature_take_indices
from torch import Tensor, nn

from robustvit.layers.channel_attention import ChannelSqueezeExcite, SoftmaxAxis
from robustvit.layers.class_attention import ClassAttentionBlock
from robustvit.layers.conv_mlp import init_by_fan_out
from robustvit.layers.convnext_stem import ConvNeXtStem
from robustvit.layers.fan_block import ChannelKind, FANBlock, fan_blocks
from robustvit.layers.fourier_position import FourierPosition
from robustvit.layers.patch_embed import ConvPatchEmbed
from robustvit.layers.residual import DropPathRule, drop_path_rates
from robustvit.layers.token_grid import Grid, map_to_tokens, tokens_to_map
from robustvit.layers.token_pooling import TapBlocks, TapKind
from robustvit.models.build import build_variant, network_cfg, pretrained_cfgs
from robustvit.models.classifier import Classifier, check_output_stride
from robustvit.models.heads.token_head import TokenLogits, halved, linear_head
from robustvit.models.published_tensors import fan_weights

__all__ = ["FAN", "FANBlock"]

LastLevel = Literal["pool", "same", "conv"]


class TokenDownsample(nn.Module):
    """Halves the grid between two widths (FAN-Hybrid-XL): 3x3 convolution with stride 2, LayerNorm (eps 1e-5)."""

    def __init__(self, dim: int, out_dim: int) -> None:
        super().__init__()
        self.proj = nn.Conv2d(dim, out_dim, 3, stride=2, padding=1)
        self.norm = nn.LayerNorm(out_dim)
        init_by_fan_out(self.proj)

    def forward(self, x: Tensor, grid: Grid) -> tuple[Tensor, Grid]:
        z = self.proj(tokens_to_map(x, grid))
        return self.norm(map_to_tokens(z)), (z.shape[2], z.shape[3])


class FAN(TokenLogits, Classifier):
    """A fully attentional network.

    Args:
        img_size: the size it will be used at. Only checked: any size from the smallest on works with the same weights.
        in_chans: channels of the images.
        num_classes: outputs of the classifier; 0 for none.
        global_pool: "token" (class token), "avg" (mean of the patch tokens) or "" (all tokens).
        embed_dims, depths, num_heads: one entry a stage; a second stage halves the grid (XL).
        patch_size: of the convolutional embedding: 4, 8 or 16.
        stem_depths: ConvNeXt blocks of the hybrid embedding; None takes the convolutional one.
        stem_widths, stem_patch: of the hybrid embedding, see `ConvNeXtStem`.
        paired_position: see `FourierPosition`; False for weights of the authors' segmentation and detection programs.
        mlp_ratio: hidden width of the MLPs over their width.
        channel: "eca" (Eq. 7), "ca" (Eq. 6) or "se" (squeeze-excite).
        channel_heads: heads of the channel attention; None takes the block's.
        channel_softmax: axis that "ca" normalises, see `ChannelSelfAttention`.
        tap, tap_blocks: token-aware pooling and where, see `build_token_pooling` and `pooled_blocks`.
        token_head: adds STL's classifier for patch tokens; `forward_tokens` returns both.
        token_fusion: `forward` returns STL's published fusion of both.
        drop_rate, pos_drop_rate: dropout before the classifier, after the position encoding.
        proj_drop_rate, attn_drop_rate: dropout in projections and MLPs, on attention.
        drop_path_rate, drop_path_rule: stochastic depth, see `drop_path_rates`.
        init_values: initial layer scale.
        head_init_scale: factor on the initial classifier, unless there is a token head.
        last_level: the fourth feature map of hybrids: "pool" (stride 32, 2x2 mean), "same" (stride 16, released segmentation)
            or "conv" (stride 32, 768 channels, released detection). FAN-ViT has a map per block; with "same", four: of three
            blocks, and after the class attention.
        level_norms: a LayerNorm on each of the four feature maps of hybrids, as in STL's detectors.
        feature_block: the block whose output is the third feature map of hybrids; None takes the last one at stride 16.
        output_stride: only 32; asked for by libraries that dilate convolutional networks.
    """

    from_published = staticmethod(fan_weights)
    late_parts = ("last_level", "level_norms")

    patch_embed: ConvPatchEmbed | ConvNeXtStem
    pos_embed: nn.Module
    cls_token: nn.Parameter
    blocks: Any  # ModuleList[FANBlock]
    cls_attn_blocks: Any  # ModuleList[ClassAttentionBlock]

    def __init__(
        self,
        img_size: int | Grid = 224,
        in_chans: int = 3,
        *,
        num_classes: int = 1000,
        global_pool: str = "token",
        embed_dims: tuple[int, ...] = (192,),
        depths: tuple[int, ...] = (12,),
        num_heads: tuple[int, ...] = (4,),
        patch_size: int = 16,
        stem_depths: tuple[int, int] | None = None,
        stem_widths: tuple[int, int] = (128, 256),
        stem_patch: int = 4,
        paired_position: bool = True,
        mlp_ratio: float = 4.0,
        channel: ChannelKind = "eca",
        channel_heads: int | None = None,
        channel_softmax: SoftmaxAxis = "key",
        tap: TapKind = 0,
        tap_blocks: TapBlocks = "all",
        token_head: bool = False,
        token_fusion: bool = False,
        drop_rate: float = 0.0,
        pos_drop_rate: float = 0.0,
        proj_drop_rate: float = 0.0,
        attn_drop_rate: float = 0.0,
        drop_path_rate: float = 0.0,
        drop_path_rule: DropPathRule = "constant",
        init_values: float = 1.0,
        head_init_scale: float = 1.0,
        last_level: LastLevel = "pool",
        level_norms: bool = False,
        feature_block: int | None = None,
        output_stride: int = 32,
    ) -> None:
        super().__init__()
        check_output_stride(output_stride)
        self._check_pool(global_pool)
        self.global_pool, self.in_chans, self.num_classes = global_pool, in_chans, num_classes
        self.num_features = self.head_hidden_size = self.embed_dim = embed_dims[-1]
        if stem_depths is None:
            self.patch_embed = ConvPatchEmbed(embed_dims[0], patch_size=patch_size, in_chans=in_chans)
        else:
            stem: dict[str, Any] = dict(depths=stem_depths, widths=stem_widths, stem_patch=stem_patch)
            self.patch_embed = ConvNeXtStem(embed_dims[0], in_chans=in_chans, **stem)
        self.first_conv = "patch_embed.proj.0.0" if stem_depths is None else "patch_embed.stem.0"
        self._grid_of(img_size)
        self.pos_embed = FourierPosition(embed_dims[0], paired=paired_position)
        self.pos_drop = nn.Dropout(pos_drop_rate)
        drops = dict(proj_drop=proj_drop_rate, attn_drop=attn_drop_rate)
        common: dict[str, Any] = dict(mlp_ratio=mlp_ratio, init_values=init_values, **drops)
        channels: dict[str, Any] = dict(channel=channel, channel_heads=channel_heads, channel_softmax=channel_softmax)
        rates = drop_path_rates(drop_path_rate, sum(depths), drop_path_rule)
        self.blocks = fan_blocks(embed_dims, depths, num_heads, rates, tap, tap_blocks, **channels, **common)
        self.downsample = TokenDownsample(*embed_dims) if len(depths) == 2 else None
        self.downsample_after = depths[0] - 1  # the last block before it
        self._build_classifier(num_heads[-1], drop_rate, common)
        self._init_weights(1.0 if token_head or token_fusion else head_init_scale)
        self._init_token_head(token_head, token_fusion)
        self._set_levels(last_level, feature_block)
        if level_norms and self.last_level is None:
            raise ValueError("level_norms=True is for networks with four feature maps; FAN-ViT has one per block")
        widths = [level["num_chs"] for level in self.feature_info if level_norms]
        self.level_norms = nn.ModuleList(nn.LayerNorm(width) for width in widths)

    def _build_classifier(self, num_heads: int, drop_rate: float, options: dict[str, Any]) -> None:
        """The class token, its attention, and what classifies it."""
        self.cls_token = nn.Parameter(torch.zeros(1, 1, self.embed_dim))
        self.cls_attn_blocks = nn.ModuleList(ClassAttentionBlock(self.embed_dim, num_heads, **options) for _ in range(2))
        self.norm: nn.Module = nn.LayerNorm(self.embed_dim, eps=1e-6)
        self.head_drop = nn.Dropout(drop_rate)
        self.head = linear_head(self.num_features, self.num_classes)

    def _init_weights(self, head_scale: float) -> None:
        nn.init.trunc_normal_(self.cls_token, std=0.02)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                trunc_normal_(module.weight, std=0.02)
                nn.init.zeros_(module.bias)
        for module in self.modules():
            if isinstance(module, ChannelSqueezeExcite):
                module.init_gate()
        for parameter in self.head.parameters():
            parameter.data.mul_(head_scale)

    def _set_levels(self, last_level: LastLevel, feature_block: int | None) -> None:
        """Says which maps `features_only` and `forward_intermediates` offer: every block, or four levels for hybrids."""
        if last_level not in ("pool", "same", "conv"):
            raise ValueError(f"last_level={last_level!r} is not known; choose 'pool', 'same' or 'conv'")
        stem, dim = self.patch_embed, self.embed_dim
        stride = stem.patch_size
        is_vit = isinstance(stem, ConvPatchEmbed)
        if last_level != "pool" and ((is_vit and last_level != "same") or self.downsample is not None):
            raise ValueError(f"last_level={last_level!r} is for hybrids whose tokens all have stride 16; this one's do not")
        self.last_level: nn.Module | None = None
        self.level_of_block = {i: i for i in range(len(self.blocks))}
        if isinstance(stem, ConvPatchEmbed):
            if last_level == "same":
                self.last_level, depth = nn.Identity(), len(self.blocks)
                self.level_of_block = {round(depth * share / 12) - 1: i for i, share in enumerate((5, 8, 12))}
            modules = [f"blocks.{i}" for i in self.level_of_block] + ["cls_attn_blocks"] * (last_level == "same")
            self.feature_info = [dict(num_chs=dim, reduction=stride, module=module) for module in modules]
            return
        block = self.downsample_after if feature_block is None else feature_block
        self.level_of_block = {block: 2}
        last_dim, last_stride = dim, 2 * stride
        self.last_level = nn.Identity()  # XL has stride 32 already
        if self.downsample is None and last_level == "conv":
            last_dim = 768
            self.last_level = nn.Conv2d(dim, last_dim, 3, stride=2, padding=1)
        elif self.downsample is None and last_level == "pool":
            self.last_level = nn.AvgPool2d(2, stride=2, ceil_mode=True)
        elif self.downsample is None:
            last_stride = stride
        names = ("patch_embed.stages.0", "patch_embed.stages.1", f"blocks.{block}", "cls_attn_blocks")
        widths = (*stem.widths, stem.proj.out_channels, last_dim)
        strides = (stride // 4, stride // 2, stride, last_stride)
        levels = zip(widths, strides, names, strict=True)
        self.feature_info = [dict(num_chs=c, reduction=r, module=m) for c, r, m in levels]

    @torch.jit.ignore
    def no_weight_decay(self) -> set[str]:
        return {"cls_token"}

    @torch.jit.ignore
    def group_matcher(self, coarse: bool = False) -> dict[str, Any]:
        return dict(
            stem=r"^cls_token|^pos_embed|^patch_embed",
            blocks=[(r"^blocks\.(\d+)", None), (r"^downsample", (self.downsample_after,))],
            cls_attn_blocks=[(r"^cls_attn_blocks\.(\d+)", None), (r"^norm", (99999,))],
        )

    @torch.jit.ignore
    def set_grad_checkpointing(self, enable: bool = True) -> None:
        self.grad_checkpointing = enable
        if isinstance(self.patch_embed, ConvNeXtStem):
            for stage in self.patch_embed.stages:
                stage.grad_checkpointing = enable

    def _embed(self, z: Tensor) -> tuple[Tensor, Grid]:
        """Token map [B, C, Hp, Wp] -> tokens [B, N, C] that know where they are."""
        grid = (z.shape[2], z.shape[3])
        return self.pos_drop(map_to_tokens(z) + self.pos_embed(grid)), grid

    def _run_block(self, i: int, x: Tensor, grid: Grid) -> Tensor:
        if self.grad_checkpointing and not torch.jit.is_scripting():
            return checkpoint(self.blocks[i], x, grid)
        return self.blocks[i](x, grid)

    def _downsample_after(self, i: int, x: Tensor, grid: Grid) -> tuple[Tensor, Grid]:
        if self.downsample is not None and i == self.downsample_after:
            return self.downsample(x, grid)
        return x, grid

    def _attend_class(self, x: Tensor) -> Tensor:
        """[B, N, C] -> [B, 1 + N, C], class token first."""
        x = torch.cat((self.cls_token.expand(x.shape[0], -1, -1), x), dim=1)
        for block in self.cls_attn_blocks:
            x = block(x)
        return x

    def forward_features(self, x: Tensor) -> Tensor:
        """[B, in_chans, H, W] -> [B, 1 + N, C], class token first."""
        x, grid = self._embed(self.patch_embed(x))
        for i in range(len(self.blocks)):
            x = self._run_block(i, x, grid)
            x, grid = self._downsample_after(i, x, grid)
        return self.norm(self._attend_class(x))

    def _pool(self, features: Tensor) -> Tensor:
        if self.global_pool == "token":
            return features[:, 0]
        return features[:, 1:].mean(dim=1) if self.global_pool == "avg" else features

    def _patch_tokens(self, features: Tensor) -> Tensor:
        return features[:, 1:]

    def token_grid(self, height: int, width: int) -> Grid:
        return halved(self._grid_of((height, width)), times=0 if self.downsample is None else 1)

    def _levels(self, x: Tensor, norm: bool, last: int | None) -> tuple[dict[int, Tensor], Tensor | None]:
        stem = self.patch_embed
        *stem_maps, z = stem.forward_levels(x) if isinstance(stem, ConvNeXtStem) else (stem(x),)
        maps = dict(enumerate(stem_maps))
        features = None
        if last not in maps:
            token_maps, features = self._token_levels(z, norm, last)
            maps |= token_maps
        if self.level_norms:
            maps = {i: _normed(z, self.level_norms[i]) for i, z in maps.items()}
        return maps, features

    def _token_levels(self, z: Tensor, norm: bool, last: int | None) -> tuple[dict[int, Tensor], Tensor | None]:
        """The maps that come from tokens, up to level `last`, or with `last=None` all of them and the final features."""
        maps: dict[int, Tensor] = {}
        x, grid = self._embed(z)
        hybrid = self.last_level is not None  # or a FAN-ViT with its levels
        for i in range(len(self.blocks)):
            x = self._run_block(i, x, grid)
            if i in self.level_of_block:
                maps[self.level_of_block[i]] = tokens_to_map(self.norm(x) if norm and not hybrid else x, grid)
            x, grid = self._downsample_after(i, x, grid)
            if last in maps:
                return maps, None
        features = None
        if last is None:
            attended = self._attend_class(x)
            features, patches = self.norm(attended), attended[:, 1:]
        else:
            patches = x
            for block in self.cls_attn_blocks:
                patches = block.forward_patches(patches)
        if self.last_level is not None:
            maps[3] = self.last_level(tokens_to_map(self.norm(patches) if norm else patches, grid))
        return maps, features

    def prune_intermediate_layers(
        self, indices: int | list[int] = 1, prune_norm: bool = False, prune_head: bool = True
    ) -> list[int]:
        """Drops what the maps at `indices` do not need; returns the indices counted from the front."""
        take, last = feature_take_indices(len(self.feature_info), indices)
        if isinstance(self.patch_embed, ConvNeXtStem) and last < 2:
            self.patch_embed.stages = self.patch_embed.stages[: last + 1]
            self.patch_embed.proj = nn.Identity()
            self.pos_embed = nn.Identity()
        needed = [i for i, level in self.level_of_block.items() if level <= last]
        if last != 3 or self.last_level is None:
            self.blocks = self.blocks[: max(needed, default=-1) + 1]
            self.downsample = self.downsample if len(self.blocks) > self.downsample_after + 1 else None
            self.last_level = None if self.last_level is None else nn.Identity()
        self.level_norms = self.level_norms[: last + 1]
        if prune_norm:
            self.norm = nn.Identity()
        if prune_head:
            self.reset_classifier(0, "")
            del self.cls_token
            if last == 3 and self.last_level is not None:
                for block in self.cls_attn_blocks:
                    block.keep_patches_only()
            else:
                self.cls_attn_blocks = nn.ModuleList()
        return take


def _normed(z: Tensor, norm: nn.Module) -> Tensor:
    """A map [B, C, H, W] normalised over its channels."""
    return tokens_to_map(norm(map_to_tokens(z)), (z.shape[2], z.shape[3]))


_VIT = network_cfg(first_conv="patch_embed.proj.0.0")
_HYBRID = network_cfg(first_conv="patch_embed.stem.0")
_NANO = dict(input_size=(3, 32, 32), num_classes=10)

default_cfgs = generate_default_cfgs(
    pretrained_cfgs(
        {
            "fan_vit_nano": {**_VIT, **_NANO},
            "fan_vit_tiny": _VIT,
            "fan_vit_small": _VIT,
            "fan_vit_small_se": _VIT,
            "fan_vit_small_ca": _VIT,
            "fan_vit_base": _VIT,
            "fan_vit_large": _VIT,
            "fan_hybrid_nano": {**_HYBRID, **_NANO},
            "fan_hybrid_tiny": _HYBRID,
            "fan_hybrid_small": _HYBRID,
            "fan_hybrid_base": _HYBRID,
            "fan_hybrid_large": _HYBRID,
            "fan_hybrid_xlarge": _HYBRID,
        }
    )
)


@register_model
def fan_vit_nano(pretrained: bool = False, **kwargs: Any) -> FAN:
    values = dict(img_size=32, patch_size=4, embed_dims=(96,), depths=(4,), num_heads=(4,))
    return build_variant(FAN, "fan_vit_nano", pretrained, values, kwargs)


@register_model
def fan_vit_tiny(pretrained: bool = False, **kwargs: Any) -> FAN:
    return build_variant(FAN, "fan_vit_tiny", pretrained, dict(embed_dims=(192,), depths=(12,), num_heads=(4,)), kwargs)


@register_model
def fan_vit_small(pretrained: bool = False, **kwargs: Any) -> FAN:
    return build_variant(FAN, "fan_vit_small", pretrained, dict(embed_dims=(384,), depths=(12,), num_heads=(8,)), kwargs)


@register_model
def fan_vit_small_se(pretrained: bool = False, **kwargs: Any) -> FAN:
    values = dict(embed_dims=(384,), depths=(12,), num_heads=(8,), channel="se")
    return build_variant(FAN, "fan_vit_small_se", pretrained, values, kwargs)


@register_model
def fan_vit_small_ca(pretrained: bool = False, **kwargs: Any) -> FAN:
    values = dict(embed_dims=(384,), depths=(12,), num_heads=(8,), channel="ca")
    return build_variant(FAN, "fan_vit_small_ca", pretrained, values, kwargs)


@register_model
def fan_vit_base(pretrained: bool = False, **kwargs: Any) -> FAN:
    return build_variant(FAN, "fan_vit_base", pretrained, dict(embed_dims=(448,), depths=(18,), num_heads=(8,)), kwargs)


@register_model
def fan_vit_large(pretrained: bool = False, **kwargs: Any) -> FAN:
    return build_variant(FAN, "fan_vit_large", pretrained, dict(embed_dims=(480,), depths=(24,), num_heads=(10,)), kwargs)


@register_model
def fan_hybrid_nano(pretrained: bool = False, **kwargs: Any) -> FAN:
    stem = dict(stem_depths=(1, 1), stem_widths=(32, 64))
    values = dict(img_size=32, embed_dims=(96,), depths=(3,), num_heads=(4,), **stem)
    return build_variant(FAN, "fan_hybrid_nano", pretrained, values, kwargs)


@register_model
def fan_hybrid_tiny(pretrained: bool = False, **kwargs: Any) -> FAN:
    values = dict(embed_dims=(192,), depths=(8,), num_heads=(8,), stem_depths=(3, 3))
    return build_variant(FAN, "fan_hybrid_tiny", pretrained, values, kwargs)


@register_model
def fan_hybrid_small(pretrained: bool = False, **kwargs: Any) -> FAN:
    values = dict(embed_dims=(384,), depths=(10,), num_heads=(8,), stem_depths=(3, 3))
    return build_variant(FAN, "fan_hybrid_small", pretrained, values, kwargs)


@register_model
def fan_hybrid_base(pretrained: bool = False, **kwargs: Any) -> FAN:
    values = dict(embed_dims=(448,), depths=(16,), num_heads=(8,), stem_depths=(3, 3))
    return build_variant(FAN, "fan_hybrid_base", pretrained, values, kwargs)


@register_model
def fan_hybrid_large(pretrained: bool = False, **kwargs: Any) -> FAN:
    values = dict(embed_dims=(480,), depths=(22,), num_heads=(10,), stem_depths=(3, 5), feature_block=18)
    return build_variant(FAN, "fan_hybrid_large", pretrained, dict(head_init_scale=0.001, **values), kwargs)


@register_model
def fan_hybrid_xlarge(pretrained: bool = False, **kwargs: Any) -> FAN:
    values = dict(embed_dims=(528, 768), depths=(20, 3), num_heads=(11, 16), stem_depths=(3, 7))
    return build_variant(FAN, "fan_hybrid_xlarge", pretrained, values, kwargs)
