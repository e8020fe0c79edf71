"""Objects by name: the package's own and those of installed plug-ins, each imported when it is asked for.

An outside package names its objects as entry points, in the group of their kind:

    [project.entry-points."robustvit.attacks"]
    shuffle = "my_package.attacks:Shuffle"
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar

__all__ = ["Registry", "installed"]

T = TypeVar("T")


@functools.cache
def installed(group: str) -> Mapping[str, EntryPoint]:
    """Name -> entry point of the installed plug-ins of a group, sorted by name; `load()` imports one.

    Args:
        group: such as "robustvit.attacks".

    Raises:
        ValueError: two plug-ins give the same name.
    """
    found: dict[str, EntryPoint] = {}
    for entry in sorted(entry_points(group=group), key=lambda entry: (entry.name, entry.value)):
        if entry.name in found:
            raise ValueError(
                f"two plug-ins of {group} are called {entry.name!r}: {_origin(found[entry.name])} and {_origin(entry)}; "
                "remove one of them"
            )
        found[entry.name] = entry
    return found


class Registry(Mapping[str, T]):
    """Name -> object, first the package's own in their order, then those of plug-ins.

    Args:
        group: of the entry points.
        own: the package's own: objects, or "module:attribute" of those that are imported when they are asked for.
    """

    def __init__(self, group: str, own: Mapping[str, T | str]) -> None:
        self.group, self.own = group, own

    def __getitem__(self, name: str) -> T:
        if name in self.own:
            own = self.own[name]
            return _imported(own) if isinstance(own, str) else own
        if name not in self._plugins():
            raise KeyError(name)
        return _load(self._plugins()[name])

    def __iter__(self) -> Iterator[str]:
        return iter((*self.own, *self._plugins()))

    def __len__(self) -> int:
        return len(self.own) + len(self._plugins())

    def __contains__(self, name: object) -> bool:  # of Mapping it would import the object
        return name in self.own or name in self._plugins()

    def _plugins(self) -> Mapping[str, EntryPoint]:
        found = installed(self.group)
        if taken := [name for name in found if name in self.own]:
            own = self.own[taken[0]]
            raise ValueError(
                f"the plug-in {_origin(found[taken[0]])} is called {taken[0]!r}, as robustvit's own "
                f"{own if isinstance(own, str) else taken[0]} of {self.group}; give it another name"
            )
        return found


def _imported(place: str) -> Any:
    module, _, attribute = place.partition(":")
    return getattr(importlib.import_module(module), attribute)


def _load(entry: EntryPoint) -> Any:
    try:
        loaded = entry.load()
    except (ImportError, AttributeError) as error:
        raise ValueError(f"the plug-in {_origin(entry)} cannot be loaded: {error}") from error
    name = getattr(loaded, "name", entry.name)
    if name != entry.name:
        raise ValueError(
            f"the plug-in {_origin(entry)} is installed as {entry.name!r} and calls itself {name!r}; make them equal"
        )
    return loaded


def _origin(entry: EntryPoint) -> str:
    return f"{entry.value} of {entry.dist.name}" if entry.dist is not None else entry.value
