"""The one way to get a network: `create_model`."""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import timm
from timm.models import split_model_name_tag

from robustvit.layers.token_pooling import TapBlocks, TapKind
from robustvit.models.building import OURS
from robustvit.models.dense_names import HEADS, dense_name
from robustvit.models.dense_weights import fetched, whole_weights
from robustvit.models.from_file import network_from_file
from robustvit.models.networks import build_network
from robustvit.models.official import from_official
from robustvit.models.published import PUBLISHED
from robustvit.models.saved_folder import LOCAL
from robustvit.models.shipped import SHIPPED_FOLDERS, SHIPPED_TAG
from robustvit.models.sources import understood

__all__ = ["create_model", "list_models"]

_JAX = (".npz", ".npy")
"""Weight files that only timm reads."""


def list_models(pattern: str = "*", *, pretrained: bool = False) -> list[str]:
    """Names of our networks that match a shell pattern, small to large; with their tags where only `pretrained` are wanted.

    A pattern with a slash asks for dense networks: `*/segformer`, `fan_hybrid_*/cascade_mask_rcnn`.
    """
    backbones, slash, heads = pattern.rpartition("/")
    if slash:
        if pretrained:
            tagged = [(name, SHIPPED_TAG) for name in SHIPPED_FOLDERS] + [(w.architecture, w.tag) for w in PUBLISHED]
            return [f"{name}.{tag}" for name, tag in tagged if fnmatch(name, pattern) or fnmatch(f"{name}.{tag}", pattern)]
        fitting = [head for head in HEADS if fnmatch(head, heads)]
        return [f"{name}/{head}" for name in OURS if fnmatch(name, backbones) for head in fitting]
    names = timm.list_models(pattern, pretrained=pretrained)
    ours = [name for name in names if split_model_name_tag(name)[0] in OURS]
    return sorted(ours, key=lambda name: OURS.index(split_model_name_tag(name)[0]))


def create_model(
    name: str,
    pretrained: bool = False,
    *,
    tap: TapKind | None = None,
    tap_blocks: TapBlocks = "all",
    token_head: bool = False,
    token_fusion: bool = False,
    **kwargs: Any,
) -> Any:
    """A network by name: `timm.create_model`, plus the authors' names, files of weights, TAP and token heads.

    Args:
        name: one of ours (`fan_hybrid_small`, with a tag `fan_hybrid_base.tapadl_in1k`), a published name
            (`tap_rvt_base_plus`), any timm name (`deit_small_patch16_224`), `hf-hub:ID` or `local-dir:FOLDER`. With weights:
            NAME=FILE, or FILE, a checkpoint that says which network it is of. Segmenters and detectors are BACKBONE/HEAD, with
            any of these as backbone, and `segformer`, `setr_pup` or `setr_naive`, or `faster_rcnn`, `mask_rcnn`,
            `cascade_rcnn` or `cascade_mask_rcnn` as head.
        pretrained: fetch weights.
        tap: number of TAP branches (4 in the paper) or one of its alternatives, see `build_token_pooling`.
        tap_blocks: "all", "shallow" (first 30 %), "deep" (the rest) or block indices.
        token_head: adds STL's classifier for patch tokens, see `forward_tokens`.
        token_fusion: `forward` returns STL's published fusion of class and token logits.
        **kwargs: as for `timm.create_model`: num_classes, in_chans, img_size, drop_path_rate, features_only, ... Networks that
            take any size, as CNNs do, take `img_size` too; `pretrained_cfg` notes it. `checkpoint_path` is FILE. Of
            segmenters: `embed_dim` (width of the head), `head_drop_rate`, `auxiliary_units` (of setr_pup). Of detectors:
            `width`, `hidden`, `anchor_scale`, `proposals`, `region_samples`, `score_threshold` and `fit`, see
            `build_detector`. Of both: `last_level` (of FAN), and `backbone_weights`, a file of a classifier that the backbone
            starts from. `pretrained` is about the backbone, too, unless the name has a tag of weights of the whole network, or
            weights come with the package (`fan_hybrid_base/segformer.tapadl_cityscapes`, `fan_hybrid_nano/segformer`).
    """
    asked = dict(tap=tap, tap_blocks=tap_blocks, token_head=token_head, token_fusion=token_fusion)
    defaults = dict(tap=None, tap_blocks="all", token_head=False, token_fusion=False)
    options = {key: value for key, value in asked.items() if value != defaults[key]} | kwargs
    source = understood(name)
    file = source.file or options.get("checkpoint_path")
    dense = dense_name(source.name)
    whole = whole_weights(dense) if dense is not None else None
    if pretrained and whole is not None and not file:
        if options.get("backbone_weights") is not None:
            raise ValueError(f"pretrained=True has weights of the whole {dense}; leave it out, or leave backbone_weights out")
        if isinstance(whole, Path):
            return build_network(f"{LOCAL}{whole}", True, **options)
        return from_official(whole.published_name, fetched(whole), **options)
    if not file or options.get("features_only") or str(file).endswith(_JAX):
        return build_network(source.name, pretrained, **options | ({"checkpoint_path": str(file)} if file else {}))
    options.pop("checkpoint_path", None)
    return network_from_file(source.name, Path(file), **options)
