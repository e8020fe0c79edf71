"""The networks that a user names on the command line."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from robustvit.cli.console import working

__all__ = ["load_networks"]

WEIGHT_SUFFIXES = (".safetensors", ".pth", ".pt", ".tar", ".bin", ".ckpt")


def load_networks(models: Sequence[str], untrained: bool, options: dict[str, Any], device: str) -> dict[str, Any]:
    """What was typed -> the network with its weights, in evaluation mode, on its device.

    Args:
        models: NAME, NAME=FILE, FILE, hf-hub:ID or local-dir:FOLDER, each once.
        untrained: a NAME alone means random weights; without it, published ones are fetched.
        options: of `create_model`.
        device: as PyTorch names it; "cuda" is that of the process under torchrun.
    """
    if not models:
        raise ValueError("there is no network to evaluate; give at least one, such as fan_vit_nano")
    if twice := [m for i, m in enumerate(models) if m in models[:i]]:
        raise ValueError(f"{twice[0]} is given twice; give each network once")
    place = f"cuda:{os.environ['LOCAL_RANK']}" if device == "cuda" and "LOCAL_RANK" in os.environ else device
    with working(f"Loading {', '.join(models)}"):
        return {model: _load_at_size(model, untrained, options).to(place).eval() for model in models}


def _load_at_size(model: str, untrained: bool, options: dict[str, Any]) -> Any:
    """Networks that take any size, as CNNs do, are not told which."""
    try:
        return _load(model, untrained, options)
    except ValueError as error:
        if "img_size" not in options or not isinstance(error.__cause__, TypeError) or "img_size" not in str(error.__cause__):
            raise
    return _load(model, untrained, {name: value for name, value in options.items() if name != "img_size"})


def _load(model: str, untrained: bool, options: dict[str, Any]) -> Any:
    from robustvit.models.loading import load_network
    from robustvit.weights import stored_architecture

    name, _, file = model.partition("=")
    if not file and Path(model).suffix in WEIGHT_SUFFIXES and not Path(model).exists():
        raise FileNotFoundError(f"there is no file {model}; give the path of a checkpoint, or the name of a network")
    if not file and ":" not in model and Path(model).is_dir():
        inside = (Path(model), Path(model, "best"), Path(model, "weights"))
        places = [place for place in inside if (place / "config.json").is_file()]
        hint = f"give local-dir:{places[0]}" if places else "it has no config.json of a network"
        raise IsADirectoryError(f"{model} is a folder; {hint}")
    if not file and Path(model).is_file():
        architecture = stored_architecture(model)
        if architecture is None:
            raise ValueError(f"{model} does not say which network it is of; give NAME={model}")
        name, file = architecture, model
    if file:
        return load_network(name, file, **options)
    return load_network(name, pretrained=not untrained, **options)
