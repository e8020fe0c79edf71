"""The 19 classes of Cityscapes, which ACDC has too: train ids, label ids and colours."""

from __future__ import annotations

from robustvit.data.label_classes import LabelClasses
from robustvit.data.label_maps import IGNORED, LabelLookup

__all__ = ["CITYSCAPES", "CITYSCAPES_LABEL_IDS", "label_kinds"]

_CLASSES = (  # in the order of the train ids: name, label id, colour
    ("road", 7, (128, 64, 128)),
    ("sidewalk", 8, (244, 35, 232)),
    ("building", 11, (70, 70, 70)),
    ("wall", 12, (102, 102, 156)),
    ("fence", 13, (190, 153, 153)),
    ("pole", 17, (153, 153, 153)),
    ("traffic light", 19, (250, 170, 30)),
    ("traffic sign", 20, (220, 220, 0)),
    ("vegetation", 21, (107, 142, 35)),
    ("terrain", 22, (152, 251, 152)),
    ("sky", 23, (70, 130, 180)),
    ("person", 24, (220, 20, 60)),
    ("rider", 25, (255, 0, 0)),
    ("car", 26, (0, 0, 142)),
    ("truck", 27, (0, 0, 70)),
    ("bus", 28, (0, 60, 100)),
    ("train", 31, (0, 80, 100)),
    ("motorcycle", 32, (0, 0, 230)),
    ("bicycle", 33, (119, 11, 32)),
)
_LABEL_IDS = range(-1, 34)
"""All label ids; those that are not of the 19 classes are ignored."""

CITYSCAPES = LabelClasses(
    names=tuple(name for name, _, _ in _CLASSES),
    palette=tuple(colour for _, _, colour in _CLASSES),
    label_ids=tuple(label_id for _, label_id, _ in _CLASSES),
    lookup=LabelLookup(
        {train_id: train_id for train_id in range(len(_CLASSES))} | {IGNORED: IGNORED}, source="Cityscapes' table of train ids"
    ),
)
"""`lookup` is that of files with train ids."""
CITYSCAPES_LABEL_IDS = LabelLookup(
    dict.fromkeys((*_LABEL_IDS, IGNORED), IGNORED) | {label_id: i for i, (_, label_id, _) in enumerate(_CLASSES)},
    source="Cityscapes' table of label ids",
)


def label_kinds(prefix: str) -> tuple[tuple[str, LabelLookup], ...]:
    """Ending of a label file -> what its values stand for, the preferred first.

    Args:
        prefix: of the ending: "_gtFine" for Cityscapes, "_gt" for ACDC.
    """
    return (f"{prefix}_labelTrainIds", CITYSCAPES.lookup), (f"{prefix}_labelIds", CITYSCAPES_LABEL_IDS)
