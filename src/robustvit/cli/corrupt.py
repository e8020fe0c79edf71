"""`robustvit corrupt`: a corrupted copy of a data set, in the layout of the published ones."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import tyro

from robustvit.cli.console import print_json, progress_bar, tables

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
    workers: Annotated[int | None, tyro.conf.arg(metavar="N")] = None,
    as_json: Annotated[bool, tyro.conf.arg(name="json")] = False,
) -> None:
    """Write corrupted copies of the pictures below SRC to DST, in the layout of ImageNet-C, Cityscapes-C or COCO-C.

    A second run does only what is missing. Under torchrun, the machines share the pictures. Annotations are not touched.

    Args:
        source: folder with the pictures, at any depth.
        destination: folder for DST/CORRUPTION/SEVERITY/... (coco: DST/CORRUPTION_SEVERITY/...), manifest and checksums.
        layout: imagenet crops to 224 pixels and writes JPEG; cityscapes and coco keep size and format.
        names: corruptions, or all19, common15, extra4, noise, blur, weather, digital.
        severities: of 1 to 5.
        size: side of the square that pictures are cropped to (imagenet: 224).
        whole: do not crop (cityscapes, coco: always).
        file_format: jpeg, png, or same as the picture.
        quality: of JPEG files.
        seed: of the randomness; with the path of a picture it decides what happens to it.
        bgr: swap red and blue for the corruptions, as the published Cityscapes-C and COCO-C do.
        frost_folder: photographs for frost instead of generated textures.
        workers: processes; by default one a core.
        as_json: print JSON.
    """
    _check(severities, size, whole, quality, workers, layout)
    from robustvit.data.corrupted_tree import Copying, copied_names, corrupt_tree

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
    )
    rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    with progress_bar() as report:
        done = corrupt_tree(source, destination, copying, workers=workers, rank=rank, world=world, report=report)
    if as_json:
        print_json({"destination": destination, **asdict(done)})
        return
    console = tables()
    skipped = f", {len(done.skipped)} pictures could not be read (named in skipped-*.txt)" if done.skipped else ""
    console.print(f"{destination}: {done.written} files written, {done.present} were there already{skipped}", highlight=False)


def _check(severities: tuple[int, ...], size: int | None, whole: bool, quality: int, workers: int | None, layout: str) -> None:
    if not severities or not set(severities) <= {1, 2, 3, 4, 5}:
        raise ValueError(f"--severities {' '.join(map(str, severities))}: give some of 1, 2, 3, 4, 5")
    if size is not None and (whole or layout != "imagenet"):
        raise ValueError(
            "--size crops pictures; it cannot be given with --whole or for cityscapes and coco, which keep them whole"
        )
    if size is not None and size < 32:
        raise ValueError(f"--size {size} is too small: corruptions need at least 32 pixels")
    if not 1 <= quality <= 100:
        raise ValueError(f"--quality {quality}: give 1 to 100")
    if workers is not None and workers < 1:
        raise ValueError(f"--workers {workers}: give at least 1")
