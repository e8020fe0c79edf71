"""YAML of bounded size: aliases that stand for each other a billion times are refused before anything is built of them."""

from __future__ import annotations

from typing import Any

import yaml

__all__ = ["YamlTextError", "read_yaml"]

MOST_NODES = 20_000
"""Values of a text, an alias counted as what it stands for. The largest recipe has a few hundred."""


class YamlTextError(ValueError):
    """A text that is not YAML, or stands for too much."""


def read_yaml(text: str) -> Any:
    """The value of a YAML text: plain values, lists and dictionaries.

    Raises:
        YamlTextError: it is not YAML, is nested too deeply, refers to itself, or stands for more than `MOST_NODES` values.
    """
    loader: yaml.SafeLoader | None = None
    try:
        loader = yaml.SafeLoader(text)  # looks for characters that no text may have
        node = loader.get_single_node()
        if node is None:
            return None
        if _size(node, {}) > MOST_NODES:
            raise YamlTextError(f"its aliases stand for more than {MOST_NODES:,} values")
        return loader.construct_document(node)
    except YamlTextError:
        raise
    except RecursionError as error:
        raise YamlTextError("it is nested too deeply") from error
    except (yaml.YAMLError, ValueError, OverflowError, TypeError) as error:  # a number of 5000 digits, a date that is none
        raise YamlTextError(str(error)) from error
    finally:
        if loader is not None:
            loader.dispose()


def _size(node: yaml.Node, known: dict[int, int | None]) -> int:
    """Values that a node stands for; each is counted once, however often it is referred to."""
    if id(node) not in known:
        known[id(node)] = None  # begun
        inside = [part for pair in node.value for part in pair] if isinstance(node, yaml.MappingNode) else node.value
        known[id(node)] = 1 + (0 if isinstance(node, yaml.ScalarNode) else sum(_size(part, known) for part in inside))
    size = known[id(node)]
    if size is None:
        raise YamlTextError("an alias in it stands for itself")
    return size
