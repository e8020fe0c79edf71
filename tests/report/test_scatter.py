"""Scatter plots of several networks."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest
from fake_results import fake_model, fake_results, three_models

from robustvit.evaluation.results import Value
from robustvit.report.page import render_page
from robustvit.report.scatter import Dot, compared_scatters, round_ticks, scatter


def markers(svg: str) -> list[tuple[float, float]]:
    """(x in percent, y in pixels) of each."""
    inner = (part for part in ET.fromstring(svg).iter("svg") if "x" in part.attrib)
    return [(float(part.attrib["x"].rstrip("%")), float(part.attrib["y"])) for part in inner]


@pytest.mark.parametrize(
    ("values", "ticks"),
    [
        ([5.7, 26.1], (5, 10, 15, 20, 25, 30)),
        ([56.4, 67.9], (55, 60, 65, 70)),
        ([0.31, 0.32], (0.31, 0.312, 0.314, 0.316, 0.318, 0.32)),
        ([10, 10], (10, 11)),
        ([0.0], (0, 0.1)),
    ],
)
def test_axes_have_round_numbers_that_hold_everything(values: list[float], ticks: tuple[float, ...]) -> None:
    found = round_ticks(values)
    assert found[0] <= min(values)
    assert found[-1] >= max(values)
    assert 2 <= len(found) <= 6
    assert found == pytest.approx(ticks)


def test_markers_stand_where_the_numbers_say() -> None:
    dots = [Dot(name, Value(x), Value(y), k) for k, (name, x, y) in enumerate([("a", 0, 0), ("b", 5, 50), ("c", 10, 100)])]
    (left, low), (middle, half), (right, high) = markers(scatter(dots, "x", "y", "title"))
    assert (left, right) == (9.0, 97.75)
    assert middle == pytest.approx((left + right) / 2, abs=0.01)
    assert low - high == pytest.approx(230)
    assert half == pytest.approx((low + high) / 2)


def test_intervals_are_lines_through_the_marker() -> None:
    dots = [Dot("a", Value(2.0), Value(50.0, 40.0, 60.0), 0), Dot("b", Value(8.0, 7.0, 9.0), Value(20.0), 1)]
    drawn = [line.attrib for line in ET.fromstring(scatter(dots, "x", "y", "title")).iter("line")]
    upright, flat = (line for line in drawn if line["class"] == "whisker")
    assert upright["x1"] == upright["x2"]
    assert float(upright["y1"]) - float(upright["y2"]) == pytest.approx(230 * 20 / 40, abs=0.2)  # the axis goes from 20 to 60
    assert flat["y1"] == flat["y2"]


def test_the_page_has_both_figures_of_the_papers_with_every_network() -> None:
    results = three_models(extras=True)
    retention, shifts = compared_scatters(results.models)
    assert (retention.title, shifts.title) == ("Retention against size", "ImageNet-A against ImageNet-R")
    for figure in (retention, shifts):
        assert [name for _, name in figure.legend] == [model.name for model in results.models]
        assert len(markers(figure.chart)) == 3
    label = ET.fromstring(shifts.chart).attrib["aria-label"]
    model = results.models[0]
    r, a = (100 * model.summary[f"imagenet_{letter}_accuracy"].value for letter in "ra")
    assert f"{model.name} {r:.3g}, {a:.3g}" in label
    page = render_page(results)
    assert [title for title in re.findall(r"<h3>(.*?)</h3>", page) if " against " in title] == [retention.title, shifts.title]


def test_networks_without_a_number_are_left_out_and_one_alone_makes_no_figure() -> None:
    models = [fake_model(name) for name in "abc"]
    lacking = replace(models[0], summary={k: v for k, v in models[0].summary.items() if k != "retention"})
    function = replace(models[1], parameters=0)
    (figure,) = compared_scatters([lacking, *models[1:]])
    assert figure.legend == ((1, "b"), (2, "c"))
    assert compared_scatters([lacking, function, models[2]]) == ()
    assert " against " not in render_page(fake_results(models[2]))


def test_retention_is_fan_s_over_17_corruptions_where_networks_have_it() -> None:
    models = [fake_model(name) for name in "abc"]
    with_17 = [replace(m, summary={**m.summary, "imagenet_c_retention_fan17": Value(0.5)}) for m in models[:2]]
    (figure,) = compared_scatters([*with_17, models[2]])
    assert [name for _, name in figure.legend] == ["a", "b"], "another mean does not stand beside it"
    assert "Retention, ImageNet-C (fan17), %): a " in figure.chart
    assert ", 50; b " in figure.chart
    (figure,) = compared_scatters([with_17[0], *models[1:]])
    assert "; Retention, %): a " in figure.chart
    assert len(figure.legend) == 3


def test_sizes_are_in_millions() -> None:
    one, other = replace(fake_model("a"), parameters=7_319_920), replace(fake_model("b"), parameters=28_345_336)
    assert "a 7.32, " in compared_scatters([one, other])[0].chart
