"""What docstrings say, for help texts: the description of an option has one home."""

from __future__ import annotations

import inspect
import re
from typing import Any

__all__ = ["attribute_texts"]


def attribute_texts(kind: type[Any]) -> dict[str, str]:
    """Attribute -> what the section "Attributes:" says about it, in the class or in one that it inherits from.

    Args:
        kind: with docstrings as in this project; texts come in one line, without the last full stop.
    """
    texts: dict[str, str] = {}
    for base in kind.__mro__:
        section = inspect.cleandoc(base.__doc__ or "").partition("Attributes:\n")[2]
        for names, text in re.findall(r"^    (\w[\w, ]*): (.*(?:\n     +.*)*)", section, re.MULTILINE):
            for name in names.split(", "):
                texts.setdefault(name, re.sub(r"\s+", " ", text).rstrip("."))
    return texts
