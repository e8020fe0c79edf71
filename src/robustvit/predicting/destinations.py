"""Where predictions go: files per image in folders, or the frames of one film with its label maps beside it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from PIL import Image

from robustvit.corruptions.conditions import CLEAN, Condition
from robustvit.data.samples import IMAGE_SUFFIXES, SampleSet
from robustvit.predicting.comparison import Column, side_by_side
from robustvit.predicting.films import write_film
from robustvit.runtime.files import remove_stale_files, write_whole
from robustvit.tasks.base import Task
from robustvit.tasks.overlays import legend_image
from robustvit.tasks.prediction_form import PredictionForm

__all__ = ["COMPARISONS", "FILM", "LEGEND", "Destination", "FilmFile", "ImageFolders", "Shown", "file_names"]

COMPARISONS = "comparisons"
FILM = "predictions.mp4"
LEGEND = "legend.png"
MAPS = ".png"
"""Suffix of files whose values are the prediction itself. Those of the other suffix, .jpg, are there to be looked at."""
_SAVED: dict[str, dict[str, Any]] = {".jpg": {"quality": 90}, MAPS: {}}


class Shown(NamedTuple):
    """An image under a condition, as the network saw it, and its prediction."""

    condition: Condition
    image: Image.Image
    prediction: Any


class Destination(ABC):
    """Takes the predictions of images in any order.

    Args:
        output: the folder of the run.
        task: bound to the network.
        form: of its predictions.
        folders: -> suffix of the files that each image has in them: some of those of the form, and those of `_corrupted`.
        has_corrupted: whether images are corrupted too.
    """

    called: Mapping[str, str] = {}
    """Id -> name of its files, where it is not the id."""
    record_files: tuple[str, ...]
    """With the records of all images, under one condition each; empty where the form has none."""

    def __init__(
        self, output: Path, task: Task, form: PredictionForm, folders: Mapping[str, str], *, has_corrupted: bool
    ) -> None:
        self.output, self.task, self.form, self.folders = output, task, form, dict(folders)
        lists = [form.record_list, _corrupted(form.record_list)] if has_corrupted else [form.record_list]
        self.record_files = tuple(f"{name}.json" for name in lists) if form.record_list else ()
        self.has_legend = bool(task.legend())
        self._prepared: set[Path] = set()

    @property
    def single(self) -> tuple[str, ...]:
        """Names of the files that there is one of."""
        return (*((LEGEND,) if self.has_legend else ()), *self.record_files)

    @property
    def names(self) -> tuple[str, ...]:
        """Files and folders in the output folder, for a reader."""
        return (*(f"{folder}/*{suffix}" for folder, suffix in self.folders.items()), *self.single)

    def kept(self, image: str) -> list[Path]:
        """The files of one image, by its id, when the run is finished."""
        return [self._path(folder, image) for folder in self.folders]

    def paths(self, image: str) -> list[Path]:
        """The files of one image while the run is going on."""
        return self.kept(image)

    @abstractmethod
    def write(self, image: str, shown: Sequence[Shown]) -> None:
        """Writes the files of one image; the first of `shown` is clean."""

    def finish(self) -> None:
        """Called when all images are written."""
        if self.has_legend:
            self._save(self.output / LEGEND, legend_image(self.task.legend()))

    def _write_folders(self, image: str, shown: Sequence[Shown]) -> None:
        """What the form has for each image, also for the corrupted one."""
        for one in shown:
            files = self.form.files(self.task, one.image, one.prediction)
            for folder, picture in files.items():
                name = folder if one.condition == CLEAN else _corrupted(folder)
                if name in self.folders:
                    self._save(self._path(name, image), picture)

    def _path(self, folder: str, image: str) -> Path:
        return self.output / folder / f"{self.called.get(image) or _inside(image)}{self.folders[folder]}"

    def _columns(self, shown: Sequence[Shown]) -> list[Column]:
        return [Column(str(one.condition), self.form.panels(self.task, one.image, one.prediction)) for one in shown]

    def _save(self, path: Path, picture: Image.Image) -> None:
        if path.parent not in self._prepared:
            path.parent.mkdir(parents=True, exist_ok=True)
            remove_stale_files(path.parent)
            self._prepared.add(path.parent)
        with write_whole(path) as file:
            picture.save(file, **_SAVED[path.suffix])


class ImageFolders(Destination):
    """`FOLDER/IMAGE.png` for each folder of the form. Where images are corrupted too, also the label maps of these, in
    `FOLDER-corrupted`, and `comparisons/IMAGE.jpg`.

    Args:
        output, task, form: see `Destination`.
        samples: whose ids give the names.
        has_corrupted: whether images are corrupted too.
    """

    def __init__(
        self, output: Path, task: Task, form: PredictionForm, samples: SampleSet, *, has_corrupted: bool = False
    ) -> None:
        further = {**_corrupted_maps(form), COMPARISONS: ".jpg"} if has_corrupted else {}
        super().__init__(output, task, form, {**form.folders, **further}, has_corrupted=has_corrupted)
        self.called = file_names(samples)

    def write(self, image: str, shown: Sequence[Shown]) -> None:
        self._write_folders(image, shown)
        if COMPARISONS in self.folders:
            self._save(self._path(COMPARISONS, image), side_by_side(self._columns(shown)))


class FilmFile(Destination):
    """A film of all frames with what was predicted, and the label maps of the frames. The pictures of the film wait as files,
    so that an interrupted run can go on.

    Args:
        output, task, form: see `Destination`.
        frames: folder for the pictures.
        rate: frames per second.
        has_corrupted: whether frames are corrupted too.
    """

    def __init__(
        self,
        output: Path,
        task: Task,
        form: PredictionForm,
        frames: Path,
        rate: Fraction,
        *,
        has_corrupted: bool = False,
    ) -> None:
        folders = {**_maps(form), **(_corrupted_maps(form) if has_corrupted else {})}
        super().__init__(output, task, form, folders, has_corrupted=has_corrupted)
        self.frames, self.rate = frames, rate

    @property
    def single(self) -> tuple[str, ...]:
        return (FILM, *super().single)

    def paths(self, image: str) -> list[Path]:
        return [self._frame(image), *self.kept(image)]

    def write(self, image: str, shown: Sequence[Shown]) -> None:
        self._write_folders(image, shown)
        _, clean, prediction = shown[0]
        is_alone = len(shown) == 1
        picture = self.form.picture(self.task, clean, prediction) if is_alone else side_by_side(self._columns(shown))
        self._save(self._frame(image), picture)

    def finish(self) -> None:
        super().finish()
        files = sorted(self.frames.glob("*.jpg"), key=lambda file: int(file.stem))
        write_film(self.output / FILM, (Image.open(file) for file in files), self.rate)

    def _frame(self, image: str) -> Path:
        return self.frames / f"{image}.jpg"


def _maps(form: PredictionForm) -> dict[str, str]:
    return {folder: suffix for folder, suffix in form.folders.items() if suffix == MAPS}


def _corrupted_maps(form: PredictionForm) -> dict[str, str]:
    return {_corrupted(folder): suffix for folder, suffix in _maps(form).items()}


def _corrupted(folder: str) -> str:
    """The folder, or the list, with the same of the corrupted images."""
    return f"{folder}-corrupted"


def file_names(samples: SampleSet) -> dict[str, str]:
    """Id -> path of its files without suffix, for those ids that would not be told apart without their own suffix."""
    at = getattr(samples, "at", None)
    ids = [at(i).id for i in range(len(samples))] if at is not None else []
    count = Counter(map(_inside, ids))
    return {name: f"{_plain(name)}" for name in ids if count[_inside(name)] > 1}


def _inside(image: str) -> str:
    """The id of an image as a path below a folder, without the suffix of the image."""
    path = PurePosixPath(_plain(image))
    return str(path.with_suffix("") if path.suffix.lower() in IMAGE_SUFFIXES else path)


def _plain(image: str) -> str:
    """An id may come from an archive, and must not lead out of the folder."""
    return "/".join(part for part in image.split("/") if part not in ("", ".", "..")) or "image"
