"""Reads COCO-O: the classes of COCO in six domains of other looks, each a dataset in COCO's layout.

DOMAIN/val2017/NAME.jpg + DOMAIN/annotations/instances_val2017.json      also inside ood_coco
"""

from __future__ import annotations

from pathlib import Path

from robustvit.data.object_samples import ObjectFiles
from robustvit.data.readers.class_folders import LayoutError
from robustvit.data.readers.coco import coco_objects, coco_splits

__all__ = ["DOMAINS", "coco_o_domains", "is_coco_o"]

DOMAINS = ("cartoon", "handmake", "painting", "sketch", "tattoo", "weather")
_ARCHIVE = "ood_coco"


def is_coco_o(root: Path) -> bool:
    """Whether a folder has annotations of one of the domains, or more."""
    return any(coco_splits(_base(root) / domain) for domain in DOMAINS)


def coco_o_domains(root: Path) -> dict[str, ObjectFiles]:
    """Domain -> its images with their objects.

    Raises:
        LayoutError: a domain is missing, or see `coco_objects`.
    """
    base, found = _base(root), {}
    for domain in DOMAINS:
        samples = coco_objects(base / domain, "val") if (base / domain).is_dir() else None
        if samples is not None:
            found[domain] = samples
    if missing := [domain for domain in DOMAINS if domain not in found]:
        raise LayoutError(
            f"{root} lacks the domains {', '.join(missing)} of COCO-O; expected {root}/DOMAIN/val2017/NAME.jpg and "
            f"{root}/DOMAIN/annotations/instances_val2017.json for {', '.join(DOMAINS)}, or the same in {root}/{_ARCHIVE}"
        )
    return found


def _base(root: Path) -> Path:
    return root / _ARCHIVE if (root / _ARCHIVE).is_dir() else root
