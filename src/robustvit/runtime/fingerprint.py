"""What stored work depends on, as a few digits, so that the work of another run is never taken for that of this one.

A fingerprint is a text of named parts, "networks 5f..., images 9a..., settings 07...", so that two of them also say what is
different.
"""

from __future__ import annotations

import hashlib
import os
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

__all__ = ["VERSION", "Digest", "changed_parts", "fingerprint", "is_same", "numbers_part", "parts_of"]

VERSION: Mapping[str, str] = {"version of robustvit": version("robustvit")}
"""The part of those fingerprints that do not outlive this version."""

TOLERANCE = 5e-3
"""Of numbers in a fingerprint, as a share of the largest of them: well above what threads and processors make of last bits."""
_CHUNK = 4096
"""Files whose sizes and times are asked for at once."""
_NUMBERS = "~"
"""Begins a part that holds numbers."""
_ASKING = 8
"""Threads that do so: over a network, a file takes a round trip."""


def fingerprint(parts: Mapping[str, Digest | str]) -> str:
    """A digest, or a plain word, for each part by its name."""
    return ", ".join(f"{name} {part if isinstance(part, str) else part.text()}" for name, part in parts.items())


def parts_of(text: str) -> dict[str, str]:
    """Name -> digest of the parts of a fingerprint; empty for a text that is none."""
    pairs = [part.rpartition(" ") for part in text.split(", ")]
    return {name: value for name, _, value in pairs if name}


def changed_parts(then: str, now: str) -> str:
    """Which parts of two fingerprints differ: "other networks and settings"; of one that cannot be understood, all."""
    before, after = parts_of(then), parts_of(now)
    own = next(iter(VERSION))
    if own in before and before[own] != after.get(own):
        return f"another {own}"  # with which nothing else can be compared
    changed = [name for name in after if not _is_same_part(before.get(name, ""), after[name])] or ["parts"]
    changed = [name for name in changed if not after.get(name, "").startswith(_NUMBERS)] or changed  # these follow from others
    return f"other {changed[0] if len(changed) == 1 else ', '.join(changed[:-1]) + ' and ' + changed[-1]}"


def is_same(then: str, now: str) -> bool:
    """Whether two fingerprints are of the same run: all parts are equal, numbers among them nearly."""
    before, after = parts_of(then), parts_of(now)
    return then == now or (list(before) == list(after) and all(_is_same_part(before[name], after[name]) for name in after))


def numbers_part(groups: Sequence[Sequence[float]]) -> str:
    """Groups of numbers as a part of a fingerprint."""
    return _NUMBERS + "/".join(";".join(f"{value:.6g}" for value in group) for group in groups)


def _is_same_part(then: str, now: str) -> bool:
    if then == now or not (then.startswith(_NUMBERS) and now.startswith(_NUMBERS)):
        return then == now
    try:
        groups = [[np.array(group.split(";"), float) for group in part[len(_NUMBERS) :].split("/")] for part in (then, now)]
    except ValueError:
        return False
    return len(groups[0]) == len(groups[1]) and all(_is_near(a, b) for a, b in zip(*groups, strict=True))


def _is_near(a: np.ndarray, b: np.ndarray) -> bool:
    if a.shape != b.shape:
        return False
    largest = max((abs(float(value)) for value in (*a, *b) if np.isfinite(value)), default=0.0)
    return bool(np.isclose(a, b, rtol=0, atol=TOLERANCE * largest, equal_nan=True).all())


class Digest:
    """Depends on everything that it is given, and on the order.

    Args:
        known: files and datasets that were looked at before, shared by the digests of one run, so that each is looked at
            once however many networks see it.
    """

    def __init__(self, known: dict[Any, bytes] | None = None) -> None:
        self.known: dict[Any, bytes] = {} if known is None else known
        self._hash = hashlib.blake2b(digest_size=12)

    def text(self) -> str:
        return self._hash.hexdigest()

    def add(self, *values: object) -> None:
        """Plain values, settings, modules: what `repr` says, without the addresses of objects, which no other process has."""
        self._hash.update(re.sub(r" at 0x[0-9a-fA-F]+", "", repr(values)).encode("utf-8", "surrogatepass"))

    def add_array(self, array: np.ndarray) -> None:
        """The contents of an array; of one that is mapped from a file, its place there with size and time of the file."""
        self.add(array.shape, array.dtype.str)
        file = getattr(array, "filename", None)
        if isinstance(array, np.memmap) and file is not None:
            self.add(array.offset + _place_in_map(array))
            self.add_files(Path(file).parent, [Path(file).name])
        elif array.dtype.hasobject:
            self.add(array.tolist())
        elif array.size:
            self._hash.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)

    def add_tensor(self, tensor: torch.Tensor) -> None:
        """The contents of a tensor of any type, on any device."""
        self.add(tuple(tensor.shape), tensor.dtype)
        if tensor.numel():
            self._hash.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)

    def add_network(self, network: nn.Module) -> None:
        """All weights and the structure of a network."""
        self.add(network)
        for key, tensor in network.state_dict().items():
            self.add(key)
            self.add_tensor(tensor)

    def add_contents(self, file: Path) -> None:
        """All bytes of a file."""
        with file.open("rb") as stream:
            self._hash.update(hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=12)).digest())

    def add_files(self, root: Path, names: Sequence[str]) -> None:
        """Names, sizes and times of files below `root`; their contents stay unread."""
        listed = hashlib.blake2b(digest_size=12)
        for name in names:
            listed.update(os.fsencode(name) + b"\0")
        key = ("files", str(root), listed.digest())
        if key not in self.known:
            found = hashlib.blake2b(listed.digest(), digest_size=12)
            for sizes_and_times in _statuses(os.fspath(root), names):
                found.update(sizes_and_times)
            self.known[key] = found.digest()
        self._hash.update(self.known[key])

    def add_once(self, key: object, made: Digest) -> None:
        """Another digest, kept under a key for whoever asks again."""
        self.known[key] = made._hash.digest()
        self.add_known(key)

    def add_known(self, key: object) -> None:
        self._hash.update(self.known[key])


def _place_in_map(array: np.memmap) -> int:
    """Bytes between the beginning of a mapped array and a part of it, which says nothing about that itself."""
    whole: Any = array
    while isinstance(whole.base, np.memmap):
        whole = whole.base
    return array.ctypes.data - whole.ctypes.data


def _statuses(root: str, names: Sequence[str]) -> Iterator[bytes]:
    """Size and time of each file, packed; -1 where it is missing."""

    def ask(start: int) -> bytes:
        values: list[int] = []
        for name in names[start : start + _CHUNK]:
            try:
                status = os.stat(os.path.join(root, name))  # noqa: PTH116, PTH118 (millions of paths)
                values += (status.st_size, status.st_mtime_ns)
            except FileNotFoundError:
                values += (-1, -1)
        return struct.pack(f"<{len(values)}q", *values)

    starts = range(0, len(names), _CHUNK)
    if len(starts) <= 1:
        yield from map(ask, starts)
        return
    with ThreadPoolExecutor(_ASKING) as pool:
        yield from pool.map(ask, starts)
