"""Flags that belong to some tasks: the fields of the dataclasses in `tasks/options`, those that several tasks have once."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import Field, field, fields, make_dataclass
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin, get_type_hints

import tyro

from robustvit.runtime.docstrings import attribute_texts
from robustvit.tasks.options import PREDICTION_FORMS, TASK_OPTIONS

if TYPE_CHECKING:
    from robustvit.tasks.base import Task
    from robustvit.tasks.prediction_form import PredictionForm

__all__ = ["check_flags", "flags_class", "form_of", "task_of", "task_options"]

Classes = Mapping[str, type[Any]]
"""Task -> dataclass of its options."""


def flags_class(kinds: Iterable[Classes], reserved: Collection[str]) -> type[Any]:
    """A dataclass with a field for every flag; None, False or () stands for a flag that was not typed.

    Args:
        kinds: `TASK_OPTIONS`, `PREDICTION_FORMS`.
        reserved: flags that the command itself has.

    Raises:
        ValueError: the option of a plug-in has the flag of something else.
    """
    owners: dict[str, dict[str, tuple[Field[Any], Any, str]]] = {}
    for classes in kinds:
        for task, kind in classes.items():
            hints, texts = get_type_hints(kind), attribute_texts(kind)
            for one in fields(kind):
                if (flag := _flag(one)) in reserved:
                    raise ValueError(f"{task} has an option --{flag}, as the command itself; give it another flag")
                owners.setdefault(flag, {})[task] = (one, hints[one.name], texts[one.name])
    return make_dataclass("TaskFlags", [_made(flag, own) for flag, own in owners.items()], frozen=True)


def check_flags(flags: Any, task: str | None) -> None:
    """Whether some task has all that was typed, before networks are loaded, which say what their task is.

    Args:
        flags: of `flags_class`.
        task: as typed; None where the networks decide.

    Raises:
        ValueError: no task has it, or its values are not possible.
    """
    errors = []
    for name in [task] if task is not None else {**TASK_OPTIONS, **PREDICTION_FORMS}:
        try:
            for classes in (TASK_OPTIONS, PREDICTION_FORMS):
                _built(classes, name, flags)
            return
        except _NotOfThisTaskError as error:
            errors.append(error)
    raise errors[0]


def task_of(flags: Any, task: str | None, networks: Iterable[Any]) -> Task:
    """The task of the networks, with the options that were typed.

    Raises:
        ValueError: it does not have them.
    """
    from robustvit.tasks.registry import task_for

    found = task_for(task, networks)
    return found.with_options(**task_options(flags, found.name))


def task_options(flags: Any, task: str) -> dict[str, Any]:
    """The options of a task that were typed.

    Raises:
        ValueError: it does not have them.
    """
    return _values(TASK_OPTIONS, task, flags)


def form_of(flags: Any, task: Task) -> PredictionForm | None:
    """What predictions of a task look like, with the options that were typed; None where it has no form."""
    return _built(PREDICTION_FORMS, task.name, flags)


class _NotOfThisTaskError(ValueError):
    """A flag of another task."""


def _built(classes: Classes, task: str, flags: Any) -> Any:
    values = _values(classes, task, flags)
    return classes[task](**values) if task in classes else None


def _values(classes: Classes, task: str, flags: Any) -> dict[str, Any]:
    """Field -> value of the options of a task that were typed."""
    own = {_flag(one): one.name for one in fields(classes[task])} if task in classes else {}
    every = {_flag(one): name for name, kind in classes.items() for one in fields(kind)}
    typed = {flag: value for flag, value in _typed(flags) if flag in every}
    if foreign := [flag for flag in typed if flag not in own]:
        raise _NotOfThisTaskError(
            f"--{foreign[0].replace('_', '-')} is an option of {every[foreign[0]]}, and the task is {task}; leave it out"
        )
    return {own[flag]: value for flag, value in typed.items()}


def _typed(flags: Any) -> Iterator[tuple[str, Any]]:
    for one in fields(flags):
        value = getattr(flags, one.name)
        if value is not None and value is not False and value != ():
            yield one.name, value


def _flag(one: Field[Any]) -> str:
    return one.metadata.get("flag") or one.name


def _made(flag: str, owners: Mapping[str, tuple[Field[Any], Any, str]]) -> tuple[str, Any, Any]:
    (one, hint, _), *others = owners.values()
    if any(other[1] != hint for other in others):
        raise ValueError(f"--{flag} is not of the same kind in {' and '.join(owners)}; give one of them another flag")
    help_text = "; ".join(f"{task}: {text}" for task, (_, _, text) in owners.items()) + _default_text(one)
    if hint is bool:
        return flag, Annotated[bool, tyro.conf.arg(help=help_text)], field(default=False)
    plain = _without_none(hint)
    how = tyro.conf.arg(help=help_text, metavar=one.metadata.get("metavar") or "VALUE", help_behavior_hint="")
    if get_origin(plain) is tuple and get_args(plain)[-1] is ...:
        return flag, Annotated[plain, how], field(default=())
    return flag, Annotated[plain | None, how], field(default=None)


def _without_none(hint: Any) -> Any:
    if get_origin(hint) not in (Union, UnionType):
        return hint
    return next(one for one in get_args(hint) if one is not type(None))


def _default_text(one: Field[Any]) -> str:
    default: Any = one.default
    if default is None or default is False:
        return "."
    return f"; {' '.join(map(str, default)) if isinstance(default, tuple) else default} by default."
