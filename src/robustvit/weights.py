"""Reading weight files without running anything that is in them.

A file is read as weights only. An `argparse.Namespace`, which training programs like to store beside the weights, is
tolerated; any other object is refused before it is built.
"""

from __future__ import annotations

import argparse
import json
import pickle
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

__all__ = ["CheckpointError", "read_weights", "stored_architecture", "unwrap_weights"]

_WRAPPERS = ("state_dict", "model", "module")
_EMA_WRAPPERS = ("state_dict_ema", "model_ema")
_PREFIXES = ("module.", "_orig_mod.")


class CheckpointError(ValueError):
    """A weight file that cannot be read, or that does not fit the network."""


def read_weights(path: str | Path, *, use_ema: bool = True) -> dict[str, Tensor]:
    """The tensors of a checkpoint (`.pth`, `.pth.tar`, `.pt`, `.bin`, `.safetensors`), by name.

    Args:
        path: file written by `torch.save`, in its zip or its older form, or by safetensors.
        use_ema: take averaged weights (`state_dict_ema`, `model_ema`) where the file has them.

    Raises:
        FileNotFoundError: there is no such file.
        CheckpointError: it is not a checkpoint, is cut short, or holds objects other than weights; nothing was executed.
    """
    return unwrap_weights(_read(Path(path)), use_ema=use_ema)


def stored_architecture(path: str | Path) -> str | None:
    """The name of the network whose weights a file has, as training programs note it; None where it does not say.

    timm's and the published checkpoints have it inside (`arch`); safetensors in a `config.json` beside them.
    """
    path = Path(path)
    stored = _read(path)
    if not isinstance(stored, Mapping):
        return None
    options = vars(stored["args"]) if isinstance(stored.get("args"), argparse.Namespace) else {}
    name = stored.get("arch") or stored.get("architecture") or options.get("model")
    config = path.with_name("config.json")
    if not isinstance(name, str) and path.suffix == ".safetensors" and config.is_file():
        try:
            name = json.loads(config.read_text()).get("architecture")
        except (ValueError, AttributeError) as error:
            raise CheckpointError(f"{config} cannot be read: {error}") from error
    return name if isinstance(name, str) else None


def _read(path: Path) -> Any:
    """What a file holds, with its wrappers."""
    if not path.exists():
        raise FileNotFoundError(f"no weight file at {path}; expected a checkpoint such as model.pth.tar or model.safetensors")
    if not path.is_file():
        raise CheckpointError(f"{path} is a folder, not a weight file; give the file inside it")
    with path.open("rb") as file:
        start = file.read(16)
    if not start:
        raise CheckpointError(f"{path} is empty; the download or copy did not finish")
    if path.suffix == ".safetensors" or start[8:9] == b"{":
        return _read_safetensors(path)
    return _read_pickle(path)


def _read_safetensors(path: Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except SafetensorError as error:
        raise CheckpointError(f"{path} cannot be read as safetensors ({error}); it is damaged or cut short") from error


def _read_pickle(path: Path) -> Any:
    try:
        with torch.serialization.safe_globals([argparse.Namespace]):
            return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        foreign = _foreign_objects(path)
        if foreign:
            raise CheckpointError(
                f"{path} holds objects that are not weights: {', '.join(foreign)}. Nothing of it was executed. Expected "
                "tensors and at most an argparse.Namespace; if you trust its author, save its state dict anew with safetensors"
            ) from error
        raise CheckpointError(f"{path} is not a checkpoint, or holds more than weights; nothing of it was executed") from error
    except Exception as error:  # a damaged or hostile file can fail anywhere in the reader
        reason = f"{type(error).__name__}: {error}".splitlines()[0][:120]
        raise CheckpointError(
            f"{path} cannot be read as a checkpoint: it is none, or damaged, or cut short ({reason})"
        ) from error


def _foreign_objects(path: Path) -> list[str]:
    """Names of the objects in a checkpoint that would have run code; empty where that cannot be told."""
    try:
        names = torch.serialization.get_unsafe_globals_in_checkpoint(path)
    except (RuntimeError, ValueError, EOFError, struct.error, pickle.UnpicklingError):
        return []
    return sorted(name for name in names if name != "argparse.Namespace")


def unwrap_weights(checkpoint: Any, *, use_ema: bool = True) -> dict[str, Tensor]:
    """The state dict inside what a training program saved, with the prefixes of parallel and compiled training removed."""
    found = checkpoint
    for _ in range(3):  # wrappers inside wrappers
        if not isinstance(found, Mapping):
            break
        keys = (*_EMA_WRAPPERS, *_WRAPPERS) if use_ema else _WRAPPERS
        inside = [found[key] for key in keys if isinstance(found.get(key), Mapping)]
        if not inside:
            break
        found = next((weights for weights in inside if weights), inside[0])  # an empty average counts for nothing
    if not isinstance(found, Mapping):
        raise CheckpointError(f"expected a state dict (names to tensors), got {type(found).__name__}")
    weights = {}
    for name, value in found.items():
        if not isinstance(name, str) or not isinstance(value, Tensor):
            expected = "expected a state dict (names to tensors), plain or below 'state_dict', 'state_dict_ema' or 'model'"
            raise CheckpointError(f"{expected}; found {name!r}: {type(value).__name__}")
        while name.startswith(_PREFIXES):  # in any order: compiled inside parallel, or parallel inside compiled
            name = name.partition(".")[2]
        weights[name] = value
    if not weights:
        raise CheckpointError("the checkpoint holds no weights at all")
    return weights
