"""A network with its weights, from what a user types: a name, a file, a folder, or an address.

All commands load networks here, so that none of them works with weights that another would refuse.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from robustvit.models.names import OFFICIAL
from robustvit.models.official import from_official
from robustvit.models.registry import create_model
from robustvit.models.saved_folder import LOCAL, WEIGHT_FILES, network_beside, weights_in
from robustvit.models.weights_into import load_weights
from robustvit.runtime.weights import CheckpointError, read_weights, stored_architecture

__all__ = ["load_model", "load_network"]

WEIGHT_SUFFIXES = (".safetensors", ".pth", ".pt", ".tar", ".bin", ".ckpt")
SOURCES = (LOCAL, "hf-hub:")


def load_model(model: str, *, untrained: bool = False, **options: Any) -> Any:
    """The network that a user names, with its weights; its attribute `is_untrained` says whether they are random.

    Args:
        model: NAME (weights of the package, or published ones), NAME=FILE, FILE (a checkpoint that says which network it is
            of), `hf-hub:ID` or `local-dir:FOLDER`.
        untrained: a NAME alone gets random weights, the same every time.
        options: of `create_model`.

    Raises:
        ValueError: there are no weights, or they leave a part of the network untrained.
        CheckpointError: the weights are of another network.
    """
    name, file = _understood(model)
    is_untrained = untrained and file is None and not name.startswith(SOURCES)
    if is_untrained:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)  # an interrupted run can go on only with the same weights
            network = load_network(name, **options)
    else:
        network = load_network(name, file, pretrained=file is None, **options)
    if file is None and not is_untrained:
        _check_trained(name, network, options)
    network.is_untrained = is_untrained
    return network


def _understood(model: str) -> tuple[str, Path | None]:
    """(name, file of weights) of what was typed."""
    if model.startswith(LOCAL):
        return model, _weights_in(Path(model.removeprefix(LOCAL)))
    if model.startswith(SOURCES):
        return model, None
    path = Path(model)
    if path.is_file():
        return _network_of(path), path
    name, _, file = model.partition("=")
    if file:
        return name, Path(file)
    if path.suffix in WEIGHT_SUFFIXES:
        raise FileNotFoundError(f"there is no file {model}; give the path of a checkpoint, or the name of a network")
    if path.is_dir():
        places = [place for place in (path, path / "best", path / "weights") if (place / "config.json").is_file()]
        hint = f"give {LOCAL}{places[0]}" if places else "it has no config.json of a network"
        raise IsADirectoryError(f"{model} is a folder; {hint}")
    return model, None


def _weights_in(folder: Path) -> Path:
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no folder {folder}; {LOCAL} takes one with config.json and {WEIGHT_FILES[0]}")
    if not (folder / "config.json").is_file():
        inside = [place for place in (folder / "best", folder / "weights") if (place / "config.json").is_file()]
        hint = f"; give {LOCAL}{inside[0]}" if inside else ", which says which network its weights are of"
        raise FileNotFoundError(f"{folder} has no config.json{hint}")
    return weights_in(folder)


def _network_of(file: Path) -> str:
    """The name of the network whose weights a file has."""
    name = network_beside(file) or stored_architecture(file)
    if name is None:
        raise ValueError(f"{file} does not say which network it is of; give NAME={file}")
    if ":" in name:  # a file must not decide what is fetched or read
        raise CheckpointError(f"{file} says that it is of {name!r}, which is no name of a network; give NAME={file}")
    return name


def _check_trained(name: str, network: Any, options: dict[str, Any]) -> None:
    """Raises ValueError where published weights leave a part of the network random."""
    stored, asked = network.pretrained_cfg.get("num_classes"), options.get("num_classes")
    random = [*getattr(network, "fresh_parts", ())]
    if stored and asked and stored != asked:
        random.append(f"classifier of {asked} classes (theirs has {stored})")
    if random:
        raise ValueError(
            f"the weights of {name} have no {' and no '.join(random)}, which would stay random; leave that out, give weights "
            "that have it, or try things out with --untrained"
        )


def load_network(name: str, checkpoint: str | Path | None = None, *, pretrained: bool = False, **options: Any) -> Any:
    """The network `name` with the weights of `checkpoint`, with published ones, or untrained.

    It has a token head where the checkpoint has one. A `config.json` beside the checkpoint that describes this network is
    honoured: its arguments, TAP, size and normalisation.

    Args:
        name: ours, published, timm's, `hf-hub:...` or `local-dir:...`.
        checkpoint: weights: published (give their published name) or saved from this network.
        pretrained: fetch published weights.
        options: of `create_model`.

    Raises:
        CheckpointError: the weights are of another network.
        ValueError: the network does not have one of the options.
    """
    try:
        if checkpoint is None:
            return create_model(name, pretrained, **options)
        weights = read_weights(checkpoint)
        stored = _stored_classes(weights)
        if stored is not None and options.setdefault("num_classes", stored) != stored:
            reason = "the network would get a classifier that was never trained"
            raise ValueError(f"{options['num_classes']} classes, but the checkpoint has {stored} classes; {reason}")
        if "token_head.weight" in weights:
            options.setdefault("token_head", True)
        file = Path(checkpoint)
        described = network_beside(file)
        if described is not None and described in (name, getattr(OFFICIAL.get(name), "architecture", "")):
            name = f"{LOCAL}{file.parent}"
        elif name in OFFICIAL:
            return from_official(name, weights, **options)
        network = create_model(name, **options)
    except TypeError as error:  # a network that has no such option
        raise ValueError(f"{name} cannot be built with {', '.join(options) or 'these options'}: {error}") from error
    try:
        _check_pooling(network, weights, file)
        if load_weights(network, weights):
            raise CheckpointError(f"{file} has a classifier of another number of classes than {name}; give weights of {name}")
    except CheckpointError as error:
        if described is not None and not name.startswith(LOCAL):
            error.add_note(f"the config.json beside it is of {described}: give {file} alone if that is meant")
        raise
    return network


def _check_pooling(network: nn.Module, weights: dict[str, Tensor], file: Path) -> None:
    """The names of its tensors do not say which kind of TAP a network has, so it is not guessed."""
    has_tap, needs_tap = (any(".tap." in key for key in keys) for keys in (weights, network.state_dict()))
    if has_tap and not needs_tap:
        raise CheckpointError(
            f"{file} is of a network with token-aware pooling (TAP), but nothing says of which kind; put the config.json into "
            f"its folder that `robustvit train` writes beside {WEIGHT_FILES[0]}"
        )


def _stored_classes(weights: dict[str, Tensor]) -> int | None:
    """How many classes the classifier in a checkpoint has; None where that cannot be told."""
    heads = [weights[key] for key in ("head.weight", "head.fc.weight", "fc.weight", "classifier.weight") if key in weights]
    return int(heads[0].shape[0]) if heads and heads[0].ndim == 2 else None
