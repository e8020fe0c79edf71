"""A network with the weights of a file, built as the weights, and a config.json beside them, say."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from robustvit.models.dense_names import is_dense
from robustvit.models.names import OFFICIAL
from robustvit.models.networks import build_network
from robustvit.models.official import from_official
from robustvit.models.published_tensors import PUBLISHED_DENSE
from robustvit.models.saved_folder import LOCAL, WEIGHT_FILES, network_beside
from robustvit.models.weights_into import load_weights
from robustvit.runtime.weights import CheckpointError, read_weights

__all__ = ["network_from_file"]

_CLASSIFIERS = (
    "head.weight",
    "head.fc.weight",
    "fc.weight",
    "classifier.weight",
    "decode_head.classifier.weight",
    "decode_head.linear_pred.weight",
    "decode_head.conv_seg.weight",
)
"""Where the number of classes of a checkpoint can be read, first found."""
_DETECTORS = (
    "regions.boxes.0.classes.weight",
    "roi_head.bbox_head.0.fc_cls.weight",
    "roi_head.bbox_head.fc_cls.weight",
)
"""The same of detectors, where the background is one more."""


def network_from_file(name: str, file: Path, **options: Any) -> Any:
    """The network `name` with the weights of `file`, all of them.

    It has as many classes as the weights, and a token head where they have one. A `config.json` beside the file that describes
    this network is honoured: its arguments, TAP, size and normalisation.

    Args:
        name: ours, published, timm's, `hf-hub:...` or `local-dir:...`.
        file: weights: published (give their published name) or saved from this network.
        options: of `create_model`.

    Raises:
        CheckpointError: the weights are of another network.
        ValueError: another number of classes is asked for.
    """
    weights = read_weights(file)
    stored = _stored_classes(weights)
    if stored is not None and options.setdefault("num_classes", stored) != stored:
        reason = "the network would get a classifier that was never trained"
        raise ValueError(f"{options['num_classes']} classes, but the checkpoint has {stored} classes; {reason}")
    if "token_head.weight" in weights and not is_dense(name):
        options.setdefault("token_head", True)
    described = network_beside(file)
    if described is not None and described in (name, getattr(OFFICIAL.get(name), "architecture", "")):
        name = f"{LOCAL}{file.parent}"
    elif name in OFFICIAL or (is_dense(name) and any(key in weights for key in PUBLISHED_DENSE)):
        return from_official(name, weights, **options)
    network = build_network(name, **options)
    try:
        _check_pooling(network, weights, file)
        if load_weights(network, weights):
            raise CheckpointError(f"{file} has a classifier of another number of classes than {name}; give weights of {name}")
    except CheckpointError as error:
        if described is not None and not name.startswith(LOCAL):
            error.add_note(f"the config.json beside it is of {described}: give {file} alone if that is meant")
        raise
    return network


def _check_pooling(network: nn.Module, weights: Mapping[str, Tensor], file: Path) -> None:
    """The names of its tensors do not say which kind of TAP a network has, so it is not guessed."""
    has_tap, needs_tap = (any(".tap." in key for key in keys) for keys in (weights, network.state_dict()))
    if has_tap and not needs_tap:
        raise CheckpointError(
            f"{file} is of a network with token-aware pooling (TAP), but nothing says of which kind; put the config.json into "
            f"its folder that `robustvit train` writes beside {WEIGHT_FILES[0]}"
        )


def _stored_classes(weights: Mapping[str, Tensor]) -> int | None:
    """How many classes the classifier in a checkpoint has; None where that cannot be told."""
    heads = [weights[key] for key in _CLASSIFIERS if key in weights]
    if heads and heads[0].ndim in (2, 4):
        return int(heads[0].shape[0])
    boxes = [weights[key] for key in _DETECTORS if key in weights]
    return int(boxes[0].shape[0]) - 1 if boxes and boxes[0].ndim == 2 else None
