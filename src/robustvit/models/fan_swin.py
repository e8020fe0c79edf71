"""FAN-Swin: Swin Transformer whose channel branch is FAN's channel attention.

Windows, shifts, merging, other image sizes and the timm interface are timm's Swin. Only the MLP of the blocks of the first
three stages is replaced, as released; the paper has the FAN block everywhere. The channel attention sees the whole map, not
windows, and its MLP has no residual.
"""

from __future__ import annotations

from typing import Any

from timm.layers import PatchEmbed, resize_rel_pos_bias_table, trunc_normal_
from timm.models import generate_default_cfgs, register_model
from timm.models.swin_transformer import SwinTransformer, SwinTransformerBlock, SwinTransformerStage, WindowAttention
from torch import Tensor, nn
from torch.nn import functional as F

from robustvit.layers.channel_attention import EfficientChannelAttention
from robustvit.layers.conv_mlp import ConvMlp
from robustvit.layers.image_groups import in_image_groups
from robustvit.layers.patch_embed import check_image
from robustvit.layers.residual import DropPathRule, add_branch, drop_path, drop_path_rates
from robustvit.layers.token_grid import Grid
from robustvit.layers.token_pooling import TapBlocks, TapKind
from robustvit.models.build import build_variant, network_cfg, pretrained_cfgs
from robustvit.models.classifier import check_output_stride
from robustvit.models.published_tensors import fan_swin_weights
from robustvit.models.timm_networks import SwinTokens, add_token_pooling
from robustvit.models.weights_into import OwnNetwork

__all__ = ["FANSwin", "FANSwinBlock", "FusedWindowAttention"]


class SwinPatchEmbed(PatchEmbed):
    """timm's patch embedding, with errors that say which sizes are possible."""

    def _init_img_size(self, img_size: int | Grid) -> Any:
        H, W = (img_size, img_size) if isinstance(img_size, int) else img_size
        self._check_multiple(H, W)
        return super()._init_img_size(img_size)

    def _check_multiple(self, H: int, W: int) -> None:
        p = self.patch_size[0]
        if H % p or W % p or min(H, W) < p:
            near = "x".join(str(max(p, round(n / p) * p)) for n in (H, W))
            raise ValueError(f"this network takes sizes that are multiples of {p} pixels, such as {near}, and got {H}x{W}")

    def forward(self, x: Tensor) -> Tensor:
        check_image(x, self.proj.in_channels, 1, "this network")
        H, W = x.shape[2:]
        self._check_multiple(H, W)
        if self.strict_img_size and tuple(self.img_size) != (H, W):
            raise ValueError(
                f"this network is built for {self.img_size[0]}x{self.img_size[1]} pixels and got {H}x{W}; build it with "
                f"img_size=({H}, {W}), or with strict_img_size=False for any multiple of {self.patch_size[0]}"
            )
        return super().forward(x)


class FusedWindowAttention(WindowAttention):
    """timm's window attention, fused by default, with the shift mask shared by the images of a batch."""

    fused_attn: bool

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """[B * windows, N, C] -> [B * windows, N, C]; `mask` [windows, N, N] is 0 or -100."""
        if not self.fused_attn:
            return super().forward(x, mask)
        windows, N, _ = x.shape
        q, k, v = self.qkv(x).reshape(windows, N, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        bias = self._get_rel_pos_bias()  # 1 H N N
        if mask is not None:
            bias = (bias + mask[:, None]).repeat(windows // mask.shape[0], 1, 1, 1)
        dropout = self.attn_drop.p if self.training else 0.0
        x = F.scaled_dot_product_attention(q, k, v, attn_mask=bias.to(q.dtype), dropout_p=dropout)
        return self.proj_drop(self.proj(x.transpose(1, 2).reshape(windows, N, -1)))

    def fit_weights(self, weights: dict[str, Tensor], prefix: str) -> None:
        """Resizes the table of relative positions of a state dict to the window of this layer."""
        key, ours = f"{prefix}relative_position_bias_table", self.relative_position_bias_table
        table = weights.get(key)
        if table is not None and table.ndim == 2 and table.shape[1] == ours.shape[1] and table.shape != ours.shape:
            weights[key] = resize_rel_pos_bias_table(table, self.window_size, ours.shape)


class FANSwinBlock(SwinTransformerBlock):
    """A Swin block that keeps its map through the channel branch."""

    def forward(self, x: Tensor) -> Tensor:
        """[B, H, W, C] -> [B, H, W, C]."""
        B, H, W, C = x.shape
        x = x + self.drop_path1(self._attn(self.norm1(x)))
        value, gate = self.mlp(self.norm2(x).reshape(B, H * W, C), (H, W))
        return add_branch(x.reshape(B, H * W, C), value, gate, self.drop_path2).reshape(B, H, W, C)


class FANSwinStage(SwinTransformerStage):
    """Merges patches where the width changes, then its blocks."""

    def forward(self, x: Tensor) -> Tensor:
        """[B, H, W, C] -> [B, H', W', C']."""
        pixels = x.shape[1] * x.shape[2] // (1 if isinstance(self.downsample, nn.Identity) else 4)
        widest = pixels * self.blocks[0].mlp.mlp.fc1.out_features
        return in_image_groups(self, super().forward, x, widest=widest)


class FANSwin(SwinTokens, OwnNetwork, SwinTransformer):
    """Swin with channel attention in all stages but the last.

    Args:
        img_size: the size it is built for; `set_input_size` changes it.
        in_chans: channels of the images.
        num_classes: outputs of the classifier; 0 for none.
        global_pool: "avg" or "" (no pooling).
        embed_dim: width of the first stage; it doubles with every stage.
        depths, num_heads: one entry a stage.
        patch_size, window_size: in pixels, in tokens.
        mlp_ratio: hidden width of the MLPs over their width.
        channel_heads: heads of the channel attention in each stage; None takes the stage's.
        tap, tap_blocks: token-aware pooling and where, see `build_token_pooling` and `pooled_blocks`.
        token_head: adds STL's classifier for the tokens of the last stage; `forward_tokens` returns both.
        token_fusion: `forward` returns STL's published fusion of both.
        drop_rate, proj_drop_rate, attn_drop_rate: dropout before the classifier, in projections, on attention.
        drop_path_rate, drop_path_rule: stochastic depth, see `drop_path_rates`.
        strict_img_size: False takes any multiple of the patch size.
        output_stride: only 32; asked for by libraries that dilate convolutional networks.

    Weight decay leaves the tables of relative positions out, as timm's Swin does; the authors decayed them.
    """

    from_published = staticmethod(fan_swin_weights)
    first_conv = "patch_embed.proj"
    classifier = "head.fc"

    def __init__(
        self,
        img_size: int | Grid = 224,
        in_chans: int = 3,
        *,
        num_classes: int = 1000,
        global_pool: str = "avg",
        embed_dim: int = 96,
        depths: tuple[int, ...] = (2, 2, 6, 2),
        num_heads: tuple[int, ...] = (3, 6, 12, 24),
        patch_size: int = 4,
        window_size: int | Grid = 7,
        mlp_ratio: float = 4.0,
        channel_heads: tuple[int, ...] | None = None,
        tap: TapKind = 0,
        tap_blocks: TapBlocks = "all",
        token_head: bool = False,
        token_fusion: bool = False,
        drop_rate: float = 0.0,
        proj_drop_rate: float = 0.0,
        attn_drop_rate: float = 0.0,
        drop_path_rate: float = 0.1,
        drop_path_rule: DropPathRule = "linear",
        strict_img_size: bool = True,
        output_stride: int = 32,
    ) -> None:
        check_output_stride(output_stride)
        if global_pool not in ("avg", ""):
            raise ValueError(f"global_pool={global_pool!r} is not possible here; choose 'avg' or ''")
        super().__init__(
            img_size,
            patch_size,
            in_chans,
            num_classes,
            global_pool,
            embed_dim,
            depths,
            num_heads,
            window_size=window_size,
            strict_img_size=strict_img_size,
            mlp_ratio=mlp_ratio,
            drop_rate=drop_rate,
            proj_drop_rate=proj_drop_rate,
            attn_drop_rate=attn_drop_rate,
            drop_path_rate=0.0,
            embed_layer=SwinPatchEmbed,
        )
        rates = drop_path_rates(drop_path_rate, sum(depths), drop_path_rule)
        for block, rate in zip((block for stage in self.layers for block in stage.blocks), rates, strict=True):
            block.drop_path1, block.drop_path2 = drop_path(rate), drop_path(rate)
            block.attn.__class__ = FusedWindowAttention  # timm builds its own layers; they become ours here
            block.attn.fused_attn = True
        for stage, heads in zip(self.layers[:-1], channel_heads or num_heads, strict=False):
            _attend_channels(stage, heads, mlp_ratio, attn_drop_rate, proj_drop_rate)
        add_token_pooling(self, tap, tap_blocks)
        self._init_token_head(token_head, token_fusion)


def _attend_channels(stage: Any, num_heads: int, mlp_ratio: float, attn_drop: float, proj_drop: float) -> None:
    """Makes a stage of timm's Swin one of FAN-Swin's: the MLP of each block becomes channel attention."""
    stage.__class__ = FANSwinStage
    for block in stage.blocks:
        mlp = ConvMlp(block.dim, hidden_dim=int(block.dim * mlp_ratio), residual=False, drop=proj_drop)
        block.mlp = EfficientChannelAttention(block.dim, num_heads=num_heads, mlp=mlp, attn_drop=attn_drop)
        block.__class__ = FANSwinBlock
        for module in block.mlp.modules():
            if isinstance(module, nn.Linear):
                trunc_normal_(module.weight, std=0.02)
                nn.init.zeros_(module.bias)


_SWIN = network_cfg(first_conv="patch_embed.proj", classifier="head.fc", crop_pct=0.9, fixed_input_size=True, pool_size=(7, 7))

default_cfgs = generate_default_cfgs(
    pretrained_cfgs(
        {
            "fan_swin_nano": {**_SWIN, "input_size": (3, 32, 32), "num_classes": 10, "pool_size": (1, 1)},
            "fan_swin_tiny": _SWIN,
            "fan_swin_small": _SWIN,
            "fan_swin_base": _SWIN,
            "fan_swin_large": _SWIN,
        }
    )
)


def _fan_swin(variant: str, pretrained: bool, values: dict[str, Any], kwargs: dict[str, Any]) -> FANSwin:
    if kwargs.get("features_only"):  # backbones of dense prediction see images of any size
        kwargs.setdefault("strict_img_size", False)
    return build_variant(FANSwin, variant, pretrained, values, kwargs)


@register_model
def fan_swin_nano(pretrained: bool = False, **kwargs: Any) -> FANSwin:
    values = dict(img_size=32, window_size=4, embed_dim=16, depths=(2, 2, 2, 2), num_heads=(1, 2, 4, 8))
    return _fan_swin("fan_swin_nano", pretrained, values, kwargs)


@register_model
def fan_swin_tiny(pretrained: bool = False, **kwargs: Any) -> FANSwin:
    values = dict(embed_dim=96, depths=(2, 2, 6, 2), num_heads=(3, 6, 12, 24))
    return _fan_swin("fan_swin_tiny", pretrained, values, kwargs)


@register_model
def fan_swin_small(pretrained: bool = False, **kwargs: Any) -> FANSwin:
    values = dict(embed_dim=96, depths=(2, 2, 18, 2), num_heads=(3, 6, 12, 24))
    return _fan_swin("fan_swin_small", pretrained, values, kwargs)


@register_model
def fan_swin_base(pretrained: bool = False, **kwargs: Any) -> FANSwin:
    values = dict(embed_dim=128, depths=(2, 2, 18, 2), num_heads=(4, 8, 16, 32))
    return _fan_swin("fan_swin_base", pretrained, values, kwargs)


@register_model
def fan_swin_large(pretrained: bool = False, **kwargs: Any) -> FANSwin:
    values = dict(embed_dim=192, depths=(2, 2, 18, 2), num_heads=(6, 12, 24, 48))
    return _fan_swin("fan_swin_large", pretrained, values, kwargs)
