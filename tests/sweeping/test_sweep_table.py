"""Means, spreads, and what the files of a sweep say."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest
from tiny_sweeps import made_result

from robustvit.sweeping.result import Spread, SweepResult
from robustvit.sweeping.table import save_sweep, table_of

CLEAN = [0.5, 0.6, 0.7, 0.8, 0.8, 0.5]


@pytest.fixture
def result() -> SweepResult:
    numbers = [{"clean_accuracy": clean, "mean_accuracy_15": clean / 2, "retention": 0.5} for clean in CLEAN]
    del numbers[3]["retention"]
    return made_result(["methods.adl=null,{tau: 1}"], numbers, (0, 1, 2), {5: "failed"})


def test_mean_and_sample_deviation_are_those_computed_by_hand(result: SweepResult) -> None:
    first, second = result.rows
    assert first.numbers["clean_accuracy"].mean == pytest.approx(0.6)
    assert first.numbers["clean_accuracy"].deviation == pytest.approx(0.1)  # sqrt((0.01 + 0 + 0.01) / 2)
    assert second.numbers["clean_accuracy"] == Spread(0.8, 0.0, 2)
    assert second.numbers["retention"] == Spread(0.5, None, 1)  # one seed has none: it was never right


def test_the_table_has_a_row_a_combination_and_says_what_failed(result: SweepResult) -> None:
    headings, rows = table_of(result)
    assert headings == [
        "methods.adl",
        "Clean accuracy, %",
        "Accuracy, 15 common corruptions, %",
        "Retention, %",
        "seeds",
    ]
    assert rows == [
        ["null", "60.0 ± 10.0", "30.0 ± 5.0", "50.0 ± 0.0", "3"],
        ["tau: 1", "80.0 ± 0.0", "40.0 ± 0.0", "50.0", "2 of 3, 1 failed"],
    ]


def test_the_files_have_every_cell_with_its_seed_and_numbers(result: SweepResult, tmp_path: Path) -> None:
    save_sweep(result, tmp_path)
    stored = json.loads((tmp_path / "sweep.json").read_text())
    assert [cell["numbers"].get("clean_accuracy") for cell in stored["cells"]] == [*CLEAN[:5], None]
    assert stored["rows"][0]["numbers"]["clean_accuracy"] == {
        "mean": pytest.approx(0.6),
        "deviation": pytest.approx(0.1),
        "count": 3,
    }
    assert {"clean_accuracy", "retention", "deviation"} <= stored["definitions"].keys()
    assert not stored["finished"]
    with (tmp_path / "sweep.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert [(row["methods.adl"], row["seed"], row["state"], row["clean_accuracy"]) for row in rows[3:]] == [
        ("tau: 1", "0", "done", "0.8"),
        ("tau: 1", "1", "done", "0.8"),
        ("tau: 1", "2", "failed", ""),
    ]
    table = (tmp_path / "sweep.md").read_text()
    assert "| null | 60.0 ± 10.0 | 30.0 ± 5.0 | 50.0 ± 0.0 | 3 |" in table
    assert "seed-2`: the loss is not a number" in table


def test_mce_is_shown_where_imagenet_c_was_measured() -> None:
    result = made_result(["model.tap=1"], [{"clean_accuracy": 0.5, "mean_corruption_error": 0.4}], (0,))
    measured = {**result.evaluation, "suites": ["clean", "imagenet-c"]}
    assert "mean_corruption_error" in SweepResult(**{**vars(result), "evaluation": measured}).columns


def test_means_over_17_are_shown_beside_those_over_15_and_not_twice() -> None:
    of_17 = {"imagenet_c_accuracy_fan17": 0.3, "imagenet_c_retention_fan17": 0.6}
    both = {"clean_accuracy": 0.5, "mean_accuracy": 0.26, "mean_accuracy_15": 0.25, "retention": 0.5, **of_17}
    shown = ["clean_accuracy", "mean_accuracy_15", "retention", *of_17]
    assert made_result(["model.tap=1"], [both], (0,)).columns == shown
    alone = {"clean_accuracy": 0.5, "mean_accuracy": 0.3, "retention": 0.6, **of_17}
    assert made_result(["model.tap=1"], [alone], (0,)).columns == ["clean_accuracy", *of_17]


def test_cells_of_several_versions_of_the_package_are_told_apart(result: SweepResult, tmp_path: Path) -> None:
    cells = [replace(cell, version="0.2" if cell.seed else "0.1") for cell in result.cells]
    save_sweep(replace(result, cells=tuple(cells)), tmp_path)
    assert (
        "Cells were made by robustvit 0.1, 0.2, so their numbers need not be comparable."
        in (tmp_path / "sweep.md").read_text()
    )
    save_sweep(replace(result, cells=tuple(replace(cell, version="0.1") for cell in cells)), tmp_path)
    assert "comparable" not in (tmp_path / "sweep.md").read_text()
