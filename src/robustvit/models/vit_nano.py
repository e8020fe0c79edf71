"""`vit_nano`: timm's plain ViT at 32 pixels, as wide as `fan_vit_nano` and as deep with its class attention; to compare."""

from __future__ import annotations

from typing import Any

from timm.models import build_model_with_cfg, generate_default_cfgs, register_model
from timm.models.vision_transformer import VisionTransformer, checkpoint_filter_fn

from robustvit.models.build import network_cfg
from robustvit.models.shipped import shipped_cfg

__all__ = ["vit_nano"]

_NANO = network_cfg(input_size=(3, 32, 32), first_conv="patch_embed.proj", custom_load=False)
default_cfgs = generate_default_cfgs({"vit_nano.scenes": {**_NANO, **shipped_cfg("vit_nano")}})


@register_model
def vit_nano(pretrained: bool = False, **kwargs: Any) -> VisionTransformer:
    values = dict(img_size=32, patch_size=4, embed_dim=96, depth=6, num_heads=4)
    return build_model_with_cfg(
        VisionTransformer,
        "vit_nano",
        pretrained,
        pretrained_filter_fn=checkpoint_filter_fn,
        feature_cfg=dict(out_indices=3, feature_cls="getter"),
        **{**values, **kwargs},
    )
