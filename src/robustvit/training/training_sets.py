"""The images of a run: the training set with its distorted copies, and the validation set with the same classes.

Training takes images in any order, so it needs sets with access by position: class folders, CIFAR, .tar files, `hfds/...`
and `scenes`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from robustvit.data.layouts import LayoutError, Split
from robustvit.data.readers.class_folders import folder_images
from robustvit.data.samples import SampleSet, SomeSamples, UnreadablePictureError
from robustvit.runtime.randomness import keyed_seed
from robustvit.tasks.base import Task
from robustvit.tasks.relabelled import Relabelled
from robustvit.training.config import DataConfig

__all__ = ["Decoded", "TrainingSamples", "training_samples", "validation_samples"]


@dataclass(frozen=True)
class Decoded:
    """One sample: an RGB image or uint8 H x W x 3, and its target."""

    image: Image.Image | NDArray[np.uint8]
    target: Any


@dataclass(frozen=True)
class _Part:
    """A set with access by position.

    Attributes:
        samples: the set.
        prefix: of the ids, so that a copy is not taken for its original.
    """

    samples: Any
    prefix: str = ""

    def positions(self) -> NDArray[np.int64]:
        """Those to learn from: all, unless the set has a method `learnable` that says which."""
        learnable = getattr(self.samples, "learnable", None)
        return np.arange(len(self.samples)) if learnable is None else np.asarray(learnable(), np.int64)

    def drawn_at(self, size: tuple[int, int]) -> _Part:
        return replace(self, samples=self.samples.at_size(size)) if hasattr(self.samples, "at_size") else self


class TrainingSamples:
    """The training set: some positions of one or several sets.

    Attributes:
        classes: names in the order of the labels; empty where nobody knows them.
        outputs: of a network that learns them.
    """

    def __init__(self, parts: Sequence[_Part], classes: Sequence[str], outputs: int) -> None:
        self.parts, self.classes, self.outputs = tuple(parts), tuple(classes), outputs
        self.places = np.concatenate(  # [N, 2]: part, position in it
            [np.stack(np.broadcast_arrays(p, part.positions()), 1) for p, part in enumerate(self.parts)]
        )
        self.ids: list[str | None] = [None] * len(self.places)

    def __len__(self) -> int:
        return len(self.places)

    def draw_at(self, size: tuple[int, int]) -> None:
        """Gives generated images the size (H, W); others have that of their files."""
        self.parts = tuple(part.drawn_at(size) for part in self.parts)

    def keep(self, count: int, seed: int) -> None:
        """Leaves a random subset, the same for the same seed; 0 leaves all."""
        if _is_limited("train_limit", count, len(self)):
            self.places = self.places[chosen_positions(len(self), count, seed)]
            self.ids = [None] * count

    def id(self, position: int) -> str:
        name = self.ids[position]
        if name is None:
            part, place = self._place(position)
            name = self.ids[position] = part.prefix + part.samples.at(place).id
        return name

    def read(self, positions: Sequence[int]) -> list[Decoded | UnreadablePictureError]:
        """The samples at these positions, or why they cannot be read; all at once where the set can (`read_many`)."""
        if len(self.parts) == 1 and hasattr(self.parts[0].samples, "read_many"):
            read = self.parts[0].samples.read_many(self.places[list(positions), 1].tolist())
            return [Decoded(image, target) for image, target in read]
        return [_decoded(*self._place(position)) for position in positions]

    def target(self, position: int) -> Any:
        """The target of one sample, whose image need not be decoded.

        Raises:
            UnreadablePictureError: it cannot be read.
        """
        part, place = self._place(position)
        return part.samples.at(place).target()

    def reopen_files(self) -> None:
        """To be called in a new process: a tar file that is open in two processes has one place of reading for both."""
        for part in self.parts:
            state = getattr(getattr(part.samples, "reader", None), "tar_state", None)
            if state is not None:
                for opened in (state, *state.children.values()):
                    opened.reset()

    def _place(self, position: int) -> tuple[_Part, int]:
        part, place = self.places[position].tolist()
        return self.parts[part], place


def _decoded(part: _Part, place: int) -> Decoded | UnreadablePictureError:
    sample = part.samples.at(place)
    try:
        return Decoded(sample.open(), sample.target())
    except UnreadablePictureError as error:
        return error


def _is_limited(setting: str, count: int, length: int) -> bool:
    if count < 0:
        raise ValueError(f"data.{setting}={count} is not possible; give a number of images, or 0 for all of them")
    return 0 < count < length


def chosen_positions(length: int, count: int, seed: int) -> NDArray[np.int64]:
    """`count` of `length` positions in ascending order, the same for the same seed."""
    key = keyed_seed(seed, "subset")
    generator = np.random.RandomState([key >> 32, key & 0xFFFFFFFF])
    return np.sort(generator.permutation(length)[:count])


def training_samples(task: Task, config: DataConfig, *, seed: int) -> TrainingSamples:
    """The images of `config.train` and the copies of `config.copies`; of all of these, `train_limit` if that is set.

    They are opened before the network, which is built for their number of classes; only then is its image size known, which
    `TrainingSamples.draw_at` takes.

    Args:
        task: what is learned from them.
        config: where they are.
        seed: of the random subset.

    Raises:
        FileNotFoundError, LayoutError: they are not there, cannot be read in any order, or there is nothing to learn.
        ValueError: copies of other classes, or a negative limit.
    """
    clean = _clean_samples(task, config)
    parts = [_Part(clean), *_copies(config, clean.classes)]
    samples = TrainingSamples(parts, clean.classes, task.outputs(clean))
    if not len(samples):
        raise LayoutError(f"data.train={config.train} has {len(clean)} images, none of which has anything to learn from")
    samples.keep(config.train_limit, seed)
    return samples


def _clean_samples(task: Task, config: DataConfig) -> Any:
    source = config.train
    if not source:
        raise ValueError("data.train is empty; give a folder of class folders, a .tar file, cifar10:FOLDER or scenes:20000")
    samples: Any = task.open(source, split="train", ignore_orientation=config.ignore_orientation)
    if not hasattr(samples, "at"):
        raise LayoutError(f"data.train={source} has no access by position; give class folders or a .tar file")
    if not len(samples):
        raise LayoutError(f"data.train={source} has no images")
    return samples


def _copies(config: DataConfig, classes: Sequence[str]) -> Iterator[_Part]:
    """ROOT/CLASS/IMAGE, or ROOT/KIND/CLASS/IMAGE for some kinds, as EDSR and CAE."""
    for number, root in enumerate(config.copies):
        path = Path(root)
        if not path.is_dir():
            raise FileNotFoundError(
                f"data.copies: there is no folder {path}; expected {path}/CLASS/IMAGE.jpg, or {path}/EDSR/CLASS/IMAGE.jpg "
                "and the like"
            )
        if not classes:
            raise LayoutError(f"data.copies={root} cannot join a training set whose classes have no names")
        for folder in _folders_of_classes(path):
            samples = folder_images(folder, ignore_orientation=config.ignore_orientation)
            labels = _matched(folder, samples.classes, classes)
            yield _Part(Relabelled(samples, labels, classes), f"copies{number}/{folder.name}/")


def _folders_of_classes(path: Path) -> list[Path]:
    """`path` if it has class folders, the folders in it if these have them."""
    below = sorted(folder for folder in path.iterdir() if folder.is_dir() and not folder.name.startswith("."))
    return below if any(inner.is_dir() for folder in below for inner in folder.iterdir()) else [path]


def _matched(folder: Path, own: Sequence[str], classes: Sequence[str]) -> tuple[int, ...]:
    missing, unknown = sorted(set(classes) - set(own)), sorted(set(own) - set(classes))
    if missing or unknown:
        told = [f"{what} {', '.join(names[:8])}" for what, names in (("lacks", missing), ("also has", unknown)) if names]
        raise ValueError(
            f"{folder} does not have the {len(classes)} classes of the training set: it {' and '.join(told)}; rename its "
            "folders, or leave it out of data.copies"
        )
    return tuple(classes.index(name) for name in own)


def validation_samples(
    task: Task,
    config: DataConfig,
    *,
    img_size: tuple[int, int],
    seed: int,
    classes: Sequence[str] = (),
    split: Split = "val",
) -> SampleSet | None:
    """The images of `config.val` with the labels of the training set; None if there are none to be.

    Args:
        task: what is learned from them.
        config: where they are.
        img_size: (H, W) of generated images.
        seed: of the random subset.
        classes: of the training set; the validation set may lack some, but has no others.
        split: of the dataset.

    Raises:
        FileNotFoundError, LayoutError: they are not there.
        ValueError: classes that the training set does not have, or a negative limit.
    """
    if not config.val:
        return None
    how: Any = dict(scene_size=img_size, ignore_orientation=config.ignore_orientation)
    samples = task.open(config.val, split=split, **how)
    if not len(samples):
        raise LayoutError(f"data.val={samples.name} has no images")
    try:
        samples = task.with_classes(samples, classes)
    except ValueError as error:
        raise ValueError(f"data.val={config.val}: {error}; rename its folders, or leave them out") from error
    if _is_limited("val_limit", config.val_limit, len(samples)):
        return SomeSamples(samples, chosen_positions(len(samples), config.val_limit, seed).tolist())
    return samples
