"""Reads Pascal VOC: an XML file with boxes for each image, and lists of the images of a split.

    JPEGImages/NAME.jpg + Annotations/NAME.xml      with ImageSets/Main/SPLIT.txt, or all in one split without it

also inside VOC2007 or VOC2012, inside VOCdevkit or not. Boxes are whole pixels counted from 1, the last one included. Objects
marked as difficult are ignored: they become crowds, as COCO's rules of matching have them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree
from xml.parsers import expat

from robustvit.data.files_below import files_below
from robustvit.data.map_samples import named
from robustvit.data.object_annotations import ObjectTable, Problems, Size, TableBuilder, known_sizes
from robustvit.data.object_samples import ObjectClasses, ObjectFile, ObjectFiles
from robustvit.data.readers.class_folders import LayoutError
from robustvit.data.readers.paired_files import by_key, missing_split, ordered
from robustvit.data.readers.split_names import chosen_split

__all__ = ["VOC_CLASSES", "voc_list_objects", "voc_objects", "voc_split"]

# fmt: off
VOC_CLASSES = (
    "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow", "diningtable",
    "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor",
)
# fmt: on
IMAGES, ANNOTATIONS, LISTS = "JPEGImages", "Annotations", "ImageSets/Main"
_MOST_BYTES = 2**22
"""Of an XML file."""
_CORNERS = ("xmin", "ymin", "xmax", "ymax")


class _XmlError(ValueError):
    """An XML file that is damaged, or declares a document type."""


@dataclass(frozen=True, slots=True)
class _Object:
    name: str
    box: tuple[Any, ...]
    is_difficult: bool


@dataclass(frozen=True, slots=True)
class _Annotated:
    """What an XML file says about its image."""

    size: Size | None
    objects: tuple[_Object, ...]


def voc_objects(path: Path, split: str, *, ignore_orientation: bool = False) -> ObjectFiles | None:
    """The images of a split; all where there are no lists.

    Args:
        path: folder with JPEGImages and Annotations, or around it.
        split: "train" (train or trainval); else val or test, the first that is there.
        ignore_orientation: see `read_image`.

    Returns:
        None if `path` is no such folder.

    Raises:
        LayoutError: there are several years, the split is missing, or there are no images.
    """
    root = _root(path)
    if root is None:
        return None
    lists = _lists(root)
    if not lists:
        return _read(root, path, None, ignore_orientation)
    if split == "train" and "train" not in lists and "trainval" in lists:
        return _read(root, path, lists["trainval"], ignore_orientation)
    found = chosen_split(lists, split)
    if found is None:
        raise missing_split(root / LISTS, split, list(lists))
    return _read(root, path, lists[found], ignore_orientation)


def voc_split(path: Path, split: str, *, ignore_orientation: bool = False) -> ObjectFiles | None:
    """The images of the list of just this name; None if `path` is no such folder.

    Raises:
        LayoutError: there is no such list, or see `voc_objects`.
    """
    root = _root(path)
    if root is None:
        return None
    lists = _lists(root)
    if split not in lists:
        raise missing_split(root / LISTS, split, list(lists))
    return _read(root, path, lists[split], ignore_orientation)


def voc_list_objects(file: Path, *, ignore_orientation: bool = False) -> ObjectFiles | None:
    """The images of a list, ImageSets/Main/SPLIT.txt; None if it is none."""
    root = file.absolute().parents[2] if len(file.absolute().parents) > 2 else None
    if root is None or _root(root) != root or file.absolute().parent != root / LISTS:
        return None
    return _read(root, file, file, ignore_orientation)


def _root(path: Path) -> Path | None:
    """The folder that has JPEGImages and Annotations."""
    years = [folder for base in (path, path / "VOCdevkit") for folder in sorted(base.glob("VOC[0-9]*"))]
    found = [folder for folder in (path, *years) if (folder / IMAGES).is_dir() and (folder / ANNOTATIONS).is_dir()]
    if len(found) > 1:
        raise LayoutError(f"{path} has {named([str(folder.relative_to(path)) for folder in found])}; give one of them")
    return found[0] if found else None


def _lists(root: Path) -> dict[str, Path]:
    """Split -> file; lists of single classes, car_train.txt, are none."""
    return {file.stem: file for file in sorted((root / LISTS).glob("*.txt")) if "_" not in file.stem}


def _read(root: Path, path: Path, listed: Path | None, ignore_orientation: bool) -> ObjectFiles:
    """The images of a list, or all that have an XML file."""
    problems = Problems()
    images, annotated = by_key(root / IMAGES), _annotated(root / ANNOTATIONS)
    wanted = ordered(annotated) if listed is None else _names(listed)
    keys = ordered(_present(wanted, images, annotated, problems))
    if not keys:
        raise LayoutError(
            f"{listed or root / ANNOTATIONS}: none of its {len(wanted)} images can be used: {'; '.join(problems.told())}"
        )
    files = [ObjectFile(images[key].as_posix(), root / IMAGES / images[key], row, key) for row, key in enumerate(keys)]
    about = ObjectClasses(_classes(annotated))
    has_targets = any(key in annotated for key in keys)  # those of a test set may be withheld as a whole
    table = _table(root, files, annotated, about, problems, ignore_orientation) if has_targets else None
    return ObjectFiles(
        files,
        str(path),
        about,
        table,
        problems=problems.told(),
        expected=f"{root / ANNOTATIONS}/NAME.xml",
        ignore_orientation=ignore_orientation,
    )


def _present(
    wanted: Sequence[str], images: Mapping[str, Path], annotated: Mapping[str, _Annotated | str], problems: Problems
) -> list[str]:
    """Those of the wanted images that are there and, if any is, annotated."""
    has_targets = any(key in annotated for key in wanted)
    found = []
    for key in wanted:
        about = annotated.get(key)
        if key not in images:
            problems.add("images whose file is missing, left out", f"{IMAGES}/{key}.jpg")
        elif isinstance(about, str):
            problems.add("images whose XML file cannot be read, left out", f"{key}.xml: {about}")
        elif has_targets and about is None:
            problems.add("images without XML file, left out", key)
        else:
            found.append(key)
    return found


def _table(
    root: Path,
    files: Sequence[ObjectFile],
    annotated: Mapping[str, _Annotated | str],
    about: ObjectClasses,
    problems: Problems,
    ignore_orientation: bool,
) -> ObjectTable:
    said = [annotated[str(file.image_id)] for file in files]
    sizes = [one.size for one in said if isinstance(one, _Annotated)]
    known = known_sizes(sizes, [file.image for file in files], ignore_orientation=ignore_orientation)
    builder = TableBuilder(root / ANNOTATIONS, known, problems)
    indices = {name: index for index, name in enumerate(about.names)}
    for file, one in zip(files, said, strict=True):
        for number, thing in enumerate(one.objects if isinstance(one, _Annotated) else (), 1):
            name = f"object {number} of {file.image_id}.xml"
            if thing.name:
                builder.add(file.row, indices[thing.name], thing.box, name, is_crowd=thing.is_difficult)
            else:
                builder.leave_out("objects without name", name)
    return builder.table()


def _names(listed: Path) -> list[str]:
    """The images of a list, each once; what follows the name in a line is about one class."""
    lines = listed.read_text(encoding="utf-8-sig", errors="replace").splitlines()
    found = list(dict.fromkeys(line.split()[0] for line in lines if line.strip()))
    if not found:
        raise LayoutError(f"{listed} lists no images; expected a name per line")
    return found


def _classes(annotated: Mapping[str, _Annotated | str]) -> tuple[str, ...]:
    """Those of Pascal VOC, unless there is another one in any split: then all names, sorted."""
    files = [about for about in annotated.values() if isinstance(about, _Annotated)]
    found = {thing.name for about in files for thing in about.objects if thing.name}
    return VOC_CLASSES if found <= set(VOC_CLASSES) else tuple(sorted(found))


def _annotated(folder: Path) -> dict[str, _Annotated | str]:
    """Key of an image -> what its XML file says, or why it cannot be read; of all splits, as they share their classes."""
    found: dict[str, _Annotated | str] = {}
    for path in files_below(folder):
        if path.suffix.lower() == ".xml":
            try:
                found[path.with_suffix("").as_posix()] = _parsed(_tree(folder / path))
            except (_XmlError, OSError) as error:
                found[path.with_suffix("").as_posix()] = str(error)
    return found


def _parsed(tree: ElementTree.Element) -> _Annotated:
    if tree.tag != "annotation":
        raise _XmlError(f"it begins with <{tree.tag[:40]}>, not <annotation>")
    sides = [_integer(tree.findtext(f"size/{side}")) for side in ("height", "width")]
    size = (sides[0], sides[1]) if min(sides) > 0 else None
    return _Annotated(size, tuple(map(_object, tree.findall("object"))))


def _object(node: ElementTree.Element) -> _Object:
    name = (node.findtext("name") or "").strip()
    x1, y1, x2, y2 = (_number(node.findtext(f"bndbox/{corner}")) for corner in _CORNERS)
    return _Object(name, (x1 - 1, y1 - 1, x2, y2), (node.findtext("difficult") or "").strip() == "1")


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
