"""The classes of label maps: names, colours and the values that files have for them; from a `classes.json`, or from the maps.

docs/segmentation-data.md describes the file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from robustvit.data.label_maps import IGNORED, Colour, LabelLookup
from robustvit.data.label_values import LabelValues, values_of_files
from robustvit.data.palettes import completed_palette
from robustvit.data.readers.class_folders import LayoutError
from robustvit.runtime.spelling import nearest

__all__ = ["CLASS_FILE", "NO_CLASSES", "LabelClasses", "classes_of_file", "classes_of_maps"]

CLASS_FILE = "classes.json"
MOST_CLASSES = 255
"""Of one dataset: train ids 0 .. 254, and 255 for ignored pixels."""
LARGEST_VALUE = 2**24
"""Of a class or an ignored pixel in a label map: a lookup has a table up to there."""
MOST_NAMED = 8
"""Values in a message."""
_KEYS = {"classes", "names", "palette", "ignore"}
_CLASS_KEYS = {"name", "color", "colour", "id"}


@dataclass(frozen=True)
class LabelClasses:
    """What label maps of a dataset mean.

    Attributes:
        names: of the classes, in the order of the train ids.
        palette: a colour for each class.
        label_ids: train id -> value that files, and an evaluation server, have for it; None where nobody said any.
        lookup: what the values of the files stand for.
    """

    names: tuple[str, ...]
    palette: tuple[Colour, ...]
    label_ids: tuple[int, ...] | None
    lookup: LabelLookup


NO_CLASSES = LabelClasses((), (), None, LabelLookup({}))
"""Of images without label maps."""


def classes_of_file(path: Path) -> LabelClasses:
    """The classes that a `classes.json` lists.

    Raises:
        LayoutError: it cannot be read, or contradicts itself.
    """
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise LayoutError(f"{path} cannot be read ({error}); expected JSON with a list of classes") from error
    try:
        return _checked(_as_object(stored), path)
    except _FileError as error:
        example = '{"classes": [{"name": "road", "color": [128, 64, 128], "id": 0}], "ignore": [255]}'
        raise LayoutError(f"{path}: {error}; expected {example} (docs/segmentation-data.md)") from error


class _FileError(ValueError):
    """What is wrong in a classes.json."""


def _as_object(stored: Any) -> dict[str, Any]:
    """All three ways of writing it as one: {"classes": [{...}], "ignore": ...}."""
    if isinstance(stored, list):
        stored = {"classes": stored}
    if not isinstance(stored, dict):
        raise _FileError(f"it holds a {type(stored).__name__}")
    _check_keys(stored, _KEYS, "it")
    if ("classes" in stored) == ("names" in stored):
        raise _FileError("it has both classes and names" if "classes" in stored else "it has neither classes nor names")
    for key in ("classes", "names", "palette"):
        if not isinstance(stored.get(key, []), list):
            raise _FileError(f"its {key} are no list")
    if "names" in stored:
        palette = stored.get("palette", [None] * len(stored["names"]))
        if len(palette) != len(stored["names"]):
            raise _FileError(f"{len(stored['names'])} names, but {len(palette)} colours in palette")
        entries: list[Any] = [{"name": n, "color": c} for n, c in zip(stored["names"], palette, strict=True)]
    else:
        entries = [{"name": entry} if isinstance(entry, str) else entry for entry in stored["classes"]]
    return {"classes": entries, "ignore": stored.get("ignore")}


def _check_keys(given: dict[str, Any], known: set[str], where: str) -> None:
    if unknown := sorted(set(given) - known):
        raise _FileError(f"{where} has the unknown key {unknown[0]!r}{nearest(unknown[0], known)}")


def _checked(stored: dict[str, Any], path: Path) -> LabelClasses:
    names: list[str] = []
    colours: list[Colour | None] = []
    ids: list[Any] = []
    for i, entry in enumerate(stored["classes"]):
        if not isinstance(entry, dict) or not isinstance(entry.get("name"), str) or not entry["name"]:
            raise _FileError(f"class {i} is {json.dumps(entry)}, without a name")
        _check_keys(entry, _CLASS_KEYS, f"class {entry['name']!r}")
        colour = entry.get("color", entry.get("colour"))
        names.append(entry["name"])
        colours.append(None if colour is None else _colour(colour))
        ids.append(entry.get("id"))
    if not 1 <= len(names) <= MOST_CLASSES:
        raise _FileError(f"it has {len(names)} classes; give 1 to {MOST_CLASSES}")
    _check_unique("name", names)
    _check_unique("color", [colour for colour in colours if colour is not None])
    has_ids = any(value is not None for value in ids)
    if wrong := [name for name, value in zip(names, ids, strict=True) if has_ids and not _is_value(value)]:
        raise _FileError(
            f"the id of {wrong[0]!r} is no whole number from 0 to {LARGEST_VALUE}; give all classes an id, or none"
        )
    values: list[int] = ids if has_ids else list(range(len(names)))
    _check_unique("id", values)
    lookup = _lookup(values, colours, stored["ignore"], path)
    return LabelClasses(tuple(names), completed_palette(colours), tuple(values) if has_ids else None, lookup)


def _lookup(values: Sequence[int], colours: Sequence[Colour | None], ignore: Any, path: Path) -> LabelLookup:
    ignores_others = ignore == "others"
    if ignore is None or ignores_others:
        ignore = [] if IGNORED in values else [IGNORED]
    of_value = {value: train_id for train_id, value in enumerate(values)}
    of_colour = {colour: train_id for train_id, colour in enumerate(colours) if colour is not None}
    for entry in ignore if isinstance(ignore, list) else [ignore]:
        known: dict[Any, int] = of_colour if isinstance(entry, list) else of_value
        if not isinstance(entry, list) and not _is_value(entry):
            raise _FileError(f'ignore has {json.dumps(entry)}; give label values, colours, or "others"')
        value = _colour(entry) if isinstance(entry, list) else entry
        if known.get(value, IGNORED) != IGNORED:
            raise _FileError(f"{json.dumps(entry)} is ignored and a class as well")
        known[value] = IGNORED
    return LabelLookup(of_value, of_colour if any(colours) else {}, ignores_others, str(path))


def _colour(given: Any) -> Colour:
    if not isinstance(given, list) or len(given) != 3 or not all(_is_value(v) and v <= 255 for v in given):
        raise _FileError(f"{json.dumps(given)} is no colour; give [red, green, blue], each 0 to 255")
    red, green, blue = given
    return red, green, blue


def _is_value(given: Any) -> bool:
    return isinstance(given, int) and not isinstance(given, bool) and 0 <= given <= LARGEST_VALUE


def _check_unique(what: str, given: Sequence[Any]) -> None:
    if double := [value for i, value in enumerate(given) if value in given[:i]]:
        raise _FileError(f"two classes have the {what} {double[0]!r}")


def classes_of_maps(files: Sequence[Path], where: Path) -> LabelClasses:
    """Classes without names, as many as the largest value in all label maps says; 255 is ignored.

    Every file is read, because a value that only one of them has is a class too.

    Raises:
        LayoutError: they have colours, values over 255, or only one class.
    """
    in_files = dict(zip(files, values_of_files(files, str(where)), strict=True))
    for file, has in in_files.items():
        _check_has_values(file, has)
    found = {value for has in in_files.values() for value in has.values}
    largest = max(found - {IGNORED}, default=-1)
    advice = f"list the classes in {where / CLASS_FILE} (docs/segmentation-data.md)"
    _check_range(in_files, where, advice)
    if largest < 0:
        told = f"the value {IGNORED} only, which is ignored" if found else "no values, since none of them can be read"
        raise LayoutError(f"the label maps of {where} have {told}; {advice}, with an id for each")
    if largest == 0:
        more = f", and {IGNORED} is ignored" if IGNORED in found else ""
        raise LayoutError(
            f"the label maps of {where} have one class only: the value 0{more}; {advice}. Of a mask of 0 and 255: "
            '{"classes": [{"name": "background", "id": 0}, {"name": "object", "id": 255}]}'
        )
    names = tuple(f"class {i}" for i in range(largest + 1))
    values = {i: i for i in range(largest + 1)} | {IGNORED: IGNORED}
    lookup = LabelLookup(values, source="the largest value of all label maps")
    return LabelClasses(names, completed_palette([None] * len(names)), None, lookup)


def _check_has_values(file: Path, found: LabelValues) -> None:
    if found.colours is not None and not found.values:
        raise LayoutError(
            f"{file} has colours, not label values; list the classes with their colours in a {CLASS_FILE} in the folder "
            "of the dataset (docs/segmentation-data.md)"
        )


def _check_range(in_files: Mapping[Path, LabelValues], where: Path, advice: str) -> None:
    """Raises LayoutError that names the values that can be no train ids, and the first file that has one."""
    beyond = {file: [v for v in found.values if not 0 <= v <= IGNORED] for file, found in in_files.items()}
    wrong = sorted({value for values in beyond.values() for value in values})
    if not wrong:
        return
    some = ", ".join(map(str, wrong[:MOST_NAMED])) + (f", ... and {wrong[-1]}" if len(wrong) > MOST_NAMED else "")
    files = [file for file, values in beyond.items() if values]
    raise LayoutError(
        f"{len(files)} of {len(in_files)} label maps of {where} have the values {some}, such as {files[0]}; without a list "
        f"of classes, values are 0 to {MOST_CLASSES - 1}, or {IGNORED} for ignored pixels: {advice}, with an id for each"
    )
