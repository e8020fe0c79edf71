"""Tensors in lists, tuples and dictionaries: what targets and answers of tasks are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

import torch
from torch import Tensor

__all__ = ["concatenate", "map_tensors", "tensors_of"]


def concatenate(values: Sequence[Any]) -> Any:
    """Values of the same form as one of that form, whose tensors are theirs in a row; what is no tensor is the first one's."""
    first = values[0]
    if isinstance(first, Tensor):
        return torch.cat(list(values))
    if isinstance(first, Mapping):
        return {name: concatenate([value[name] for value in values]) for name in first}
    if isinstance(first, list | tuple):
        return _like(first, (concatenate(entries) for entries in zip(*values, strict=True)))
    return first


def map_tensors(value: Any, change: Callable[[Tensor], Any]) -> Any:
    """`value` with `change` applied to every tensor in it; what is no tensor stays."""
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, Mapping):
        entries = {name: map_tensors(entry, change) for name, entry in value.items()}
        return type(value)(**entries) if is_dataclass(value) else entries  # as the answers of Hugging Face's networks
    if isinstance(value, list | tuple):
        return _like(value, (map_tensors(entry, change) for entry in value))
    if is_dataclass(value) and not isinstance(value, type):
        own = {field.name: map_tensors(getattr(value, field.name), change) for field in fields(value) if field.init}
        return replace(value, **own)
    return value


def tensors_of(value: Any) -> Iterator[Tensor]:
    """All tensors in `value`, in their order."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        for entry in value.values() if isinstance(value, Mapping) else value:
            yield from tensors_of(entry)


def _like(sequence: list[Any] | tuple[Any, ...], entries: Iterable[Any]) -> Any:
    """A list, tuple or named tuple of other entries."""
    make = getattr(type(sequence), "_make", type(sequence))
    return make(entries)
