"""Weight files, saved networks and run folders that are damaged, incomplete, hostile, or of something else."""

from __future__ import annotations

import argparse
import io
import json
import pickle
import random
import shutil
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from damage import ODD_VALUES, damage_file, damaged_bytes, damaged_tree
from safetensors.torch import save, save_file

from robustvit.runtime.weights import read_weights


class Payload:
    """Makes a folder when it is unpickled by somebody who runs what a pickle says."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        import os

        return os.mkdir, (str(self.marker),)


def hostile_pickle(marker: Path, draws: random.Random) -> bytes:
    """A pickle that would run code, in one of the ways that the format has."""
    name = str(marker).encode()
    return draws.choice(
        (
            pickle.dumps(Payload(marker), draws.choice((0, 2, 4))),
            pickle.dumps({"state_dict": {"a": Payload(marker)}}, 2),
            b"cos\nmkdir\n(S'" + name + b"'\ntR.",
            b"(S'" + name + b"'\nios\nmkdir\n.",
            b"(cos\nmkdir\nS'" + name + b"'\no.",
            b"\x80\x04\x8c\x02os\x8c\x05mkdir\x93\x8c" + bytes([len(name)]) + name + b"\x85R.",
            b'cbuiltins\neval\n(S\'__import__("os").mkdir("' + name + b"\")'\ntR.",
            b"ctorch.serialization\nload\n(S'" + name + b"'\ntR.",
            b"cargparse\nNamespace\n)\x81}(S'x'\ncos\nmkdir\n(S'" + name + b"'\ntRsb.",
        )
    )


def _zipped(data: bytes, draws: random.Random) -> bytes:
    """A pickle in the zip form of torch."""
    whole, file = io.BytesIO(), io.BytesIO()
    torch.save({"a": torch.ones(3)}, whole)
    with zipfile.ZipFile(whole) as archive, zipfile.ZipFile(file, "w") as other:
        for name in archive.namelist():
            other.writestr(name, data if name.endswith("data.pkl") else archive.read(name))
    return file.getvalue()


def hostile(path: Path, draws: random.Random) -> str:
    data = hostile_pickle(path.parent / "executed", draws)
    path.write_bytes(draws.choice((data, _zipped(data, draws))))
    return "hostile"


def damaged(path: Path, draws: random.Random) -> str:
    path.write_bytes(damaged_bytes(path.read_bytes(), draws))
    return "damaged"


def _weights_of(path: Path) -> dict[str, torch.Tensor]:
    """In memory: those that are read are a view of the file, which is about to be another one."""
    return {name: value.clone() for name, value in read_weights(path).items()}


def other_tensors(path: Path, draws: random.Random) -> str:
    """Whole, but not the weights of this network."""
    weights: dict[str, Any] = _weights_of(path)
    name = draws.choice(sorted(weights))
    how = draws.choice(("drop", "rename", "shape", "type", "add", "none", "empty"))
    if how == "empty":
        weights = {}
    elif how == "add":
        weights["more"] = torch.zeros(2)
    else:
        value = weights.pop(name)
        if how == "rename":
            weights[f"x.{name}"] = value
        elif how in ("shape", "none"):
            weights[name] = torch.zeros((3, 1, 2) if how == "shape" else (0,))
        elif how == "type":
            weights[name] = value.to(draws.choice((torch.int64, torch.complex64, torch.bool, torch.float8_e5m2)))
    if path.suffix == ".safetensors":
        save_file(weights, path)
    else:
        torch.save(weights, path)
    return "other tensors"


def odd_objects(path: Path, draws: random.Random) -> str:
    """A checkpoint of torch whose values are not what they should be."""
    odd = [value for value in ODD_VALUES if value != "\udcff"]
    wrapped: dict[Any, Any] = {draws.choice(("state_dict", "model", "arch", "args", "state_dict_ema", 5)): draws.choice(odd)}
    wrapped["arch"] = draws.choice(("vit_pico", "hf-hub:timm/vit", "local-dir:/", "nothing", 5, None))
    if draws.random() < 0.3:
        wrapped["args"] = argparse.Namespace(model=draws.choice(odd))
    torch.save(draws.choice((wrapped, *odd)), path)
    return "odd objects"


def odd_header(path: Path, draws: random.Random) -> str:
    """safetensors whose header says what cannot be."""
    header = {"a": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}}
    text = json.dumps(damaged_tree(header, draws)).encode()
    length = draws.choice((len(text), len(text), 2**63, 0, 10**12, len(text) - 1))
    path.write_bytes(struct.pack("<Q", length) + text + bytes(16))
    return "odd header"


def bomb(path: Path, draws: random.Random) -> str:
    """A small file that unpacks to gigabytes, or says so."""
    if draws.random() < 0.5:
        path.write_bytes(b"\x80\x02cbuiltins\nbytearray\n\x8a\x05\x00\xf2\x05*\x01\x85R.")
        return "bomb"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/data.pkl", pickle.dumps({}, 2))
        with archive.open("a/data/0", "w", force_zip64=True) as part:
            for _ in range(1200):
                part.write(bytes(2**20))
    return "bomb"


def another_format(path: Path, draws: random.Random) -> str:
    """The suffix of one format, the content of another."""
    weights = _weights_of(path)
    if path.suffix == ".safetensors":
        torch.save(weights, path)
    else:
        path.write_bytes(save(weights))
    return "another format"


CHANGES: tuple[Callable[[Path, random.Random], str], ...] = (
    damaged,
    hostile,
    damaged,
    other_tensors,
    odd_objects,
    odd_header,
    another_format,
    damaged,
)


def change_weights(path: Path, number: int, draws: random.Random) -> str:
    """Changes a weight file; says how. Bombs are rare, as they take long to make."""
    return bomb(path, draws) if number % 40 == 39 else draws.choice(CHANGES)(path, draws)


def change_folder(base: Path, folder: Path, draws: random.Random) -> str:
    """A copy of a folder in which one file is damaged or hostile."""
    shutil.copytree(base, folder)
    file = draws.choice(sorted(path for path in folder.rglob("*") if path.is_file()))
    if file.suffix in (".pt", ".pth") and draws.random() < 0.3:
        return hostile(file, draws)
    damage_file(file, draws)
    return f"damaged {file.suffix}"
