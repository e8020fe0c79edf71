"""Reads YOLO's text files: one for each image, with a line for each object, in shares of width and height.

    images/SPLIT/NAME.jpg + labels/SPLIT/NAME.txt      SPLIT may be left out
    SPLIT/images/NAME.jpg + SPLIT/labels/NAME.txt      as Roboflow exports it
    NAME.jpg + NAME.txt                                in one folder, in SPLIT or not
    data.yaml                                          says where the images are (`yolo_description`)

A line is `class cx cy w h`, or `class x y x y x y ...` for the corners of an outline. An image without a text file has no
objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from robustvit.data.files_below import files_below
from robustvit.data.object_annotations import ObjectTable, Problems, TableBuilder
from robustvit.data.object_samples import ObjectClasses, ObjectFile, ObjectFiles
from robustvit.data.readers.class_folders import LayoutError
from robustvit.data.readers.paired_files import is_image, missing_split, ordered
from robustvit.data.readers.split_names import chosen_split, split_folders
from robustvit.data.readers.yolo_description import CLASS_FILES, YoloDescription, described, description_in, names_in

__all__ = ["yolo_file_objects", "yolo_objects", "yolo_split"]

_ASKING = 8
"""Threads that read text files."""


@dataclass(frozen=True)
class _Place:
    """Where the images of a split lie, and their text files; if `listed` is there, only these images."""

    images: Path
    labels: Path
    listed: tuple[str, ...] | None = None


@dataclass(frozen=True)
class _Dataset:
    """What a dataset has.

    Attributes:
        places: by split; the split "" for a dataset without any.
        names: of the classes, if they are known.
        absent: split -> what its description names, and is not there.
    """

    places: Mapping[str, Sequence[_Place]]
    names: tuple[str, ...] | None
    absent: Mapping[str, Sequence[str]] = field(default_factory=dict)


def yolo_objects(path: Path, split: str, *, ignore_orientation: bool = False) -> ObjectFiles | None:
    """The images of a split, or all where there are no splits.

    Args:
        path: folder of the dataset.
        split: "train"; else val or test, the first that is there.
        ignore_orientation: see `read_image`.

    Returns:
        None if there are no text files beside images.

    Raises:
        LayoutError: the split is missing, or a data.yaml cannot be understood.
    """
    dataset = _dataset(path)
    return None if dataset is None else _of_split(dataset, path, split, ignore_orientation)


def yolo_file_objects(file: Path, split: str, *, ignore_orientation: bool = False) -> ObjectFiles:
    """The same for a data.yaml.

    Raises:
        LayoutError: see `yolo_objects`.
    """
    return _of_split(_described(described(file)), file, split, ignore_orientation)


def yolo_split(path: Path, split: str, *, ignore_orientation: bool = False) -> ObjectFiles | None:
    """The images of the split of just this name; None where `yolo_objects` gives None.

    Raises:
        LayoutError: there is no such split.
    """
    dataset = _dataset(path)
    if dataset is None:
        return None
    if split not in dataset.places:
        raise missing_split(path, split, [name for name in dataset.places if name])
    return _read(dataset, split, path, ignore_orientation)


def _of_split(dataset: _Dataset, path: Path, split: str, ignore_orientation: bool) -> ObjectFiles:
    found = chosen_split(dataset.places, split)
    if found is None:
        absent = chosen_split([name for name, given in dataset.absent.items() if given], split)
        if absent is not None:
            raise LayoutError(f"{path} names {', '.join(dataset.absent[absent])} for {absent}, which is not there; correct it")
        raise missing_split(path, split, list(dataset.places))
    return _read(dataset, found, path, ignore_orientation)


def _described(description: YoloDescription) -> _Dataset:
    places = {
        split: [_Place(folder, _labels_of(folder), listed) for folder, listed in found]
        for split, found in description.images.items()
    }
    return _Dataset(places, description.names, description.absent)


def _dataset(path: Path) -> _Dataset | None:
    """What a folder has; None where there are no text files beside images."""
    if (description := description_in(path)) is not None:
        dataset = _described(description)
    else:
        places = dict(_places(path))
        dataset = _Dataset({split: [place] for split, place in places.items()}, _names_around(path, places.values()))
    has_texts = any(_text_files(place) for places in dataset.places.values() for place in places)
    return dataset if has_texts else None


def _names_around(path: Path, places: Iterable[_Place]) -> tuple[str, ...] | None:
    """The class names of a folder without data.yaml: in a file there, beside the text files, or around images/."""
    folders = [path, *(folder for place in places for folder in (place.labels, place.labels.parent))]
    inside = path.absolute()
    folders += [folder.parent for folder in (inside, *inside.parents) if folder.name == "images"][:1]
    for folder in folders:
        if (names := names_in(folder)) is not None:
            return names
        if (description := description_in(folder)) is not None and description.names is not None:
            return description.names
    return None


def _labels_of(images: Path) -> Path:
    """The folder of the text files of a folder of images: its path with the last "images" as "labels", or itself."""
    parts = images.absolute().parts
    for k in reversed(range(len(parts))):
        if parts[k] == "images":
            labels = Path(*parts[:k], "labels", *parts[k + 1 :])
            return labels if labels.is_dir() or not any(images.glob("*.txt")) else images
    return images


def _places(path: Path) -> Iterator[tuple[str, _Place]]:
    if (path / "images").is_dir():
        splits = split_folders(path / "images")
        yield from ((split, _Place(folder, _labels_of(folder))) for split, folder in splits.items())
        if not splits:
            yield "", _Place(path / "images", _labels_of(path / "images"))
        return
    if splits := split_folders(path):
        for split, folder in splits.items():
            images = folder / "images" if (folder / "images").is_dir() else folder
            yield split, _Place(images, _labels_of(images))
        return
    yield "", _Place(path, _labels_of(path))


def _text_files(place: _Place) -> dict[str, Path]:
    """Key -> text file of a place; lists of class names are none."""
    if not place.labels.is_dir():
        return {}
    files = [file for file in files_below(place.labels) if file.suffix.lower() == ".txt" and file.name not in CLASS_FILES]
    found = {file.with_suffix("").as_posix(): place.labels / file for file in files}
    if place.labels != place.images:
        return found
    images = {file.with_suffix("").as_posix() for file in files_below(place.images) if is_image(file)}
    return {key: file for key, file in found.items() if key in images}  # readme.txt


def _read(dataset: _Dataset, split: str, path: Path, ignore_orientation: bool) -> ObjectFiles:
    problems = Problems()
    images: dict[str, Path] = {}
    texts: dict[str, Path] = {}
    for given in dataset.absent.get(split, ()):
        problems.add("folders and lists that are missing, left out", given)
    for place in dataset.places[split]:
        here = _images_of(place, problems)
        if twice := sorted(here.keys() & images.keys()):
            raise LayoutError(f"{path}: {images[twice[0]]} and {here[twice[0]]} have the same name; rename one of them")
        images |= here
        texts |= _texts_of(place, here, problems)
    if not images:
        raise LayoutError(f"{dataset.places[split][0].images} has no images; expected NAME.jpg for each NAME.txt")
    files = [ObjectFile(name, images[name], row) for row, name in enumerate(ordered(images))]
    about = ObjectClasses(dataset.names or _numbered(dataset))
    table = _table(path, files, texts, len(about.names), problems) if texts else None
    return ObjectFiles(
        files,
        str(path),
        about,
        table,
        problems=problems.told(),
        expected=f"{dataset.places[split][0].labels}/NAME.txt",
        ignore_orientation=ignore_orientation,
    )


def _images_of(place: _Place, problems: Problems) -> dict[str, Path]:
    """Path below the folder -> image."""
    there = {file.as_posix(): place.images / file for file in files_below(place.images) if is_image(file)}
    if place.listed is None:
        return there
    for name in place.listed:
        if name not in there:
            problems.add("images whose file is missing, left out", name)
    return {name: there[name] for name in place.listed if name in there}


def _texts_of(place: _Place, images: Mapping[str, Path], problems: Problems) -> dict[str, Path]:
    """Path of an image -> its text file."""
    found = _text_files(place)
    keys = {name: Path(name).with_suffix("").as_posix() for name in images}
    if place.listed is None:
        for key in ordered(found.keys() - set(keys.values())):
            problems.add("text files without image, not read", found[key].name)
    return {name: found[key] for name, key in keys.items() if key in found}


def _table(
    path: Path, files: Sequence[ObjectFile], texts: Mapping[str, Path], classes: int, problems: Problems
) -> ObjectTable:
    builder = TableBuilder(path, [None] * len(files), problems, is_relative=True)
    with ThreadPoolExecutor(_ASKING) as pool:
        lines = pool.map(lambda file: _lines(texts[file.id]) if file.id in texts else [], files)
        for file, found in zip(files, lines, strict=True):
            for number, line in found:
                _add(builder, file, line, classes, f"{texts[file.id].name}:{number}")
    return builder.table()


def _lines(file: Path) -> list[tuple[int, list[str]]]:
    """(number, words) of the lines of a text file that are not empty."""
    text = file.read_text(encoding="utf-8-sig", errors="replace")
    return [(number, words) for number, line in enumerate(text.splitlines(), 1) if (words := line.split())]


def _add(builder: TableBuilder, file: ObjectFile, words: Sequence[str], classes: int, name: str) -> None:
    """Takes the object of a line."""
    try:
        kind, values = float(words[0]), [float(word) for word in words[1:]]
    except ValueError:
        values = []
    if len(values) != 4 and (len(values) < 6 or len(values) % 2):
        builder.leave_out("lines that are neither a box (class cx cy w h) nor an outline (class x y x y x y ...)", name)
    elif not (kind.is_integer() and 0 <= kind < classes):
        builder.leave_out(f"objects of unknown classes (known are 0 to {classes - 1})", name)
    elif len(values) == 4:
        cx, cy, w, h = values
        builder.add(file.row, int(kind), (cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2), name)
    else:
        x, y = values[::2], values[1::2]
        builder.add(file.row, int(kind), (min(x), min(y), max(x), max(y)), name, segmentation=[values])


def _numbered(dataset: _Dataset) -> tuple[str, ...]:
    """ "class 0", "class 1", ... up to the largest in the text files of all splits."""
    largest = -1
    for place in (place for places in dataset.places.values() for place in places):
        for file in _text_files(place).values():
            kinds = [words[0] for _, words in _lines(file)]
            largest = max([largest, *(int(kind) for kind in kinds if kind.isdecimal() and len(kind) < 5)])
    return tuple(f"class {k}" for k in range(largest + 1))
