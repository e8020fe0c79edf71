"""The page of detectors: boxes, masks and marks, precision over recall, and numbers that say more about others."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from detected import detected
from test_page import Reader

from robustvit.cli.detail_tables import detail_numbers
from robustvit.evaluation.results import Results
from robustvit.report.comparison import detail_names, summary_names
from robustvit.report.curve_figures import compared_traces, curve_figures
from robustvit.report.grids import further_measures
from robustvit.report.numbers import percent
from robustvit.report.page import render_page
from robustvit.tasks.detection import Detection


@pytest.fixture(scope="module")
def results() -> Results:
    return detected()


@pytest.fixture(scope="module")
def page(results: Results) -> Reader:
    return Reader(render_page(results))


@pytest.fixture(scope="module")
def alone(results: Results) -> Reader:
    return Reader(render_page(replace(results, models=results.models[:1], differences=())))


def test_the_page_speaks_of_ap(results: Results, page: Reader) -> None:
    assert "has the best AP of 2 networks under 16 corruptions" in page.text
    for wrong in ("ccuracy", "images right", "right answers", "mCE", "of a classifier", "nan"):
        assert wrong not in page.text, wrong
    for model in results.models:
        assert percent(model.summary["mean_mask_ap"].value) in page.text


def test_what_boxes_mean_is_explained(results: Results, page: Reader) -> None:
    marks = Detection().marks()
    assert results.models[0].marks == marks
    assert [mark.form for mark in marks] == ["solid", "crossed", "dashed"]
    for mark in marks:
        assert mark.meaning in page.text
        assert any(name == "class" and value == f"mark {mark.form}" for _, name, value in page.attributes)


def test_examples_have_the_image_the_objects_and_what_was_found(results: Results) -> None:
    example = results.models[1].examples[0]
    clean, spoiled = example.pictures[:2]
    assert len({clean.seen, clean.image, example.target, spoiled.image}) == 4
    assert clean.answer.startswith("AP ")


def test_everything_that_is_shown_survives_the_file(results: Results, tmp_path: Path) -> None:
    results.save(tmp_path)
    again = Results.load(tmp_path)
    for model, other in zip(results.models, again.models, strict=True):
        assert (other.marks, other.legend, other.worst) == (model.marks, model.legend, model.worst)
        assert other.measurements[0].curves == model.measurements[0].curves
    assert render_page(again) == render_page(results)


def test_the_worst_images_are_those_where_a_class_is_not_seen(results: Results) -> None:
    worst = [one for one in results.models[1].worst if one.ranked == "clean"]
    assert worst[0].clean is not None
    assert worst[0].clean < 1


def test_summaries_begin_with_ap_and_leave_out_details(results: Results) -> None:
    names, details = summary_names(results.models), detail_names(results.models)
    assert not set(names) & set(details)
    assert set(names) | set(details) == {name for model in results.models for name in model.summary}
    assert len(names) <= 9
    assert [name for name in names if name.startswith("clean")][:2] == ["clean_box_ap", "clean_mask_ap"]
    assert all(name.startswith("clean") for name in details)
    assert "box_ap_small" not in further_measures(results.models)
    assert "box_ap50" in further_measures(results.models)


def test_details_stand_on_the_page_and_are_printed_where_they_are_asked_for(
    results: Results, page: Reader, alone: Reader
) -> None:
    for shown in (page, alone):
        assert "Further numbers" in shown.text
        assert "Clean AR100" in shown.text
    assert len(list(detail_numbers(results))) == 1


def test_precision_over_recall_is_drawn_clean_and_corrupted(results: Results, page: Reader, alone: Reader) -> None:
    [figure] = curve_figures(results.models[0], 0)
    assert figure.title == "Precision over recall"
    assert [panel.title for panel in figure.panels][:2] == ["Boxes, overlap 0.50", "Boxes, mean over overlaps 0.50 to 0.95"]
    assert [name for _, name, _ in figure.panels[0].legend] == ["clean", "corrupted"]
    for shown in (page, alone):
        assert "Precision over recall" in shown.text
    means = {name: height for _, name, height in figure.panels[1].legend}
    assert means["clean"] == percent(results.models[0].summary["clean_box_ap"].value)
    assert means["corrupted"] == percent(results.models[0].summary["mean_box_ap"].value)


def test_networks_are_compared_curve_by_curve(results: Results) -> None:
    [figure] = compared_traces(results.models)
    assert len(figure.panels) == 2 * 2 * 2  # boxes and masks, two overlaps, clean and corrupted
    assert [name for _, name, _ in figure.panels[0].legend] == ["sighted", "half blind"]
    assert "polyline" in figure.panels[0].chart


def test_the_mean_over_corruptions_is_that_of_every_recall(results: Results) -> None:
    curves = results.models[0].measurements[0].curves[1]
    assert curves.at[0] == 0
    assert curves.at[-1] == 1
    mean = np.mean(curves.lines["corrupted"])
    assert mean == pytest.approx(results.models[0].summary["mean_box_ap"].value, abs=1e-4)


def test_no_number_of_the_file_is_none(results: Results, tmp_path: Path) -> None:
    results.save(tmp_path)
    json.loads((tmp_path / "results.json").read_text(), parse_constant=pytest.fail)
