"""Reads corrupted copies of a dataset: ImageNet-C as published, and whatever `robustvit corrupt` wrote, whole or in part."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from robustvit.corruptions.parameters import SEVERITIES
from robustvit.corruptions.registry import GROUPS, corruption_names
from robustvit.data.copies.copying import Cell
from robustvit.data.readers.class_folders import LayoutError, folder_images
from robustvit.data.samples import ReaderSamples

__all__ = ["chosen_folders", "copy_settings", "corrupted_folders", "corrupted_images"]

_FOLDERS = ("", *GROUPS, "extra")
"""Folders between the root and the corruptions, as in the published archives."""
_CLASS_FOLDERS = "CLASS/IMAGE.JPEG"
"""What ImageNet-C has in each of its folders."""


def corrupted_folders(root: Path, *, underscores: bool = False) -> dict[Cell, Path]:
    """(corruption, severity) -> its folder; empty if `root` is no such tree.

    Found are `root/CORRUPTION/SEVERITY` and, where `robustvit corrupt` wrote it or `underscores` says that others do so too,
    `root/CORRUPTION_SEVERITY`.
    """
    if not root.is_dir():
        return {}
    forms = ["{}/{}", "{}_{}"] if underscores or copy_settings(root) is not None else ["{}/{}"]
    found = {}
    for name in corruption_names("all"):
        for severity in SEVERITIES:
            places = [root / group / form.format(name, severity) for group in _FOLDERS for form in forms]
            if place := next((place for place in places if place.is_dir()), None):
                found[name, severity] = place
    return found


def copy_settings(root: Path) -> dict[str, Any] | None:
    """The settings of the copy that `robustvit corrupt` noted in `root`; None where it did not write it."""
    try:
        settings = json.loads((root / "manifest.json").read_text())["settings"]
        return {**settings, "names": list(settings["names"]), "severities": list(settings["severities"])}
    except (OSError, ValueError, KeyError, TypeError):
        return None


def chosen_folders(
    root: Path, names: Sequence[str], severities: Sequence[int], inside: str, *, underscores: bool = False
) -> dict[Cell, Path] | None:
    """(corruption, severity) -> its folder, for what is asked for; None if `root` is no such tree.

    A published tree must have all that is asked for. What `robustvit corrupt` wrote was meant to have some corruptions and
    severities only, and gives those of them that are asked for.

    Args:
        root: of the tree.
        names: the corruptions.
        severities: of 1 to 5.
        inside: what is expected in each folder, for the message.
        underscores: see `corrupted_folders`.

    Raises:
        LayoutError: something is missing.
    """
    there = corrupted_folders(root, underscores=underscores)
    if not there:
        return None
    asked = [(name, severity) for name in names for severity in severities]
    settings = copy_settings(root)
    meant = asked if settings is None else [(n, s) for n in settings["names"] for s in settings["severities"]]
    if missing := [f"{name}/{severity}" for name, severity in meant if (name, severity) not in there]:
        raise LayoutError(_lacks(root, missing, there, inside, is_copy=settings is not None))
    kept = [cell for cell in asked if cell in there]
    if not kept:
        raise LayoutError(
            f"{root} has {_told(there)}, and nothing of {', '.join(dict.fromkeys(names))} at severity "
            f"{', '.join(map(str, severities))}; choose what is there with --suite and --severity"
        )
    return {cell: there[cell] for cell in kept}


def corrupted_images(
    root: Path, names: Sequence[str], severities: Sequence[int] = SEVERITIES
) -> dict[Cell, ReaderSamples] | None:
    """(corruption, severity) -> images, from `root/CORRUPTION/SEVERITY/CLASS/IMAGE`; None if `root` is no such tree.

    Copies have the pixels as they were corrupted, and the numbers of published files were made without EXIF tags, so that
    these are ignored. What a tree must have: see `chosen_folders`.

    Raises:
        LayoutError: something is missing, or has no class folders.
    """
    there = chosen_folders(root, names, severities, _CLASS_FOLDERS)
    if there is None:
        return None
    found = {cell: folder_images(folder, ignore_orientation=True) for cell, folder in there.items()}
    expected = _copied_images(root)
    for (name, severity), pictures in found.items():
        if len(pictures) < expected:
            raise LayoutError(
                f"{there[name, severity]} has {len(pictures)} of {expected} images: it was not finished, and the same "
                "robustvit corrupt command continues it"
            )
    return found


def _copied_images(root: Path) -> int:
    """How many images every folder of a copy should have: all but those that could not be read; 0 if unknown."""
    try:
        count = int(json.loads((root / "manifest.json").read_text())["pictures"]["count"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0
    return count - sum(len(path.read_bytes().splitlines()) for path in root.glob("skipped-*.txt"))


def _lacks(root: Path, missing: Sequence[str], there: Sequence[Cell] | dict[Cell, Path], inside: str, *, is_copy: bool) -> str:
    told = f"{root} lacks {', '.join(missing[:8])}{' and more' if len(missing) > 8 else ''}; "
    if is_copy:
        return f"{told}it was not finished: the same robustvit corrupt command continues it"
    extra = [name for name in corruption_names("extra4") if any(cell.startswith(f"{name}/") for cell in missing)]
    archive = f" ImageNet-C has {', '.join(extra)} in its archive extra.tar." if extra and inside == _CLASS_FOLDERS else ""
    return (
        f"{told}expected {root}/CORRUPTION/SEVERITY/{inside} for each.{archive} To measure what is there ({_told(there)}), "
        "name it with --suite and --severity"
    )


def _told(cells: Sequence[Cell] | dict[Cell, Path]) -> str:
    """ "fog 1, 3; snow 3"."""
    by_name: dict[str, list[str]] = {}
    for name, severity in cells:
        by_name.setdefault(name, []).append(str(severity))
    parts = [f"{name} {', '.join(severities)}" for name, severities in by_name.items()]
    return "; ".join(parts[:6]) + ("; ..." if len(parts) > 6 else "")
