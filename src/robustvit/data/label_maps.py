"""Label maps: how a file becomes one class per pixel, and how predictions are written for an evaluation server.

In memory a label map is uint8 [H, W]: the train id of the class of every pixel, and 255 where a pixel is ignored. Files have
other values (Cityscapes' label ids), more bits, a palette or colours; a `LabelLookup` says what they mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from robustvit.data.label_values import LabelValues
from robustvit.data.readers.class_folders import LayoutError
from robustvit.metrics.iou import IGNORED
from robustvit.runtime.files import write_whole
from robustvit.runtime.image_files import UnreadablePictureError, read_values

__all__ = [
    "IGNORED",
    "Colour",
    "LabelLookup",
    "LabelValueError",
    "check_label_ids",
    "prediction_paths",
    "read_label_map",
    "with_label_ids",
    "write_label_ids",
]

Colour = tuple[int, int, int]
"""(red, green, blue), 0 .. 255."""
_UNKNOWN = -1


class LabelValueError(LayoutError):
    """A label file has values, or colours, that stand for no class."""


@dataclass(frozen=True)
class LabelLookup:
    """What the values of label files stand for.

    Attributes:
        values: value in a file -> train id, or 255 for ignored.
        colours: the same for files that store colours.
        ignores_others: whether everything else is ignored, rather than an error.
        source: what says so, for messages.
    """

    values: Mapping[int, int]
    colours: Mapping[Colour, int] = field(default_factory=dict)
    ignores_others: bool = False
    source: str = "the classes"

    def applied(self, values: np.ndarray, path: Path) -> NDArray[np.uint8]:
        """The label map of stored values [H, W], or colours [H, W, 3], of a file.

        Raises:
            LabelValueError: they are not all known.
        """
        if values.ndim == 3:
            mapped = self._at_colours(values)
            if mapped.min(initial=0) == _UNKNOWN and (values == values[..., :1]).all():
                return self.applied(values[..., 0], path)  # grey that was saved as colours
            if self.ignores_others and self.colours:
                mapped[mapped == _UNKNOWN] = IGNORED
        elif values.dtype == np.uint8:
            mapped = np.take(self._byte_table, values)
        else:
            mapped = self._at(values)
        if mapped.min(initial=0) == _UNKNOWN:
            raise LabelValueError(self._refusal(values, mapped == _UNKNOWN, path))
        return mapped.astype(np.uint8)

    def unknown(self, found: LabelValues) -> list[int] | list[Colour]:
        """Those values, or colours, of a file that stand for no class; empty where `applied` takes it."""
        if found.colours is not None:
            colours = [colour for colour in found.colours if colour not in self.colours]
            if not colours or not found.values:
                return [] if self.ignores_others and self.colours else colours
        return [] if self.ignores_others else [value for value in found.values if value not in self.values]

    @property
    def expected(self) -> str:
        """What label files may have, and who says so, for messages."""
        colours = f", or one of {len(self.colours)} colours" if self.colours else ""
        return f"{_ranges(self.values)}{colours}, as {self.source} says"

    @cached_property
    def _table(self) -> tuple[int, NDArray[np.int16]]:
        """(lowest value, train ids from there on); the first and the last entry stand for everything beyond."""
        low = min(self.values, default=0) - 1
        table = np.full(max(self.values, default=0) + 2 - low, IGNORED if self.ignores_others else _UNKNOWN, np.int16)
        for value, train_id in self.values.items():
            table[value - low] = train_id
        return low, table

    def _at(self, values: np.ndarray) -> NDArray[np.int16]:
        low, table = self._table
        return table[np.clip(values.astype(np.int64), low, low + len(table) - 1) - low]

    @cached_property
    def _byte_table(self) -> NDArray[np.int16]:
        return self._at(np.arange(256))

    def _at_colours(self, colours: np.ndarray) -> NDArray[np.int16]:
        known, ids = self._colour_table
        codes = _codes(colours)
        if not len(known):
            return np.full(codes.shape, _UNKNOWN, np.int16)
        index = np.minimum(np.searchsorted(known, codes), len(known) - 1)
        return np.where(known[index] == codes, ids[index], np.int16(_UNKNOWN))

    @cached_property
    def _colour_table(self) -> tuple[NDArray[np.int32], NDArray[np.int16]]:
        """Codes of the colours in ascending order, and their train ids."""
        colours = np.array(list(self.colours), np.uint8).reshape(-1, 3)
        ids = np.array(list(self.colours.values()), np.int16)
        codes = _codes(colours)
        order = codes.argsort()
        return codes[order], ids[order]

    def _refusal(self, values: np.ndarray, unknown: np.ndarray, path: Path) -> str:
        share = f"{100 * unknown.mean():.3g} % of its pixels"
        if values.ndim == 3 and not self.colours:
            return (
                f"{path} has colours, not label values; expected {_ranges(self.values)}, or a classes.json that gives each "
                "class its color"
            )
        found = np.unique(values[unknown], axis=0 if values.ndim == 3 else None)
        some = ", ".join(str(tuple(v) if isinstance(v, list) else v) for v in found[:6].tolist())
        expected = f"one of {len(self.colours)} colours" if values.ndim == 3 else _ranges(self.values)
        what = "colours" if values.ndim == 3 else "label values"
        return (
            f"{path} has the {what} {some}{' and more' if len(found) > 6 else ''} on {share}; expected {expected}, as "
            f"{self.source} says. Correct the file, or say in classes.json which class they are or that they are ignored"
        )


def _codes(colours: np.ndarray) -> NDArray[np.int32]:
    """One number per colour: [..., 3] -> [...]."""
    red, green, blue = np.moveaxis(colours.astype(np.int32), -1, 0)
    return red << 16 | green << 8 | blue


def _ranges(values: Iterable[int]) -> str:
    """ "0 to 18 or 255"."""
    runs: list[list[int]] = []
    for value in sorted(values):
        if runs and value == runs[-1][-1] + 1:
            runs[-1].append(value)
        else:
            runs.append([value])
    parts = [str(run[0]) if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs]
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} or {parts[-1]}"


BYTES = LabelLookup({value: value for value in range(256)}, source="a label map of 8 bits")


def read_label_map(path: str | Path, lookup: LabelLookup | None = None) -> NDArray[np.uint8]:
    """The label map in a file: grey of up to 32 bits, a palette (its indices, not its colours), or known colours.

    Args:
        path: the file.
        lookup: what its values stand for; None takes them as they are, 0 .. 255.

    Returns:
        uint8 [H, W], 255 = ignored.

    Raises:
        UnreadablePictureError: it is no image, or a damaged one.
        LabelValueError: it has values or colours that stand for no class.
    """
    try:
        values = read_values(path)
    except UnreadablePictureError as error:
        raise UnreadablePictureError(f"label map {path}: {error}") from error
    return (lookup or BYTES).applied(values, Path(path))


def with_label_ids(label_map: NDArray[np.uint8], label_ids: Sequence[int], path: object) -> NDArray[np.uint8]:
    """A label map of train ids as one of label ids; ignored pixels are 0, which Cityscapes calls unlabeled.

    Args:
        label_map: uint8 [H, W], train ids.
        label_ids: train id -> label id.
        path: of the file, for the message.

    Raises:
        ValueError: a class has no such value, or the value does not fit into 8 bits.
    """
    check_label_ids(label_ids)
    counted = label_map[label_map != IGNORED]
    if (largest := int(counted.max(initial=0))) >= len(label_ids):
        raise ValueError(f"{path}: the map has class {largest}, and there are label ids of {len(label_ids)} classes only")
    table = np.zeros(256, np.uint8)
    table[: len(label_ids)] = label_ids
    return table[label_map]


def check_label_ids(label_ids: Sequence[int]) -> None:
    """Raises ValueError where label ids do not fit into the files of a server."""
    if not all(0 <= value <= 255 for value in label_ids):
        raise ValueError(f"label ids {min(label_ids)} to {max(label_ids)} do not fit into 8 bits; give 0 to 255")


def write_label_ids(label_map: NDArray[np.uint8], path: Path, label_ids: Sequence[int] | None = None) -> None:
    """Writes a predicted label map as an 8-bit grey PNG, as the servers of Cityscapes and ACDC take it.

    Args:
        label_map: uint8 [H, W], train ids.
        path: of the file, NAME.png; its folder is created.
        label_ids: train id -> value in the file; None writes train ids.

    Raises:
        ValueError: a class has no such value, or the value does not fit into 8 bits.
    """
    if label_ids is not None:
        label_map = with_label_ids(label_map, label_ids, path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with write_whole(path) as file:
        Image.fromarray(np.ascontiguousarray(label_map, np.uint8)).save(file, format="PNG")


def prediction_paths(folder: Path, ids: Sequence[str]) -> list[Path]:
    """Where the predictions of samples are written: below `folder`, named as the images, as PNG.

    Raises:
        ValueError: two of them would be the same file.
    """
    paths = [folder / PurePosixPath(name).with_suffix(".png") for name in ids]
    first: dict[Path, str] = {}
    for path, name in zip(paths, ids, strict=True):
        if (other := first.setdefault(path, name)) != name:
            raise ValueError(f"the predictions of {other} and {name} would both be {path}; rename one of the images")
    return paths
