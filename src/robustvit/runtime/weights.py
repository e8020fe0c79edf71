"""Reading weight files without running anything that is in them, and writing our own with a checksum.

A file is read as weights only. An `argparse.Namespace`, which training programs like to store beside the weights, is
tolerated; any other object is refused before it is built.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import mmap
import pickle
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from robustvit.runtime.zip_files import DamagedZipError, check_zip, is_zip

__all__ = [
    "CheckpointError",
    "load_checked",
    "read_weights",
    "reader_error",
    "save_weight_file",
    "stored_architecture",
    "unwrap_weights",
    "weights_checksum",
    "weights_metadata",
]

_WRAPPERS = ("state_dict", "model", "module")
_EMA_WRAPPERS = ("state_dict_ema", "model_ema")
_PREFIXES = ("module.", "_orig_mod.")
CHECKSUM = "robustvit_blake2b"
"""Key of the checksum in the metadata of our own files; those from elsewhere have none."""


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

    timm's and the published checkpoints do (`arch`).
    """
    stored = _read(Path(path))
    if not isinstance(stored, Mapping):
        return None
    options = vars(stored["args"]) if isinstance(stored.get("args"), argparse.Namespace) else {}
    name = stored.get("arch") or stored.get("architecture") or options.get("model")
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


def weights_checksum(weights: Mapping[str, Tensor]) -> str:
    """Of the names, shapes, types and bytes of all tensors."""
    digest = hashlib.blake2b(digest_size=32)
    for name in sorted(weights):
        tensor = weights[name].detach().cpu().contiguous()
        digest.update(repr((name, tuple(tensor.shape), str(tensor.dtype))).encode())
        if tensor.numel():
            digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def save_weight_file(weights: Mapping[str, Tensor], path: Path, metadata: Mapping[str, str] | None = None) -> None:
    """Writes a .safetensors file that any program reads, with a checksum that `read_weights` compares."""
    from safetensors.torch import save

    tensors = {name: value.detach().cpu().contiguous().clone() for name, value in weights.items()}  # none shares its memory
    about = {**(metadata or {}), CHECKSUM: weights_checksum(tensors)}  # safetensors writes several in any order
    path.write_bytes(save(tensors, about))


def _read_safetensors(path: Path) -> dict[str, Tensor]:
    from safetensors.torch import load, load_file

    stated = weights_metadata(path).get(CHECKSUM)
    try:
        weights = load_file(path) if _is_text(str(path)) else load(path.read_bytes())
    except Exception as error:  # a damaged header can fail anywhere in the reader
        raise CheckpointError(
            f"{path} cannot be read as safetensors ({reader_error(error)}); it is damaged or cut short"
        ) from error
    if stated is not None and stated != weights_checksum(weights):
        raise CheckpointError(
            f"{path} is damaged: its weights do not have the checksum that they were saved with; copy it anew"
        )
    return weights


def weights_metadata(path: Path) -> dict[str, str]:
    """What a .safetensors file says about itself: a length of 8 bytes, then a header of JSON.

    Raises:
        CheckpointError: it has no such header.
    """
    try:
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            header: Any = json.loads(file.read(length)) if length < path.stat().st_size else None
        return dict(header["__metadata__"]) if "__metadata__" in header else {}
    except (ValueError, TypeError, KeyError, struct.error, RecursionError) as error:
        raise CheckpointError(f"{path} cannot be read as safetensors: its header is damaged or cut short") from error


def _is_text(path: str) -> bool:
    """Whether safetensors can open it; it takes paths of UTF-8 only."""
    return not any("\ud800" <= character <= "\udfff" for character in path)


def load_checked(path: Path) -> Any:
    """What `torch.load` gives, weights only, of a file that is whole: torch itself does not compare its checksums.

    Raises:
        pickle.UnpicklingError: it holds more than weights.
        ValueError, RuntimeError, ...: it is damaged, or none of torch's. Nothing of it was executed in any case.
    """
    if is_zip(path):
        check_zip(path)
    if _makes_buffers(path):
        raise DamagedZipError("it asks for memory that it does not fill")
    with torch.serialization.safe_globals([argparse.Namespace]):
        return torch.load(path, map_location="cpu", weights_only=True)


def _makes_buffers(path: Path) -> bool:
    """Whether a pickle calls `bytearray`, which torch allows, and which takes as much memory as the file says."""
    mark = b"bytearray\n"
    if is_zip(path):
        with zipfile.ZipFile(path) as archive:
            pickles = [entry for entry in archive.infolist() if entry.filename.endswith("/data.pkl")]
            for entry in pickles:
                if not entry.CRC:
                    del entry.CRC  # stored without a checksum, so that there is nothing to compare
            return any(mark in archive.read(entry) for entry in pickles)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return content.find(mark) >= 0


def _read_pickle(path: Path) -> Any:
    try:
        return load_checked(path)
    except pickle.UnpicklingError as error:
        foreign = _foreign_objects(path)
        if foreign:
            raise CheckpointError(
                f"{path} holds objects that are not weights: {', '.join(foreign)}. Nothing of it was executed. Expected "
                "tensors and at most an argparse.Namespace; if you trust its author, save its state dict anew with safetensors"
            ) from error
        raise CheckpointError(f"{path} is not a checkpoint, or holds more than weights; nothing of it was executed") from error
    except Exception as error:  # a damaged or hostile file can fail anywhere in the reader
        raise CheckpointError(
            f"{path} cannot be read as a checkpoint: it is none, or damaged, or cut short ({reader_error(error)})"
        ) from error


def reader_error(error: Exception) -> str:
    """The first line of an error of a reader, without torch's advice to run what is in the file."""
    kind = "" if isinstance(error, DamagedZipError) else f"{type(error).__name__}: "
    line = f"{kind}{error}".splitlines()[0]
    return type(error).__name__ if "weights_only" in line else line[:160]


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
