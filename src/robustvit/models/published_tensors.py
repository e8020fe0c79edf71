"""The authors' names of tensors -> ours, one function per family; names of our own are left as they are.

The one place that knows the authors' naming. Our networks differ from theirs where it helps: query, key and value are one
linear layer, 1x1 convolutions are linear layers, Swin merges patches at the start of a stage.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

__all__ = [
    "PUBLISHED_DENSE",
    "Weights",
    "detection_head_weights",
    "fan_swin_weights",
    "fan_weights",
    "rvt_variant",
    "rvt_weights",
    "segmentation_head_weights",
    "without_single_branch",
]

Weights = dict[str, Tensor]
"""A state dict: name -> tensor."""

PUBLISHED_DENSE = ("decode_head.conv_seg.weight", "neck.lateral_convs.0.conv.weight")
"""Tensors that every published segmenter, or detector, has; the first one is not used by SegFormer's."""
_TAP = (r"\.dilation_predictor\.proj\.", ".tap.predictor.")
_CHANNEL = [
    (r"\.mlp\.mlp_v\.", ".channel.mlp."),
    (r"\.mlp\.norm_v\.", ".channel.norm."),
    (r"\.mlp\.q\.", ".channel.query."),
    (r"\.mlp\.temperature$", ".channel.temperature"),
    (r"\.mlp\.se\.conv_(reduce|expand)\.", r".channel.\1."),
    (r"^(blocks\.\d+)\.mlp\.(fc1|fc2|gamma|dwconv)", r"\1.channel.mlp.\2"),  # SE: the MLP stands alone
    (r"\.dwconv\.bn\.", ".dwconv.norm."),
]
_FAN = [
    (r"^pos_embeder\.", "pos_embed."),  # an older release
    (r"^pos_embed\.token_projection\.", "pos_embed.proj."),
    (r"^patch_embed\.backbone\.", "patch_embed."),
    _TAP,
    (r"^blocks\.\d+\.downsample\.", "downsample."),
    (r"^aux_head\.", "token_head."),
    (r"^learnable_downsample\.", "last_level."),
    (r"^out_norm(\d)\.", r"level_norms.\1."),
    *_CHANNEL,
]
_FAN_SWIN = [(pattern, ours.replace(".channel.", ".mlp.")) for pattern, ours in _CHANNEL if not pattern.startswith("^")]
_RVT = [
    (r"^patch_embed\.proj\.0\.", "patch_embed.conv."),
    (r"^patch_embed\.proj\.1\.", "patch_embed.norm."),
    (r"^patch_embed\.proj\.3\.", "patch_embed.proj."),
    (r"^transformers\.(\d+)\.blocks\.", r"stages.\1."),
    (r"^pools\.(\d+)\.conv\.", r"downsamples.\1."),
    (r"\.attn\.att_mask$", ".attn.mask"),
    _TAP,
    (r"\.mlp\.", ".ffn."),
]

_SEGMENTATION = [
    (r"^decode_head\.linear_c1\.proj\.", "decode_head.embeds.0."),
    (r"^decode_head\.linear_c2\.proj\.", "decode_head.embeds.1."),
    (r"^decode_head\.linear_c3\.proj\.", "decode_head.embeds.2."),
    (r"^decode_head\.linear_c4\.proj\.", "decode_head.embeds.3."),
    (r"^decode_head\.linear_fuse\.", "decode_head.fuse."),
    (r"^decode_head\.linear_pred\.", "decode_head.classifier."),
    (r"^auxiliary_head\.", "auxiliary_heads."),
    (r"\.up_convs\.(\d+)\.0\.", r".units.\1."),
    (r"\.bn\.", ".norm."),
]

_DETECTION = [
    (r"^neck\.lateral_convs\.(\d)\.conv\.", r"pyramid.laterals.\1."),
    (r"^neck\.fpn_convs\.(\d)\.conv\.", r"pyramid.outputs.\1."),
    (r"^rpn_head\.rpn_conv\.", "proposals.conv."),
    (r"^rpn_head\.rpn_cls\.", "proposals.scores."),
    (r"^rpn_head\.rpn_reg\.", "proposals.deltas."),
    (r"^roi_head\.(bbox|mask)_head\.(?!\d)", r"roi_head.\1_head.0."),  # of a single stage
    (r"^roi_head\.bbox_head\.", "regions.boxes."),
    (r"^roi_head\.mask_head\.", "regions.masks."),
    (r"\.shared_convs\.(\d)\.conv\.", r".units.\1.conv."),
    (r"\.shared_convs\.(\d)\.bn\.", r".units.\1.norm."),
    (r"\.shared_fcs\.", ".linears."),
    (r"\.fc_cls\.", ".classes."),
    (r"\.fc_reg\.", ".deltas."),
    (r"\.convs\.(\d)\.conv\.", r".convs.\1."),
    (r"\.upsample\.", ".enlarge."),
    (r"\.conv_logits\.", ".classes."),
]


def fan_weights(weights: Mapping[str, Tensor]) -> Weights:
    """Of FAN-ViT and FAN-Hybrid, with TAP and STL's token head where they have them."""
    return _renamed(_join_qkv(_split_class_attention(weights)), _FAN)


def fan_swin_weights(weights: Mapping[str, Tensor]) -> Weights:
    """Of FAN-Swin."""
    derived = ("relative_position_index", "attn_mask")  # functions of the window: rebuilt, not loaded
    kept = {name: value for name, value in weights.items() if not name.endswith(derived)}
    merges = {name: value for name, value in kept.items() if re.match(r"layers\.\d+\.downsample\.", name)}
    if any(name.startswith("layers.0.") for name in merges):  # theirs end a stage, ours start the next
        kept = {name: value for name, value in kept.items() if name not in merges}
        for name, value in merges.items():
            _, stage, rest = name.split(".", 2)
            kept[f"layers.{int(stage) + 1}.{rest}"] = value
    head = [] if "head.fc.weight" in weights else [(r"^head\.", "head.fc.")]
    return _renamed(kept, _FAN_SWIN + head)


def rvt_weights(weights: Mapping[str, Tensor]) -> Weights:
    """Of RVT, with TAP where it has it."""
    return _renamed(weights, _RVT)


def rvt_variant(weights: Mapping[str, Tensor]) -> dict[str, Any]:
    """RVT's variants differ in which blocks have a mask and in their FFN; the names of a checkpoint tell both."""
    masks = sum(re.search(r"^(transformers|stages)\.0\..*\.(att_)?mask$", name) is not None for name in weights)
    return {"masked_blocks": masks, "ffn": "conv" if any(".dwconv." in name for name in weights) else "plain"}


def segmentation_head_weights(weights: Mapping[str, Tensor]) -> Weights:
    """Of the SegFormer and SETR heads. SegFormer's have an unused `conv_seg` besides, which keeps its name."""
    has_classifier = any(name.startswith("decode_head.linear_pred.") for name in weights)
    rules = _SEGMENTATION if has_classifier else [*_SEGMENTATION, (r"\.conv_seg\.", ".classifier.")]
    return _renamed({name: _flat(name, value) for name, value in weights.items()}, rules)


def detection_head_weights(weights: Mapping[str, Tensor]) -> Weights:
    """Of the feature pyramid, the proposals, and the box and mask heads of one stage or several."""
    return _renamed(weights, _DETECTION)


def _flat(name: str, value: Tensor) -> Tensor:
    return value.flatten(1) if "linear_c" in name and value.ndim == 4 else value


def without_single_branch(weights: Mapping[str, Tensor]) -> Weights:
    """TAP with one branch is no TAP; its released form still has a predictor, which nothing reads."""
    single = any(n.endswith("dilation_predictor.proj.0.weight") and w.shape[:1] == (1,) for n, w in weights.items())
    return {n: w for n, w in weights.items() if not (single and ".dilation_predictor." in n)}


def _renamed(weights: Mapping[str, Tensor], rules: list[tuple[str, str]]) -> Weights:
    def ours(name: str) -> str:
        for pattern, replacement in rules:
            name = re.sub(pattern, replacement, name)
        return name

    return {ours(name): value for name, value in weights.items()}


def _split_class_attention(weights: Mapping[str, Tensor]) -> Weights:
    """An older release had one layer for query, key and value of the class attention: thirds of its rows."""
    out: Weights = {}
    for name, value in weights.items():
        match = re.fullmatch(r"(cls_attn_blocks\.\d+\.attn)\.qkv\.(weight|bias)", name)
        if match is None or value.ndim == 0 or value.shape[0] % 3:
            out[name] = value
        else:
            out |= {f"{match[1]}.{part}.{match[2]}": rows for part, rows in zip("qkv", value.chunk(3), strict=True)}
    return out


def _join_qkv(weights: Weights) -> Weights:
    """FAN keeps the query apart from key and value; ours is one layer."""
    out: Weights = {}
    for name, value in weights.items():
        match = re.fullmatch(r"(blocks\.\d+\.attn)\.(q|kv)\.(weight|bias)", name)
        if match is None:
            out[name] = value
            continue
        q, kv = (weights.get(f"{match[1]}.{part}.{match[3]}") for part in ("q", "kv"))
        if q is None or kv is None or q.ndim == 0 or kv.ndim == 0 or q.shape[1:] != kv.shape[1:]:
            out[name] = value  # stays unknown, and is reported
        elif match[2] == "q":
            out[f"{match[1]}.qkv.{match[3]}"] = torch.cat((q, kv))
    return out
