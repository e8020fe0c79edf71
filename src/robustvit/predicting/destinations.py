"""Where predictions go: files per image in folders, or the frames of one film."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from PIL import Image

from robustvit.corruptions.conditions import Condition
from robustvit.data.samples import IMAGE_SUFFIXES, SampleSet
from robustvit.predicting.comparison import Column, side_by_side
from robustvit.predicting.films import write_film
from robustvit.runtime.files import remove_stale_files, write_whole
from robustvit.tasks.base import Task
from robustvit.tasks.prediction_form import PredictionForm

__all__ = ["COMPARISONS", "FILM", "Destination", "FilmFile", "ImageFolders", "Shown", "file_names"]

COMPARISONS = "comparisons"
FILM = "predictions.mp4"
_SAVED: dict[str, dict[str, Any]] = {".jpg": {"quality": 90}, ".png": {}}


class Shown(NamedTuple):
    """An image under a condition, as the network saw it, and its prediction."""

    condition: Condition
    image: Image.Image
    prediction: Any


class Destination(ABC):
    """Takes the predictions of images in any order.

    Args:
        task: bound to the network.
        form: of its predictions.
    """

    def __init__(self, task: Task, form: PredictionForm) -> None:
        self.task, self.form = task, form
        self._prepared: set[Path] = set()

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """Files and folders in the output folder, for a reader."""

    @abstractmethod
    def paths(self, image: str) -> list[Path]:
        """The files of one image, by its id."""

    @abstractmethod
    def write(self, image: str, shown: Sequence[Shown]) -> None:
        """Writes the files of one image; the first of `shown` is clean."""

    def finish(self) -> None:  # noqa: B027 (files per image are finished by then)
        """Called when all images are written."""

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
    """`FOLDER/IMAGE.png` for each folder of the form, and `comparisons/IMAGE.jpg` where images are corrupted too.

    Args:
        output: the folder of the run.
        task, form: see `Destination`.
        samples: whose ids give the names.
        has_comparisons: whether images are corrupted too.
    """

    def __init__(
        self, output: Path, task: Task, form: PredictionForm, samples: SampleSet, *, has_comparisons: bool = False
    ) -> None:
        super().__init__(task, form)
        self.output, self.called = output, file_names(samples)
        self.folders = {**form.folders, **({COMPARISONS: ".jpg"} if has_comparisons else {})}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"{folder}/*{suffix}" for folder, suffix in self.folders.items())

    def paths(self, image: str) -> list[Path]:
        return [self._path(folder, image) for folder in self.folders]

    def write(self, image: str, shown: Sequence[Shown]) -> None:
        files = self.form.files(self.task, shown[0].image, shown[0].prediction)
        if COMPARISONS in self.folders:
            files = {**files, COMPARISONS: side_by_side(self._columns(shown))}
        for folder, picture in files.items():
            self._save(self._path(folder, image), picture)

    def _path(self, folder: str, image: str) -> Path:
        return self.output / folder / f"{self.called.get(image) or _inside(image)}{self.folders[folder]}"


class FilmFile(Destination):
    """A film of all frames with what was predicted. Its pictures wait as files, so that an interrupted run can go on.

    Args:
        output: the folder of the run.
        task, form: see `Destination`.
        frames: folder for the pictures.
        rate: frames per second.
    """

    names = (FILM,)

    def __init__(self, output: Path, task: Task, form: PredictionForm, frames: Path, rate: Fraction) -> None:
        super().__init__(task, form)
        self.output, self.frames, self.rate = output, frames, rate

    def paths(self, image: str) -> list[Path]:
        return [self.frames / f"{image}.jpg"]

    def write(self, image: str, shown: Sequence[Shown]) -> None:
        _, clean, prediction = shown[0]
        is_alone = len(shown) == 1
        picture = self.form.picture(self.task, clean, prediction) if is_alone else side_by_side(self._columns(shown))
        self._save(self.paths(image)[0], picture)

    def finish(self) -> None:
        files = sorted(self.frames.glob("*.jpg"), key=lambda file: int(file.stem))
        write_film(self.output / FILM, (Image.open(file) for file in files), self.rate)


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
