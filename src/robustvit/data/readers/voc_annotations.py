"""Reads the XML files of Pascal VOC: the size of an image, and a name and a box for each object.

Boxes are whole pixels counted from 1, the last one included. Files are not trusted: those that are large or declare a document
type are taken for damaged.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree
from xml.parsers import expat

from robustvit.data.files_below import files_below
from robustvit.data.object_annotations import Size

__all__ = ["VocImage", "VocObject", "read_annotations"]

_MOST_BYTES = 2**22
"""Of an XML file."""
_CORNERS = ("xmin", "ymin", "xmax", "ymax")


class _XmlError(ValueError):
    """An XML file that is damaged, or declares a document type."""


@dataclass(frozen=True, slots=True)
class VocObject:
    """An object as its file describes it.

    Attributes:
        name: of its class; empty where there is none.
        box: x1, y1, x2, y2, from 0 on, the right and the bottom edge outside; NaN for what is no number.
        is_difficult: whether it is to be ignored.
    """

    name: str
    box: tuple[float, float, float, float]
    is_difficult: bool


@dataclass(frozen=True, slots=True)
class VocImage:
    """What an XML file says about its image; its size is None where that is not said."""

    size: Size | None
    objects: tuple[VocObject, ...]


def read_annotations(folder: Path) -> dict[str, VocImage | str]:
    """Key of an image (its path without suffix) -> what its XML file says, or why it cannot be read."""
    found: dict[str, VocImage | str] = {}
    for path in files_below(folder):
        if path.suffix.lower() == ".xml":
            try:
                found[path.with_suffix("").as_posix()] = _parsed(_tree(folder / path))
            except (_XmlError, OSError) as error:
                found[path.with_suffix("").as_posix()] = str(error)
    return found


def _parsed(tree: ElementTree.Element) -> VocImage:
    if tree.tag != "annotation":
        raise _XmlError(f"it begins with <{tree.tag[:40]}>, not <annotation>")
    sides = [_integer(tree.findtext(f"size/{side}")) for side in ("height", "width")]
    size = (sides[0], sides[1]) if min(sides) > 0 else None
    return VocImage(size, tuple(map(_object, tree.findall("object"))))


def _object(node: ElementTree.Element) -> VocObject:
    name = (node.findtext("name") or "").strip()
    x1, y1, x2, y2 = (_number(node.findtext(f"bndbox/{corner}")) for corner in _CORNERS)
    return VocObject(name, (x1 - 1, y1 - 1, x2, y2), (node.findtext("difficult") or "").strip() == "1")


def _number(text: str | None) -> float:
    try:
        return float(text or "nan")
    except ValueError:
        return float("nan")


def _integer(text: str | None) -> int:
    """0 for what is no whole number that a side can have."""
    found = re.fullmatch(r"\s*(\d{1,9})(\.0*)?\s*", text or "")
    return int(found[1]) if found else 0


def _tree(path: Path) -> ElementTree.Element:
    """The elements of an XML file. One with a document type is refused: entities in it may stand for gigabytes.

    Raises:
        _XmlError: it is damaged, too large, or has a document type.
    """
    if path.stat().st_size > _MOST_BYTES:
        raise _XmlError(f"it has more than {_MOST_BYTES:,} bytes")
    builder, parser = ElementTree.TreeBuilder(), expat.ParserCreate()

    def refuse(*_: Any) -> None:
        raise _XmlError("it declares a document type")

    parser.StartDoctypeDeclHandler = refuse
    parser.StartElementHandler = lambda tag, attributes: builder.start(tag, attributes)
    parser.EndElementHandler = lambda tag: builder.end(tag)
    parser.CharacterDataHandler = builder.data
    try:
        parser.Parse(path.read_bytes(), True)
        return builder.close()
    except (expat.ExpatError, AssertionError, ValueError) as error:
        raise _XmlError(str(error)) from error
