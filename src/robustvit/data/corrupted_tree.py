"""Writing a corrupted copy of a data set: the trees of ImageNet-C, Cityscapes-C and COCO-C, for pictures of one's own.

Every file appears whole or not at all, and depends on its own path and the settings alone; so many processes can share
the work, and a second run does only what is missing. `manifest.json` has the settings, `checksums-*.sha256` every file that
was written (for `sha256sum -c`), `skipped-*.txt` what could not be read.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import json
import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import torch
from PIL import Image

from robustvit.corruptions.parameters import SMALLEST
from robustvit.corruptions.registry import CORRUPTIONS, ChannelOrder, corrupt, corruption_names
from robustvit.data.pictures import UnreadablePictureError, read_picture
from robustvit.data.protocols import Protocol
from robustvit.files import write_whole

__all__ = ["LAYOUTS", "Copying", "TreeSummary", "copied_names", "corrupt_tree", "pictures_below"]

Layout = Literal["imagenet", "cityscapes", "coco"]
LAYOUTS: dict[Layout, str] = {
    "imagenet": "DST/CORRUPTION/SEVERITY/CLASS/PICTURE, cropped to 224 pixels, JPEG: ImageNet-C",
    "cityscapes": "DST/CORRUPTION/SEVERITY/CITY/PICTURE, whole pictures, in their own format",
    "coco": "DST/CORRUPTION_SEVERITY/PICTURE, whole pictures, in their own format",
}
_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".webp", ".ppm", ".tif", ".tiff", ".gif")


@dataclass(frozen=True)
class Copying:
    """How the copy is made.

    Attributes:
        layout: of `LAYOUTS`.
        names: the corruptions.
        severities: of 1 to 5.
        seed: of the randomness.
        size: side of the square that pictures are cropped to (short side to size * 256 / 224 first); None leaves them whole.
        file_format: "jpeg", "png", or "same" as the picture.
        quality: of JPEG files.
        channel_order, frost_folder: see `corrupt`.
    """

    layout: Layout
    names: tuple[str, ...]
    severities: tuple[int, ...] = (1, 2, 3, 4, 5)
    seed: int = 0
    size: int | None = 224
    file_format: Literal["jpeg", "png", "same"] = "jpeg"
    quality: int = 85
    channel_order: ChannelOrder = "rgb"
    frost_folder: str | None = None

    def target(self, relative: Path, name: str, severity: int) -> Path:
        """Where the copy of a picture goes, below the destination."""
        suffix = {"jpeg": ".JPEG" if relative.suffix != ".jpg" else ".jpg", "png": ".png", "same": relative.suffix}
        place = f"{name}_{severity}" if self.layout == "coco" else f"{name}/{severity}"
        return Path(place) / relative.with_suffix(suffix[self.file_format])


@dataclass(frozen=True)
class TreeSummary:
    """What a run did: files written, files that were there already, (picture, reason) of those that could not be read."""

    written: int
    present: int
    skipped: tuple[tuple[str, str], ...]


def pictures_below(source: Path) -> list[Path]:
    """The pictures below a folder, relative to it, sorted.

    Raises:
        FileNotFoundError, ValueError: there is no such folder, or there are no pictures in it.
    """
    if not source.is_dir():
        raise FileNotFoundError(f"there is no folder {source}; give the folder that has the pictures")
    found = sorted(p.relative_to(source) for p in source.rglob("*") if p.suffix.lower() in _SUFFIXES and p.is_file())
    if not found:
        raise ValueError(f"{source} has no pictures; looked for {', '.join(_SUFFIXES)} in it and below")
    return found


def corrupt_tree(
    source: Path,
    destination: Path,
    copying: Copying,
    *,
    workers: int | None = None,
    rank: int = 0,
    world: int = 1,
    report: Callable[[str, int, int], None] | None = None,
) -> TreeSummary:
    """Writes the corrupted copies that are not there yet.

    Args:
        source: folder of the pictures.
        destination: folder for the copies; created.
        copying: how.
        workers: processes on this machine; None for one a core.
        rank, world: this machine's share of the pictures.
        report: told (what, pictures done, pictures in all).
    """
    pictures = pictures_below(source)
    if destination.resolve().is_relative_to(source.resolve()):
        raise ValueError(f"{destination} lies inside {source}, so the copies would become pictures; give another folder")
    _check_names(pictures, copying)
    _prepare(source, destination, copying, first=rank == 0)
    mine = pictures[rank::world]
    known = _known_checksums(destination)
    written = present = 0
    skipped: list[tuple[str, str]] = []
    sums, skips = (destination / f"{n}-{rank}-of-{world}.{s}" for n, s in (("checksums", "sha256"), ("skipped", "txt")))
    with sums.open("a") as sums_file, _map(workers or os.cpu_count() or 1) as run:
        jobs = ((source, destination, picture, copying, known) for picture in mine)
        for done, (lines, there, problem) in enumerate(run(_copy, jobs), start=1):
            sums_file.writelines(f"{digest}  {path}\n" for path, digest in lines)
            sums_file.flush()
            written, present = written + len(lines), present + there
            if problem:
                skipped.append(problem)
            if report is not None:
                report("corrupting", done, len(mine))
    if skipped:
        with write_whole(skips) as file:
            file.write_text("".join(f"{path}\t{reason}\n" for path, reason in skipped))
    return TreeSummary(written, present, tuple(skipped))


def _check_names(pictures: Sequence[Path], copying: Copying) -> None:
    """Two pictures must not become the same file."""
    places: dict[Path, Path] = {}
    for picture in pictures:
        place = copying.target(picture, copying.names[0], 1)
        if place in places:
            raise ValueError(f"{places[place]} and {picture} would become the same file {place.name}; give --format same")
        places[place] = picture


def _prepare(source: Path, destination: Path, copying: Copying, *, first: bool) -> None:
    """The manifest: written once, and what a later run must agree with."""
    from importlib.metadata import version

    destination.mkdir(parents=True, exist_ok=True)
    manifest = destination / "manifest.json"
    settings = json.loads(json.dumps(asdict(copying)))
    if manifest.exists():
        stored = json.loads(manifest.read_text())
        must_agree = [key for key in settings if key not in ("names", "severities")]
        for key in must_agree:
            if stored["settings"].get(key) != settings[key]:
                raise ValueError(
                    f"{destination} was made with {key}={stored['settings'].get(key)!r} and this run has {settings[key]!r}; "
                    "give another folder, or the same settings"
                )
        settings["names"] = list(dict.fromkeys([*stored["settings"]["names"], *settings["names"]]))
        settings["severities"] = sorted({*stored["settings"]["severities"], *settings["severities"]})
    if first:
        with write_whole(manifest) as file:
            about = {"robustvit": version("robustvit"), "torch": torch.__version__, "source": str(source)}
            file.write_text(
                json.dumps({**about, "frost": copying.frost_folder or "generated textures", "settings": settings}, indent=1)
            )


def _known_checksums(destination: Path) -> frozenset[str]:
    """The files that are finished and listed."""
    lines = (line for path in destination.glob("checksums-*.sha256") for line in path.read_text().splitlines())
    return frozenset(line[66:] for line in lines if len(line) > 66)


@contextlib.contextmanager
def _map(workers: int) -> Iterator[Callable[..., Iterator]]:
    """`map` over processes, in order; in this one where there is only one worker."""
    if workers == 1:
        yield map
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        try:
            yield lambda function, jobs: pool.map(function, jobs, chunksize=1)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


Job = tuple[Path, Path, Path, Copying, frozenset[str]]
Copied = tuple[list[tuple[str, str]], int, tuple[str, str] | None]


def _copy(job: Job) -> Copied:
    """((path, checksum) of what was written, how many were there, (path, reason) if the picture is unreadable)."""
    source, destination, relative, copying, known = job
    cells = [(name, severity) for name in copying.names for severity in copying.severities]
    targets = {cell: copying.target(relative, *cell) for cell in cells}
    listed = {cell for cell, path in targets.items() if path.as_posix() in known and (destination / path).exists()}
    missing = [cell for cell in cells if cell not in listed]
    if not missing:
        return [], len(listed), None
    try:
        pixels = _fit(read_picture(source / relative), copying.size)
    except (UnreadablePictureError, ValueError) as error:
        return [], len(listed), (relative.as_posix(), str(error))
    lines = [
        (targets[cell].as_posix(), _write(pixels, relative, cell, copying, destination / targets[cell])) for cell in missing
    ]
    return lines, len(listed), None


def _fit(image: Image.Image, size: int | None) -> torch.Tensor:
    if min(image.size) < SMALLEST:
        raise UnreadablePictureError(f"it has {image.height}x{image.width} pixels; corruptions need {SMALLEST}x{SMALLEST}")
    if size is None:
        return Protocol("none", (image.height, image.width)).apply(image)
    return Protocol("imagenet-c", (size, size), short_side=round(size * 256 / 224)).apply(image)


def _write(pixels: torch.Tensor, relative: Path, cell: tuple[str, int], copying: Copying, path: Path) -> str:
    name, severity = cell
    spoiled = corrupt(
        pixels,
        name,
        severity,
        seed=copying.seed,
        sample_ids=relative.as_posix(),
        channel_order=copying.channel_order,
        frost_folder=copying.frost_folder,
    )
    encoded = io.BytesIO()
    is_jpeg = path.suffix.lower() in (".jpg", ".jpeg")
    image = Image.fromarray(spoiled.permute(1, 2, 0).numpy())
    image.save(encoded, "JPEG", quality=copying.quality, optimize=True) if is_jpeg else image.save(encoded, _format(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with write_whole(path) as file:
            file.write_bytes(encoded.getvalue())
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise OSError(
                errno.ENOSPC, f"the disk of {path.parent} is full; make room and run again: finished files stay"
            ) from error
        raise
    return hashlib.sha256(encoded.getvalue()).hexdigest()


def _format(path: Path) -> str:
    return Image.registered_extensions()[path.suffix.lower()]


def copied_names(names: Sequence[str]) -> tuple[str, ...]:
    """Corruptions from names and groups, each once."""
    return tuple(dict.fromkeys(n for name in names for n in ([name] if name in CORRUPTIONS else corruption_names(name))))
