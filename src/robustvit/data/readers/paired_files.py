"""Images and label maps as pairs of files: which belong together by their names, and what is said where they do not.

The key of an image is its path below its folder without suffix. A label map has the same key, or the key and an ending that
tells what it is (`_mask`, `_labels`, `_gt...`). Images may have an ending too (`_img`, `_leftImg8bit`), which is no part of
their key then. One ending of label maps and one of images hold for a whole dataset.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from timm.utils.misc import natural_key

from robustvit.data.files_below import files_below
from robustvit.data.map_samples import named
from robustvit.data.readers.class_folders import LayoutError
from robustvit.data.samples import IMAGE_SUFFIXES
from robustvit.runtime.spelling import nearest

__all__ = [
    "LABEL_SUFFIXES",
    "UnmatchedMapsError",
    "bare_names",
    "by_key",
    "check_no_maps",
    "check_pairs",
    "has_ending",
    "is_image",
    "is_label",
    "missing_split",
    "ordered",
    "strip_ending",
    "told_files",
]

LABEL_SUFFIXES = (".png", ".tif", ".tiff", ".bmp", ".pgm", ".ppm")
"""Of files that can be label maps: formats that keep every value. JPEG changes them, and writers of GIF renumber palettes."""
_ENDING = re.compile(r"[_-](masks?|labels?|gt|seg|segmentation|annotations?|ann|L)(?![a-z]).*")
_IMAGE_ENDING = re.compile(
    r"[_-](img|image|(left|right)img8bit|rgb([_-]ref)?([_-]anon)?|frame_camera|camera|photo|input|original|orig|raw|sat)$",
    re.IGNORECASE,
)
_MAP_NAME = re.compile(r".*[_-](masks?|labels?|gt([A-Z].*)?|seg|segmentation|annotations?|label(Train)?Ids|instanceIds)")
"""Of a file that is hardly an image. Narrower than `_ENDING`, which counts only after the name of an image: many a street ends
in _L, the left one of two cameras."""
_PREFERRED = ("labelTrainIds", "labelIds")
"""Of several label maps per image, those that hold classes; others may hold instances or colours."""


class UnmatchedMapsError(ValueError):
    """Files that are called like label maps, and belong to no image.

    It is no `LayoutError`: a folder that is no dataset may be one of images alone, but not one of label maps.
    """


def is_image(path: Path) -> bool:
    return path.suffix.lower() in IMAGE_SUFFIXES


def is_label(path: Path) -> bool:
    return path.suffix.lower() in LABEL_SUFFIXES


def by_key(folder: Path, *, labels: bool = False) -> dict[str, Path]:
    """Key -> path below `folder`, of the images in it and below; of the label maps if asked for.

    Raises:
        LayoutError: two of them have the same name, so that it is not clear which is meant.
    """
    found: dict[str, Path] = {}
    for path in files_below(folder):
        if not (is_label if labels else is_image)(path):
            continue
        key = path.with_suffix("").as_posix()
        if key in found:
            what = "label maps" if labels else "images"
            raise LayoutError(f"{folder} has two {what} of one name: {found[key]} and {path}; keep one of them")
        found[key] = path
    return found


def ordered(keys: Iterable[str]) -> list[str]:
    """Keys in natural order: a2 before a10; the same on every file system."""
    return sorted(keys, key=lambda key: (natural_key(key), key))  # a01 and a1 have the same natural key


def told_files(folder: Path) -> str:
    """What a folder has instead of what was looked for, for messages."""
    if not folder.is_dir():
        return " (it is missing)"
    files = sorted(map(str, files_below(folder)))
    return f", only such as {named(files, 2)}" if files else " (it is empty)"


def missing_split(path: Path, split: str, there: Sequence[str]) -> LayoutError:
    """The error about a split that a dataset does not have, which names those that it has."""
    if not there:
        return LayoutError(f"{path} has no splits, and so no {split!r}; leave the split out to take all its images")
    return LayoutError(f"{path} has no split {split!r}{nearest(split, there)}; it has {', '.join(there)}")


def _ending_of(key: str, images: Mapping[str, Path]) -> str | None:
    """What follows the key of an image in the key of a label map; None where it belongs to no image."""
    for start in range(len(key) - 1, 0, -1):  # the longest key first: "a_gt" may be an image of its own
        if key[:start] in images and _ENDING.fullmatch(key[start:]):
            return key[start:]
    return None


def bare_names(images: Mapping[str, Path], matches: Callable[[Mapping[str, Path]], int]) -> dict[str, Path]:
    """Images by the keys that their label maps go by: their own, or those without an ending such as `_img`.

    Args:
        images: by key.
        matches: how many label maps there are for images by these keys. The most decide; their own keys where it is equal.
    """
    endings = sorted({found[0] for key in images if (found := _IMAGE_ENDING.search(key))})
    candidates = [dict(images)]
    for ending in endings:
        stripped = {key.removesuffix(ending): path for key, path in images.items()}
        if len(stripped) == len(images):  # else a.png and a_img.png are two images
            candidates.append(stripped)
    return max(candidates, key=matches)


def check_no_maps(files: Iterable[Path], where: Path) -> None:
    """To be called for files none of which is the label map of another: are they images?

    Raises:
        UnmatchedMapsError: half of them, or more, are called like label maps.
    """
    files = list(files)
    maps = ordered(file.as_posix() for file in files if is_label(file) and _MAP_NAME.fullmatch(file.stem))
    if not maps or 2 * len(maps) < len(files):
        return
    others = ordered({file.as_posix() for file in files} - set(maps))
    such = f", and the others, such as {others[0]}, have other names" if others else ""
    raise UnmatchedMapsError(
        f"{where}: {len(maps)} of {len(files)} files are called like label maps ({named(maps)}), and belong to no image{such}"
        ". Expected NAME_mask.png for each NAME.jpg or NAME_img.jpg (docs/segmentation-data.md); if they are images, rename "
        "them"
    )


def has_ending(key: str, images: Mapping[str, Path]) -> bool:
    """Whether a file is called like the label map of an image: its key and an ending."""
    return _ending_of(key, images) is not None


def strip_ending(labels: Mapping[str, Path], images: Mapping[str, Path], where: Path) -> tuple[dict[str, Path], str]:
    """Key of an image -> its label map, by the ending that most have; and that ending.

    Raises:
        LayoutError: several endings are as good, so that it is not clear which maps are meant.
    """
    counts = Counter(ending for key in labels if (ending := _ending_of(key, images)) is not None)
    counts[""] = sum(key in images for key in labels)
    endings = [ending for ending, count in counts.items() if count == max(counts.values())]
    preferred = [""] if "" in endings else [end for word in _PREFERRED for end in endings if end.endswith(word)]
    if len(endings) > 1 and not preferred:
        raise LayoutError(
            f"{where} has several label maps per image, ending in {' and '.join(sorted(endings))}; keep one of them, or move "
            "the others away"
        )
    ending = preferred[0] if preferred else endings[0]
    chosen = {}
    for key, path in labels.items():
        if key.endswith(ending):
            chosen[key[: len(key) - len(ending)]] = path
    if ending == "":  # beside plain names, others of the same image are further annotations
        chosen = {key: path for key, path in chosen.items() if key in images or _ending_of(key, images) is None}
    return chosen, ending


def check_pairs(where: Path, images: Mapping[str, Path], labels: Mapping[str, Path], expected: str) -> None:
    """Every image has a label map, and the other way round.

    Args:
        where: the dataset.
        images, labels: by key.
        expected: what would be right, for the message.

    Raises:
        LayoutError: it is not so; says how many, and names the first.
    """
    missing = ordered(images.keys() - labels.keys())
    orphans = ordered(labels.keys() - images.keys())
    if not missing and not orphans:
        return
    told = list(_told_pairs(images, labels, missing, orphans))
    raise LayoutError(f"{where}: {'; '.join(told)}. Expected {expected}")


def _told_pairs(
    images: Mapping[str, Path], labels: Mapping[str, Path], missing: list[str], orphans: list[str]
) -> Iterator[str]:
    if missing:
        yield f"{len(missing)} of {len(images)} images have no label map ({named([str(images[key]) for key in missing])})"
    if orphans:
        yield f"{len(orphans)} of {len(labels)} label maps have no image ({named([str(labels[key]) for key in orphans])})"
