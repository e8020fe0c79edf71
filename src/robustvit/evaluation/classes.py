"""Which output of the network belongs to which class of the pictures."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from robustvit.metrics.class_subset import imagenet_subset
from robustvit.metrics.imagenet_classes import IMAGENET_WNIDS

__all__ = ["ClassMismatchError", "match_classes", "read_class_map"]


class ClassMismatchError(ValueError):
    """The classes of the pictures are not those of the network."""


def match_classes(
    classes: Sequence[str], outputs: int, *, class_map: dict[str, int] | None = None, subset: Literal["a", "r"] | None = None
) -> tuple[tuple[int, ...], tuple[int, ...] | None]:
    """(class of the pictures -> position among the columns, the outputs that compete or None for all).

    Args:
        classes: names in the order of the labels; empty where the labels are the outputs already.
        outputs: of the network.
        class_map: name of a class -> output.
        subset: "a" or "r": only the 200 classes of ImageNet-A or -R compete, and the pictures must have just these.

    Raises:
        ClassMismatchError: there is no way to tell.
    """
    if class_map is not None:
        if subset is not None:
            raise ClassMismatchError(
                f"ImageNet-{subset.upper()} has its own 200 classes, which a class map cannot change; leave the class map out"
            )
        if not classes:
            raise ClassMismatchError("a class map needs names of classes, and these pictures have numbers only")
        return _mapped(classes, outputs, class_map), None
    if subset is not None:
        return _subset(classes, outputs, subset)
    if not classes or len(classes) == outputs:
        return tuple(range(outputs)), None
    if outputs == 1000 and set(classes) <= set(IMAGENET_WNIDS):
        index = {wnid: i for i, wnid in enumerate(IMAGENET_WNIDS)}
        return tuple(index[wnid] for wnid in classes), None
    raise ClassMismatchError(
        f"the pictures have {len(classes)} classes ({', '.join(classes[:4])}{', ...' if len(classes) > 4 else ''}) and the "
        f'network has {outputs} outputs; say which belong together with a class map: a JSON file {{"{classes[0]}": 0, ...}} '
        "from the name of a folder to the index of an output"
    )


def _mapped(classes: Sequence[str], outputs: int, class_map: dict[str, int]) -> tuple[int, ...]:
    if missing := [name for name in classes if name not in class_map]:
        raise ClassMismatchError(f"the class map has no entry for {', '.join(missing[:8])}; it needs one for every class")
    if wrong := [name for name in classes if not 0 <= class_map[name] < outputs]:
        raise ClassMismatchError(
            f"the class map sends {wrong[0]} to output {class_map[wrong[0]]}; there are 0 to {outputs - 1}"
        )
    return tuple(class_map[name] for name in classes)


def _subset(classes: Sequence[str], outputs: int, subset: Literal["a", "r"]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    kept = imagenet_subset(subset)
    if outputs != 1000:
        raise ClassMismatchError(
            f"ImageNet-{subset.upper()} needs a network with ImageNet's 1000 outputs, this one has {outputs}"
        )
    if list(classes) != list(kept.wnids):
        odd = sorted(set(classes) ^ set(kept.wnids))
        raise ClassMismatchError(
            f"these are not the 200 classes of ImageNet-{subset.upper()}: {len(classes)} folders; too many or missing: "
            f"{', '.join(odd[:6])}{', ...' if len(odd) > 6 else ''}"
        )
    return tuple(range(len(kept.wnids))), tuple(kept.indices)


def read_class_map(path: str | Path) -> dict[str, int]:
    """Reads a class map: JSON, an object from class names to outputs."""
    try:
        stored = json.loads(Path(path).read_text())
        return {str(name): int(index) for name, index in stored.items()}
    except (ValueError, AttributeError, TypeError) as error:
        raise ValueError(f'{path} is no class map: expected JSON such as {{"cat": 0, "dog": 1}} ({error})') from error
