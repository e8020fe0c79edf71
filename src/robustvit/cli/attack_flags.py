"""The flags of `robustvit attack`: the options of all attacks, those that several attacks have once."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field, fields, make_dataclass
from typing import Annotated, Any

import tyro

from robustvit.attacks.attack import Attack
from robustvit.attacks.options import Option
from robustvit.attacks.registry import ATTACKS, build_attack

__all__ = ["build_attacks", "flags_class"]


def flags_class(reserved: Collection[str]) -> type[Any]:
    """A dataclass with a field for every flag; None, False or () stands for a flag that was not typed.

    Args:
        reserved: flags that the command itself has.

    Raises:
        ValueError: the option of a plug-in has the flag of something else.
    """
    return make_dataclass("AttackFlags", [_field(flag, owners, reserved) for flag, owners in _flags().items()], frozen=True)


def build_attacks(names: Sequence[str], flags: Any) -> list[Attack]:
    """The attacks with the options that were typed.

    Args:
        names: of `ATTACKS`.
        flags: of `flags_class`.

    Raises:
        ValueError: a name or value is not possible, or an option belongs to none of these attacks.
    """
    if not names:
        raise ValueError(f"there is no attack to make; give --attack with one or several of {', '.join(ATTACKS)}")
    typed = dict(_typed(flags))
    built = []
    for name in names:
        own = {option.flag: option for option in ATTACKS[name].options()} if name in ATTACKS else {}
        built.append(build_attack(name, {own[f].name: own[f].value(value) for f, value in typed.items() if f in own}))
    for flag, owners in ((flag, _flags()[flag]) for flag in typed):
        if not set(owners) & set(names):
            raise ValueError(
                f"--{flag.replace('_', '-')} belongs to {' and '.join(owners)}, and the attack is {', '.join(names)}; leave "
                f"it out, or add that to --attack"
            )
    return built


def _flags() -> dict[str, dict[str, Option]]:
    """Flag -> the attacks that have it, with their option."""
    found: dict[str, dict[str, Option]] = {}
    for name, attack in ATTACKS.items():
        for option in attack.options():
            found.setdefault(option.flag, {})[name] = option
    return found


def _field(flag: str, owners: Mapping[str, Option], reserved: Collection[str]) -> tuple[str, Any, Any]:
    *others, last = owners
    first = next(iter(owners.values()))
    if flag in reserved:
        raise ValueError(f"the attack {last} has an option --{flag}, as the command itself; give it another flag")
    if owners[last].kind is not first.kind:
        raise ValueError(f"--{flag} of the attack {last} is not of the kind that it is of {others[0]}; give it another flag")
    how = tyro.conf.arg(metavar=first.metavar, help=_help(owners), help_behavior_hint="")
    if first.kind is bool:
        return flag, Annotated[bool, tyro.conf.arg(help=_help(owners))], field(default=False)
    if first.kind is tuple:
        return flag, Annotated[tuple[str, ...], how], field(default=())
    kind: Any = str if first.is_length else first.kind
    return flag, Annotated[kind | None, how], field(default=None)


def _help(owners: Mapping[str, Option]) -> str:
    """ "fgsm, pgd: largest change of a value; autoattack: ..."."""
    names: dict[str, list[str]] = {}
    for name, option in owners.items():
        names.setdefault(option.text, []).append(name)
    return "; ".join(f"{', '.join(own)}: {text}" for text, own in names.items()) + "."


def _typed(flags: Any) -> Iterator[tuple[str, Any]]:
    for one in fields(flags):
        value = getattr(flags, one.name)
        if value is not None and value is not False and value != ():
            yield one.name, value
