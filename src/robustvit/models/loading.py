"""A network with its weights, from what a user types: a name, and perhaps a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import Tensor, nn

from robustvit.models.fan import FAN
from robustvit.models.fan_swin import FANSwin
from robustvit.models.names import OFFICIAL
from robustvit.models.official import from_official, load_weights
from robustvit.models.registry import create_model
from robustvit.weights import CheckpointError, read_weights

__all__ = ["load_network", "stored_classes"]


def load_network(name: str, checkpoint: str | Path | None = None, *, pretrained: bool = False, **options: Any) -> Any:
    """The network `name` with the weights of `checkpoint`, with published ones, or untrained.

    It has a token head where the checkpoint has one.

    Args:
        name: ours, published, timm's, `hf-hub:...` or `local-dir:...`.
        checkpoint: weights: published (give their published name) or saved from this network.
        pretrained: fetch published weights.
        options: of `create_model`.

    Raises:
        CheckpointError: the weights are of another network.
        ValueError: the network does not have one of the options.
    """
    from robustvit.models.rvt import RVT

    try:
        if checkpoint is None:
            return create_model(name, pretrained, **options)
        weights = read_weights(checkpoint)
        stored = stored_classes(weights)
        if stored is not None and options.setdefault("num_classes", stored) != stored:
            reason = "the network would get a classifier that was never trained"
            raise ValueError(f"{options['num_classes']} classes, but the checkpoint has {stored} classes; {reason}")
        if "token_head.weight" in weights:
            options.setdefault("token_head", True)
        if name in OFFICIAL:
            return from_official(name, weights, **options)
        network = create_model(name, **options)
    except TypeError as error:  # a network that has no such option, e.g. no img_size
        raise ValueError(f"{name} cannot be built with {', '.join(options) or 'these options'}: {error}") from error
    if isinstance(network, FAN | FANSwin | RVT):
        load_weights(network, weights)
    else:
        _load_timm(network, weights)
    return network


def stored_classes(weights: dict[str, Tensor]) -> int | None:
    """How many classes the classifier in a checkpoint has; None where that cannot be told."""
    heads = [weights[key] for key in ("head.weight", "head.fc.weight", "fc.weight", "classifier.weight") if key in weights]
    return int(heads[0].shape[0]) if heads and heads[0].ndim == 2 else None


def _load_timm(network: nn.Module, weights: dict[str, Tensor]) -> None:
    try:
        network.load_state_dict(weights)
    except RuntimeError as error:
        raise CheckpointError(f"these weights do not fit this {type(network).__name__}: {error}") from error
