"""What a user types for a network: a name, a file of weights, both, a folder or an address."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from timm.models import is_model, split_model_name_tag

from robustvit.models.dense_names import is_dense
from robustvit.models.names import OFFICIAL
from robustvit.models.saved_folder import LOCAL, WEIGHT_FILES, network_beside
from robustvit.runtime.weights import CheckpointError, stored_architecture

__all__ = ["Source", "understood", "weights_file"]

WEIGHT_SUFFIXES = (".safetensors", ".pth", ".pt", ".tar", ".bin", ".ckpt")
_ADDRESSES = (LOCAL, "hf-hub:")
_INSIDE = ("", "best", "weights")
"""Where in the folder of a run a network may be."""


@dataclass(frozen=True)
class Source:
    """A network that a user named.

    Args:
        name: ours, published, timm's, `hf-hub:ID` or `local-dir:FOLDER`.
        file: its weights, where they are in a file of their own.
    """

    name: str
    file: Path | None = None

    @property
    def is_name(self) -> bool:
        """Whether nothing but the name of an architecture was given, which has no weights of its own."""
        return self.file is None and not self.name.startswith(_ADDRESSES)


def understood(model: str) -> Source:
    """What was typed: NAME, NAME=FILE, FILE (a checkpoint that says which network it is of), `hf-hub:ID`, `local-dir:FOLDER`.

    Raises:
        OSError: there is no such file or folder, or it is a folder without `local-dir:` before it.
        ValueError: a file does not say which network it is of.
        CheckpointError: a file or a config.json cannot be read.
    """
    architecture = split_model_name_tag(model)[0]
    if architecture in OFFICIAL or is_model(architecture) or is_dense(model):
        return Source(model)
    if model.startswith(_ADDRESSES):
        if model.startswith(LOCAL):
            _check_folder(Path(model.removeprefix(LOCAL)))
        return Source(model)
    path = Path(model)
    if path.is_file():
        return Source(_network_of(path), path)
    name, _, file = model.partition("=")
    if file:
        return Source(name, Path(file))
    if path.suffix in WEIGHT_SUFFIXES:
        raise FileNotFoundError(f"there is no file {model}; give the path of a checkpoint, or the name of a network")
    if path.is_dir():
        places = _described(path)
        hint = f"give {LOCAL}{places[0]}" if places else "it has no config.json of a network"
        raise IsADirectoryError(f"{model} is a folder; {hint}")
    return Source(model)


def weights_file(place: str | Path) -> Path:
    """The file of weights at `place`: itself, or the one in the folder of a run or of a saved network.

    Raises:
        FileNotFoundError: there is none.
        CheckpointError: it is the state of a training run.
    """
    path = Path(place)
    if path.is_dir():
        candidates = [path / inside / WEIGHT_FILES[0] for inside in _INSIDE]
        path = next((file for file in candidates if file.is_file()), candidates[0])
    if not path.is_file():
        raise FileNotFoundError(f"there are no weights at {path}; give a checkpoint, or the folder of a finished run")
    if path.parent.name == "checkpoints" and path.name.startswith("checkpoint-"):
        raise CheckpointError(f"{path} is the state of a training run; give the folder of the run, {path.parent.parent}")
    return path


def _check_folder(folder: Path) -> None:
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no folder {folder}; {LOCAL} takes one with config.json and {WEIGHT_FILES[0]}")
    if not (folder / "config.json").is_file():
        inside = _described(folder)
        hint = f"; give {LOCAL}{inside[0]}" if inside else ", which says which network its weights are of"
        raise FileNotFoundError(f"{folder} has no config.json{hint}")


def _described(folder: Path) -> list[Path]:
    return [folder / inside for inside in _INSIDE if (folder / inside / "config.json").is_file()]


def _network_of(file: Path) -> str:
    """The name of the network whose weights a file has."""
    name = network_beside(file) or stored_architecture(file)
    if name is None:
        raise ValueError(f"{file} does not say which network it is of; give NAME={file}")
    if ":" in name:  # a file must not decide what is fetched or read
        raise CheckpointError(f"{file} says that it is of {name!r}, which is no name of a network; give NAME={file}")
    return name
