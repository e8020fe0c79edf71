"""Films: an image that changes little by little. Made from images here, or read from the published files of ImageNet-P."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from robustvit.corruptions.registry import GROUPS
from robustvit.corruptions.sequences import Benchmark, perturbation_sequence, source_frame
from robustvit.data.layouts import LayoutError
from robustvit.data.sample_digest import add_samples
from robustvit.data.samples import Sample, SampleSet, UnreadablePictureError
from robustvit.runtime.fingerprint import Digest

__all__ = ["FilmSet", "MadeFilms", "StoredFilms", "read_film"]

VIDEOS = (".mp4", ".avi", ".mkv", ".webm")
FOLDERS = ("", *GROUPS, "validation")
"""Folders of the published archives, around those of the kinds."""


class FilmSet(Protocol):
    """What flips can be counted on: `len` subjects, of each a film of every kind.

    Attributes:
        name: for the result file.
        kinds: of films.
    """

    name: str
    kinds: tuple[str, ...]

    def __len__(self) -> int: ...

    def id(self, i: int) -> str: ...

    def frames(self, i: int) -> list[Tensor]:
        """The films of subject `i`, one per kind: uint8 [T, 3, H, W]. Raises UnreadablePictureError."""
        ...

    def add_to(self, digest: Digest) -> None:
        """Lets a digest depend on all films; see `data.sample_digest`."""
        ...


class MadeFilms:
    """Films made in memory of the images of a set, by (seed, id of the image)."""

    def __init__(self, pictures: SampleSet, kinds: Sequence[str], benchmark: Benchmark, seed: int) -> None:
        self.name, self.kinds = pictures.name, tuple(kinds)
        self.pictures, self.benchmark, self.seed = pictures, benchmark, seed
        at = getattr(pictures, "at", None)
        self._at = at or list(pictures).__getitem__  # a stream has to be held

    def __len__(self) -> int:
        return len(self.pictures)

    def id(self, i: int) -> str:
        return self._at(i).id

    def frames(self, i: int) -> list[Tensor]:
        picture: Sample = self._at(i)
        source = source_frame(picture.open(), self.benchmark)
        return [
            perturbation_sequence(source, kind, seed=self.seed, sample_id=picture.id, benchmark=self.benchmark)
            for kind in self.kinds
        ]

    def add_to(self, digest: Digest) -> None:
        """The images that they are made of."""
        digest.add(self.kinds, self.benchmark, self.seed)
        add_samples(digest, self.pictures)


class StoredFilms:
    """The published files: `root/KIND/CLASS/NAME.mp4`, also inside the folders of the archives (`root/noise/KIND/...`).

    Raises:
        LayoutError: a kind is missing, or has other films than the first.
    """

    def __init__(self, root: Path, kinds: Sequence[str]) -> None:
        self.name, self.kinds = str(root), tuple(kinds)
        folders = {kind: _folder(root, kind) for kind in kinds}
        if missing := [kind for kind, folder in folders.items() if folder is None]:
            raise LayoutError(f"{root} lacks {', '.join(missing)}; expected {root}/KIND/CLASS/NAME.mp4 for {', '.join(kinds)}")
        self.folders = [folder for folder in folders.values() if folder is not None]
        films = [sorted(p.relative_to(f) for p in f.glob("*/*") if p.suffix.lower() in VIDEOS) for f in self.folders]
        self.films = films[0]
        for kind, others in zip(kinds, films, strict=True):
            if odd := sorted(set(others) ^ set(self.films)):
                raise LayoutError(f"{root}: {kind} and {kinds[0]} must have the same films; {odd[0]} is in one of them only")
        if not self.films:
            raise LayoutError(f"{self.folders[0]} has no films; expected {self.folders[0]}/CLASS/NAME.mp4")

    @staticmethod
    def found(root: Path) -> bool:
        """Whether `root` looks like such a tree."""
        return any(_folder(root, kind) is not None for kind in ("gaussian_noise", "rotate", "brightness", "motion_blur"))

    def __len__(self) -> int:
        return len(self.films)

    def id(self, i: int) -> str:
        return self.films[i].as_posix()

    def frames(self, i: int) -> list[Tensor]:
        return [read_film(folder / self.films[i]) for folder in self.folders]

    def add_to(self, digest: Digest) -> None:
        """The files by name, size and time."""
        digest.add(self.kinds)
        for folder in self.folders:
            digest.add_files(folder, [str(film) for film in self.films])


def _folder(root: Path, kind: str) -> Path | None:
    """The folder of a kind that has films in class folders; images (ImageNet-C) do not count."""
    for group in FOLDERS:
        folder = root / group / kind
        if folder.is_dir() and any(path.suffix.lower() in VIDEOS for path in folder.glob("*/*")):
            return folder
    return None


def read_film(path: Path) -> Tensor:
    """The frames of a video file, uint8 RGB [T, 3, H, W]. Needs the package `av`.

    Raises:
        UnreadablePictureError: it is no video, or a damaged one.
    """
    av = _decoder()
    try:
        with av.open(str(path)) as container:
            frames = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    except (av.error.FFmpegError, IndexError, ValueError) as error:
        raise UnreadablePictureError(f"{path.name}: {error}") from error
    if len(frames) < 2:
        raise UnreadablePictureError(f"{path.name} has {len(frames)} frames; a film needs at least 2")
    return torch.from_numpy(np.stack(frames)).permute(0, 3, 1, 2)


def _decoder() -> Any:
    try:
        import av
    except ImportError as error:
        raise ImportError(
            "films on disk are read with the package av; install it with: pip install 'robustvit[video]'"
        ) from error
    return av
