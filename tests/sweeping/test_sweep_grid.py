"""`--vary` and `--seeds` as a user types them, and the cells of a grid."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

from robustvit.sweeping.grid import Axis, cells_of, label_of, number_of, parse_seeds, parse_vary

PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3), max_leaves=5
)
LISTS = st.lists(VALUES, min_size=1, max_size=4, unique_by=label_of)


def typed(values: list[Any]) -> str:
    return yaml.safe_dump(values, default_flow_style=True, width=float("inf")).strip()[1:-1]


@settings(deadline=None)
@given(LISTS)
def test_any_list_of_yaml_values_is_read_back(values: list[Any]) -> None:
    assert parse_vary(f"a.b={typed(values)}") == Axis("a.b", tuple(values))


@settings(deadline=None)
@given(LISTS)
def test_the_changes_of_a_cell_say_its_value(values: list[Any]) -> None:
    for cell, value in zip(cells_of([Axis("a.b", tuple(values))], [7]), values, strict=True):
        name, _, text = cell.changes[0].partition("=")
        assert (name, yaml.safe_load(text)) == ("a.b", value)
        assert "\n" not in text
        assert cell.changes[1] == "loop.seed=7"


@settings(deadline=None)
@given(LISTS, st.lists(st.integers(0, 10**6), min_size=1, max_size=3, unique=True))
def test_every_cell_has_a_folder_of_its_own_that_any_file_system_takes(values: list[Any], seeds: list[int]) -> None:
    cells = cells_of([Axis("a.b", tuple(values)), Axis("c", ("x" * 200, "X" * 200))], seeds)
    names = [cell.name for cell in cells]
    assert len(cells) == 2 * len(values) * len(seeds)
    assert len({name.lower() for name in names}) == len(names)
    assert all(re.fullmatch(r"[a-z0-9][a-z0-9._+-]{0,130}", name) for name in names)


def test_a_comma_inside_brackets_braces_or_quotes_does_not_split() -> None:
    assert parse_vary("model.options={a: 1, b: 2},null").values == ({"a": 1, "b": 2}, None)
    assert parse_vary("model.tap_blocks=[0, 1],all,'a, b'").values == ([0, 1], "all", "a, b")


def test_the_grid_is_every_combination_with_every_seed() -> None:
    cells = cells_of([parse_vary("model.tap=null,4"), parse_vary("methods.adl.tau=1,2")], [0, 1], ["loop.batch_size=8"])
    assert [cell.name for cell in cells] == [
        f"tap-{tap}_tau-{tau}_seed-{seed}" for tap in ("null", "4") for tau in (1, 2) for seed in (0, 1)
    ]
    assert cells[3].settings == {"model.tap": None, "methods.adl.tau": 2}
    assert cells[3].changes == ("loop.batch_size=8", "model.tap=null", "methods.adl.tau=2", "loop.seed=1")


def test_settings_of_the_same_name_in_two_sections_keep_their_sections() -> None:
    cell = cells_of([parse_vary("methods.adl.weight=1"), parse_vary("methods.afat.weight=2")], [0])[0]
    assert cell.name == "methods.adl.weight-1_methods.afat.weight-2_seed-0"


def test_a_number_has_one_name_however_it_is_written() -> None:
    assert {label_of(value) for value in parse_vary("a=0.001").values + parse_vary("a=1e-3").values} == {"0.001"}
    assert label_of(4.0) == label_of(4) == "4"
    assert [number_of(value) for value in parse_vary("a=1e-3,[4],null,true,avg3x3").values] == [0.001, 4.0, None, None, None]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("methods.adl.tau", "methods.adl.tau"),
        ("=1,2", "=1,2"),
        ("methods.adl.tau=", "methods.adl.tau"),
        ("methods.adl.tau=1,,2", "YAML"),
        ("methods.adl.tau=[1,2", "YAML"),
        ("methods.adl.tau=1], [2", "YAML"),
        ("methods.adl.tau=1,2 # 3", "YAML"),
        ("methods.adl.tau=1,2,1.0", "1 twice"),
        ("loop.seed=0,1", "--seeds 0,1"),
    ],
)
def test_a_vary_that_cannot_work_is_refused(text: str, named: str) -> None:
    with refused(ValueError, named):
        parse_vary(text)


@pytest.mark.parametrize("texts", [["0,1,2"], ["0", "1", "2"], ["0, 1", "2"], ["0 1 2"]])
def test_seeds_are_separated_by_commas_or_blanks(texts: list[str]) -> None:
    assert parse_seeds(texts) == (0, 1, 2)


@pytest.mark.parametrize(("text", "named"), [("", "--seeds"), ("0,x", "'x'"), ("1,2,1", "1 ")])
def test_seeds_that_cannot_work_are_refused(text: str, named: str) -> None:
    with refused(ValueError, named):
        parse_seeds([text])


@pytest.mark.parametrize(
    ("vary", "changes", "named"),
    [
        ([], [], ("--vary",)),
        (["a=1,2", "a=3"], [], ("a ",)),
        (["methods.adl=null,{}", "methods.adl.tau=1,2"], [], ("methods.adl ", "methods.adl.tau")),
        (["a=1,2"], ["a=3"], ("--set a=3",)),
        (["a=1,2"], ["loop.seed=3"], ("--set loop.seed=3", "--seeds")),
    ],
)
def test_settings_that_would_have_no_effect_are_refused(vary: list[str], changes: list[str], named: tuple[str, ...]) -> None:
    with refused(ValueError, *named):
        cells_of([parse_vary(text) for text in vary], [0], changes)
