"""The datasets with labelled objects that people have on disk, found by their layout.

COCO, Pascal VOC and YOLO have a reader each in `readers`, and so have the corrupted copies of COCO-C and the domains of
COCO-O; `scenes` is the embedded dataset. docs/detection-data.md shows the layouts.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path

from robustvit.corruptions.parameters import SEVERITIES
from robustvit.data.files_below import files_below
from robustvit.data.layouts import SCENES, Split, embedded_scenes
from robustvit.data.map_samples import named
from robustvit.data.object_samples import NO_OBJECTS, ObjectFile, ObjectFiles, ObjectSamples
from robustvit.data.readers.class_folders import LayoutError
from robustvit.data.readers.coco import coco_file_objects, coco_objects, coco_split, other_json
from robustvit.data.readers.coco_o import DOMAINS, is_coco_o
from robustvit.data.readers.coco_o import coco_o_domains as read_domains
from robustvit.data.readers.corrupted_images import corrupted_folders
from robustvit.data.readers.corrupted_objects import corrupted_objects as read_copies
from robustvit.data.readers.paired_files import is_image, missing_split, ordered, told_files
from robustvit.data.readers.split_names import split_folders
from robustvit.data.readers.voc import voc_list_objects, voc_objects, voc_split
from robustvit.data.readers.yolo import yolo_file_objects, yolo_objects, yolo_split

__all__ = [
    "DOMAINS",
    "LayoutError",
    "ObjectSamples",
    "coco_o_domains",
    "corrupted_objects",
    "open_object_split",
    "open_objects",
]

EXPECTED = (
    "images with annotations/instances_SPLIT.json (COCO), JPEGImages with Annotations/NAME.xml (Pascal VOC), or "
    "images/SPLIT/NAME.jpg and labels/SPLIT/NAME.txt (YOLO)"
)


def open_objects(
    source: str | Path,
    *,
    scene_size: tuple[int, int] = (224, 224),
    split: Split = "test",
    ignore_orientation: bool = False,
) -> ObjectSamples:
    """The images at `source` with their labelled objects.

    What is wrong with single annotations stops nothing: `problems` of the result counts and names it, and a warning says it.

    Args:
        source: a folder of COCO, Pascal VOC or YOLO; an annotation file of COCO's format, or the data.yaml of YOLO's; a folder
            of images, or an image, without labels; or "scenes" ("scenes:500" for 500 images) for the embedded dataset,
            "scenes-easy" for its easy form.
        scene_size: (H, W) of the images of the embedded dataset.
        split: which part of it. "val" and "test" are the same but for `scenes`, where they share no image: the validation
            images, since the objects of test images are rarely public.
        ignore_orientation: take pixels as they are stored, without regard to the EXIF tag of cameras.

    Raises:
        FileNotFoundError: there is nothing.
        LayoutError: there are no images, the split is missing, annotation files are damaged or contradict themselves.
    """
    text = str(source)
    if text.partition(":")[0] in SCENES:
        from robustvit.data.scenes.objects import SceneObjects

        return SceneObjects(*embedded_scenes(text, scene_size, split))
    path = Path(source)
    if not path.exists():
        raise FileNotFoundError(f"there is no {path}; give a folder of images and annotations, or 'scenes'")
    samples = _file(path, split, ignore_orientation) if path.is_file() else _folder(path, split, ignore_orientation)
    _tell(samples)
    if split == "train":
        samples.check_values()  # training takes them all; whoever measures chooses first, and checks what it has chosen
    return samples


def open_object_split(path: Path, split: str, *, ignore_orientation: bool = False) -> ObjectFiles:
    """The images of the split of just this name: `open_objects` takes what can be measured, this what is asked for.

    Args:
        path: a folder of COCO, Pascal VOC, YOLO or images, with splits.
        split: "train", "val", "test", or as its folder or list is called: "test2017", "trainval", ...
        ignore_orientation: see `open_objects`.

    Raises:
        LayoutError: there is no such split. Or see `open_objects`.
    """
    samples = (
        coco_split(path, split, ignore_orientation=ignore_orientation)
        or voc_split(path, split, ignore_orientation=ignore_orientation)
        or yolo_split(path, split, ignore_orientation=ignore_orientation)
    )
    if samples is None:
        folder = next((base / split for base in (path, path / "images") if (base / split).is_dir()), None)
        if folder is None:
            raise missing_split(path, split, [*split_folders(path), *split_folders(path / "images")])
        samples = _images_alone(folder, ignore_orientation)
    _tell(samples)
    return samples


def corrupted_objects(
    root: Path, names: Sequence[str], severities: Sequence[int] = SEVERITIES
) -> dict[tuple[str, int], ObjectFiles] | None:
    """`readers.corrupted_objects`, with a warning about broken annotations."""
    cells = read_copies(root, names, severities)
    for samples in list((cells or {}).values())[:1]:  # they are the same for all
        _tell(samples)
    return cells


def coco_o_domains(root: Path) -> dict[str, ObjectFiles]:
    """`readers.coco_o`, with a warning about broken annotations."""
    domains = read_domains(root)
    for samples in domains.values():
        _tell(samples)
    return domains


def _tell(samples: ObjectFiles) -> None:
    if samples.problems:
        warnings.warn(f"{samples.name}: {'; '.join(samples.problems)}", stacklevel=3)


def _file(path: Path, split: Split, ignore_orientation: bool) -> ObjectFiles:
    if path.suffix.lower() == ".json":
        return coco_file_objects(path, ignore_orientation=ignore_orientation)
    if path.suffix.lower() in (".yaml", ".yml"):
        return yolo_file_objects(path, split, ignore_orientation=ignore_orientation)
    if (listed := voc_list_objects(path, ignore_orientation=ignore_orientation)) is not None:
        return listed
    if not is_image(path):
        raise LayoutError(f"{path} is no image and no annotation file; give one of them, a folder of {EXPECTED}, or 'scenes'")
    return ObjectFiles([ObjectFile(path.name, path)], str(path), NO_OBJECTS, None, ignore_orientation=ignore_orientation)


def _folder(path: Path, split: Split, ignore_orientation: bool) -> ObjectFiles:
    for reader in (coco_objects, voc_objects, yolo_objects):
        if (found := reader(path, split, ignore_orientation=ignore_orientation)) is not None:
            return found
    if corrupted_folders(path, underscores=True):
        raise LayoutError(
            f"{path} has corrupted copies of images; give the folder of the clean images, and choose the suite coco-c for the "
            "copies"
        )
    if is_coco_o(path):
        raise LayoutError(f"{path} has the domains of COCO-O; choose the suite coco-o, or give the folder of a domain")
    return _images_alone(path, ignore_orientation)


def _images_alone(path: Path, ignore_orientation: bool) -> ObjectFiles:
    """Images without labels."""
    names = ordered(file.as_posix() for file in files_below(path) if is_image(file))
    if not names:
        raise LayoutError(f"{path} has no images{told_files(path)}; expected {EXPECTED}")
    files, others = [ObjectFile(name, path / name) for name in names], other_json(path)
    expected = EXPECTED + (f"; no annotations of COCO's format are in {named(others)}" if others else "")
    return ObjectFiles(files, str(path), NO_OBJECTS, None, expected=expected, ignore_orientation=ignore_orientation)
