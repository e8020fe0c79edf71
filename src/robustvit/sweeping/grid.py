"""The cells of a sweep: every combination of the varied values, with every seed.

parse_vary("methods.adl.tau=1,2,5")                      values are YAML
parse_vary("methods.adl=null,{tau: 1},{tau: 2}")         a comma inside brackets or quotes does not split
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from robustvit.runtime.bounded_yaml import YamlTextError, read_yaml

__all__ = ["Axis", "Cell", "cells_of", "label_of", "number_of", "parse_seeds", "parse_vary"]

SEED = "loop.seed"
LONGEST_PART, LONGEST_NAME = 40, 120
"""Longest value, and longest list of values, in the name of a folder."""


@dataclass(frozen=True)
class Axis:
    """One varied setting: its dotted name and its values, as YAML reads them."""

    name: str
    values: tuple[Any, ...]


@dataclass(frozen=True)
class Cell:
    """One run of a sweep.

    Attributes:
        settings: varied name -> value.
        seed: of the run.
        name: of its folder; depends on nothing but settings and seed.
        changes: what `load_config` takes.
    """

    settings: Mapping[str, Any]
    seed: int
    name: str
    changes: tuple[str, ...]


def parse_vary(text: str) -> Axis:
    """NAME=V1,V2 as an axis.

    Raises:
        ValueError: there is no name, no value, a value twice, or no YAML.
    """
    name, equals, listed = text.partition("=")
    name = name.strip()
    if not equals or not name:
        raise ValueError(f"--vary {text!r} varies nothing; write NAME=V1,V2, as in methods.adl.tau=1,2,5")
    if name == SEED:
        raise ValueError(f"{SEED} is what --seeds sets; give --seeds {listed or '0,1,2'} instead of --vary {text}")
    try:
        values = read_yaml(f"[{listed}]")
    except YamlTextError as error:
        problem = getattr(error.__cause__, "problem", None) or error
        raise ValueError(
            f"the values of --vary {text!r} are not a YAML list ({problem}); write V1,V2, with quotes around a text that has "
            "brackets or commas, and '' for an empty one"
        ) from error
    if not values:
        raise ValueError(f"--vary {text!r} has no values; write {name}=V1,V2")
    labels = [label_of(value) for value in values]
    if twice := [label for i, label in enumerate(labels) if label in labels[:i]]:
        raise ValueError(f"--vary {text!r} has {twice[0]} twice; give each value once")
    return Axis(name, tuple(values))


def parse_seeds(texts: Sequence[str]) -> tuple[int, ...]:
    """ "0,1,2", or the same in several texts, as seeds.

    Raises:
        ValueError: one is not an integer, one is repeated, or there is none.
    """
    parts = [part for text in texts for part in re.split(r"[,\s]+", text.strip()) if part]
    if wrong := [part for part in parts if not re.fullmatch(r"\d+", part)]:
        raise ValueError(f"{wrong[0]!r} is not a seed; give integers from 0, as in --seeds 0,1,2")
    seeds = tuple(map(int, parts))
    _check_seeds(seeds)
    return seeds


def _check_seeds(seeds: Sequence[int]) -> None:
    if not seeds:
        raise ValueError("no seeds were given; give at least one, as in --seeds 0,1,2")
    if twice := [seed for i, seed in enumerate(seeds) if seed in seeds[:i]]:
        raise ValueError(f"the seed {twice[0]} is given twice; give each once")


def cells_of(axes: Sequence[Axis], seeds: Sequence[int], changes: Sequence[str] = ()) -> list[Cell]:
    """Every combination of the values of all axes, the last one fastest, each with every seed.

    Args:
        axes: what is varied.
        seeds: of the runs.
        changes: "name=value" of all cells; what is varied comes on top.

    Raises:
        ValueError: nothing is varied, two axes set the same, a change sets what an axis or the seeds set, or a seed comes
            twice.
    """
    _check_names([axis.name for axis in axes])
    _check_changes(axes, changes)
    _check_seeds(seeds)
    short = _short_names([axis.name for axis in axes])
    cells = []
    for values in itertools.product(*(axis.values for axis in axes)):
        settings = {axis.name: value for axis, value in zip(axes, values, strict=True)}
        varied = tuple(f"{name}={_yaml(value)}" for name, value in settings.items())
        parts = [f"{short[name]}-{_plain(label_of(value))}" for name, value in settings.items()]
        for seed in seeds:
            name = _shortened("_".join([*parts, f"seed-{seed}"]), LONGEST_NAME)
            cells.append(Cell(settings, seed, name, (*changes, *varied, f"{SEED}={seed}")))
    return cells


def _check_names(names: Sequence[str]) -> None:
    if not names:
        raise ValueError("nothing is varied; give --vary NAME=V1,V2, as in --vary methods.adl.tau=1,2,5")
    for i, name in enumerate(names):
        for other in names[:i]:
            if name == other:
                raise ValueError(f"{name} is varied twice; give all its values in one --vary")
            if f"{name}.".startswith(f"{other}.") or f"{other}.".startswith(f"{name}."):
                raise ValueError(f"{other} and {name} are varied, and one is a part of the other; vary one of them")


def _check_changes(axes: Sequence[Axis], changes: Sequence[str]) -> None:
    whole = [axis.name for axis in axes if not any(isinstance(value, Mapping) for value in axis.values)]  # sections are merged
    for change in changes:
        name = change.partition("=")[0]
        if name in whole:
            raise ValueError(f"--set {change} has no effect: --vary sets {name} in every cell; leave one of them out")
        if name == SEED:
            raise ValueError(f"--set {change} has no effect: --seeds sets {SEED} in every cell; give the seed there")


def number_of(value: Any) -> float | None:
    """The number that a value is: 3, 1e-3 (a text to YAML) or [4]; None for anything else."""
    if isinstance(value, list) and len(value) == 1:
        return number_of(value[0])
    if isinstance(value, str) and re.fullmatch(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", value):
        return float(value)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def label_of(value: Any) -> str:
    """A value for a reader: YAML, without the outer braces of a section; the same for 1 and 1.0, 1e-3 and 0.001."""
    number = None if isinstance(value, list) else number_of(value)
    if number is not None:
        return str(int(number)) if number.is_integer() and abs(number) < 1e15 else repr(number)
    text = _yaml(value)
    return text[1:-1] if isinstance(value, Mapping) and value else text


def _yaml(value: Any) -> str:
    """On one line, as `load_config` reads it."""
    how: dict[str, Any] = dict(default_flow_style=True, width=float("inf"), sort_keys=False)
    text: str = yaml.safe_dump(value, allow_unicode=True, **how).removesuffix("\n").removesuffix("\n...")
    return text if text.isprintable() else yaml.safe_dump(value, default_style='"', **how).removesuffix("\n")


def _short_names(names: Sequence[str]) -> dict[str, str]:
    """The last part of each name, if these are distinct."""
    last = [name.rpartition(".")[2] for name in names]
    return {name: _plain(end if last.count(end) == 1 else name) for name, end in zip(names, last, strict=True)}


def _plain(text: str) -> str:
    """For the name of a folder: lower case letters, digits and . _ -, and a few digits of a hash where others are lost."""
    if re.fullmatch(r"[a-z0-9.+-][a-z0-9._+-]*", text) and len(text) <= LONGEST_PART:
        return text
    kept = re.sub(r"[^a-z0-9._+-]+", "-", text.lower()).strip("-")
    return _shortened(kept, LONGEST_PART - 7, told_apart_by=text)


def _shortened(text: str, longest: int, told_apart_by: str = "") -> str:
    if len(text) <= longest and not told_apart_by:
        return text
    digest = hashlib.blake2b((told_apart_by or text).encode(errors="backslashreplace"), digest_size=3).hexdigest()
    return f"{text[:longest]}-{digest}".removeprefix("-")
