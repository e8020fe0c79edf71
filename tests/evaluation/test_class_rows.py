"""classes.csv: every number of every class, of any task that has them."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest

import robustvit as rv
from robustvit.evaluation.results import Results
from robustvit.evaluation.rows import CLASS_COLUMNS


@pytest.fixture(scope="module")
def segmented(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("segmented")
    network = rv.create_model("fan_hybrid_nano/segformer", pretrained=True)
    rv.evaluate({"one": network, "other": network}, "scenes-easy:3", ["clean", "fog"], severity=(1, 3), output=folder)
    return folder


def table(folder: Path) -> list[dict[str, str]]:
    with (folder / "classes.csv").open(newline="") as stream:
        return list(csv.DictReader(stream))


def test_every_number_of_a_class_has_a_row(segmented: Path) -> None:
    rows, results = table(segmented), rv.Results.load(segmented)
    assert tuple(rows[0]) == CLASS_COLUMNS
    for model in results.models:
        (measured,) = model.measurements
        for one in measured.class_accuracies:
            own = [row for row in rows if (row["model"], row["class"]) == (model.name, one.name)]
            assert {row["condition"] for row in own} == {*one.values, *one.corruptions}
            assert {row["images"] for row in own} <= {str(one.images)}
            assert {(row["suite"], row["measure"]) for row in own} <= {("clean, fog", "class_iou")}
            numbers = {row["condition"]: float(row["value"]) for row in own}
            assert numbers.get("clean") == one.clean
            assert numbers.get("fog") == one.number("fog")
    assert len(results.class_rows()) == len(rows)


def test_a_classifier_has_a_row_for_each_class_and_condition(tmp_path: Path) -> None:
    network = rv.create_model("vit_pico", pretrained=True)
    results = rv.evaluate(network, "scenes-easy:12", ["clean", "fog"], severity=3, output=tmp_path)
    rows = table(tmp_path)
    assert {row["condition"] for row in rows} == {"clean", "corrupted"}
    right = sum(float(row["value"]) * int(row["images"]) for row in rows if row["condition"] == "clean")
    assert right / 12 == pytest.approx(results.clean)


def test_the_file_is_written_again_where_it_is_missing_and_is_never_of_another_result(segmented: Path, tmp_path: Path) -> None:
    results = rv.Results.load(segmented)
    results.save(tmp_path)
    before = (tmp_path / "classes.csv").read_bytes()
    (tmp_path / "classes.csv").unlink()
    results.complete(tmp_path)
    assert (tmp_path / "classes.csv").read_bytes() == before
    _without_classes(results).save(tmp_path)
    assert not (tmp_path / "classes.csv").exists()


def _without_classes(results: Results) -> Results:
    models = tuple(
        replace(model, measurements=tuple(replace(one, class_accuracies=()) for one in model.measurements))
        for model in results.models
    )
    return replace(results, models=models)
