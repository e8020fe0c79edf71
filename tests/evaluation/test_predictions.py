"""Which pictures: the answer to each of them, accuracy class by class, and results as rows of a table."""

from __future__ import annotations

import builtins
import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from grey_network import ByGrey, save_classes

import robustvit as rv
from robustvit.cli import main
from robustvit.report.classes import class_tables
from robustvit.report.page import render_page

SEEN = {f"c{k}": k for k in range(9)} | {"c9": 2}
"""The image of the last class looks like one of class 2."""


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_classes(tmp_path_factory.mktemp("set"), SEEN)


def rows_in(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_every_answer_is_written_by_name(pictures: Path, tmp_path: Path) -> None:
    results = rv.evaluate({"a": ByGrey(), "b": ByGrey()}, pictures, "fog", severity=3, output=tmp_path, predictions=True)
    rows = rows_in(tmp_path / "predictions.csv")
    assert len(rows) == 2 * 2 * 10  # networks, conditions, images
    last = next(row for row in rows if row["label"] == "c9" and row["condition"] == "clean")
    assert (last["network"], last["id"], last["severity"]) == ("a", "c9/a.png", "0")
    assert (last["prediction"], last["correct"]) == ("c2", "0")
    assert 0.1 < float(last["confidence"]) <= 1
    for model in results.models:
        for cell in model.cells:
            here = [r for r in rows if r["network"] == model.name and r["condition"] == cell.condition]
            assert np.mean([int(row["correct"]) for row in here]) == pytest.approx(cell.accuracy.value)
    assert "predictions" not in results.to_json()
    assert rv.Results.load(tmp_path).rows() == results.rows()


def test_a_finished_run_without_the_answers_is_not_shown_where_they_are_asked_for(pictures: Path, tmp_path: Path) -> None:
    first = rv.evaluate(ByGrey(), pictures, "clean", output=tmp_path)
    assert not (tmp_path / "predictions.csv").exists()
    assert first.predictions == ()
    rv.evaluate(ByGrey(), pictures, "clean", output=tmp_path / "more", predictions=True, resume=True)
    assert len(rows_in(tmp_path / "more" / "predictions.csv")) == 10
    (tmp_path / "more" / "predictions.csv").unlink()
    rv.evaluate(ByGrey(), pictures, "clean", output=tmp_path / "more", predictions=True, resume=True)
    assert len(rows_in(tmp_path / "more" / "predictions.csv")) == 10


def plain(tables: tuple[Any, ...]) -> list[dict[str, Any]]:
    return [{**row, "confidence": pytest.approx(row["confidence"], abs=1e-5)} for table in tables for row in table.rows()]


class Counts(ByGrey):
    """Notes how many images it was shown, without those that try it alone."""

    seen = 0

    def forward(self, x: Any) -> Any:
        type(self).seen += len(x) if len(x) > 1 else 0
        return super().forward(x)


def test_the_answers_of_a_finished_run_are_read_back(pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Counts, "seen", 0)
    how: Any = dict(severity=3, attacks=["fgsm"], output=tmp_path, predictions=True)
    networks = {"=a": Counts(), "b": Counts()}
    first = rv.evaluate(networks, pictures, "fog", **how)
    asked = Counts.seen
    again = rv.evaluate(networks, pictures, "fog", resume=True, **how)
    assert Counts.seen == asked
    assert len(first.predictions) == len(again.predictions) == 2
    assert [row for table in again.predictions for row in table.rows()] == plain(first.predictions)
    path = tmp_path / "predictions.csv"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    with pytest.warns(UserWarning, match=r"predictions\.csv is not used"):
        anew = rv.evaluate(networks, pictures, "fog", resume=True, **how)
    assert [row for table in anew.predictions for row in table.rows()] == plain(first.predictions)
    assert len(rows_in(path)) == 2 * 3 * 10


def test_answers_that_were_asked_for_once_stay_up_to_date(pictures: Path, tmp_path: Path) -> None:
    rv.evaluate(ByGrey(), pictures, "clean", output=tmp_path, predictions=True)
    before = (tmp_path / "predictions.csv").read_bytes()
    rv.evaluate(ByGrey(), pictures, "clean", output=tmp_path)
    assert (tmp_path / "predictions.csv").read_bytes() == before
    rv.evaluate(ByGrey(), pictures, "clean", output=tmp_path, resume=True)
    assert (tmp_path / "predictions.csv").read_bytes() == before


@pytest.mark.parametrize("attacks", [[], ["fgsm"]])
def test_images_for_the_report_are_made_where_a_finished_run_has_none(
    attacks: list[str], pictures: Path, tmp_path: Path
) -> None:
    how: Any = dict(suite="fog", severity=3, attacks=attacks, output=tmp_path)
    first = rv.evaluate(ByGrey(), pictures, examples=0, predictions=True, **how)
    answers = (tmp_path / "predictions.csv").read_bytes()
    assert not first.models[0].examples
    again = rv.evaluate(ByGrey(), pictures, examples=2, resume=True, **how)
    assert len(again.models[0].examples) == 2
    assert bool(again.models[0].attack_examples) == bool(attacks)
    assert again.rows() == first.rows()
    assert rv.Results.load(tmp_path).models[0].examples == again.models[0].examples
    assert again.models[0].examples[0].pictures[0].image in (tmp_path / "report.html").read_text()
    assert (tmp_path / "predictions.csv").read_bytes() == answers


def test_the_command_writes_the_answers_on_request(tmp_path: Path) -> None:
    options = ["--data", "scenes-easy:4", "--suite", "fog", "--severity", "3", "5", "--output", str(tmp_path), "--predictions"]
    assert main(["eval", "vit_pico", *options]) == 0
    rows = rows_in(tmp_path / "predictions.csv")
    assert [(row["condition"], row["severity"]) for row in rows[::4]] == [("clean", "0"), ("fog", "3"), ("fog", "5")]


def test_accuracy_is_told_class_by_class(pictures: Path) -> None:
    results = rv.evaluate(ByGrey(), pictures, ["pixelate"], attacks=["fgsm"], examples=0)
    found = {one.name: one for one in results.models[0].measurements[0].class_accuracies}
    assert list(found) == [f"c{k}" for k in range(10)]
    assert (found["c3"].images, found["c3"].clean, found["c3"].corrupted) == (1, 1.0, 1.0)
    assert found["c3"].most_mistaken_for is None
    assert (found["c9"].clean, found["c9"].corrupted, found["c9"].most_mistaken_for) == (0.0, 0.0, "c2")
    assert set(found["c9"].attacked or {}) == {"fgsm"}
    [table] = class_tables(results.models[0])
    assert table.headings == ("Class", "Images", "Clean", "Corrupted", "FGSM", "Most often mistaken for")
    assert table.rows[0] is not None
    assert (table.rows[0][0], table.rows[0][-1]) == ("c9", "c2")  # the hardest first
    assert "Class by class" in render_page(results)


def test_results_are_rows_and_data_frames(pictures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = rv.evaluate(ByGrey(), pictures, "fog", severity=3, examples=0)
    rows = results.rows()
    assert [(row["condition"], row["severity"], row["accuracy"]) for row in rows] == [
        (cell.condition, cell.severity, cell.accuracy.value) for cell in results.models[0].cells
    ]
    assert rows[0]["flip_probability"] is None
    pandas = pytest.importorskip("pandas")
    frame = results.to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert list(frame["condition"]) == ["clean", "fog"]
    imported = builtins.__import__

    def without_pandas(name: str, *rest: Any) -> Any:
        if name == "pandas":
            raise ImportError(name)
        return imported(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without_pandas)
    with pytest.raises(RuntimeError, match="pip install pandas"):
        results.to_pandas()


def test_results_print_in_a_few_lines() -> None:
    network = rv.create_model("vit_pico", pretrained=True)
    results = rv.evaluate(network, "scenes-easy:4", ["noise"], attacks=["fgsm"], predictions=True)
    assert results.models[0].examples
    assert results.models[0].attack_examples
    for thing in (results, results.models[0], results.models[0].measurements[0], results.predictions[0]):
        assert len(repr(thing)) < 500
    for thing in (results.models[0].examples, results.models[0].attack_examples):
        assert "base64" not in repr(thing)
    assert "vit_pico" in repr(results)
    assert "clean_accuracy" in repr(results)


def test_report_true_shows_progress(
    pictures: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes the stream for a terminal then
    rv.evaluate({"net": ByGrey()}, pictures, "clean", report=True)
    assert "net: clean" in capsys.readouterr().err
