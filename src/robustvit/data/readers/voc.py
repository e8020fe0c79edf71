"""Reads Pascal VOC: an XML file with boxes for each image, and lists of the images of a split.

    JPEGImages/NAME.jpg + Annotations/NAME.xml      with ImageSets/Main/SPLIT.txt, or all in one split without it
    images/NAME.jpg     + annotations/NAME.xml      the same, as others call the folders
    SPLIT/NAME.jpg      + SPLIT/NAME.xml            as Roboflow exports it; SPLIT may be left out, as labelImg writes it

The first also inside VOC2007 or VOC2012, inside VOCdevkit or not. Objects marked as difficult are ignored: they become crowds,
as COCO's rules of matching have them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from robustvit.data.map_samples import named
from robustvit.data.object_annotations import ObjectTable, Problems, TableBuilder, known_sizes
from robustvit.data.object_samples import ObjectClasses, ObjectFile, ObjectFiles
from robustvit.data.readers.class_folders import LayoutError
from robustvit.data.readers.paired_files import by_key, missing_split, ordered
from robustvit.data.readers.split_names import chosen_split, split_folders
from robustvit.data.readers.voc_annotations import VocImage, read_annotations

__all__ = ["VOC_CLASSES", "voc_list_objects", "voc_objects", "voc_split"]

# fmt: off
VOC_CLASSES = (
    "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow", "diningtable",
    "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor",
)
# fmt: on
_FOLDERS = (("JPEGImages", "Annotations"), ("images", "annotations"), ("images", "Annotations"))
"""Of images and of XML files."""
LISTS = "ImageSets/Main"
Said = Mapping[str, VocImage | str]
"""Key of an image -> what its XML file says, or why it cannot be read."""


@dataclass(frozen=True)
class _Place:
    """Where the images of a split lie, and their XML files; if `listed` is there, only the images of this list."""

    images: Path
    xml: Path
    listed: Path | None = None


def voc_objects(path: Path, split: str, *, ignore_orientation: bool = False) -> ObjectFiles | None:
    """The images of a split; all where there are no splits.

    Args:
        path: folder of the dataset, or around it.
        split: "train" (train or trainval); else val or test, the first that is there.
        ignore_orientation: see `read_image`.

    Returns:
        None if `path` is no such folder.

    Raises:
        LayoutError: there are several years, the split is missing, or there are no images.
    """
    places = _places(path)
    if not places:
        return None
    if split == "train" and "train" not in places and "trainval" in places:
        return _read(places, "trainval", path, ignore_orientation)
    found = chosen_split(places, split)
    if found is None:
        raise missing_split(path, split, list(places))
    return _read(places, found, path, ignore_orientation)


def voc_split(path: Path, split: str, *, ignore_orientation: bool = False) -> ObjectFiles | None:
    """The images of the split of just this name; None if `path` is no such folder.

    Raises:
        LayoutError: there is no such split, or see `voc_objects`.
    """
    places = _places(path)
    if not places:
        return None
    if split not in places:
        raise missing_split(path, split, [name for name in places if name])
    return _read(places, split, path, ignore_orientation)


def voc_list_objects(file: Path, *, ignore_orientation: bool = False) -> ObjectFiles | None:
    """The images of a list, ImageSets/Main/SPLIT.txt; None if it is none."""
    root = file.absolute().parents[2] if len(file.absolute().parents) > 2 else None
    if root is None or file.absolute().parent != root / LISTS or (pair := _pair(root)) is None:
        return None
    return _read({file.stem: _Place(*pair, file)}, file.stem, file, ignore_orientation)


def _places(path: Path) -> dict[str, _Place]:
    """Split -> where it is, the split "" for a dataset without any; empty if it is no such folder."""
    if (root := _root(path)) is not None:
        pair = _pair(root)
        assert pair is not None
        lists = {file.stem: file for file in sorted((root / LISTS).glob("*.txt")) if "_" not in file.stem}  # car_train.txt
        return {split: _Place(*pair, listed) for split, listed in lists.items()} or {"": _Place(*pair)}
    if _has_xml(path):
        return {"": _Place(path, path)}
    return {split: _Place(folder, folder) for split, folder in split_folders(path).items() if _has_xml(folder)}


def _root(path: Path) -> Path | None:
    """The folder that has a folder of images and one of XML files."""
    years = [folder for base in (path, path / "VOCdevkit") for folder in sorted(base.glob("VOC[0-9]*"))]
    found = [folder for folder in (path, *years) if _pair(folder) is not None]
    if len(found) > 1:
        raise LayoutError(f"{path} has {named([str(folder.relative_to(path)) for folder in found])}; give one of them")
    return found[0] if found else None


def _pair(root: Path) -> tuple[Path, Path] | None:
    """Folders of images and of XML files; those of Pascal VOC itself may have no files."""
    for images, xml in ((root / images, root / xml) for images, xml in _FOLDERS):
        if images.is_dir() and xml.is_dir() and (images.name == _FOLDERS[0][0] or _has_xml(xml)):
            return images, xml
    return None


def _has_xml(folder: Path) -> bool:
    return any(not file.name.startswith(".") for file in folder.glob("*.xml"))


def _read(places: Mapping[str, _Place], split: str, path: Path, ignore_orientation: bool) -> ObjectFiles:
    """The images of a split, or all that are there."""
    problems, place = Problems(), places[split]
    images, every = by_key(place.images), {one.xml: read_annotations(one.xml) for one in places.values()}
    annotated = every[place.xml]
    wanted = ordered({*images, *annotated}) if place.listed is None else _names(place.listed)
    keys = ordered(_present(wanted, images, annotated, problems))
    if not keys:
        where = place.listed or place.xml
        raise LayoutError(f"{where}: none of its {len(wanted)} images can be used: {'; '.join(problems.told())}")
    files = [ObjectFile(images[key].as_posix(), place.images / images[key], row, key) for row, key in enumerate(keys)]
    about = ObjectClasses(_classes(every.values()))
    has_targets = any(key in annotated for key in keys)  # those of a test set may be withheld as a whole
    table = _table(place.xml, files, annotated, about, problems, ignore_orientation) if has_targets else None
    return ObjectFiles(
        files,
        str(path),
        about,
        table,
        problems=problems.told(),
        expected=f"{place.xml}/NAME.xml",
        ignore_orientation=ignore_orientation,
    )


def _present(wanted: Sequence[str], images: Mapping[str, Path], annotated: Said, problems: Problems) -> list[str]:
    """Those of the wanted images that are there and, if any is, annotated."""
    has_targets = any(key in annotated for key in wanted)
    found = []
    for key in wanted:
        about = annotated.get(key)
        if key not in images:
            problems.add("images whose file is missing, left out", f"{key}.jpg")
        elif isinstance(about, str):
            problems.add("images whose XML file cannot be read, left out", f"{key}.xml: {about}")
        elif has_targets and about is None:
            problems.add("images without XML file, left out", key)
        else:
            found.append(key)
    return found


def _table(
    where: Path,
    files: Sequence[ObjectFile],
    annotated: Said,
    about: ObjectClasses,
    problems: Problems,
    ignore_orientation: bool,
) -> ObjectTable:
    said = [one for file in files if isinstance(one := annotated[str(file.image_id)], VocImage)]
    sizes, paths = [one.size for one in said], [file.image for file in files]
    builder = TableBuilder(where, known_sizes(sizes, paths, ignore_orientation=ignore_orientation), problems)
    indices = {name: index for index, name in enumerate(about.names)}
    for file, one in zip(files, said, strict=True):
        for number, thing in enumerate(one.objects, 1):
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


def _classes(every: Iterable[Said]) -> tuple[str, ...]:
    """Those of Pascal VOC, unless there is another one in any split: then all names, sorted."""
    images = [about for said in every for about in said.values() if isinstance(about, VocImage)]
    found = {thing.name for about in images for thing in about.objects if thing.name}
    return VOC_CLASSES if found <= set(VOC_CLASSES) else tuple(sorted(found))
