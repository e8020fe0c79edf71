"""From a registered variant to a network: what timm's builder needs around it."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch
from timm.models import PretrainedCfg, build_model_with_cfg
from timm.models._features import FeatureGetterNet
from torch import nn

from robustvit.layers.linear import quicken
from robustvit.models.fetching import short_timeout
from robustvit.models.initialisation import named_initialisation
from robustvit.models.published import PUBLISHED, PublishedWeights
from robustvit.models.shipped import SHIPPED, shipped_cfg

__all__ = ["build_variant", "is_shipped", "network_cfg", "pretrained_cfgs"]


def network_cfg(**values: Any) -> dict[str, Any]:
    """timm's pretrained configuration with what our networks have in common."""
    common = dict(input_size=(3, 224, 224), crop_pct=1.0, classifier="head", custom_load=True, license="other")
    return {**common, **values}


def pretrained_cfgs(networks: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """timm's table `name.tag -> configuration` of `networks`, one entry for each published file and one for none."""
    table = {}
    for name, cfg in networks.items():
        weights = [w for w in PUBLISHED if w.architecture == name]
        for w in weights:
            size = (3, w.input_size, w.input_size)
            values = dict(url=w.url or "", origin_url=w.page, input_size=size, num_classes=w.num_classes or 0)
            table[f"{name}.{w.tag}"] = {**cfg, **values, **w.preprocessing}
        if name in SHIPPED:
            table[f"{name}.{SHIPPED[name].tag}"] = {**cfg, **shipped_cfg(name)}
        elif not weights:
            table[name] = cfg
    return table


def _requested_weights(variant: str, pretrained_cfg: Any) -> PublishedWeights | None:
    tag = pretrained_cfg.tag if isinstance(pretrained_cfg, PretrainedCfg) else pretrained_cfg
    if isinstance(tag, dict):
        tag = tag.get("tag")
    return next((w for w in PUBLISHED if w.architecture == variant and w.tag == tag), None)


def is_shipped(variant: str, pretrained_cfg: Any) -> bool:
    """Whether the weights asked for come with the package: by their tag, or by default; not those of a folder or a hub."""
    return variant in SHIPPED and pretrained_cfg in (None, SHIPPED[variant].tag)


def _is_elsewhere(pretrained_cfg: Any, overlay: dict[str, Any]) -> bool:
    """Whether the weights are in a file, a folder or a hub that the caller named, and not at their published address."""
    given = pretrained_cfg if isinstance(pretrained_cfg, dict) else {}
    return bool(overlay.get("file") or given.get("file") or given.get("source"))


def build_variant(
    cls: type[nn.Module],
    variant: str,
    pretrained: bool,
    values: dict[str, Any],
    kwargs: dict[str, Any],
) -> Any:
    """Builds variant `variant` of `cls` from its numbers (`values`) and the caller's arguments (`kwargs`, which win)."""
    is_elsewhere = _is_elsewhere(kwargs.get("pretrained_cfg"), kwargs.get("pretrained_cfg_overlay") or {})
    weights = _requested_weights(variant, kwargs.get("pretrained_cfg"))
    if pretrained and not is_elsewhere:
        chosen = weights or next((w for w in PUBLISHED if w.architecture == variant), None)
        downloadable = any(w.url for w in PUBLISHED if w.architecture == variant)
        if chosen is not None and not chosen.url and (weights is not None or not downloadable):
            raise RuntimeError(chosen.how_to_get())
    device, dtype = kwargs.pop("device", None), kwargs.pop("dtype", None)
    needed = weights.model_args if weights is not None else {}
    if pretrained and is_shipped(variant, kwargs.get("pretrained_cfg")) and not is_elsewhere:
        needed = SHIPPED[variant].model_args
    feature_cfg = dict(out_indices=kwargs.pop("out_indices", 4), feature_cls="getter")
    try:
        with torch.device(device) if device is not None else nullcontext(), short_timeout() if pretrained else nullcontext():
            options = {**values, **needed, **kwargs}
            with named_initialisation() as initialise:
                network = build_model_with_cfg(cls, variant, pretrained, feature_cfg=feature_cfg, **options)
                initialise(network.model if isinstance(network, FeatureGetterNet) else network)  # by its own names
    except OSError as error:
        if not pretrained or is_elsewhere:
            raise
        chosen = weights or next(w for w in PUBLISHED if w.architecture == variant and w.url)
        raise RuntimeError(f"{chosen.url} cannot be fetched ({error}); {chosen.how_to_load()}") from error
    quicken(network)
    network.implied_args = dict(needed)  # what a copy must be built with besides its name
    return network if dtype is None else network.to(dtype)
