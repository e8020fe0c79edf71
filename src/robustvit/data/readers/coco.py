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
from robustvit.data.object_samples import ObjectFile, ObjectFiles
from robustvit.data.readers.class_folders import LayoutError
from robustvit.data.readers.coco_annotations import CocoFile, CocoImage, coco_table, read_coco
from robustvit.data.readers.paired_files import is_image, ordered

__all__ = ["SPLIT_NAMES", "coco_file_objects", "coco_objects", "coco_splits"]

SPLIT_NAMES = {"train": ("train", "training"), "val": ("val", "valid", "validation"), "test": ("test", "testing")}
"""Split -> what it is called in the names of files and folders."""
_OTHER_KINDS = re.compile(r"(person_keypoints|captions|stuff|panoptic|image_info|densepose)_")
"""What COCO's other annotation files begin with."""
_TRIED = 16
"""Images that are looked for in a folder to see whether it is theirs."""
_IMAGE_FOLDERS = ("images", "imgs", "img", "JPEGImages", "data", "clean")


def coco_objects(path: Path, split: str, *, ignore_orientation: bool = False) -> ObjectFiles | None:
    """The images of a split, or all where there is one annotation file.

    Args:
        path: folder of the dataset, or of the images of a split of it.
        split: "train"; else val or test, the first that is there and has objects.
        ignore_orientation: see `read_image`.

    Returns:
        None if there is no annotation file of COCO's format.

    Raises:
        LayoutError: the split is missing, or a file is damaged.
    """
    if (of_images := _file_of_images(path)) is not None:
        return coco_file_objects(of_images, name=str(path), folder=path, ignore_orientation=ignore_orientation)
    there = coco_splits(path)
    if not there:
        return None
    wanted = ("train", "") if split == "train" else ("val", "test", "")
    file = next((there[name] for name in wanted if name in there), None)
    if file is None:
        raise LayoutError(
            f"{path} has annotations of {', '.join(there)} ({', '.join(file.name for file in there.values())}), and none of "
            f"{wanted[0]}; expected annotations/instances_{wanted[0]}.json, or give an annotation file itself"
        )
    return coco_file_objects(file, name=str(path), ignore_orientation=ignore_orientation)


def coco_splits(path: Path) -> dict[str, Path]:
    """Split -> annotation file; the split "" for a file of all images."""
    for folder in (path / "annotations", path):
        if found := _by_split(_annotation_files(folder)):
            return found
    inside = {split: path / name for split, names in SPLIT_NAMES.items() for name in names if (path / name).is_dir()}
    files = {split: list(_annotation_files(folder)) for split, folder in inside.items()}
    return {split: found[0] for split, found in files.items() if len(found) == 1}


def _annotation_files(folder: Path) -> Iterator[Path]:
    """Files of COCO's format with boxes, those called instances_... if there are any."""
    files = sorted(file for file in folder.glob("*.json") if not file.name.startswith(".") and file.is_file())
    files = [file for file in files if not _OTHER_KINDS.match(file.name)]
    instances = [file for file in files if file.name.startswith("instances")]
    yield from (file for file in instances or files if _is_coco(file))


def _is_coco(file: Path) -> bool:
    try:
        text = file.read_bytes()
    except OSError:
        return False
    return b'"images"' in text and (b'"annotations"' in text or b'"categories"' in text)


def _by_split(files: Iterable[Path]) -> dict[str, Path]:
    """The first file of each split by its name; a single file of no split is for all."""
    found: dict[str, Path] = {}
    others = []
    for file in files:
        split = split_of(file.stem)
        if split:
            found.setdefault(split, file)
        else:
            others.append(file)
    return found or ({"": others[0]} if len(others) == 1 else {})


def split_of(name: str) -> str:
    """The split that the name of a file or folder tells: "instances_val2017" -> "val"; "" where it tells none."""
    words = set(re.findall(r"[a-z]+", name.lower()))
    return next((split for split, names in SPLIT_NAMES.items() if words & set(names)), "")


def _file_of_images(path: Path) -> Path | None:
    """The annotation file of a folder of images such as ROOT/val2017 or ROOT/images/val."""
    for root in (path.parent, path.parent.parent):
        for file in (root / "annotations" / f"instances_{path.name}.json",):
            if file.is_file() and path != root / "annotations":
                return file
    return None


def coco_file_objects(
    file: Path, *, name: str | None = None, folder: Path | None = None, ignore_orientation: bool = False
) -> ObjectFiles:
    """The images that an annotation file lists, with their objects.

    Args:
        file: the annotation file.
        name: for the result file; by default the path of the file.
        folder: of the images; by default it is looked for around the file.
        ignore_orientation: see `read_image`.

    Raises:
        LayoutError: it is no annotation file, or there are no images.
    """
    coco = read_coco(file)
    folder = folder or _image_folder(coco)
    found = _found(coco.images, folder)
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
    files = [ObjectFile(names[row], paths[row], row, image.id) for row, image in enumerate(images)]
    return ObjectFiles(
        files,
        name or str(file),
        coco.about,
        table,
        problems=coco.problems.told(),
        expected=f"annotations in {file}",
        ignore_orientation=ignore_orientation,
    )


def _found(images: Sequence[CocoImage], folder: Path) -> dict[int | str, str]:
    """Id of an image -> path of its file below a folder, for those that are there.

    What the annotation file calls a/b.jpg is a/b.jpg, or b.jpg in the folder itself, or the only b.jpg below it.
    """
    there = {file.as_posix() for file in files_below(folder) if is_image(file)}
    by_name: dict[str, str | None] = {}
    for name in there:
        last = name.rpartition("/")[2]
        by_name[last] = None if last in by_name else name
    found: dict[int | str, str] = {}
    taken: set[str] = set()
    for image in images:
        parts = [part for part in PurePosixPath(image.name).parts if part not in ("/", "..")]
        endings = ("/".join(parts[k:]) for k in range(len(parts)))
        file = next((ending for ending in endings if ending in there), by_name.get(parts[-1] if parts else ""))
        if file is not None and file not in taken:
            found[image.id] = file
            taken.add(file)
    return found


def _image_folder(coco: CocoFile) -> Path:
    """The first folder around an annotation file that has some of its images."""
    step = max(1, len(coco.images) // _TRIED)
    tried = [image.name for image in coco.images[::step]]
    candidates = [folder for folder in _image_folders(coco.path) if folder.is_dir()]
    for folder in candidates:
        if any((folder / name).is_file() for name in tried if ".." not in PurePosixPath(name).parts):
            return folder
    last_names = {PurePosixPath(name).name for name in tried}
    for folder in candidates:
        if folder != coco.path.parent.parent and any(file.name in last_names for file in files_below(folder)):
            return folder
    return coco.path.parent


def _image_folders(file: Path) -> Iterator[Path]:
    """Where the images of an annotation file may be, the likeliest first."""
    stem = file.name.partition(".")[0]
    tags = [stem, re.sub(r"^(instances|annotations?|coco|labels)_|_(instances|annotations?|coco|labels)$", "", stem)]
    tags.append(re.sub(r"\d+$", "", tags[-1]))
    tags += SPLIT_NAMES.get(split_of(stem), ())
    bases = (file.parent, file.parent.parent)
    for tag in dict.fromkeys(filter(None, tags)):
        for base in bases:
            yield from (base / tag / "images", base / "images" / tag, base / tag)
    for base in bases:
        yield from (base / name for name in _IMAGE_FOLDERS)
        yield base
