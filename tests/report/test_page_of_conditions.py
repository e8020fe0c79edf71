"""The page of a suite with conditions of its own, as ACDC: each by itself, with its classes, for one network or several."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from test_page import Reader

from robustvit.evaluation.results import CellResult, Example, ExampleImage, Measurement, ModelResults, Results, Value
from robustvit.report.class_heat import class_heats, compared_classes
from robustvit.report.classes import class_tables
from robustvit.report.conditions import condition_panels, condition_tables
from robustvit.report.headline import headline
from robustvit.report.page import render_page
from robustvit.tasks.per_class import ClassResult

CONDITIONS = {"acdc": 0.5, "acdc fog": 0.6, "acdc night": 0.2, "acdc rain": 0.55, "acdc snow": 0.45}
IMAGE = "data:image/png;base64,AAAA"


def iou(name: str, images: int, values: Mapping[str, float]) -> ClassResult:
    return ClassResult(name, images, {condition: {"class_iou": value} for condition, value in values.items()})


def network(name: str = "net", better: float = 0.0) -> ModelResults:
    """Measured by ACDC: `road` is in all images, `bus` in none at night, `train` in none at all but predicted in fog."""
    cells = (
        CellResult("acdc", condition, 0, 400 if condition == "acdc" else 100, {"miou": reach(value + better)})
        for condition, value in CONDITIONS.items()
    )
    classes = (
        iou("train", 0, {"acdc": 0.0, "acdc fog": 0.0}),
        iou("road", 400, dict.fromkeys(CONDITIONS, 0.9)),
        iou("bus", 30, {"acdc": 0.3, "acdc fog": 0.4, "acdc rain": 0.2, "acdc snow": 0.3}),
    )
    summary = {"acdc_miou": reach(0.45 + better), "acdc_whole_miou": reach(0.5 + better)}
    measured = Measurement(("acdc",), {}, {}, {}, summary, class_accuracies=classes)
    shown = ExampleImage("acdc fog", 0, IMAGE, "mIoU 12.0 %", seen=IMAGE, score=0.12)
    example = Example("fog/one.png", "road", (shown,), IMAGE)
    return ModelResults(
        name,
        1,
        {},
        summary,
        tuple(cells),
        examples=(example,),
        measurements=(measured,),
        primary="miou",
        legend=(("road", "#000000"),),
    )


def reach(value: float) -> Value:
    return Value(value, value - 0.02, value + 0.02)


def results(*models: ModelResults) -> Results:
    return Results(models, ("acdc",), {}, {}, "2026-01-31T12:00:00+00:00", task="segmentation", primary="miou")


def test_every_condition_has_a_bar_with_its_interval() -> None:
    [panel] = condition_panels(network(), 0)
    labels = ["fog", "night", "rain", "snow", "all images"]
    found = [str(panel.chart).index(f">{label}</text>") for label in labels]
    assert found == sorted(found)
    assert str(panel.chart).count('class="whisker"') == 3 * len(labels)
    text = Reader(render_page(results(network()))).text
    assert text.index("mIoU in each condition") < text.index("Which classes are lost in which condition")


def test_conditions_are_called_without_their_suite() -> None:
    page = Reader(render_page(results(network(), network("other", 0.1))))
    assert "acdc fog" not in page.text
    assert "acdc acdc" not in page.text
    assert {"fog", "night", "rain", "snow", "all images"} <= set(page.cells)


def test_the_headline_says_that_the_images_are_those_of_val() -> None:
    assert "val" in headline(results(network())).claim
    assert "val" in headline(results(network(), network("other", 0.1))).claim
    assert headline(results(network())).claim.count("val") == 1


def test_classes_are_shown_in_every_condition_the_lowest_first() -> None:
    [heat] = class_heats(network())
    assert heat.columns == ("images", "fog", "night", "rain", "snow", "all images")
    assert [row.label for row in heat.rows] == ["bus", "road"]
    assert [cell.text for cell in heat.rows[0].cells] == ["30", "40.0", "\N{EN DASH}", "20.0", "30.0", "30.0"]
    assert heat.rows[0].cells[2].background == ""
    assert heat.caption.endswith("1 class that no image has is left out.")
    assert class_tables(network()) == ()


def test_networks_are_compared_in_every_condition() -> None:
    [table] = condition_tables([network(), network("other", 0.1)])
    assert table.groups == ("fog", "night", "rain", "snow", "all images")
    assert [model.name for _, model, _ in table.rows] == ["other", "net"]
    assert [entry.is_best for entry in table.rows[0][2]] == [True] * 5
    assert table.rows[1][2][1].text == "20.0\N{NO-BREAK SPACE}%"
    assert table.rows[1][2][1].interval == "18.0 to 22.0\N{NO-BREAK SPACE}%"
    [(_, caption, heat)] = compared_classes([network(), network("other")])
    assert "over all conditions" in caption
    assert [row.label for row in heat.groups[0][1]] == ["bus", "road"]


@pytest.mark.parametrize("suite", ["patches", "fgsm"])
def test_a_suite_without_conditions_of_its_own_has_none(suite: str) -> None:
    cell = CellResult(suite, "patches", 0, 3, {"miou": Value(0.1)})
    model = ModelResults("net", 1, {}, {}, (cell,), primary="miou")
    assert condition_panels(model, 0) == ()
    assert condition_tables([model, model]) == []
