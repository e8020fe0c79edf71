"""No false certainty: few images have wide intervals, and everything that shows an interval shows the same."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from grey_network import ByGrey, save_classes

import robustvit as rv
from robustvit.cli.demo import _print as print_demo
from robustvit.cli.eval import _summaries
from robustvit.cli.measured import print_results
from robustvit.demo.contest import CONTESTS
from robustvit.evaluation.results import Value
from robustvit.report.numbers import percent, range_percent, verdict
from robustvit.report.page import render_page

Z2 = 1.959964**2


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten images of one grey each, which `ByGrey` knows."""
    return save_classes(tmp_path_factory.mktemp("set"), {f"c{k}": k for k in range(10)})


class Wrong(ByGrey):
    """Never right."""

    def forward(self, x):  # type: ignore[no-untyped-def]
        return super().forward(x).roll(1, dims=1)


def test_all_right_is_not_certain(pictures: Path) -> None:
    model = rv.evaluate(ByGrey(), pictures, "clean").models[0]
    assert model.summary["clean_accuracy"] == Value(1.0, pytest.approx(10 / (10 + Z2)), 1.0)
    assert model.cells[0].accuracy == model.summary["clean_accuracy"]


def test_a_mean_that_is_0_in_every_draw_has_an_interval_and_a_retention_that_never_varies_has_none(pictures: Path) -> None:
    wrong = rv.evaluate(Wrong(), pictures, "pixelate", examples=0).models[0]  # one grey is not changed by pixelation
    assert wrong.summary["mean_accuracy"] == Value(0.0, 0.0, pytest.approx(Z2 / (10 + Z2)))
    right = rv.evaluate(ByGrey(), pictures, "pixelate", examples=0).models[0]
    assert right.summary["retention"] == Value(1.0, None, None)


def test_networks_that_no_image_tells_apart_are_not_called_chance(pictures: Path) -> None:
    results = rv.evaluate({"a": Wrong(), "b": Wrong(), "c": ByGrey()}, pictures, "pixelate", examples=0)
    same = results.between("a", "b")[0].summary["mean_accuracy"]
    assert same == Value(0.0, None, None)
    assert verdict(same) == "no image tells them apart"
    apart = results.between("c", "a")[0].summary["mean_accuracy"]  # +1 for each of ten images
    assert apart == Value(1.0, pytest.approx(2 * 10 / (10 + Z2) - 1), 1.0)
    assert verdict(apart) == ""


def test_terminal_csv_json_and_report_show_the_same_interval(
    pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = rv.evaluate({"a": ByGrey(), "b": Wrong()}, pictures, "pixelate", severity=3, output=tmp_path, examples=0)
    low, high = 10 / (10 + Z2), Z2 / (10 + Z2)
    print_results(results, _summaries(results), lambda difference: ["mean_accuracy"])
    printed = capsys.readouterr().out
    assert f"{percent(1)} ({range_percent(low, 1)})" in printed
    assert f"{percent(0)} ({range_percent(0, high)})" in printed
    assert f"{100 * low:.1f} to 100.0" in render_page(results)
    assert rv.Results.load(tmp_path).models[0].summary["clean_accuracy"].low == pytest.approx(low)
    with (tmp_path / "results.csv").open() as file:
        assert float(next(csv.DictReader(file))["low"]) == pytest.approx(low)


def test_few_images_are_noted_where_a_bootstrap_is_used(pictures: Path) -> None:
    of_one_cell = rv.evaluate(ByGrey(), pictures, "clean")
    assert of_one_cell.remarks() == []
    [(names, note)] = rv.evaluate(ByGrey(), pictures, "fog", examples=0).remarks()
    assert (names, note.kind) == ("", "few-pictures")
    assert "10 images" in note.text
    assert note.text in render_page(rv.evaluate(ByGrey(), pictures, "fog", examples=0))
    compared = rv.evaluate({"a": ByGrey(), "b": Wrong()}, pictures, "clean")
    assert [note.kind for note in compared.notes] == ["few-pictures"]


def test_the_demonstration_prints_differences_as_the_report_does(
    pictures: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    results = rv.evaluate({"plain": Wrong(), "robust": ByGrey()}, pictures, ["clean", "pixelate"], examples=0)
    print_demo(results, Path("out"), tuple(CONTESTS["classification"].compared))
    assert f"+100.0 ({100 * (2 * 10 / (10 + Z2) - 1):+.1f} to +100.0)" in capsys.readouterr().out
    results = rv.evaluate({"plain": ByGrey(), "robust": ByGrey()}, pictures, ["clean", "pixelate"], examples=0)
    print_demo(results, Path("out"), tuple(CONTESTS["classification"].compared))
    assert "0.0 (no image tells them apart)" in capsys.readouterr().out
