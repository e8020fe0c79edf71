"""Plain ViTs at 32 pixels: `vit_nano`, as wide as `fan_vit_nano` and as deep with its class attention, to compare; and
`vit_pico`, of a few thousand parameters with STL's token head, to look at token labels."""

from __future__ import annotations

from typing import Any

from timm.models import build_model_with_cfg, generate_default_cfgs, register_model
from timm.models.vision_transformer import VisionTransformer, checkpoint_filter_fn

from robustvit.models.build import is_shipped, network_cfg
from robustvit.models.shipped import shipped_cfg, shipped_file
from robustvit.models.timm_networks import VisionTransformerWithTokens
from robustvit.runtime.weights import read_weights

__all__ = ["vit_nano", "vit_pico"]

_CFG = network_cfg(input_size=(3, 32, 32), first_conv="patch_embed.proj", custom_load=False)
default_cfgs = generate_default_cfgs(
    {
        "vit_nano.scenes": {**_CFG, **shipped_cfg("vit_nano")},
        "vit_pico.scenes": {**_CFG, **shipped_cfg("vit_pico"), "classifier": ("head", "token_head")},
    }
)


class LabellingVisionTransformer(VisionTransformerWithTokens):
    """A ViT that is built with its token head, as its weights are."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.add_token_head()


def _vit(cls: type[VisionTransformer], variant: str, pretrained: bool, values: dict[str, Any], kwargs: dict[str, Any]) -> Any:
    file = (kwargs.get("pretrained_cfg_overlay") or {}).get("file")
    if pretrained and (file or is_shipped(variant, kwargs.get("pretrained_cfg"))):
        read_weights(file or shipped_file(variant))  # timm, which loads them, compares no checksum
    return build_model_with_cfg(
        cls,
        variant,
        pretrained,
        pretrained_filter_fn=checkpoint_filter_fn,
        feature_cfg=dict(out_indices=3, feature_cls="getter"),
        **{"img_size": 32, "patch_size": 4, **values, **kwargs},
    )


@register_model
def vit_nano(pretrained: bool = False, **kwargs: Any) -> VisionTransformer:
    return _vit(VisionTransformer, "vit_nano", pretrained, dict(embed_dim=96, depth=6, num_heads=4), kwargs)


@register_model
def vit_pico(pretrained: bool = False, **kwargs: Any) -> LabellingVisionTransformer:
    values = dict(embed_dim=16, depth=2, num_heads=2, mlp_ratio=2)
    return _vit(LabellingVisionTransformer, "vit_pico", pretrained, values, kwargs)
