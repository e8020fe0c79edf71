"""The figure of a sweep, as the SVG file has it."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from PIL import Image
from tiny_sweeps import made_result

from robustvit.report.sweep_figure import _bar, save_sweep_figure
from robustvit.sweeping.result import Spread, State, SweepResult


def result_of(vary: list[str], cells: int, seeds: tuple[int, ...] = (0, 1), **states: State) -> SweepResult:
    numbers = [{"clean_accuracy": 0.5 + 0.01 * i, "mean_accuracy_15": 0.3, "retention": 0.6} for i in range(cells)]
    return made_result(vary, numbers, seeds, {int(i[1:]): state for i, state in states.items()})


def texts_and_ticks(result: SweepResult, folder: Path) -> tuple[list[str], list[float]]:
    """What is written, in the comments of the SVG, and where the ticks of the first panel stand."""
    save_sweep_figure(result, folder / "sweep.svg")
    text = (folder / "sweep.svg").read_text()
    ElementTree.fromstring(text)
    panel = text[text.index('id="axes_1"') : text.index('id="axes_2"') if 'id="axes_2"' in text else len(text)]
    axis = panel[panel.index('id="matplotlib.axis_1"') : panel.index('id="matplotlib.axis_2"')]
    ticks = [float(x) for x in re.findall(r'id="xtick_\d+">.*?<use xlink:href="[^"]*" x="([\d.]+)"', axis, re.DOTALL)]
    return re.findall(r"<!-- (.*?) -->", text), sorted(dict.fromkeys(ticks))


def gaps(ticks: list[float]) -> list[float]:
    return [b - a for a, b in itertools.pairwise(ticks)]


def test_numbers_stand_where_they_are(tmp_path: Path) -> None:
    texts, ticks = texts_and_ticks(result_of(["methods.adl.tau=1,2,5"], 6), tmp_path)
    assert {"methods.adl.tau", "1", "2", "5", "Clean accuracy, %"} <= set(texts)
    one, three = gaps(ticks)
    assert three == pytest.approx(3 * one, rel=1e-3)


def test_numbers_over_more_than_two_decades_stand_on_a_logarithmic_axis(tmp_path: Path) -> None:
    _, ticks = texts_and_ticks(result_of(["methods.adl.weight=0.001,0.01,0.1,1"], 8), tmp_path)
    assert len(ticks) == 4
    assert gaps(ticks) == pytest.approx([gaps(ticks)[0]] * 3, rel=1e-3)


def test_other_values_are_categories_in_the_order_given(tmp_path: Path) -> None:
    texts, ticks = texts_and_ticks(result_of(["model.tap=null,avg3x3,4"], 6), tmp_path)
    assert [text for text in texts if text in ("null", "avg3x3", "4")][:3] == ["null", "avg3x3", "4"]
    assert gaps(ticks) == pytest.approx([gaps(ticks)[0]] * 2, rel=1e-3)


def test_every_combination_of_further_settings_is_a_line_of_the_legend(tmp_path: Path) -> None:
    vary = ["methods.adl.tau=1,2", "model.tap=null,4", "model.name=fan_vit_nano,rvt_nano"]
    texts, _ = texts_and_ticks(result_of(vary, 16), tmp_path)
    legend = {f"{tap}, {name}" for tap in ("null", "4") for name in ("fan_vit_nano", "rvt_nano")}
    assert legend <= set(texts)
    assert "model.tap, model.name" in texts


def test_the_figure_says_what_points_bars_and_dots_are(tmp_path: Path) -> None:
    texts, _ = texts_and_ticks(result_of(["methods.adl.tau=1,2,5"], 6), tmp_path)
    assert "Points are means over 2 seeds, bars one standard deviation, dots the seeds." in texts
    texts, _ = texts_and_ticks(result_of(["methods.adl.tau=1,2"], 2, (0,)), tmp_path)
    assert "Each point is one run: there is 1 seed." in texts


def test_bars_of_shares_stay_within_100_percent(tmp_path: Path) -> None:
    wide = Spread(0.95, 0.2, 2)
    assert _bar("clean_accuracy", wide, 100) == pytest.approx((20, 5))
    assert _bar("mean_accuracy_15", Spread(0.05, 0.2, 2), 100) == pytest.approx((5, 20))
    assert _bar("mean_flip_rate", wide, 100) == pytest.approx((20, 20))  # relative to another network
    numbers = [{"clean_accuracy": value} for value in (0.9, 1.0)]
    texts, _ = texts_and_ticks(made_result(["methods.adl.tau=1"], numbers, (0, 1)), tmp_path)
    assert "not beyond 0 and 100 %" in " ".join(texts)


@pytest.mark.parametrize(
    ("result", "told"),
    [
        (result_of(["methods.adl.tau=1"], 1, (0,)), "methods.adl.tau"),
        (result_of(["methods.adl.tau=1,2"], 2, (0,), c0="failed"), "of 2 runs: 1 failed (\N{MULTIPLICATION SIGN})"),
        (result_of(["methods.adl.tau=1,2"], 2, (0,), c0="waiting", c1="waiting"), "of 2 runs: 2 not done yet"),
        (result_of(["methods.adl.tau=1,2"], 2, (0,), c0="failed", c1="failed"), "nothing measured yet"),
        (result_of([f"model.options={{{'x' * 30}: 1}},{{{'y' * 80}: 2}}", "methods.adl=null,{}"], 4, (0,)), "methods.adl"),
    ],
    ids=["one point", "failed", "waiting", "all failed", "long names"],
)
def test_an_incomplete_or_awkward_sweep_has_a_figure_too(result: SweepResult, told: str, tmp_path: Path) -> None:
    texts, _ = texts_and_ticks(result, tmp_path)
    assert told in texts
    save_sweep_figure(result, tmp_path / "sweep.png")
    with Image.open(tmp_path / "sweep.png") as picture:
        picture.load()
        assert min(picture.size) > 300
        assert len(set(picture.convert("L").tobytes())) > 2
