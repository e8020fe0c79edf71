"""Reads corrupted copies of a dataset with labelled objects: COCO-C in both habits, and what `robustvit corrupt` wrote.

    ROOT/CORRUPTION_SEVERITY/NAME.jpg      clean images in ROOT/clean
    ROOT/CORRUPTION/SEVERITY/NAME.jpg

Annotations are not copied. They are in ROOT/annotations, or in the annotations of the folder around ROOT; those of a tree that
`robustvit corrupt` wrote are also found in the dataset that it was made from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path

from robustvit.corruptions.parameters import SEVERITIES
from robustvit.data.copies.copying import Cell
from robustvit.data.files_below import files_below
from robustvit.data.object_samples import ObjectFile, ObjectFiles
from robustvit.data.readers.class_folders import LayoutError
from robustvit.data.readers.coco import coco_file_objects, coco_objects, coco_splits
from robustvit.data.readers.copied_images import Originals, made_from
from robustvit.data.readers.corrupted_images import chosen_folders
from robustvit.data.readers.paired_files import is_image
from robustvit.data.readers.voc import voc_objects
from robustvit.data.readers.yolo import yolo_objects

__all__ = ["corrupted_objects"]

_LOOKED_AT = 8
"""Images whose sizes are looked at for each corruption and severity."""
_READERS: tuple[Callable[[Path, str], ObjectFiles | None], ...] = (coco_objects, voc_objects, yolo_objects)


def corrupted_objects(
    root: Path, names: Sequence[str], severities: Sequence[int] = SEVERITIES
) -> dict[Cell, ObjectFiles] | None:
    """(corruption, severity) -> images with the objects of the clean ones, in their order and with their ids.

    Args:
        root: of the tree.
        names: the corruptions.
        severities: of 1 to 5.

    Returns:
        None if `root` is no such tree.

    Raises:
        LayoutError: a corruption or severity is missing, images are missing, or there are no annotations for them.
    """
    there = chosen_folders(root, names, severities, "NAME.jpg", underscores=True)
    if there is None:
        return None
    source, images = _source(root, next(iter(there.values())))
    skipped = images.skipped(root)
    cells: dict[Cell, ObjectFiles] = {}
    for cell, folder in there.items():
        files = images.copies(folder, skipped, "that is annotated")
        cells[cell] = source.with_files(files, str(root))
        cells[cell].check_sizes(range(0, len(files), max(1, len(files) // _LOOKED_AT)), source)
        cells[cell].looked_into.update(range(len(files)))
    return cells


def _source(root: Path, folder: Path) -> tuple[ObjectFiles, Originals[ObjectFile]]:
    """The first dataset around the tree, or that it was made from, to which the copies in a folder belong."""
    copies = [file for file in files_below(folder) if is_image(file)]
    for source in _sources(root, folder):
        images = Originals({Path(file.id).with_suffix("").as_posix(): file for file in source.files})
        if any(images.key_of(file) is not None for file in copies):
            return source, images
    such = f"images such as {min(copies)}" if copies else "no images"
    raise LayoutError(
        f"{folder} has {such}, and there are no annotations for them; expected {root}/annotations/instances_val2017.json, or, "
        "for what robustvit corrupt wrote, the dataset that it was made from, with its annotations, where it was then"
    )


def _sources(root: Path, folder: Path) -> Iterator[ObjectFiles]:
    """Datasets with objects, the likeliest first."""
    errors = []
    for place in made_from(root):
        for reader, split in product(_READERS, ("val", "train")):
            try:
                found = reader(place, split)
            except LayoutError as error:
                errors.append(error)
            else:
                if found is not None and found.has_targets:
                    yield found
    for place in (root, root.parent):
        splits = coco_splits(place, anywhere=place == root)
        for split in ("val", "test", "", "train"):
            if split in splits:
                yield _annotated(splits[split], folder)
    if errors:  # what is wrong with the dataset that was copied is worth knowing
        raise errors[0]


def _annotated(file: Path, folder: Path) -> ObjectFiles:
    """The images of an annotation file that are there uncorrupted; where none is, all that it lists are expected as copies."""
    try:
        return coco_file_objects(file)
    except LayoutError:
        return coco_file_objects(file, folder=folder, copies=True)
