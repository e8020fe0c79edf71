"""Names of dense networks: BACKBONE/HEAD, such as `fan_hybrid_base/segformer`, with a tag of weights after a dot."""

from __future__ import annotations

from typing import NamedTuple

from timm.models import is_model, split_model_name_tag

from robustvit.models.names import OFFICIAL
from robustvit.runtime.spelling import nearest

__all__ = ["DETECTION_BACKBONE", "DETECTION_HEADS", "HEADS", "SEGMENTATION_HEADS", "DenseName", "dense_name", "is_dense"]

SEGMENTATION_HEADS = ("segformer", "setr_pup", "setr_naive")
"""Heads of segmenters."""
DETECTION_HEADS = ("faster_rcnn", "mask_rcnn", "cascade_rcnn", "cascade_mask_rcnn")
"""Heads of detectors."""
DETECTION_BACKBONE = "detection_backbone"
"""In the place of a head: the levels of a detector alone."""
HEADS = (*SEGMENTATION_HEADS, *DETECTION_HEADS)
_ALIASES = {"setr_pup_aux2": "setr_pup"}
"""Published names of heads that differ in what their weights say anyway."""
_ADDRESS = (":", "=")


class DenseName(NamedTuple):
    """What BACKBONE/HEAD.TAG says."""

    backbone: str
    head: str
    tag: str = ""

    def __str__(self) -> str:
        return f"{self.backbone}/{self.head}"


def dense_name(name: str) -> DenseName | None:
    """The parts of a name; None where it is not of a dense network, but of a classifier, a file, a folder or an address.

    Raises:
        ValueError: it is like one, but has no head that we know.
    """
    backbone, slash, rest = name.rpartition("/")
    if not slash or "/" in backbone or any(mark in name for mark in _ADDRESS):
        return None
    head, _, tag = rest.partition(".")
    head = _ALIASES.get(head, head)
    if head in (*HEADS, DETECTION_BACKBONE):
        return DenseName(backbone, head, tag)
    if hint := nearest(head, HEADS):
        raise ValueError(f"there is no head {head!r}{hint}")
    return None


def is_dense(name: str) -> bool:
    """Whether BACKBONE/HEAD is a name of ours, whose backbone timm, or the authors, know."""
    try:
        dense = dense_name(name)
    except ValueError:
        return False
    return dense is not None and (dense.backbone in OFFICIAL or is_model(split_model_name_tag(dense.backbone)[0]))
