"""What `robustvit eval` prints below the summary: of segmenters always, of classifiers if asked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from map_trees import write_acdc
from rich.console import Console

import robustvit as rv
from robustvit.cli import main
from robustvit.cli.detail_tables import MOST_CLASSES, detail_tables
from robustvit.evaluation.results import Results

SEGMENTER = "fan_hybrid_nano/segformer"


def printed(results: Results) -> list[str]:
    tables = []
    for table in detail_tables(results):
        console = Console(width=200)
        with console.capture() as captured:
            console.print(table)
        tables.append(captured.get())
    return tables


def test_a_segmenter_has_a_table_by_corruption_and_one_by_class(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = ["eval", SEGMENTER, "--data", "scenes-easy:3", "--suite", "clean", "fog", "snow", "--severity", "3"]
    assert main([*line, "--output", str(tmp_path)]) == 0
    told = capsys.readouterr()
    assert "mIoU by corruption" in told.out
    assert "IoU by class" in told.out
    assert all(word in told.out for word in ("clean", "fog", "snow", "background", "corrupted"))
    assert "classes.csv" in told.err


def test_a_classifier_has_them_only_if_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = [
        "eval",
        "vit_pico",
        "--data",
        "scenes-easy:6",
        "--suite",
        "clean",
        "fog",
        "--severity",
        "3",
        "--output",
        str(tmp_path),
    ]
    assert main(line) == 0
    assert "by class" not in capsys.readouterr().out
    assert main([*line, "--resume", "--details"]) == 0
    told = capsys.readouterr().out
    assert "Accuracy by class" in told
    assert "Accuracy by corruption" in told


def test_conditions_of_a_suite_have_rows_and_columns(tmp_path: Path) -> None:
    write_acdc(tmp_path / "acdc")
    network = rv.create_model(SEGMENTER, num_classes=19)
    results = rv.evaluate({"one": network, "two": network}, tmp_path / "acdc", "acdc")
    conditions, *classes = printed(results)
    assert "mIoU by condition" in conditions
    assert all(f"│{name}" in conditions for name in ("all images", "fog", "night", "rain", "snow"))
    assert len(classes) == 2  # ten columns of numbers would be too wide
    assert "one" in classes[0].splitlines()[0]
    assert all(name in classes[1] for name in ("fog", "night", "rain", "snow"))


def test_classes_without_images_are_counted_and_many_classes_are_not_printed() -> None:
    network = rv.create_model(SEGMENTER, pretrained=True)
    results = rv.evaluate({"one": network, "two": network}, "scenes-easy:1", "clean")
    (table,) = printed(results)
    measured = results.models[0].measurements[0].class_accuracies
    absent = sum(not one.images for one in measured)
    assert f"{absent} classes are in no image" in table
    assert table.count("clean") == 2
    many = tuple(replace(measured[0], name=f"class {i}") for i in range(MOST_CLASSES + 1))
    parts = [replace(model.measurements[0], class_accuracies=many) for model in results.models]
    models = tuple(replace(model, measurements=(part,)) for model, part in zip(results.models, parts, strict=True))
    assert not printed(replace(results, models=models))


def test_tables_of_two_networks_fit_a_terminal() -> None:
    network = rv.create_model(SEGMENTER, pretrained=True)
    results = rv.evaluate({f"network {i}": network for i in range(2)}, "scenes-easy:2", ["clean", "fog"], severity=3)
    assert all(len(line) < 140 for table in printed(results) for line in table.splitlines())
