"""CSV in which a text stays a text and a number a number."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from robustvit.evaluation.results import CellResult, ModelResults, Results, Value
from robustvit.runtime.tables import csv_cell, write_csv


@pytest.mark.parametrize("text", ["=1+1", "+a", "-cmd|' /C calc'!A0", "@SUM(A1)", "\t=1"])
def test_a_text_that_would_be_a_formula_stands_behind_an_apostrophe(text: str, tmp_path: Path) -> None:
    write_csv(tmp_path / "a.csv", [("name",), (text,)])
    with (tmp_path / "a.csv").open(newline="") as stream:
        assert list(csv.reader(stream)) == [["name"], [f"'{text}"]]


@pytest.mark.parametrize("value", [-1, -0.5, "-1", "+1e-3", "plain", "a=b", ""])
def test_numbers_and_other_texts_stay_as_they_are(value: object) -> None:
    assert csv_cell(value) == value


def test_the_name_of_a_network_cannot_be_a_formula_in_the_results(tmp_path: Path) -> None:
    cell = CellResult("clean", "clean", 0, 3, {"accuracy": Value(0.5)})
    network = ModelResults('=HYPERLINK("x")', 1, {}, {"clean_accuracy": Value(0.5)}, (cell,))
    Results((network,), ("clean",), {"name": "x"}, {}, "").save(tmp_path)
    with (tmp_path / "results.csv").open(newline="") as stream:
        assert next(csv.DictReader(stream))["model"] == '\'=HYPERLINK("x")'
