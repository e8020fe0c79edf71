"""The datasets with labelled objects that people have on disk, found by their layout.

COCO has a reader in `readers`; `scenes` is the embedded dataset. docs/detection-data.md shows the layouts.
"""

from __future__ import annotations

import warnings
from pathlib import Path

from robustvit.data.files_below import files_below
from robustvit.data.layouts import SCENES, Split, embedded_scenes
from robustvit.data.object_samples import NO_OBJECTS, ObjectFile, ObjectFiles, ObjectSamples
from robustvit.data.readers.class_folders import LayoutError
from robustvit.data.readers.coco import coco_file_objects, coco_objects
from robustvit.data.readers.paired_files import is_image, ordered, told_files

__all__ = ["LayoutError", "ObjectSamples", "open_objects"]

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
    samples = _file(path, ignore_orientation) if path.is_file() else _folder(path, split, ignore_orientation)
    if samples.problems:
        warnings.warn(f"{samples.name}: {'; '.join(samples.problems)}", stacklevel=2)
    if split == "train":
        samples.check_values()  # training takes them all; whoever measures chooses first, and checks what it has chosen
    return samples


def _file(path: Path, ignore_orientation: bool) -> ObjectFiles:
    if path.suffix.lower() == ".json":
        return coco_file_objects(path, ignore_orientation=ignore_orientation)
    if not is_image(path):
        raise LayoutError(f"{path} is no image and no annotation file; give one of them, a folder of {EXPECTED}, or 'scenes'")
    return ObjectFiles([ObjectFile(path.name, path)], str(path), NO_OBJECTS, None, ignore_orientation=ignore_orientation)


def _folder(path: Path, split: Split, ignore_orientation: bool) -> ObjectFiles:
    found = coco_objects(path, split, ignore_orientation=ignore_orientation)
    return found if found is not None else _images_alone(path, ignore_orientation)


def _images_alone(path: Path, ignore_orientation: bool) -> ObjectFiles:
    """Images without labels."""
    names = ordered(file.as_posix() for file in files_below(path) if is_image(file))
    if not names:
        raise LayoutError(f"{path} has no images{told_files(path)}; expected {EXPECTED}")
    files = [ObjectFile(name, path / name) for name in names]
    return ObjectFiles(files, str(path), NO_OBJECTS, None, expected=EXPECTED, ignore_orientation=ignore_orientation)
