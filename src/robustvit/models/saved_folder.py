"""Folders of saved networks (`local-dir:FOLDER`): config.json and weights, written for timm, checked before it reads them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import timm
from timm.models import is_model
from timm.models._hub import save_config_for_hf
from torch import Tensor

from robustvit.models.dense_names import is_dense
from robustvit.models.image_sizes import takes_option
from robustvit.runtime.files import write_whole
from robustvit.runtime.spelling import nearest
from robustvit.runtime.weights import CheckpointError, read_weights, save_weight_file

__all__ = [
    "LOCAL",
    "WEIGHT_FILES",
    "buildable",
    "check_saved_weights",
    "network_beside",
    "read_saved_config",
    "save_weights",
    "weights_in",
]

LOCAL = "local-dir:"
"""What the name of a network begins with that is a folder."""
WEIGHT_FILES = ("model.safetensors", "pytorch_model.bin", "pytorch_model.pth", "model.pth")
"""What the weights are called, as timm looks for them."""
CLASSIFICATION = "classification"
"""The task that timm's networks are for."""
_ADDED = ("tap", "tap_blocks", "token_head")
"""Arguments of `create_model` that timm's own networks do not take."""
_SECTIONS: dict[str, type] = {"model_args": dict, "pretrained_cfg": dict, "robustvit": dict, "label_names": list}


def read_saved_config(folder: str | Path) -> dict[str, Any]:
    """The config.json of a folder; {} where there is none.

    Raises:
        CheckpointError: it is no JSON, or does not describe a network of timm or ours.
    """
    path = Path(folder) / "config.json"
    if not path.is_file():
        return {}
    config = _read_object(path)
    for key, kind in _SECTIONS.items():
        if not isinstance(config.get(key, kind()), kind):
            raise CheckpointError(f"{path}: {key} is {config[key]!r}; expected a {kind.__name__}")
    name = config.get("architecture")
    if not isinstance(name, str) or not (is_model(name) or is_dense(name)):  # also hf-hub:..., which would be fetched
        hint = nearest(name, timm.list_models()) if isinstance(name, str) else ""
        raise CheckpointError(f"{path} says architecture={name!r}, which is no network of timm or ours{hint}")
    return config


def _read_object(path: Path) -> dict[str, Any]:
    try:
        config = json.loads(path.read_bytes().decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} is not JSON ({error}); write it anew, or copy it again") from error
    if not isinstance(config, dict):
        raise CheckpointError(f"{path} holds a {type(config).__name__}; expected an object with the key architecture")
    return config


def network_beside(file: Path) -> str | None:
    """The network that the config.json beside a weight file describes, as `robustvit train` and timm write it; None for none.

    Raises:
        CheckpointError: it describes one wrongly. One of another package, which has other keys, is of no interest.
    """
    config = file.with_name("config.json")
    is_described = file.suffix == ".safetensors" or file.name in WEIGHT_FILES
    if not is_described or not config.is_file() or "architecture" not in _read_object(config):
        return None
    return read_saved_config(file.parent)["architecture"]


def weights_in(folder: str | Path) -> Path:
    """The weight file of a folder.

    Raises:
        FileNotFoundError: there is none.
    """
    found = next((file for name in WEIGHT_FILES if (file := Path(folder) / name).is_file()), None)
    if found is None:
        raise FileNotFoundError(f"{folder} has no weights; expected {' or '.join(WEIGHT_FILES)}")
    return found


def check_saved_weights(folder: str | Path) -> None:
    """Reads the weights in a folder, because timm does not compare checksums.

    Raises:
        FileNotFoundError: there are none.
        CheckpointError: they are damaged.
    """
    read_weights(weights_in(folder))


@contextmanager
def buildable(folder: str | Path) -> Iterator[None]:
    """Turns what fails while a network is built from its config.json into a CheckpointError that says so."""
    try:
        yield
    except (ValueError, OSError):
        raise
    except Exception as error:  # its arguments can be anything, and fail anywhere in the constructor
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        raise CheckpointError(f"no network can be built from {Path(folder) / 'config.json'}: {reason}") from error


def save_weights(
    network: Any,
    weights: Mapping[str, Tensor],
    folder: Path,
    options: Mapping[str, Any],
    extra: Mapping[str, Any],
    task: str = CLASSIFICATION,
) -> None:
    """Writes model.safetensors and a config.json that `timm.create_model("local-dir:FOLDER", pretrained=True)` loads.

    Args:
        network: whose architecture it is.
        weights: its state dict, or an average of it.
        folder: made if needed.
        options: arguments of `create_model`; those of timm's own networks that timm does not know (tap, token_head) go to the
            key `robustvit`, which `robustvit.create_model` reads.
        extra: what else the file should say, e.g. the class names under `label_names`.
        task: that the network is for; one that timm does not know goes to the key `robustvit`, too.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with write_whole(folder / WEIGHT_FILES[0]) as file:
        save_weight_file(weights, file)
    added = {k: v for k, v in options.items() if k in _ADDED and not takes_option(network, k)}
    options = {**getattr(network, "implied_args", {}), **options}
    unneeded = {*added, "num_classes", "drop_path_rate", *(() if takes_option(network, "img_size") else ("img_size",))}
    model_args = {k: v for k, v in options.items() if k not in unneeded}
    noted = {**added, **({"task": task} if task != CLASSIFICATION else {})}
    config = {**extra, **({"robustvit": noted} if noted else {})}
    with write_whole(folder / "config.json") as file:
        save_config_for_hf(network, file, model_config=config, model_args=model_args)
