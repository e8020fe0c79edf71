"""Reads annotation files in COCO's format: images, categories and labelled objects in one JSON file.

    {"images": [{"id": 7, "file_name": "a.jpg", "width": 640, "height": 480}],
     "categories": [{"id": 3, "name": "car"}],
     "annotations": [{"id": 1, "image_id": 7, "category_id": 3, "bbox": [x, y, width, height], "area": ...,
                      "iscrowd": 0, "segmentation": polygons or run lengths}]}

The index of a class is the rank of its category id. Annotations are packed while the file is parsed: those of COCO's training
images would fill gigabytes as Python objects.
"""

from __future__ import annotations

import json
import marshal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from robustvit.data.object_annotations import ObjectTable, Problems, Size, TableBuilder, known_sizes
from robustvit.data.object_samples import ImageId, ObjectClasses
from robustvit.data.readers.class_folders import LayoutError

__all__ = ["CocoFile", "CocoImage", "coco_table", "read_coco"]

_LONGEST_SIDE = 2**20
"""In pixels. What is longer is no image that could be opened, and not believed."""
EXPECTED = '{"images": [...], "annotations": [...], "categories": [...]}'


@dataclass(frozen=True, slots=True)
class CocoImage:
    """An image as the file lists it.

    Attributes:
        id: in the file.
        name: of the image file, with "/".
        size: (height, width); None where the file does not say it.
    """

    id: ImageId
    name: str
    size: Size | None


@dataclass(frozen=True, eq=False)
class CocoFile:
    """What a file lists.

    Attributes:
        path: of the file.
        images: each once.
        about: the classes.
        annotations: each an object, packed; None for a file of images alone.
        problems: what is wrong with the images.
    """

    path: Path
    images: tuple[CocoImage, ...]
    about: ObjectClasses
    annotations: list[Any] | None
    problems: Problems = field(default_factory=Problems)


def read_coco(path: Path) -> CocoFile:
    """What a file lists; objects are looked into by `coco_table`.

    Raises:
        LayoutError: it is no file of COCO's format, or lists an image or a category twice in different ways.
    """
    try:
        stored = json.loads(path.read_bytes(), object_hook=_packed)
    except (ValueError, RecursionError) as error:
        raise LayoutError(f"{path} is no JSON file ({str(error)[:80]}); expected {EXPECTED}") from error
    if not isinstance(stored, dict) or not isinstance(stored.get("images"), list):
        raise LayoutError(f"{path} is no annotation file of COCO's format; expected {EXPECTED}")
    annotations = stored.get("annotations")
    if annotations is not None and not isinstance(annotations, list):
        raise LayoutError(f"{path}: annotations is a {type(annotations).__name__}; expected a list")
    problems = Problems()
    about = _classes(path, stored.get("categories"), is_needed=bool(annotations))
    return CocoFile(path, tuple(_images(path, stored["images"], problems)), about, annotations, problems)


def _packed(value: dict[str, Any]) -> Any:
    """An annotation, as bytes; other objects as they are."""
    return marshal.dumps(value) if "image_id" in value and "file_name" not in value else value


def _classes(path: Path, categories: Any, *, is_needed: bool) -> ObjectClasses:
    found: dict[int, str] = {}
    for category in categories if isinstance(categories, list) else []:
        key = _integer(category.get("id")) if isinstance(category, dict) else None
        if key is None:
            raise LayoutError(f'{path}: {str(category)[:60]} is no category; expected {{"id": 1, "name": "car"}}')
        name = str(category.get("name", f"category {key}"))
        if found.setdefault(key, name) != name:
            raise LayoutError(f"{path}: category {key} is called {found[key]!r} and {name!r}; give each category its own id")
    if is_needed and not found:
        raise LayoutError(f"{path} has annotations and no categories; expected {EXPECTED}")
    ids = tuple(sorted(found))
    taken = list(found.values())
    return ObjectClasses(tuple(found[i] if taken.count(found[i]) == 1 else f"{found[i]} ({i})" for i in ids), ids)


def _integer(value: Any) -> int | None:
    """1, 1.0 and "1" as 1; None for what is no whole number."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
        return int(value) if number.is_integer() else None
    except (ValueError, OverflowError):
        return None


def _images(path: Path, entries: Sequence[Any], problems: Problems) -> list[CocoImage]:
    by_id: dict[ImageId, CocoImage] = {}
    names: dict[str, ImageId] = {}
    for k, entry in enumerate(entries):
        image = _image(entry)
        if image is None:
            problems.add("images without id or file_name, left out", f"number {k}")
        elif image.id in by_id:
            if by_id[image.id].name != image.name:
                two = f"{by_id[image.id].name} and {image.name}"
                raise LayoutError(f"{path}: {two} have the same image id {image.id}; give each image its own id")
            problems.add("images listed twice, of which the first counts", image.name)
        elif image.name in names:
            two = f"{names[image.name]} and {image.id}"
            raise LayoutError(f"{path}: the images {two} are the same file {image.name}; list each file once")
        else:
            by_id[image.id] = image
            names[image.name] = image.id
    if not by_id:
        raise LayoutError(f"{path} lists no images; expected {EXPECTED}")
    return list(by_id.values())


def _image(entry: Any) -> CocoImage | None:
    if not isinstance(entry, dict):
        return None
    key, name = entry.get("id"), entry.get("file_name")
    if isinstance(key, float):
        key = _integer(key)
    if isinstance(key, bool) or not isinstance(key, int | str) or not isinstance(name, str) or not name:
        return None
    h, w = _integer(entry.get("height")), _integer(entry.get("width"))
    size = (h, w) if h and w and 0 < h <= _LONGEST_SIDE and 0 < w <= _LONGEST_SIDE else None
    return CocoImage(key, name.replace("\\", "/"), size)


def coco_table(
    file: CocoFile, images: Sequence[CocoImage], paths: Sequence[Path], problems: Problems, *, ignore_orientation: bool = False
) -> ObjectTable | None:
    """The objects of some of the images of a file; None where it has no annotations. They are freed as they are read.

    Args:
        file: of which they are.
        images: those whose files are there.
        paths: their files, which are asked for their size where the annotation file does not say it.
        problems: counts what is wrong with the objects.
        ignore_orientation: see `read_image`.
    """
    if file.annotations is None:
        return None
    sizes = known_sizes([image.size for image in images], paths, ignore_orientation=ignore_orientation)
    reader = _Reader(file, images, sizes, problems)
    for position, packed in enumerate(file.annotations):
        reader.add(marshal.loads(packed) if isinstance(packed, bytes) else {}, position)
        file.annotations[position] = None
    return reader.builder.table()


class _Reader:
    """Takes the annotations of a file one by one."""

    def __init__(self, file: CocoFile, images: Sequence[CocoImage], sizes: Sequence[Size | None], problems: Problems) -> None:
        self.problems, self.builder = problems, TableBuilder(file.path, sizes, problems)
        self.rows = {image.id: row for row, image in enumerate(images)}
        self.absent = {image.id for image in file.images} - self.rows.keys()
        self.classes = {category: index for index, category in enumerate(file.about.category_ids or ())}
        self.seen: dict[ImageId, int] = {}

    def add(self, annotation: Mapping[str, Any], position: int) -> None:
        key, box = annotation.get("id"), _corners(annotation.get("bbox"))
        image: Any = annotation.get("image_id")
        name = f"annotation {position if key is None else key}"
        is_id = isinstance(image, int | float | str)  # 7.0 is found as 7
        row = self.rows.get(image) if is_id else None
        category = _integer(annotation.get("category_id"))
        if row is None:
            if not is_id or image not in self.absent:  # whose absence is told already
                self.builder.leave_out("annotations of images that are not listed", name)
        elif category is None or category not in self.classes:
            self.builder.leave_out("annotations of unknown categories", name)
        elif not self._is_repeated(key, hash((image, category, box)), name):
            self.builder.add(
                row,
                self.classes[category],
                box,
                name,
                area=annotation.get("area"),
                is_crowd=annotation.get("iscrowd") in (1, "1"),
                segmentation=annotation.get("segmentation"),
            )

    def _is_repeated(self, key: Any, contents: int, name: str) -> bool:
        """Whether the same annotation was there before, by its id and contents."""
        if not isinstance(key, int | str):
            return False
        if key not in self.seen:
            self.seen[key] = contents
            return False
        if self.seen[key] == contents:
            self.problems.add("annotations listed twice, of which the first counts", name)
            return True
        self.problems.add("annotation ids given to several objects, all of which count", name)
        return False


def _corners(box: Any) -> tuple[float, ...]:
    """x, y, width, height -> x1, y1, x2, y2; nothing for what is no box."""
    try:
        x, y, w, h = map(float, box)
    except (ValueError, TypeError, OverflowError):
        return ()
    return x, y, x + w, y + h
