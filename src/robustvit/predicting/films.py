"""Films, frame by frame: never more of them in memory than a batch. Needs the package `av` (the extra `video`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from robustvit.data.samples import Sample, UnreadablePictureError
from robustvit.runtime.files import write_whole
from robustvit.runtime.fingerprint import Digest

__all__ = ["FILM_SUFFIXES", "FilmFrames", "frame_id", "write_film"]

FILM_SUFFIXES = frozenset((".mp4", ".avi", ".mov", ".mkv", ".webm", ".m4v", ".mpg", ".mpeg", ".wmv"))
"""Of files that are taken for films, whatever the case."""
CODECS = ("libx264", "mpeg4")
"""The first that the installed `av` has: smaller files, or any at all."""
RATE = Fraction(25)
"""Frames per second of a film that does not say."""


def frame_id(number: int) -> str:
    """Of a frame, counted from 0."""
    return f"{number:06}"


class FilmFrames:
    """The frames of a film as images called 000000, 000001, ...

    Args:
        path: of the film.
        limit: only the first so many frames.
        ignore_orientation: take frames as they are stored, whatever the film says about how the camera was held.

    Raises:
        UnreadablePictureError: it is no film, or a damaged one.
        RuntimeError: `av` is not installed.
    """

    classes: tuple[str, ...] = ()

    def __init__(self, path: Path, *, limit: int | None = None, ignore_orientation: bool = False) -> None:
        self.path, self.name, self.limit, self.ignore_orientation = path, str(path), limit, ignore_orientation
        av = _av()
        try:
            with av.open(str(path)) as container:
                stream = container.streams.video[0]
                self.rate = Fraction(stream.average_rate or stream.guessed_rate or RATE)
                self.count = int(stream.frames or (stream.duration or 0) * (stream.time_base or 0) * self.rate)
        except (av.error.FFmpegError, IndexError, ValueError) as error:
            raise UnreadablePictureError(f"{path} is no film that can be read: {error}") from error

    def __len__(self) -> int:
        """As the film says, which may be wrong."""
        return max(1, self.count if self.limit is None else min(self.count, self.limit))

    def __iter__(self) -> Iterator[Sample]:
        """A film that is damaged somewhere ends there, with a last frame that cannot be read."""
        av = _av()
        number = 0
        try:
            with av.open(str(self.path)) as container:
                for frame in container.decode(video=0):
                    if number == self.limit:
                        return
                    yield Sample(frame_id(number), partial(self._image, frame), _no_target)
                    number += 1
        except av.error.FFmpegError as error:
            yield Sample(frame_id(number), partial(_raise, f"the film is damaged here: {error}"), _no_target)

    def add_to(self, digest: Digest, positions: Sequence[int] | None = None) -> None:
        """The file by name, size and time."""
        digest.add(self.limit, positions)
        digest.add_files(self.path.parent, [self.path.name])

    def _image(self, frame: Any) -> Image.Image:
        pixels = frame.to_ndarray(format="rgb24")
        turns = 0 if self.ignore_orientation else round(getattr(frame, "rotation", 0) / 90)
        return Image.fromarray(np.ascontiguousarray(np.rot90(pixels, turns)))


def write_film(path: Path, pictures: Iterable[Image.Image], rate: Fraction) -> None:
    """Writes pictures of one size as a film, whole or not at all.

    Args:
        path: .mp4.
        pictures: as large as the first one, or resized to it; the last row or column of an odd size is lost, as codecs want
            even ones.
        rate: frames per second.
    """
    av = _av()
    with write_whole(path) as file, av.open(str(file), "w") as container:
        stream, size = None, (0, 0)
        for picture in pictures:
            if stream is None:
                size = picture.size
                stream = container.add_stream(_codec(av), rate=rate)
                stream.width, stream.height = picture.width // 2 * 2, picture.height // 2 * 2
                stream.pix_fmt = "yuv420p"
                if stream.codec_context.name == "mpeg4":
                    stream.bit_rate = 8 * stream.width * stream.height
            shown = (picture if picture.size == size else picture.resize(size)).crop((0, 0, stream.width, stream.height))
            container.mux(stream.encode(av.VideoFrame.from_image(shown)))
        if stream is not None:
            container.mux(stream.encode(None))


def _codec(av: Any) -> str:
    return next(name for name in CODECS if name in av.codecs_available)


def _no_target() -> None:
    """Nobody knows it."""


def _raise(message: str) -> Image.Image:
    raise UnreadablePictureError(message)


def _av() -> Any:
    try:
        import av
    except ImportError as error:
        raise RuntimeError("films are read with the package av; install it with: pip install 'robustvit[video]'") from error
    return av
