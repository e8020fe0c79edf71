"""The page of segmenters, and what results keep for it: classes under every corruption, overlays, legend, worst images."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from map_trees import write_acdc, write_cityscapes, write_cityscapes_c
from segmented import IMAGES, SEVERITIES, segmented, segmenters
from test_page import Reader

import robustvit as rv
from robustvit.data.map_layouts import open_maps
from robustvit.data.normalisation import Normalisation
from robustvit.data.scenes.dataset import Scenes
from robustvit.evaluation.results import AttackedImage, AttackExample, Measurement, ModelResults, Results, Value
from robustvit.evaluation.suites.registry import suite_named
from robustvit.evaluation.suites.sixteen_corruptions import CORRUPTIONS, GROUPS
from robustvit.report.class_heat import class_heats
from robustvit.report.classes import class_tables
from robustvit.report.grids import grids_of
from robustvit.report.numbers import percent
from robustvit.report.page import render_page
from robustvit.tasks.classification import Classification
from robustvit.tasks.per_class import ClassResult
from robustvit.tasks.segmentation import Segmentation
from robustvit.tasks.tallies import Tallies


@pytest.fixture(scope="module")
def results() -> Results:
    return segmented()


@pytest.fixture(scope="module")
def page(results: Results) -> Reader:
    return Reader(render_page(results))


def test_clean_and_cityscapes_c_share_a_pass_and_the_clean_number_stands_once(results: Results) -> None:
    [measured] = results.models[0].measurements
    assert measured.suites == ("clean", "cityscapes-c")
    assert {"clean_miou", "mean_miou", "retention"} <= results.models[0].summary.keys()
    assert not [key for key in results.models[0].summary if "(" in key]


def test_groups_are_those_of_the_published_table(results: Results) -> None:
    model = results.models[0]
    [measured], [grid] = model.measurements, grids_of(model)
    assert {group: set(names) for group, names in measured.groups.items()} == {g: set(names) for g, names in GROUPS.items()}
    assert {group: set(names) for group, names in grid.groups.items()} == {g: set(names) for g, names in GROUPS.items()}
    for group, names in GROUPS.items():
        members = [measured.corruption_accuracies[name].value for name in names]
        assert measured.group_accuracies[group].value == pytest.approx(sum(members) / len(members))


def test_relative_degradation_is_what_retention_leaves(results: Results) -> None:
    for model in results.models:
        assert model.summary["relative_degradation"].value == pytest.approx(1 - model.summary["retention"].value)


def test_protocols_that_share_a_pass_have_the_numbers_they_have_alone() -> None:
    network = segmenters(0)
    suites = ["cityscapes-c", "cityscapes-c-first3"]
    together = rv.evaluate(network, "scenes-easy:3", suites, examples=0).models[0]
    for suite in suites:
        alone = rv.evaluate(network, "scenes-easy:3", suite, examples=0).models[0]
        key = suite_named(suite).measures["miou"][0].key  # type: ignore[attr-defined]
        assert together.summary[key].value == pytest.approx(alone.summary[key].value, abs=1e-6)


def test_a_clean_number_borrowed_by_files_is_not_repeated(tmp_path: Path) -> None:
    root = write_cityscapes(tmp_path)
    conditions = suite_named("cityscapes-c").conditions((1, 2, 3, 4, 5))
    write_cityscapes_c(root, conditions)
    network: Any = rv.create_model("fan_hybrid_nano/segformer", num_classes=19, img_size=32)
    torch.nn.init.constant_(
        network.decode_head.classifier.bias.data[:1], 9
    )  # says background, so that there is something to keep
    model = rv.evaluate(network, root, ["clean", "cityscapes-c"], examples=0).models[0]
    assert [measured.suites for measured in model.measurements] == [("clean",), ("cityscapes-c",)]
    assert {"clean_miou", "cityscapes_c_miou", "retention"} <= model.summary.keys()
    assert not [key for key in model.summary if "(" in key]


def test_classes_keep_every_corruption_as_the_mean_over_its_severities(results: Results) -> None:
    for measured in (measured for model in results.models for measured in model.measurements):
        for one in measured.class_accuracies:
            if one.corruptions:
                assert set(one.corruptions) <= set(CORRUPTIONS)
                means = [scores["class_iou"] for scores in one.corruptions.values()]
                assert one.corrupted == pytest.approx(np.mean(means))
        of_all = [one.number("fog") for one in measured.class_accuracies if one.number("fog") is not None]
        assert 0 <= min(of_all) <= max(of_all) <= 1
        assert all(one.attacked is None for one in measured.class_accuracies)


def test_everything_that_is_shown_survives_the_file(results: Results, tmp_path: Path) -> None:
    results.save(tmp_path)
    for model, again in zip(results.models, Results.load(tmp_path).models, strict=True):
        assert (again.legend, again.examples, again.worst) == (model.legend, model.examples, model.worst)
        assert again.measurements[0].class_accuracies == model.measurements[0].class_accuracies
        assert len(again.worst) == 6


def test_results_of_classifiers_have_nothing_of_it(tmp_path: Path) -> None:
    network = rv.create_model("fan_vit_nano", num_classes=10)
    rv.evaluate(network, Scenes("test", 2), "fog", severity=1, examples=1, attacks="fgsm", output=tmp_path)
    [model] = json.loads((tmp_path / "results.json").read_text())["models"]
    assert not {"legend", "worst"} & model.keys()
    shown = [*model["examples"][0]["pictures"], model["attack_examples"][0]["clean"]]
    assert all("seen" not in picture for picture in shown)
    assert "target" not in model["examples"][0]
    assert all("corruptions" not in one for one in model["measurements"][0]["class_accuracies"])
    page = (tmp_path / "report.html").read_text()
    assert not re.search("by-class|tiles|palette", page)


def test_a_sample_alone_is_scored_as_the_only_one_chosen() -> None:
    random = np.random.default_rng(0)
    task = Segmentation(classes=("a", "b", "c"))
    maps = [(random.integers(0, 3, (4, 5)), random.integers(0, 3, (4, 5))) for _ in range(300)]
    tallies = Tallies.stack([task.tally(*pair) for pair in maps])
    np.testing.assert_allclose(task.sample_scores(tallies), task.score(tallies, np.eye(300))["miou"])
    assert not Classification.ranks_samples


def test_the_worst_images_are_those_with_the_lowest_miou(results: Results) -> None:
    network, task = segmenters(0)["seed 0"], Segmentation(classes=tuple(open_maps("scenes:1").classes))
    scores = {}
    for sample in open_maps("scenes-easy:6", scene_size=(32, 32)):
        image = torch.from_numpy(np.array(sample.open())).permute(2, 0, 1)[None]
        (prediction,) = task.predict_images(network, image, Normalisation.of(network))
        scores[sample.id] = float(task.sample_scores(Tallies.stack([task.tally(prediction, sample.target())]))[0])
    worst = [one for one in results.models[0].worst if one.ranked == "clean"]
    assert [one.example.id for one in worst] == sorted(scores, key=scores.__getitem__)[:3]
    assert [one.clean for one in worst] == pytest.approx(sorted(scores.values())[:3], abs=1e-6)
    corrupted = [one for one in results.models[0].worst if one.ranked == "corrupted"]
    assert [one.corrupted for one in corrupted] == sorted(one.corrupted for one in corrupted)
    assert all([shot.severity > 0 for shot in one.example.pictures] == [False, True] for one in corrupted)


def test_examples_have_the_image_the_answer_and_the_label(results: Results) -> None:
    example = results.models[0].examples[0]
    assert example.target.startswith("data:image/")
    assert [shot.condition for shot in example.pictures[:2]] == ["clean", "gaussian_noise"]
    assert all(shot.seen.startswith("data:image/") and shot.seen != shot.image for shot in example.pictures)
    assert example.target != example.pictures[0].seen


def test_the_page_names_classes_with_their_colours(results: Results, page: Reader) -> None:
    classes, palette = open_maps("scenes:1").classes, open_maps("scenes:1").palette
    assert [name for name, _ in results.models[0].legend] == list(classes)
    for name, colour in zip(classes, palette, strict=True):
        assert name in page.text
        assert ("span", "style", f"background:#{bytes(colour).hex()}") in page.attributes


def test_the_classes_that_lose_the_largest_share_come_first() -> None:
    def one(name: str, clean: float, fog: float) -> ClassResult:
        values = {"clean": {"class_iou": clean}, "corrupted": {"class_iou": fog}}
        return ClassResult(name, 7, values, corruptions={"fog": {"class_iou": fog}})

    model = segmented_with([one("safe", 0.5, 0.5), one("lost", 0.8, 0.1), one("unknown", 0.0, 0.0), one("half", 0.2, 0.1)])
    [heat] = class_heats(model)
    assert [row.label for row in heat.rows] == ["lost", "half", "safe", "unknown"]
    assert heat.columns == ("images", "clean", "fog", "mean", "left")
    assert [cell.text for cell in heat.rows[0].cells] == ["7", "80.0", "10.0", "10.0", "12"]
    assert heat.rows[3].cells[2].background == ""
    assert class_tables(model) == ()


def segmented_with(classes: list[ClassResult]) -> ModelResults:
    measured = Measurement(("fog",), {}, {}, {}, {}, class_accuracies=tuple(classes))
    return ModelResults("net", 1, {}, {}, (), measurements=(measured,), primary="miou")


def test_the_page_speaks_of_miou(results: Results, page: Reader) -> None:
    assert "has the best mIoU of 2 networks under 16 corruptions" in page.text
    for wrong in ("Accuracy", "accuracy of", "images right", "right answers", "mCE", "of a classifier", "(cityscapes-c)"):
        assert wrong not in page.text.replace("Pixel accuracy", "").replace("Mean class accuracy", ""), wrong
    for model in results.models:
        assert percent(model.summary["mean_miou"].value) in page.text
    for title in ("Which classes are lost first", "The worst images under corruption", "By class", "minus the others"):
        assert title in page.text


def test_attacked_images_are_shown_with_what_was_drawn_on_them(results: Results) -> None:
    model = results.models[0]
    [clean, *_] = model.examples[0].pictures
    attacked = AttackedImage("fgsm", clean.seen, 10, replace(clean, condition="fgsm"))
    example = AttackExample("one", "road", clean, (attacked,))
    measured = replace(model.measurements[0], attacks={"fgsm": {}})
    summary = {**model.summary, "fgsm_miou": Value(0.1)}
    shown = replace(model, summary=summary, measurements=(measured,), attack_examples=(example,))
    page = Reader(render_page(replace(results, models=(shown,), differences=())))
    assert "change, \N{MULTIPLICATION SIGN}10" in page.text
    assert "mIoU in percent, clean and under each attack" in page.text
    assert "from right to wrong" not in page.text
    assert sum(value == clean.seen for _, name, value in page.attributes if name == "src") >= 2


def test_means_of_the_page_are_those_of_the_summary_where_noise_has_fewer_severities(results: Results) -> None:
    for model in results.models:
        [grid] = grids_of(model)
        assert {s for name, s in grid.cells if name == "shot_noise"} == {1}
        assert grid.severities == SEVERITIES
        assert grid.mean() == pytest.approx(model.summary["mean_miou"].value)


def test_cells_of_acdc_count_their_own_images_and_are_shown_under_their_conditions(tmp_path: Path) -> None:
    root = write_acdc(tmp_path, count=2)
    network = rv.create_model("fan_hybrid_nano/segformer", num_classes=19, img_size=32)
    results = rv.evaluate(network, root, "acdc", examples=8)
    model = results.models[0]
    assert [(cell.condition, cell.images) for cell in model.cells] == [
        ("acdc", 8),
        *((f"acdc {name}", 2) for name in ("fog", "night", "rain", "snow")),
    ]
    shown = [(example.id.split("/")[0], shot.condition) for example in model.examples for shot in example.pictures]
    assert [condition for _, condition in shown] == [f"acdc {kind}" for kind, _ in shown]
    assert {kind for kind, _ in shown} == {"fog", "night", "rain", "snow"}
    assert [one.ranked for one in model.worst] == ["clean"] * 3
    assert "acdc fog" not in Reader(render_page(results)).text


def test_a_finished_run_without_images_is_measured_again_for_them(tmp_path: Path) -> None:
    options = dict(suite="clean", output=tmp_path)
    rv.evaluate(segmenters(0), "scenes-easy:6", examples=0, **options)  # type: ignore[arg-type]
    model = rv.evaluate(segmenters(0), "scenes-easy:6", examples=2, resume=True, **options).models[0]  # type: ignore[arg-type]
    assert (len(model.examples), len(model.worst)) == (2, 2)
    assert model.cells[0].images == IMAGES
