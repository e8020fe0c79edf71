"""Reads datasets with annotation files in COCO's format, in the folders that people have them in.

    val2017/NAME.jpg     + annotations/instances_val2017.json      COCO
    images/val/NAME.jpg  + annotations/instances_val.json
    val/NAME.jpg         + val/_annotations.coco.json              as Roboflow exports it
    images/NAME.jpg      + ANYTHING.json                           one annotation file for all

Which annotation file belongs to a split is told by its name, and its images are looked for in the folders around it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath

from robustvit.data.files_below import files_below
from robustvit.data.map_samples import named
from robustvit.data.object_samples import ImageId, ObjectFile, ObjectFiles
from robustvit.data.readers.class_folders import LayoutError
from robustvit.data.readers.coco_annotations import CocoFile, CocoImage, coco_table, read_coco
from robustvit.data.readers.paired_files import is_image, ordered
from robustvit.data.readers.split_names import chosen_split, split_folders, split_of

__all__ = ["coco_file_objects", "coco_objects", "coco_split", "coco_splits", "other_json"]

_OTHER_KINDS = re.compile(r"(person_keypoints|captions|stuff|panoptic|image_info|densepose)_")
"""What COCO's annotation files without boxes of all classes begin with."""
_AFFIX = re.compile(r"^(instances|annotations?|coco|labels)_+|_+(instances|annotations?|coco|labels)$")
"""Parts of the name of an annotation file that its folder of images does not have."""
_MOST_FILES = 64
"""JSON files of a folder that are looked into. More are one for each image, in a format that is not read."""
_TRIED = 16
"""Images that are looked for in a folder to see whether it is theirs."""
_IMAGE_FOLDERS = ("images", "imgs", "img", "JPEGImages", "data", "clean")


def coco_objects(path: Path, split: str, *, ignore_orientation: bool = False) -> ObjectFiles | None:
    """The images of a split, or all where there is one annotation file.

    Args:
        path: folder of the dataset, or of the images of a split in it.
        split: "train"; else val or test, the first that is there.
        ignore_orientation: see `read_image`.

    Returns:
        None if there is no annotation file of COCO's format.

    Raises:
        LayoutError: the split is missing, or see `coco_file_objects`.
    """
    there = coco_splits(path)
    if not there:
        if (beside := _file_of_images(path)) is None:
            return None
        return coco_file_objects(beside, name=str(path), folder=path, ignore_orientation=ignore_orientation)
    found = chosen_split(there, split)
    if found is None:
        raise LayoutError(
            f"{path} has annotations of {', '.join(there)} ({named([file.name for file in there.values()])}), and none of "
            f"{split}; expected annotations/instances_{split}.json, or give an annotation file itself"
        )
    return coco_file_objects(there[found], name=str(path), ignore_orientation=ignore_orientation)


def coco_split(path: Path, split: str, *, ignore_orientation: bool = False) -> ObjectFiles | None:
    """The images of the split of just this name: "val", or "val2017" for instances_val2017.json; None where there is none.

    Raises:
        LayoutError: see `coco_file_objects`.
    """
    there = coco_splits(path)
    file = there.get(split) or next((file for file in there.values() if _tag(file) == split), None)
    return None if file is None else coco_file_objects(file, name=str(path), ignore_orientation=ignore_orientation)


def coco_splits(path: Path, *, anywhere: bool = True) -> dict[str, Path]:
    """Split -> its annotation file in a dataset; the split "" for a file of all images.

    Args:
        path: folder of the dataset.
        anywhere: look for the files in the folder itself and in those of splits too, not only in annotations/.

    Raises:
        LayoutError: there are several for one split, and no folder of images tells which one is meant.
    """
    for folder in (path / "annotations", path) if anywhere else (path / "annotations",):
        if found := _by_split(path, _annotation_files(folder)):
            return found
    if not anywhere:
        return {}
    inside = {split: list(_annotation_files(folder)) for split, folder in split_folders(path).items()}
    return {split: files[0] for split, files in inside.items() if len(files) == 1}


def _annotation_files(folder: Path) -> Iterator[Path]:
    """Files of COCO's format with boxes: those called instances_..., if there are any."""
    files = sorted(file for file in folder.glob("*.json") if not file.name.startswith(".") and file.is_file())
    files = [file for file in files if not _OTHER_KINDS.match(file.name)]
    instances = [file for file in files if file.name.startswith("instances")]
    if instances or len(files) <= _MOST_FILES:
        yield from instances or filter(_is_coco, files)


def other_json(path: Path) -> list[str]:
    """Names of the JSON files of a dataset in which no annotations of COCO's format are to be seen."""
    files = sorted(file for folder in (path, path / "annotations") for file in folder.glob("*.json") if file.is_file())
    return [file.relative_to(path).as_posix() for file in files if not _is_coco(file)]


def _is_coco(file: Path) -> bool:
    """Whether a file looks like one of COCO's format, without parsing it."""
    try:
        text = file.read_bytes()
    except OSError:
        return False
    return b'"images"' in text and (b'"annotations"' in text or b'"categories"' in text)


def _by_split(path: Path, files: Iterable[Path]) -> dict[str, Path]:
    found: dict[str, list[Path]] = {}
    for file in files:
        found.setdefault(split_of(file.stem), []).append(file)
    others = found.pop("", [])  # beside files of splits, others are something else
    if not found and others:
        return {"": _meant(path, "", others)}
    return {split: _meant(path, split, files) for split, files in found.items()}


def _meant(path: Path, split: str, files: Sequence[Path]) -> Path:
    """Of several annotation files of a split, the one whose images are there: instances_val2017.json for val2017/."""
    if len(files) == 1:
        return files[0]
    have = [file for file in files if any((base / _tag(file)).is_dir() for base in (path, path / "images"))]
    if len(have) == 1:
        return have[0]
    which = f"of {split} " if split else ""
    raise LayoutError(f"{path} has several annotation files {which}({named([f.name for f in files])}); give one of them")


def _file_of_images(path: Path) -> Path | None:
    """The annotation file of a folder of images such as ROOT/val2017 or ROOT/images/val, outside of it."""
    inside = path.absolute()
    roots = [inside.parent, inside.parents[1]] if len(inside.parents) > 1 else []
    for root in roots:
        if (file := root / "annotations" / f"instances_{inside.name}.json").is_file():
            return file
    if split := split_of(inside.name):
        for root in roots:
            if split in (found := coco_splits(root, anywhere=False)):
                return found[split]
    return None


def coco_file_objects(
    file: Path,
    *,
    name: str | None = None,
    folder: Path | None = None,
    ignore_orientation: bool = False,
    copies: bool = False,
) -> ObjectFiles:
    """The images that an annotation file lists, with their objects.

    Args:
        file: the annotation file.
        name: for the result file; by default the path of the file.
        folder: of the images; by default it is looked for around the file.
        ignore_orientation: see `read_image`.
        copies: whether the folder has copies of the images, all of which are expected and none looked for.

    Raises:
        LayoutError: it is no annotation file, or there are no images.
    """
    coco = read_coco(file)
    folder = folder or _image_folder(coco)
    found = {image.id: image.name for image in coco.images} if copies else _found(coco.images, folder)
    if not found:
        raise LayoutError(
            f"{file} lists {len(coco.images)} images such as {coco.images[0].name}, and {folder} has none of them; expected "
            "them in a folder beside the file, in images/ or in images/SPLIT"
        )
    for image in coco.images:
        if image.id not in found:
            coco.problems.add("images whose file is missing, left out", image.name)
    by_name = {found[image.id]: image for image in coco.images if image.id in found}
    names = ordered(by_name)
    images, paths = [by_name[key] for key in names], [folder / key for key in names]
    table = coco_table(coco, images, paths, coco.problems, ignore_orientation=ignore_orientation)
    return ObjectFiles(
        [ObjectFile(names[row], paths[row], row, image.id) for row, image in enumerate(images)],
        name or str(file),
        coco.about,
        table,
        problems=coco.problems.told(),
        expected=f"annotations in {file}",
        ignore_orientation=ignore_orientation,
    )


def _found(images: Sequence[CocoImage], folder: Path) -> dict[ImageId, str]:
    """Id of an image -> path of its file below a folder, for those that are there.

    What the annotation file calls a/b.jpg is a/b.jpg, or b.jpg in the folder itself, or the only b.jpg below it.
    """
    there = {file.as_posix() for file in files_below(folder) if is_image(file)}
    by_name: dict[str, str | None] = {}
    for name in there:
        last = name.rpartition("/")[2]
        by_name[last] = None if last in by_name else name
    found: dict[ImageId, str] = {image.id: image.name for image in images if image.name in there}
    taken = set(found.values())
    for image in images:
        if image.id not in found and (file := _elsewhere(image.name, there, by_name)) is not None and file not in taken:
            found[image.id] = file
            taken.add(file)
    return found


def _elsewhere(name: str, there: set[str], by_name: dict[str, str | None]) -> str | None:
    parts = [part for part in PurePosixPath(name).parts if part not in ("/", "..")]
    endings = ("/".join(parts[k:]) for k in range(len(parts)))
    return next((ending for ending in endings if ending in there), by_name.get(parts[-1] if parts else ""))


def _image_folder(coco: CocoFile) -> Path:
    """The first folder around an annotation file that has some of its images."""
    step = max(1, len(coco.images) // _TRIED)
    tried = [PurePosixPath(image.name) for image in coco.images[::step]]
    candidates = [folder for folder in _image_folders(coco.path) if folder.is_dir()]
    for folder in candidates:
        if any((folder / name).is_file() for name in tried if not name.is_absolute() and ".." not in name.parts):
            return folder
    around = coco.path.absolute().parents[1:]  # which may hold anything
    last_names = {name.name for name in tried}
    for folder in candidates:
        if folder.absolute() not in around and any(file.name in last_names for file in files_below(folder)):
            return folder
    return coco.path.parent


def _image_folders(file: Path) -> Iterator[Path]:
    """Where the images of an annotation file may be, the likeliest first."""
    bases = (file.absolute().parent, file.absolute().parent.parent)
    for tag in _tags(file):
        for base in bases:
            yield from (base / tag / "images", base / "images" / tag, base / tag)
    for base in bases:
        yield from (base / name for name in _IMAGE_FOLDERS)
        yield base


def _tags(file: Path) -> list[str]:
    """What the folder of the images of an annotation file may be called: instances_val2017, val2017, val."""
    stem, tag = file.name.partition(".")[0], _tag(file)
    return [name for name in (stem, tag, re.sub(r"\d+$", "", tag), split_of(stem)) if name]


def _tag(file: Path) -> str:
    """ "val2017" for instances_val2017.json."""
    return _AFFIX.sub("", file.name.partition(".")[0])
