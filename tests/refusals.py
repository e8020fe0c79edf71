"""Errors are tested by their type and by the values that they must name, not by their wording."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

__all__ = ["refused"]


@contextmanager
def refused(kind: type[Exception] | tuple[type[Exception], ...], *values: object) -> Iterator[None]:
    """The body raises an error of this kind whose message names all of the values: paths, names, numbers, options."""
    with pytest.raises(kind) as caught:
        yield
    message = str(caught.value)
    missing = [value for value in map(str, values) if value not in message]
    assert not missing, f"{missing} not named in: {message}"
