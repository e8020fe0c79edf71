"""Which output of the network belongs to which class of the images."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Literal

from robustvit.metrics.class_subset import imagenet_subset
from robustvit.runtime.files import write_whole
from robustvit.tasks.imagenet_names import Lookup, described, imagenet_label, look_up

__all__ = [
    "IMAGENET_OUTPUTS",
    "NO_ANSWER",
    "ClassMismatchError",
    "Matching",
    "label_names_of",
    "match_classes",
    "read_class_map",
    "write_template",
]

TEMPLATE = "class_map_template.json"
IMAGENET_OUTPUTS = 1000
NO_ANSWER = -1
"""Stands for the class where a network gives numbers that are not finite."""


class ClassMismatchError(ValueError):
    """The classes of the images are not those of the network.

    Attributes:
        template: a class map to be completed; empty where none would help.
    """

    def __init__(self, message: str, template: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.template = dict(template or {})


@dataclass(frozen=True)
class Matching:
    """Classes of the images and outputs of the network.

    Attributes:
        outputs: of the network.
        targets: class of the images -> position among the columns.
        columns: outputs that compete; None for all.
        names: position among the columns -> what it is called, where that is known.
        by: how they were matched: "order", "ImageNet's names", "the network's label names", "class map".
    """

    outputs: int
    targets: tuple[int, ...]
    columns: tuple[int, ...] | None = None
    names: Mapping[int, str] = field(default_factory=dict)
    by: str = "order"


def match_classes(
    classes: Sequence[str],
    outputs: int,
    *,
    class_map: dict[str, int] | None = None,
    subset: Literal["a", "r"] | None = None,
    label_names: Sequence[str] = (),
) -> Matching:
    """Which output is right for which class.

    By the class map where there is one; else by name, where the network says what its outputs are called or the images have
    names of ImageNet's classes and the network 1000 outputs; else by their order, where there are as many of both.

    Args:
        classes: names in the order of the labels; empty where the labels are the outputs already.
        outputs: of the network.
        class_map: name of a class -> output.
        subset: "a" or "r": only the 200 classes of ImageNet-A or -R compete, and the images must have just these.
        label_names: what the outputs are called, if the network says so.

    Raises:
        ClassMismatchError: there is no way to tell.
    """
    if class_map is not None:
        if subset is not None:
            raise ClassMismatchError(
                f"ImageNet-{subset.upper()} has its own 200 classes, which a class map cannot change; leave the class map out"
            )
        if not classes:
            raise ClassMismatchError("a class map needs names of classes, and these images have numbers only")
        return _named(outputs, classes, _mapped(classes, outputs, class_map), _labels(outputs, label_names), "class map")
    if subset is not None:
        return _subset(classes, outputs, subset)
    if not classes:
        return Matching(outputs, tuple(range(outputs)), names=dict(enumerate(_labels(outputs, label_names))))
    if len(label_names) == outputs and len(set(label_names)) == outputs and set(classes) <= set(label_names):
        places = {name: i for i, name in enumerate(label_names)}
        return _named(outputs, classes, tuple(places[name] for name in classes), label_names, "the network's label names")
    if outputs == IMAGENET_OUTPUTS and (lookup := look_up(classes)).found:
        if lookup.is_complete:
            labels = _labels(outputs)
            return _named(outputs, classes, tuple(lookup.found[name] for name in classes), labels, "ImageNet's names")
        if 2 * (len(lookup.found) + len(lookup.ambiguous)) >= len(classes):
            raise _unclear(classes, lookup)
    if len(classes) == outputs:
        return _named(outputs, classes, tuple(range(outputs)), label_names, "order")
    raise ClassMismatchError(
        f"the images have {len(classes)} classes ({', '.join(classes[:4])}{', ...' if len(classes) > 4 else ''}) and the "
        f'network has {outputs} outputs; say which belong together with a class map: a JSON file {{"{classes[0]}": 0, ...}} '
        "from the name of a folder to the index of an output",
        dict.fromkeys(classes),
    )


def _labels(outputs: int, label_names: Sequence[str] = ()) -> Sequence[str]:
    """What outputs are called: as the network says, or as ImageNet's classes where there are as many; else empty."""
    if len(label_names) == outputs:
        return label_names
    return [imagenet_label(i) for i in range(outputs)] if outputs == IMAGENET_OUTPUTS else ()


def label_names_of(model: Any) -> tuple[str, ...]:
    """What the network calls its outputs, as our training and files of the Hugging Face Hub note; empty if it does not."""
    names = (getattr(model, "pretrained_cfg", None) or {}).get("label_names") or ()
    return tuple(map(str, names)) if isinstance(names, list | tuple) else ()


def _named(outputs: int, classes: Sequence[str], targets: tuple[int, ...], labels: Sequence[str], by: str) -> Matching:
    """With the names of the images' classes; other outputs are called as the network says."""
    pairs = list(zip(classes, targets, strict=True))
    own = {target: _shown(name) for name, target in reversed(pairs)}  # of two classes for one output, the first names it
    return Matching(outputs, targets, names={**dict(enumerate(labels)), **own}, by=by)


def _shown(name: str) -> str:
    """A class as a reader would call it: WordNet ids by their names."""
    found = look_up([name]).found if name[:1] == "n" and name[1:9].isdigit() else {}
    return imagenet_label(found[name]) if name in found else name


def _unclear(classes: Sequence[str], lookup: Lookup) -> ClassMismatchError:
    """Most names are ImageNet's, so that the order of the folders means nothing; but not all of them are clear."""
    reasons = [
        f"{name!r} may be {' or '.join(described(i) for i in candidates)}"
        for name, candidates in list(lookup.ambiguous.items())[:4]
    ]
    if lookup.unknown:
        more = f" and {len(lookup.unknown) - 6} more" if len(lookup.unknown) > 6 else ""
        reasons.append(f"these are no names of ImageNet's: {', '.join(map(repr, lookup.unknown[:6]))}{more}")
    return ClassMismatchError(
        f"{len(lookup.found)} of the {len(classes)} classes are known by their ImageNet names, the others are not clear: "
        f"{'; '.join(reasons)}. Rename these folders (WordNet ids as n02012849 are always clear), or say which outputs they "
        "are with a class map (--class-map)",
        _template(classes, lookup),
    )


def _template(classes: Sequence[str], lookup: Lookup) -> dict[str, Any]:
    """What is known as a number, the rest as a text that says what to choose from."""
    names = {imagenet_label(i).lower(): i for i in range(IMAGENET_OUTPUTS)} if lookup.unknown else {}

    def entry(name: str) -> int | str:
        if name in lookup.found:
            return lookup.found[name]
        near = [names[n] for n in difflib.get_close_matches(name.lower().replace("_", " "), names, n=3)]
        candidates = lookup.ambiguous.get(name) or near
        return f"choose: {', or '.join(map(described, candidates))}" if candidates else "give the number of an output"

    return {name: entry(name) for name in classes}


def _mapped(classes: Sequence[str], outputs: int, class_map: dict[str, int]) -> tuple[int, ...]:
    if missing := [name for name in classes if name not in class_map]:
        raise ClassMismatchError(f"the class map has no entry for {', '.join(missing[:8])}; it needs one for every class")
    if wrong := [name for name in classes if not 0 <= class_map[name] < outputs]:
        raise ClassMismatchError(
            f"the class map sends {wrong[0]} to output {class_map[wrong[0]]}; there are 0 to {outputs - 1}"
        )
    return tuple(class_map[name] for name in classes)


def _subset(classes: Sequence[str], outputs: int, subset: Literal["a", "r"]) -> Matching:
    kept = imagenet_subset(subset)
    if outputs != IMAGENET_OUTPUTS:
        raise ClassMismatchError(
            f"ImageNet-{subset.upper()} needs a network with ImageNet's 1000 outputs, this one has {outputs}"
        )
    if list(classes) != list(kept.wnids):
        odd = sorted(set(classes) ^ set(kept.wnids))
        raise ClassMismatchError(
            f"these are not the 200 classes of ImageNet-{subset.upper()}: {len(classes)} folders; too many or missing: "
            f"{', '.join(odd[:6])}{', ...' if len(odd) > 6 else ''}"
        )
    names = {position: imagenet_label(index) for position, index in enumerate(kept.indices)}
    return Matching(outputs, tuple(range(len(kept.wnids))), tuple(kept.indices), names, "ImageNet's names")


def read_class_map(path: str | Path) -> dict[str, int]:
    """Reads a class map: JSON, an object from class names to outputs."""
    try:
        stored = json.loads(Path(path).read_text())
        pairs = list(stored.items())
    except (ValueError, AttributeError) as error:
        raise ValueError(f'{path} is no class map: expected JSON such as {{"cat": 0, "dog": 1}} ({error})') from error
    if open_entries := [name for name, index in pairs if not isinstance(index, int) or isinstance(index, bool)]:
        raise ValueError(
            f'{path} is no class map yet: {", ".join(map(str, open_entries[:6]))} must be whole numbers, as in {{"cat": 0}}; '
            f"{open_entries[0]} is {stored[open_entries[0]]!r}"
        )
    return {str(name): index for name, index in pairs}


def write_template(folder: Path, template: Mapping[str, Any]) -> Path:
    """Writes a class map to be edited.

    One of the same classes that is there already is left alone, as somebody may have edited it; so is one of other classes,
    beside which this one gets a number.
    """
    first = Path(TEMPLATE)
    names = (TEMPLATE if i == 1 else f"{first.stem}-{i}{first.suffix}" for i in count(1))
    path = next(path for name in names if not (path := folder / name).exists() or _has_classes(path, template))
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with write_whole(path) as file:
            file.write_text(json.dumps(dict(template), indent=1) + "\n")
    return path


def _has_classes(path: Path, template: Mapping[str, Any]) -> bool:
    try:
        stored = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(stored, dict) and stored.keys() == template.keys()
