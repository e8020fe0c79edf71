"""ImageNet's 1000 classes by what people call them: WordNet ids, names and synonyms ("tench", "Tinca tinca", "n01440764").

The names are WordNet's, as timm carries them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from robustvit.metrics.imagenet_classes import IMAGENET_WNIDS

__all__ = ["Lookup", "described", "imagenet_label", "look_up"]

_WNID = re.compile(r"(n\d{8})(?!\d)")


@dataclass(frozen=True)
class Lookup:
    """What names mean.

    Attributes:
        found: name -> class.
        ambiguous: name -> the classes that it may mean.
        unknown: names of no class.
    """

    found: dict[str, int]
    ambiguous: dict[str, tuple[int, ...]]
    unknown: tuple[str, ...]

    @property
    def is_complete(self) -> bool:
        return not self.ambiguous and not self.unknown


def look_up(names: Sequence[str]) -> Lookup:
    """The classes that these names mean.

    A name is a WordNet id (also with something behind it, as "n02085620-Chihuahua") or a name of the class, whatever its
    capitals, spaces, hyphens and underscores. The first name of a class goes before a synonym of another: "crayfish" is not
    the spiny lobster. Where two classes have the same first name (crane, maillot, cardigan), the name is ambiguous.
    """
    found: dict[str, int] = {}
    ambiguous: dict[str, tuple[int, ...]] = {}
    unknown = []
    for name in names:
        classes = _meanings(name)
        if len(classes) == 1:
            found[name] = classes[0]
        elif classes:
            ambiguous[name] = classes
        else:
            unknown.append(name)
    return Lookup(found, ambiguous, tuple(unknown))


def imagenet_label(index: int) -> str:
    """What a class is called: its first name, with the WordNet id where another class has the same."""
    name = _lemmas()[index][0]
    return name if len(_first_names()[_plain(name)]) == 1 else f"{name} ({IMAGENET_WNIDS[index]})"


def described(index: int) -> str:
    """ "134 (n02012849 crane: large long-necked wading bird of marshes ...)", to choose among candidates."""
    return f"{index} ({IMAGENET_WNIDS[index]} {_info().index_to_description(index, detailed=True)})"


def _meanings(name: str) -> tuple[int, ...]:
    if (wnid := _WNID.match(name)) is not None:
        return _by_wnid().get(wnid[1], ())
    plain = _plain(name)
    return _first_names().get(plain) or _all_names().get(plain, ())


def _plain(name: str) -> str:
    """Letters and digits in small letters, words apart: "Black-footed_ferret" -> "black footed ferret"."""
    return re.sub(r"[\W_]+", " ", name.lower()).strip()


@cache
def _info() -> Any:
    from timm.data import ImageNetInfo

    return ImageNetInfo("imagenet-1k")


@cache
def _by_wnid() -> dict[str, tuple[int, ...]]:
    return {wnid: (i,) for i, wnid in enumerate(IMAGENET_WNIDS)}


@cache
def _lemmas() -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(_info().label_name_to_description(wnid).split(", ")) for wnid in IMAGENET_WNIDS)


@cache
def _first_names() -> dict[str, tuple[int, ...]]:
    return _by_name([(lemmas[0],) for lemmas in _lemmas()])


@cache
def _all_names() -> dict[str, tuple[int, ...]]:
    return _by_name([(*lemmas, ", ".join(lemmas)) for lemmas in _lemmas()])  # folders may have all names of a class


def _by_name(names: Sequence[Sequence[str]]) -> dict[str, tuple[int, ...]]:
    found: dict[str, dict[int, None]] = {}
    for index, of_class in enumerate(names):
        for name in of_class:
            found.setdefault(_plain(name), {})[index] = None
    return {name: tuple(classes) for name, classes in found.items()}
