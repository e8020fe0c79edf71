"""The size at which dense networks are looked at: that of their images, as they take any; bounded by the number of tokens."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from robustvit.analysis.subject import Subject
from robustvit.data.protocols import protocol_of
from robustvit.recording.block_outputs import block_tokens
from robustvit.recording.tape import NothingRecordedError

__all__ = ["FEW_TOKENS", "MOST_TOKENS", "at_size_of_images", "warn_of_few_tokens"]

Size = tuple[int, int]
MOST_TOKENS = 1024
"""On the finest grid, unless the network has more at the size it was made for: attention maps and affinities have the square
of it, and eigenvalues take its cube."""
FEW_TOKENS = 25
"""With fewer, attention and groups of tokens are blocks that say little about the image."""
MOST_PIXELS = 32 * 224 * 224
"""Of a batch."""


def at_size_of_images(subjects: Mapping[str, Subject]) -> dict[str, Subject]:
    """The networks with images at one size: that of the first image, in whole tokens, and smaller where one of the networks
    would have more than `MOST_TOKENS`. Classifiers, and networks that take one size only, are left as they are.

    Args:
        subjects: name -> network of one task, with its images.
    """
    first = next(iter(subjects.values()))
    shown = first.first_size() if all(map(_takes_any_size, subjects.values())) else None
    grids = {name: _grids(subject) for name, subject in subjects.items()} if shown is not None else {}
    if shown is None or not all(grids.values()):
        return dict(subjects)
    most = min(_most_pixels(subjects[name].protocol.size, own) for name, own in grids.items())
    size = _in_whole_tokens(shown, most, max(max(subject.network.strides) for subject in subjects.values()))
    return {name: _at_size(subject, size) for name, subject in subjects.items()}


def warn_of_few_tokens(subjects: Mapping[str, Subject]) -> None:
    """Names segmenters and detectors whose coarsest grid has fewer than `FEW_TOKENS` tokens."""
    for name, subject in subjects.items():
        grids = _grids(subject) if subject.task.is_dense else []
        rows, columns = min(grids, key=math.prod, default=(FEW_TOKENS, FEW_TOKENS))
        if rows * columns < FEW_TOKENS:
            H, W = subject.protocol.size
            warnings.warn(
                f"{name} has {rows}x{columns} tokens for images of {H}x{W} pixels, too few to show much; a larger --img-size "
                "gives more",
                stacklevel=3,
            )


def _takes_any_size(subject: Subject) -> bool:
    network: Any = subject.network
    return subject.task.is_dense and hasattr(network, "strides") and getattr(network, "only_size", None) is None


def _grids(subject: Subject) -> list[Size]:
    """(Hp, Wp) of every block at the size of the input; empty where blocks cannot be followed."""
    empty = next(subject.network.parameters()).new_zeros(1, 3, *subject.protocol.size)
    try:
        return [block.grid for block in block_tokens(subject.network, empty)]
    except NothingRecordedError:
        return []


def _most_pixels(size: Size, grids: list[Size]) -> float:
    """How many pixels an image may have, of a network with these grids at this size."""
    finest = max(map(math.prod, grids))
    return math.prod(size) * max(1.0, MOST_TOKENS / finest)


def _in_whole_tokens(size: Size, most: float, step: int) -> Size:
    """The size, smaller in the same ratio where it has more than `most` pixels, both sides multiples of `step`."""
    scale = min(1.0, math.sqrt(most / math.prod(size)))
    H, W = (max(step, min(round(side * scale / step), side // step) * step) for side in size)
    return H, W


def _at_size(subject: Subject, size: Size) -> Subject:
    protocol = replace(protocol_of("squash", subject.network, size), ignore_orientation=subject.protocol.ignore_orientation)
    at_once = max(1, MOST_PIXELS // math.prod(size))
    return replace(subject, protocol=protocol, batch_size=min(subject.batch_size, at_once))
