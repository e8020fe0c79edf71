"""The images to predict: an image, a folder with all that is below it, a film, or a dataset that the task can read."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, get_args

from timm.utils.misc import natural_key

from robustvit.data.files_below import files_below
from robustvit.data.label_classes import NO_CLASSES
from robustvit.data.layouts import Split
from robustvit.data.map_samples import MapFile, MapFiles
from robustvit.data.readers.class_folders import LayoutError
from robustvit.data.samples import IMAGE_SUFFIXES, SampleSet, SomeSamples
from robustvit.predicting.films import FILM_SUFFIXES, FilmFrames
from robustvit.runtime.spelling import nearest
from robustvit.tasks.base import Task

__all__ = ["images_at"]


def images_at(
    images: Any,
    task: Task,
    *,
    size: tuple[int, int],
    output: Path,
    split: str | None = None,
    limit: int | None = None,
    ignore_orientation: bool = False,
) -> SampleSet:
    """The images that a user gave, in their natural order.

    Args:
        images: an image, a folder, a film, or what `Task.open` takes; a set of images is taken as it is.
        task: whose layouts of datasets are known.
        size: (H, W) of the images of the embedded dataset.
        output: folder that predictions go to, whose files are no images to predict.
        split: of a dataset, as its folder is called; by default what can be measured.
        limit: only the first so many.
        ignore_orientation: see `read_image`.

    Raises:
        FileNotFoundError: there is nothing.
        LayoutError: there is no image, or no such split.
        UnmatchedMapsError: a dense task is given files that are called like label maps, and belong to no image.
    """
    found: Any = images
    if isinstance(images, str | Path):
        path = Path(images)
        if path.is_file() and path.suffix.lower() in FILM_SUFFIXES:
            return FilmFrames(path, limit=limit, ignore_orientation=ignore_orientation)
        if path.is_file() and path.suffix.lower() in IMAGE_SUFFIXES:
            found = _files(path, [Path(path.name)], path.parent, ignore_orientation)
        else:
            known = dict(scene_size=size, ignore_orientation=ignore_orientation)
            found = _dataset(task, images, split, known) or _below(path, output, ignore_orientation)
    if len(found) == 0:
        raise LayoutError(f"{found.name} has no images")
    return found if limit is None or limit >= len(found) else SomeSamples(found, range(limit))


def _dataset(task: Task, given: str | Path, split: str | None, known: dict[str, Any]) -> SampleSet | None:
    if split is None:
        return task.open_images(given, **known)
    if Path(given).is_dir():
        return task.open_split(Path(given), split, ignore_orientation=known["ignore_orientation"])
    if split not in (splits := get_args(Split)):
        raise ValueError(f"{given} has no split {split!r}{nearest(split, splits)}; it has {', '.join(splits)}")
    return task.open_images(given, split=split, **known)


def _below(folder: Path, output: Path, ignore_orientation: bool) -> MapFiles:
    """All images in a folder and below; ids keep the folders."""
    own = output.resolve()
    files = [file for file in files_below(folder) if file.suffix.lower() in IMAGE_SUFFIXES]
    if own.is_relative_to(folder.resolve()):
        files = [file for file in files if not (folder / file).resolve().is_relative_to(own)]
    if not files:
        raise LayoutError(f"{folder} has no images ({', '.join(sorted(IMAGE_SUFFIXES))})")
    return _files(folder, sorted(files, key=lambda file: natural_key(file.as_posix())), folder, ignore_orientation)


def _files(name: Path, files: Iterable[Path], root: Path, ignore_orientation: bool) -> MapFiles:
    found = [MapFile(file.as_posix(), root / file) for file in files]
    return MapFiles(found, str(name), NO_CLASSES, ignore_orientation=ignore_orientation)
