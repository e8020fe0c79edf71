"""Building networks by name: ours, the authors' and timm's, with TAP and token heads on all that can have them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import timm
from timm.models import get_pretrained_cfg, is_model, load_checkpoint, split_model_name_tag
from torch import nn

from robustvit.layers.token_pooling import TapBlocks, TapKind
from robustvit.models import fan, fan_swin, rvt
from robustvit.models.fetching import fetching
from robustvit.models.image_sizes import takes_any_size
from robustvit.models.names import OFFICIAL
from robustvit.models.published import PUBLISHED
from robustvit.models.saved_folder import LOCAL, buildable, check_saved_weights, read_saved_config, weights_in
from robustvit.models.timm_networks import add_token_head, add_token_pooling
from robustvit.runtime.spelling import nearest
from robustvit.runtime.weights import read_weights

__all__ = ["create_model", "list_models"]

_OURS = [name for module in (fan, fan_swin, rvt) for name in module.default_cfgs]  # small to large in each family


def list_models(pattern: str = "*", *, pretrained: bool = False) -> list[str]:
    """Names of our networks that match a shell pattern, small to large; with their tags where only `pretrained` are wanted."""
    names = timm.list_models(pattern, pretrained=pretrained)
    ours = [name for name in names if split_model_name_tag(name)[0] in _OURS]
    return sorted(ours, key=lambda name: _OURS.index(split_model_name_tag(name)[0]))


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
    """A network by name: `timm.create_model`, plus the authors' names, TAP and token heads.

    Args:
        name: one of ours (`fan_hybrid_small`, with a tag `fan_hybrid_base.tapadl_in1k`), a published name
            (`tap_rvt_base_plus`) or any timm name (`deit_small_patch16_224`).
        pretrained: fetch weights.
        tap: number of TAP branches (4 in the paper) or one of its alternatives, see `build_token_pooling`.
        tap_blocks: "all", "shallow" (first 30 %), "deep" (the rest) or block indices.
        token_head: adds STL's classifier for patch tokens, see `forward_tokens`.
        token_fusion: `forward` returns STL's published fusion of class and token logits.
        **kwargs: as for `timm.create_model`: num_classes, in_chans, img_size, drop_path_rate, features_only, ... Networks that
            take any size, as CNNs do, take `img_size` too; `pretrained_cfg` notes it.
    """
    parts = _Parts(tap, tap_blocks, token_head, token_fusion)
    architecture, tag = split_model_name_tag(name)
    if architecture in OFFICIAL:
        network = OFFICIAL[architecture]
        tag = tag or _published_tag(architecture, needed=pretrained)
        architecture, kwargs = network.architecture, {**network.model_args, **kwargs}
        name = f"{architecture}.{tag}" if tag else architecture
        parts = parts.over({part: kwargs.pop(part) for part in ("tap", "token_head") if part in kwargs})
    if ":" not in name:
        _check_name(architecture, tag)
        if pretrained and not kwargs.keys() & {"pretrained_cfg", "pretrained_cfg_overlay"}:
            _check_weights(name, architecture)
    if architecture in _OURS:
        model = timm.create_model(name, pretrained, **parts.given, **kwargs)
        return _noting_size(model, kwargs.get("img_size"))
    if name.startswith(LOCAL):
        return _saved_network(name, pretrained, parts, kwargs)
    return _timm_network(name, pretrained, parts, kwargs)


@dataclass(frozen=True)
class _Parts:
    """What a network can have besides timm's, see `create_model`."""

    tap: TapKind | None = None
    tap_blocks: TapBlocks = "all"
    token_head: bool = False
    token_fusion: bool = False

    def over(self, own: Mapping[str, Any]) -> _Parts:
        """With what the network has of its own: `tap` where none was asked for, the rest in any case."""
        return _Parts(
            tap=own.get("tap") if self.tap is None else self.tap,
            tap_blocks=own.get("tap_blocks", self.tap_blocks),
            token_head=own.get("token_head", False) or self.token_head,
            token_fusion=self.token_fusion,
        )

    @property
    def given(self) -> dict[str, Any]:
        """As arguments of our networks."""
        return {name: value for name, value in vars(self).items() if value is not None and value is not False}

    @property
    def has_token_head(self) -> bool:
        return self.token_head or self.token_fusion

    def add_to(self, network: nn.Module) -> None:
        """To a network of timm."""
        if self.tap or self.tap_blocks != "all":
            add_token_pooling(network, self.tap or 0, self.tap_blocks)
        if self.has_token_head:
            add_token_head(network, self.token_fusion)


def _saved_network(name: str, pretrained: bool, parts: _Parts, kwargs: dict[str, Any]) -> Any:
    """A network of a folder, with the TAP and the token head that `robustvit train` gave it."""
    folder = name.removeprefix(LOCAL)
    own = read_saved_config(folder).get("robustvit", {})
    if pretrained and (Path(folder) / "config.json").is_file():
        check_saved_weights(folder)
    if own and pretrained:  # what it has besides timm's must be there before its weights
        kwargs, pretrained = {**kwargs, "checkpoint_path": str(weights_in(folder))}, False
    return _timm_network(name, pretrained, parts.over(own), kwargs, buildable(folder))


def _timm_network(
    name: str,
    pretrained: bool,
    parts: _Parts,
    kwargs: dict[str, Any],
    building: AbstractContextManager[None] | None = None,
) -> Any:
    features_only, size = kwargs.get("features_only", False), kwargs.get("img_size")
    if features_only and parts.has_token_head:
        raise ValueError("features_only=True leaves the classifiers out, so token_head=True has no place; drop one of the two")
    checkpoint_path = kwargs.pop("checkpoint_path", None)
    is_fetched = pretrained or name.startswith("hf-hub:")  # whose config.json is
    with building or nullcontext(), fetching(name) if is_fetched else nullcontext():
        if size is not None and takes_any_size(name, _pair(size), kwargs):
            del kwargs["img_size"]
        model = timm.create_model(name, pretrained, **kwargs)
        parts.add_to(model.model if features_only and hasattr(model, "model") else model)
    if checkpoint_path:  # after what was added, which a checkpoint of such a network has too
        if not str(checkpoint_path).endswith((".npz", ".npy")):  # of JAX, which timm reads itself
            read_weights(checkpoint_path)  # which says what is wrong with it, and compares its checksum
        load_checkpoint(model, checkpoint_path)
    elif pretrained:
        fresh = {"tap": parts.tap, "token_head": parts.has_token_head}
        model.fresh_parts = tuple(part for part, is_on in fresh.items() if is_on)
    return _noting_size(model, size)


def _pair(size: int | tuple[int, int]) -> tuple[int, int]:
    return (size, size) if isinstance(size, int) else (size[0], size[1])


def _noting_size(model: Any, size: int | tuple[int, int] | None) -> Any:
    """Lets `pretrained_cfg`, which says what to feed the network, have the size that it was asked for."""
    if size is not None:
        cfg = model.pretrained_cfg
        cfg["input_size"] = (cfg["input_size"][0], *_pair(size))
        cfg.pop("test_input_size", None)
    return model


def _published_tag(published_name: str, *, needed: bool) -> str:
    """The tag of the weights published under this name, preferring those that a program can fetch; "" for none."""
    weights = sorted((w for w in PUBLISHED if w.published_name == published_name), key=lambda w: w.url is None)
    if needed and not weights:
        raise RuntimeError(f"no weights were published for {published_name}; build it with pretrained=False")
    return weights[0].tag if weights else ""


def _check_weights(name: str, architecture: str) -> None:
    if not get_pretrained_cfg(name).has_weights and not any(w.architecture == architecture for w in PUBLISHED):
        raise ValueError(
            f"there are no published weights of {name}; give {name}=FILE, or --untrained (pretrained=False) for random ones"
        )


def _check_name(architecture: str, tag: str) -> None:
    if not is_model(architecture):
        hint = nearest(architecture, {*_OURS, *OFFICIAL, *timm.list_models()})
        raise ValueError(f"there is no network {architecture!r}{hint or '; `robustvit models` lists ours'}")
    tags = sorted(n.partition(".")[2] for n in timm.list_models(f"{architecture}.*", include_tags=True)) if tag else []
    if tag and tag not in tags:
        raise ValueError(f"{architecture} has no weights {tag!r}; it has {', '.join(tags) or 'none'}")
