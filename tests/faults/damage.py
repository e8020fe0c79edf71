"""Ways to damage bytes and trees of plain values, drawn from a generator."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

ODD_VALUES: tuple[Any, ...] = (
    None,
    True,
    "",
    "text",
    "1e999",
    "\udcff",
    0,
    -1,
    3,
    10**18,
    -(2**63) - 1,
    0.5,
    float("inf"),
    float("-inf"),
    float("nan"),
    [],
    {},
    [1, "a", None],
    {"a": 1},
    [[[[]]]],
    [float("inf"), 0.5],
)


def flipped(content: bytes, draws: random.Random) -> bytes:
    """One to four bits are others."""
    changed = bytearray(content)
    for _ in range(draws.choice((1, 1, 1, 4)) if content else 0):
        changed[draws.randrange(len(changed))] ^= 1 << draws.randrange(8)
    return bytes(changed)


def cut(content: bytes, draws: random.Random) -> bytes:
    return content[: draws.randrange(len(content))] if content else content


def emptied(content: bytes, draws: random.Random) -> bytes:
    return b""


def with_hole(content: bytes, draws: random.Random) -> bytes:
    """A part of it is zeros, as after a write that did not reach the disk."""
    start = draws.randrange(len(content) + 1)
    end = min(len(content), start + draws.choice((1, 16, 512, 4096)))
    return content[:start] + bytes(end - start) + content[end:]


def without_part(content: bytes, draws: random.Random) -> bytes:
    start = draws.randrange(len(content) + 1)
    return content[:start] + content[start + draws.choice((1, 7, 64, 1024)) :]


def extended(content: bytes, draws: random.Random) -> bytes:
    return content + draws.randbytes(draws.choice((1, 100, 5000)))


def noise(content: bytes, draws: random.Random) -> bytes:
    return draws.randbytes(draws.choice((1, 8, 100, len(content))))


def other_json(content: bytes, draws: random.Random) -> bytes:
    return draws.choice((b"[]", b"{}", b"null", b"7", b'"text"', b"[" * 50_000, b'{"a": ' * 5_000, b"{", b"\xff\xfe", b"NaN"))


BYTES: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    flipped,
    cut,
    with_hole,
    without_part,
    extended,
    noise,
    emptied,
    other_json,
)


def damaged_bytes(content: bytes, draws: random.Random) -> bytes:
    return draws.choice(BYTES)(content, draws)


def damaged_tree(tree: Any, draws: random.Random) -> Any:
    """A tree of plain values in which one value is odd, missing, renamed, or added."""
    tree = copy.deepcopy(tree)
    places = _places(tree)
    if not places or draws.random() < 0.05:
        return draws.choice(ODD_VALUES)
    parent, key = draws.choice(places)
    how = draws.choice(("value", "value", "value", "drop", "rename", "add"))
    if how == "value":
        parent[key] = draws.choice(ODD_VALUES)
    elif how == "drop":
        del parent[key]
    elif isinstance(parent, dict):
        name = draws.choice(("unknown", f"{key}_", "", "__class__", "model_args", "a" * 300))
        parent[name] = parent.pop(key) if how == "rename" else draws.choice(ODD_VALUES)
    else:
        parent.insert(0, draws.choice(ODD_VALUES))
    return tree


def _places(tree: Any) -> list[tuple[Any, Any]]:
    """(container, key) of every value in a tree."""
    keys = list(tree) if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ()
    return [place for key in keys for place in ((tree, key), *_places(tree[key]))]


def damage_file(path: Path, draws: random.Random) -> str:
    """Damages a file, or takes it away; says how."""
    content = path.read_bytes()
    if draws.random() < 0.12:
        path.unlink()
        return f"{path.name} is gone"
    if path.suffix == ".json" and draws.random() < 0.5:
        path.write_text(json.dumps(damaged_tree(json.loads(content), draws)))
        return f"a value in {path.name} is another"
    how = draws.choice(BYTES)
    path.write_bytes(how(content, draws))
    return f"{path.name} is {how.__name__}"
