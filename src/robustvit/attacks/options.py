"""Options of attacks: the fields of their settings, as they are given in Python and typed on the command line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, Field, dataclass, field, fields
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from robustvit.runtime.docstrings import attribute_texts

__all__ = ["Option", "grey", "option", "options_of"]


def option(default: Any, *, flag: str = "", metavar: str = "", text: str = "", is_length: bool = False) -> Any:
    """A field of settings that is typed in another way than its name and type say.

    Args:
        default: of the field.
        flag: on the command line, without dashes; by default the name.
        metavar: what stands for the value in the help; by default as the type says.
        text: what typing it means; by default what the docstring of the settings says.
        is_length: in pixel units, 1 being white: typed and shown in steps of grey, as 4/255.
    """
    return field(default=default, metadata={"flag": flag, "metavar": metavar, "text": text, "is_length": is_length})


@dataclass(frozen=True)
class Option:
    """One option of an attack.

    Attributes:
        name: in Python.
        flag: on the command line, without dashes, with _ for -. A switch that is on by default is typed to turn it off.
        kind: type of the value: bool, int, float, str or tuple (of words).
        metavar: what stands for the value in the help.
        text: what it means, and its default.
        is_length: see `option`.
    """

    name: str
    flag: str
    kind: type
    metavar: str
    text: str
    is_length: bool = False

    def value(self, typed: Any) -> Any:
        """What the settings get for what was typed.

        Raises:
            ValueError: it is no number.
        """
        if self.kind is bool:
            return not self.flag.startswith("no_")
        return _length(self.flag, typed) if self.is_length else typed


def options_of(settings: type[Any]) -> Iterator[Option]:
    """The options of a settings dataclass, whose docstring says what each attribute means."""
    hints, texts = get_type_hints(settings), attribute_texts(settings)
    for one in fields(settings):
        kind, choices = _kind(hints[one.name])
        is_length = bool(one.metadata.get("is_length"))
        is_on = kind is bool and one.default is True
        plain = {int: "N", float: "X or X/255" if is_length else "X", tuple: "NAME [NAME ...]"}
        yield Option(
            one.name,
            one.metadata.get("flag") or (f"no_{one.name}" if is_on else one.name),
            kind,
            one.metadata.get("metavar") or "|".join(choices) or plain.get(kind, "NAME"),
            (one.metadata.get("text") or texts[one.name]) + _default_text(one, is_length),
            is_length,
        )


def grey(value: float) -> str:
    """In steps of grey: 0.00392 -> "1/255"."""
    return f"{255 * value:.3g}/255"


def _kind(hint: Any) -> tuple[type, tuple[str, ...]]:
    """(type, choices) of a hint, without the None of an option that may be left out."""
    if get_origin(hint) in (Union, UnionType):
        hint = next(one for one in get_args(hint) if one is not type(None))
    if get_origin(hint) is Literal:
        return str, get_args(hint)
    return (tuple if get_origin(hint) is tuple else hint), ()


def _default_text(one: Field[Any], is_length: bool) -> str:
    default: Any = one.default
    if not default or default is True or default is MISSING:
        return ""
    return f"; {grey(default) if is_length else default} by default"


def _length(flag: str, text: str) -> float:
    """ "8/255" or "0.03"."""
    top, _, bottom = text.partition("/")
    try:
        return float(top) / float(bottom or 1)
    except (ValueError, ZeroDivisionError):
        raise ValueError(f"--{flag} {text} is no number; give one such as 0.0157 or 4/255") from None
