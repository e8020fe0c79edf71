"""`robustvit corrupt`: a corrupted copy of a dataset, in the layout of the published ones."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from robustvit.cli.console import going_on, note, print_json, progress_bar, tables
from robustvit.runtime.interruption import end_with_torchrun
from robustvit.runtime.ranks import process_count, process_rank

if TYPE_CHECKING:
    from robustvit.data.copies.copying import Copying
    from robustvit.data.copies.corrupted_tree import TreeSummary

__all__ = ["corrupt"]


def corrupt(
    source: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="SRC")],
    destination: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DST")],
    *,
    layout: Literal["imagenet", "cityscapes", "coco"] = "imagenet",
    names: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME [NAME ...]")] = ("all19",),
    severities: Annotated[tuple[int, ...], tyro.conf.arg(metavar="S [S ...]")] = (1, 2, 3, 4, 5),
    size: Annotated[int | None, tyro.conf.arg(metavar="PIXELS")] = None,
    whole: bool = False,
    file_format: Annotated[Literal["jpeg", "png", "same"] | None, tyro.conf.arg(name="format")] = None,
    quality: Annotated[int, tyro.conf.arg(metavar="Q")] = 85,
    seed: int = 0,
    bgr: bool = False,
    frost_folder: Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")] = None,
    ignore_orientation: bool = False,
    workers: Annotated[int | None, tyro.conf.arg(metavar="N")] = None,
    as_json: Annotated[bool, tyro.conf.arg(name="json")] = False,
) -> None:
    """Write corrupted copies of the images below SRC to DST, in the layout of ImageNet-C, Cityscapes-C or COCO-C.

    A second run makes only what is missing, and new copies of images that were replaced. Under torchrun, the processes divide
    the images among them. Annotations are left alone.

    Args:
        source: folder with the images: SRC/CLASS/IMAGE; for cityscapes ..._leftImg8bit files at any depth; for coco any.
        destination: folder for DST/CORRUPTION/SEVERITY/... (coco: DST/CORRUPTION_SEVERITY/...), manifest and checksums.
        layout: imagenet crops to 224 pixels and writes JPEG; cityscapes and coco keep size and format.
        names: corruptions, or groups: all19, common15, extra4, fan17, noiseless12, noise, blur, weather, digital.
        severities: some of 1 to 5.
        size: side of the square that images are cropped to (imagenet: 224).
        whole: do not crop (always so for cityscapes and coco).
        file_format: jpeg, png, or same as the image.
        quality: of JPEG files.
        seed: of the randomness; the result for an image depends on the seed and its path.
        bgr: swap red and blue for the corruptions, as the published Cityscapes-C and COCO-C do.
        frost_folder: photographs for frost instead of generated textures.
        ignore_orientation: take pixels as stored, as the published copies do; otherwise images are rotated by their EXIF tag.
            Copies have no tag.
        workers: processes; by default, and at most, one per core (under torchrun, the cores are divided).
        as_json: print JSON.
    """
    _check(severities, size, whole, quality, workers, layout)
    from robustvit.data.copies.copying import Copying, copied_names

    cropped = layout == "imagenet" and not whole
    copying = Copying(
        layout=layout,
        names=copied_names(names),
        severities=tuple(sorted(set(severities))),
        seed=seed,
        size=(size or 224) if cropped else None,
        file_format=file_format or ("jpeg" if layout == "imagenet" else "same"),
        quality=quality,
        channel_order="bgr" if bgr else "rgb",
        frost_folder=str(frost_folder) if frost_folder else None,
        ignore_orientation=ignore_orientation,
    )
    _run(source, destination, copying, workers, as_json)


def _run(source: Path, destination: Path, copying: Copying, workers: int | None, as_json: bool) -> None:
    from robustvit.data.copies.corrupted_tree import corrupt_tree

    end_with_torchrun()
    rank, world = process_rank(), process_count()
    with going_on("finished files are kept; run the same command again to continue"), progress_bar() as report:
        done = corrupt_tree(source, destination, copying, workers=workers, rank=rank, world=world, report=report)
    if world == 1 and done.skipped and not done.written and not done.present:
        name, reason = done.skipped[0]
        raise ValueError(f"no image of {source} could be read; the first is {name}: {reason}")
    if rank == 0:
        _tell(destination, done, world, as_json)


def _tell(destination: Path, done: TreeSummary, world: int, as_json: bool) -> None:
    """Prints the summary; under torchrun, that of the first process."""
    for message in done.notes:
        note(message)
    if done.changed:
        some = ", ".join(done.changed[:3]) + (", ..." if len(done.changed) > 3 else "")
        note(f"{len(done.changed)} images were replaced since they were copied ({some}); their copies are made again")
    if as_json:
        print_json({"destination": destination, "process": 0, "processes": world, **asdict(done)})
        return
    whose = f" by the first of {world} processes" if world > 1 else ""
    count = f"{len(done.skipped)} image{'s' * (len(done.skipped) != 1)}"
    skipped = f", {count} could not be read (named in skipped-*.txt)" if done.skipped else ""
    text = f"{destination}: {done.written} files written{whose}, {done.present} already present{skipped}"
    tables().print(text, highlight=False, soft_wrap=True)


def _check(severities: tuple[int, ...], size: int | None, whole: bool, quality: int, workers: int | None, layout: str) -> None:
    if not severities or not set(severities) <= {1, 2, 3, 4, 5}:
        raise ValueError(f"--severities {' '.join(map(str, severities))}: give some of 1, 2, 3, 4, 5")
    if size is not None and (whole or layout != "imagenet"):
        raise ValueError(
            "--size crops images; it cannot be combined with --whole, or with cityscapes and coco, which never crop"
        )
    if size is not None and size < 32:
        raise ValueError(f"--size {size} is too small: corruptions need at least 32 pixels")
    if not 1 <= quality <= 100:
        raise ValueError(f"--quality {quality}: give 1 to 100")
    if workers is not None and workers < 1:
        raise ValueError(f"--workers {workers}: give at least 1")
