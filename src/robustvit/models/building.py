"""Networks by name: ours, the authors' and timm's, with TAP and token heads on all that can have them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields
from typing import Any

import timm
from timm.models import get_pretrained_cfg, is_model, load_checkpoint, split_model_name_tag
from torch import nn

from robustvit.layers.linear import quicken
from robustvit.layers.token_pooling import TapBlocks, TapKind
from robustvit.models import fan, fan_swin, rvt
from robustvit.models.fetching import fetching
from robustvit.models.heads.token_head import has_token_head
from robustvit.models.image_sizes import takes_any_size
from robustvit.models.initialisation import named_initialisation
from robustvit.models.names import OFFICIAL
from robustvit.models.published import PUBLISHED
from robustvit.models.saved_folder import LOCAL, buildable, check_saved_weights, read_saved_config, weights_in
from robustvit.models.timm_networks import add_token_head, add_token_pooling
from robustvit.models.weights_into import load_weights
from robustvit.runtime.spelling import nearest

__all__ = ["OURS", "build_by_name", "note_size"]

OURS = [name for module in (fan, fan_swin, rvt) for name in module.default_cfgs]
"""Names of our networks, small to large in each family."""


@dataclass(frozen=True)
class Parts:
    """What a network can have besides timm's, see `create_model`."""

    tap: TapKind | None = None
    tap_blocks: TapBlocks = "all"
    token_head: bool = False
    token_fusion: bool = False

    @classmethod
    def taken_from(cls, options: dict[str, Any]) -> Parts:
        """Takes them out of the options of `create_model`."""
        return cls(**{field.name: options.pop(field.name) for field in fields(cls) if field.name in options})

    def over(self, own: Mapping[str, Any]) -> Parts:
        """With what the network has of its own: `tap` where none was asked for, the rest in any case."""
        return Parts(
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

    def add_to(self, network: nn.Module) -> tuple[str, ...]:
        """Adds them to a network of timm; returns which were not there: "tap", "token_head"."""
        added = ["tap"] if self.tap else []
        if self.tap or self.tap_blocks != "all":
            add_token_pooling(network, self.tap or 0, self.tap_blocks)
        if self.has_token_head:
            added += [] if has_token_head(network) else ["token_head"]
            add_token_head(network, self.token_fusion)
        return tuple(added)


def build_by_name(name: str, pretrained: bool = False, **options: Any) -> Any:
    """The network of a name; see `create_model` for name and options."""
    parts = Parts.taken_from(options)
    architecture, tag = split_model_name_tag(name)
    implied: dict[str, Any] = {}
    if architecture in OFFICIAL:
        tag = tag or _published_tag(architecture, needed=pretrained)
        architecture, implied = OFFICIAL[architecture].architecture, dict(OFFICIAL[architecture].model_args)
        name = f"{architecture}.{tag}" if tag else architecture
        options = {**implied, **options}
        parts = parts.over({part: options.pop(part) for part in ("tap", "token_head") if part in options})
    if ":" not in name:
        _check_name(architecture, tag)
        if pretrained and not options.keys() & {"pretrained_cfg", "pretrained_cfg_overlay"}:
            _check_weights(name, architecture)
    if architecture in OURS:
        network = timm.create_model(name, pretrained, **parts.given, **options)
        if hasattr(network, "implied_args"):  # what a saved copy must be built with besides the name of its architecture
            network.implied_args = {**implied, **network.implied_args}
        return note_size(network, options.get("img_size"))
    if name.startswith(LOCAL):
        return _saved_network(name, pretrained, parts, options)
    return _timm_network(name, pretrained, parts, options)


def _saved_network(name: str, pretrained: bool, parts: Parts, options: dict[str, Any]) -> Any:
    """A network of a folder, with the TAP and the token head that `robustvit train` gave it."""
    folder = name.removeprefix(LOCAL)
    own = read_saved_config(folder).get("robustvit", {})
    if not own or not pretrained:
        if pretrained:
            check_saved_weights(folder)
        network = _timm_network(name, pretrained, parts.over(own), options, buildable(folder))
    else:
        network = _timm_network(name, False, parts.over(own), options, buildable(folder))
        load_weights(network, weights_in(folder))  # after what was added, which the weights have too
    if isinstance(own.get("task"), str):
        network.task = own["task"]  # which `evaluate` asks for
    return network


def _timm_network(
    name: str,
    pretrained: bool,
    parts: Parts,
    options: dict[str, Any],
    building: AbstractContextManager[None] | None = None,
) -> Any:
    features_only, size = options.get("features_only", False), options.get("img_size")
    if features_only and parts.has_token_head:
        raise ValueError("features_only=True leaves the classifiers out, so token_head=True has no place; drop one of the two")
    checkpoint_path = options.pop("checkpoint_path", None)
    is_fetched = pretrained or name.startswith("hf-hub:")  # whose config.json is
    with building or nullcontext(), fetching(name) if is_fetched else nullcontext():
        if size is not None and takes_any_size(name, _pair(size), options):
            del options["img_size"]
        network = timm.create_model(name, pretrained, **options)
        with named_initialisation() as initialise:
            added = parts.add_to(network.model if features_only and hasattr(network, "model") else network)
            initialise(network)
    quicken(network)
    if checkpoint_path:
        load_checkpoint(network, checkpoint_path)
    elif pretrained:
        network.fresh_parts = added
    return note_size(network, size)


def _pair(size: int | tuple[int, int]) -> tuple[int, int]:
    return (size, size) if isinstance(size, int) else (size[0], size[1])


def note_size(network: Any, size: int | tuple[int, int] | None) -> Any:
    """Lets `pretrained_cfg`, which says what to feed the network, have the size that it was asked for."""
    if size is not None:
        cfg = network.pretrained_cfg
        cfg["input_size"] = (cfg["input_size"][0], *_pair(size))
        cfg.pop("test_input_size", None)
    return network


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
        hint = nearest(architecture, {*OURS, *OFFICIAL, *timm.list_models()})
        raise ValueError(f"there is no network {architecture!r}{hint or '; `robustvit models` lists ours'}")
    tags = sorted(n.partition(".")[2] for n in timm.list_models(f"{architecture}.*", include_tags=True)) if tag else []
    if tag and tag not in tags:
        raise ValueError(f"{architecture} has no weights {tag!r}; it has {', '.join(tags) or 'none'}")
