"""What evaluations of detectors say: COCO's numbers clean and spoiled, COCO-C, COCO-O, every detection, and odd data."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torchvision
from coco_tools import evaluated_by
from known_objects import Knowing
from object_trees import SIZE, coco_dict, scene_objects, write_coco, write_coco_c, write_json
from PIL import Image
from refusals import refused

import robustvit as rv
from robustvit.cli import main
from robustvit.data.object_layouts import DOMAINS, open_objects
from robustvit.data.readers.class_folders import LayoutError
from robustvit.evaluation.results import ModelResults, Results
from robustvit.evaluation.suites.registry import suite_named
from robustvit.evaluation.suites.sixteen_corruptions import CORRUPTIONS, GROUPS
from robustvit.tasks.detection import Detection
from robustvit.tasks.detector_inputs import DetectorInputs

HOW: Any = dict(task="detection", examples=0)
PARTS = ("ap", "ap50", "ap75", "ap_small", "ar1", "ar10", "ar100", "ar_small")
"""Of COCO's statistics, those about objects that small images have."""


@pytest.fixture(scope="module")
def coco(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_coco(tmp_path_factory.mktemp("coco"), {"val": 6})


@pytest.fixture(scope="module")
def knowing(coco: Path) -> Knowing:
    return Knowing(open_objects(coco))


@pytest.fixture(scope="module")
def results(coco: Path, knowing: Knowing, tmp_path_factory: pytest.TempPathFactory) -> tuple[Results, Path]:
    """Of a detector and one that never finds a class, with their files."""
    output = tmp_path_factory.mktemp("out")
    networks = {"all": knowing, "some": Knowing(open_objects(coco), blind_to=0)}
    found = rv.evaluate(networks, coco, ["clean", "weather"], severity=(1, 5), output=output, predictions=True, **HOW)
    return found, output


@pytest.fixture(scope="module")
def network() -> Any:
    torch.manual_seed(0)
    how: Any = dict(width=16, hidden=32, anchor_scale=4, score_threshold=0.09)
    return rv.create_model("fan_hybrid_nano/mask_rcnn", num_classes=10, img_size=64, **how).eval()


def numbers(model: ModelResults) -> dict[str, float]:
    return {key: value.value for key, value in model.summary.items()}


def test_every_cell_has_cocos_numbers_by_box_and_by_mask(results: tuple[Results, Path]) -> None:
    for cell in (cell for model in results[0].models for cell in model.cells):
        assert {f"{kind}_{part}" for kind in ("box", "mask") for part in PARTS} <= cell.values.keys()
        assert next(iter(cell.values)) == "box_ap"
    clean = results[0].models[0].cells[0]
    assert clean.number("box_ap") == pytest.approx(1)
    assert clean.number("mask_ap") == pytest.approx(1)


def test_boxes_and_masks_have_means_under_corruption_and_retention(results: tuple[Results, Path]) -> None:
    for model in results[0].models:
        summary = numbers(model)
        for kind, kept in (("box_ap", "retention"), ("mask_ap", "mask_ap_retention")):
            cells = [cell.number(kind) for cell in model.cells if cell.severity]
            assert summary[f"mean_{kind}"] == pytest.approx(np.mean([cell for cell in cells if cell is not None]))
            assert summary[kept] == pytest.approx(summary[f"mean_{kind}"] / summary[f"clean_{kind}"])


def test_ap_has_intervals_and_paired_differences(results: tuple[Results, Path]) -> None:
    found, _ = results
    one, two = found.models
    [difference] = found.between("all", "some")
    for key in ("clean_box_ap", "mean_box_ap", "mean_mask_ap", "clean_mask_ap50"):
        own, other = one.summary[key], two.summary[key]
        assert difference.summary[key].value == pytest.approx(own.value - other.value)
        assert other.low is not None
        assert other.low <= other.value <= (other.high or 0)
    assert difference.summary["clean_box_ap"].low is not None
    assert "200 bootstrap samples" in found.definitions["interval"]


def test_a_cell_has_the_interval_that_its_number_has_in_the_summary(results: tuple[Results, Path]) -> None:
    for model in results[0].models:
        assert model.cells[0].values["box_ap50"] == model.summary["clean_box_ap50"]


def test_a_detector_without_masks_is_compared_by_boxes_alone(coco: Path, knowing: Knowing) -> None:
    plain = Knowing(open_objects(coco), masks=False)
    found = rv.evaluate({"masks": knowing, "boxes": plain}, coco, ["clean", "fog"], severity=3, **HOW)
    assert "mean_mask_ap" in found.models[0].summary
    assert not [key for key in found.models[1].summary if "mask" in key]
    [difference] = found.between("masks", "boxes")
    assert {"clean_box_ap", "mean_box_ap", "retention"} <= difference.summary.keys()
    assert not [key for key in difference.summary if "mask" in key]


def test_files_have_every_number_and_nothing_that_is_none(results: tuple[Results, Path]) -> None:
    found, output = results

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    stored = json.loads((output / "results.json").read_text(), parse_constant=refuse)
    assert stored["models"][0]["measurements"][0]["curves"]
    with (output / "results.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == len(found.rows()) == 2 * 9
    assert "nan" not in (output / "results.csv").read_text()
    with (output / "classes.csv").open() as stream:
        classes = list(csv.DictReader(stream))
    assert {row["measure"] for row in classes} == {"class_ap", "class_mask_ap"}
    assert {"clean", "corrupted", "snow", "frost"} <= {row["condition"] for row in classes}
    again = Results.load(output)
    assert [model.summary for model in again.models] == [model.summary for model in found.models]
    assert again.models[0].measurements[0].curves == found.models[0].measurements[0].curves


# every detection


def test_every_detection_is_a_row_and_is_judged(results: tuple[Results, Path]) -> None:
    found, output = results
    with (output / "predictions.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    for model in found.models:
        for cell in model.cells:
            here = (model.name, cell.condition, str(cell.severity))
            own = [row for row in rows if (row["network"], row["condition"], row["severity"]) == here]
            assert len(own) == cell.number("detections")
    clean = [row for row in rows if row["condition"] == "clean"]
    assert {row["correct"] for row in clean} == {"1"}
    assert "0" in {row["correct"] for row in rows if row["condition"] == "snow"}
    assert all(float(row["x1"]) < float(row["x2"]) for row in rows)


@pytest.mark.parametrize("condition", ["clean/clean", "weather/snow-1"])
def test_lists_in_cocos_format_give_pycocotools_the_same_ap(results: tuple[Results, Path], coco: Path, condition: str) -> None:
    found, output = results
    for model in found.models:
        detections = json.loads((output / "predictions" / model.name / f"{condition}.json").read_text())
        truth = json.loads((coco / "annotations" / "instances_val2017.json").read_text())
        evaluated = evaluated_by("pycocotools", truth, detections, "boxes")
        name = condition.partition("/")[2].partition("-")[0]
        cell = next(cell for cell in model.cells if cell.condition == name and cell.severity in (0, 1))
        assert evaluated.statistics[0] == pytest.approx(cell.number("box_ap"), abs=1e-9)


def test_a_finished_run_shows_its_detections_again_and_measures_lost_lists(coco: Path, network: Any, tmp_path: Path) -> None:
    how: Any = dict(output=tmp_path, predictions=True, resume=True, limit=2, **HOW)
    first = rv.evaluate({"n": network}, coco, "clean", **how)
    again = rv.evaluate({"n": network}, coco, "clean", **how)
    assert [len(table) for table in again.predictions] == [len(table) for table in first.predictions]
    (place,) = tmp_path.glob("predictions/*/*/*.json")
    kept = place.read_text()
    place.unlink()
    rv.evaluate({"n": network}, coco, "clean", **how)
    assert place.read_text() == kept
    rv.evaluate({"n": network}, coco, "clean", **{**how, "resume": False, "predictions": False})
    assert place.exists()  # of this very run, and kept up
    rv.evaluate({"n": network}, coco, "clean", output=tmp_path / "other", limit=2, **HOW)
    assert not (tmp_path / "other" / "predictions").exists()


# suites


def whole_tree(root: Path, form: str = "{}_{}", **about: Any) -> Path:
    return write_coco_c(root, [(name, severity) for name in CORRUPTIONS for severity in range(1, 6)], form=form, **about)


@pytest.mark.parametrize("form", ["{}_{}", "{}/{}"])
def test_coco_c_on_disk_is_read_in_both_habits(form: str, tmp_path: Path) -> None:
    root = whole_tree(tmp_path, form)
    model = rv.evaluate(Knowing(open_objects(root)), root, ["clean", "coco-c"], **HOW).models[0]
    summary = numbers(model)
    cells = {(cell.condition, cell.severity): cell.number("box_ap") or 0.0 for cell in model.cells if cell.severity}
    assert len(cells) == 80
    assert summary["coco_c_ap"] == pytest.approx(np.mean(list(cells.values())))
    assert summary["coco_c_ap_retention"] == pytest.approx(summary["coco_c_ap"] / summary["clean_box_ap"])
    assert summary["coco_c_mask_ap_retention"] == pytest.approx(summary["coco_c_mask_ap"] / summary["clean_mask_ap"])
    assert model.measurements[1].data["origin"] == "files on disk"
    assert {group: set(names) for group, names in model.measurements[1].groups.items()} == {
        group: set(names) for group, names in GROUPS.items()
    }


def test_coco_c_is_made_in_memory_where_there_are_no_copies(coco: Path, knowing: Knowing) -> None:
    model = rv.evaluate(knowing, coco, "coco-c", limit=2, **HOW).models[0]
    summary = numbers(model)
    assert len([cell for cell in model.cells if cell.severity]) == 80
    assert summary["coco_c_ap"] == pytest.approx(summary["mean_box_ap"])
    assert summary["coco_c_mask_ap_retention"] == pytest.approx(summary["mask_ap_retention"])


def test_with_fewer_severities_coco_c_has_no_mpc(coco: Path, knowing: Knowing) -> None:
    summary = rv.evaluate(knowing, coco, "coco-c", severity=1, limit=2, **HOW).models[0].summary
    assert "mean_box_ap" in summary
    assert not [key for key in summary if key.startswith("coco_c")]


@pytest.mark.parametrize("form", ["{}_{}", "{}/{}"])
def test_single_corruptions_are_taken_from_the_copies_that_are_there(form: str, tmp_path: Path) -> None:
    root = write_coco_c(tmp_path, [("fog", severity) for severity in range(1, 6)], form=form)
    model = rv.evaluate(Knowing(open_objects(root)), root, ["clean", "fog"], severity=(2, 3), **HOW).models[0]
    assert [measured.data["origin"] for measured in model.measurements] == ["images as they are", "files on disk"]
    assert [(cell.condition, cell.severity) for cell in model.cells] == [("clean", 0), ("fog", 2), ("fog", 3)]
    assert "retention" in model.summary


def test_of_copies_that_robustvit_wrote_coco_c_takes_what_is_there(coco: Path, knowing: Knowing, tmp_path: Path) -> None:
    main(["corrupt", str(coco / "val2017"), str(tmp_path), "--layout", "coco", "--names", "noise", "--severities", "1", "3"])
    [measured] = rv.evaluate(knowing, tmp_path, "coco-c", **HOW).models[0].measurements
    assert set(measured.corruption_accuracies) == {"gaussian_noise", "shot_noise", "impulse_noise"}
    assert measured.data["origin"] == "files on disk"
    assert "left-out" in [note.kind for note in measured.notes]


@pytest.mark.parametrize("suite", ["common15", "all19", "coco-c"])
def test_suites_of_corruptions_are_for_detection(suite: str) -> None:
    assert "detection" in (suite_named(suite).tasks or ("detection",))


@pytest.mark.parametrize("suite", ["cityscapes-c", "acdc", "imagenet-c", "patches"])
def test_suites_of_other_tasks_are_refused(suite: str, coco: Path, knowing: Knowing) -> None:
    with refused(ValueError, suite, "not for detection"):
        rv.evaluate(knowing, coco, suite, **HOW)


def coco_o(root: Path) -> Path:
    """Two images in each domain; the annotations of all have the same ids."""
    for place, domain in enumerate(DOMAINS):
        scenes = scene_objects(2, place)
        for k, (image, _) in enumerate(scenes):
            path = root / domain / "val2017" / f"{k}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(image).save(path)
        write_json(root / domain / "annotations" / "instances_val2017.json", coco_dict(scenes))
    return root


def test_coco_o_is_measured_domain_by_domain(tmp_path: Path) -> None:
    root, output = coco_o(tmp_path / "coco-o"), tmp_path / "out"
    knowing = Knowing(open_objects(root / "sketch"))  # and nothing of the other domains
    model = rv.evaluate(knowing, tmp_path, "coco-o", output=output, predictions=True, **{**HOW, "examples": 1}).models[0]
    cells = {cell.condition: cell for cell in model.cells}
    assert list(cells) == ["coco-o", *(f"coco-o {domain}" for domain in DOMAINS)]
    assert [cell.images for cell in cells.values()] == [12, *[2] * 6]
    scores = [cells[f"coco-o {domain}"].number("box_ap") or 0.0 for domain in DOMAINS]
    assert scores[DOMAINS.index("sketch")] == pytest.approx(1)
    assert model.summary["coco_o_ap"].value == pytest.approx(np.mean(scores))
    masks = [cells[f"coco-o {domain}"].number("mask_ap") or 0.0 for domain in DOMAINS]
    assert model.summary["coco_o_mask_ap"].value == pytest.approx(np.mean(masks))
    lists = sorted(path.name for path in output.glob("predictions/*/coco-o/*.json"))
    assert lists == [f"coco-o_{domain}.json" for domain in DOMAINS]
    sketch = json.loads(next(output.glob("predictions/*/coco-o/coco-o_sketch.json")).read_text())
    assert {row["image_id"] for row in sketch} == {100, 101}
    assert "sketch" not in [one.example.id.partition("/")[0] for one in model.worst]
    assert "sketch" in (output / "report.html").read_text()


@pytest.mark.parametrize("data", ["scenes:2", "folder"])
def test_coco_o_says_what_it_needs(data: str, tmp_path: Path, knowing: Knowing) -> None:
    place = tmp_path if data == "folder" else data
    with refused(LayoutError, "COCO-O"):
        rv.evaluate(knowing, place, "coco-o", **HOW)


# other detectors


def test_a_detector_of_torchvision_is_measured_as_it_is(coco: Path) -> None:
    torch.manual_seed(0)
    build = torchvision.models.detection.fasterrcnn_mobilenet_v3_large_320_fpn
    model = build(weights=None, weights_backbone=None, num_classes=11, min_size=64, max_size=64)
    task = Detection(inputs=DetectorInputs(labels="from_one"))
    found = rv.evaluate(model, coco, ["clean", "fog"], severity=3, task=task, limit=2, examples=1).models[0]
    assert model.training  # as it was
    assert found.cells[0].number("detections")
    assert "clean_mask_ap" not in found.summary
    with refused(ValueError, "the label 10", "from_one"):
        rv.evaluate(model, coco, "clean", task="detection", limit=2)


def test_options_of_the_task_are_kept_in_the_results(coco: Path, network: Any) -> None:
    task = Detection(inputs=DetectorInputs(fit=(96, 64)))
    model = rv.evaluate(network, coco, "clean", task=task, limit=1, examples=0).models[0]
    assert model.measurements[0].data["inference"] == {"fit": (96, 64), "labels": "classes"}


# odd data


def annotated(root: Path, images: int, keep: Any) -> Path:
    """A dataset of which `keep` chooses the annotations."""
    contents = coco_dict(scene_objects(images))
    contents["annotations"] = [one for one in contents["annotations"] if keep(one)]
    write_coco(root, {"val": images})
    write_json(root / "annotations" / "instances_val2017.json", contents)
    return root


def test_images_without_any_objects_have_no_ap(tmp_path: Path, network: Any) -> None:
    with refused(ValueError, "no AP", "none of the 2 images"):
        rv.evaluate(network, annotated(tmp_path, 2, lambda one: False), "clean", **HOW)


def test_an_image_without_objects_is_one_of_the_others(tmp_path: Path) -> None:
    root = annotated(tmp_path, 3, lambda one: one["image_id"] != 101)
    found = rv.evaluate(Knowing(open_objects(root)), root, ["clean", "fog"], severity=5, task="detection", examples=3)
    model = found.models[0]
    assert (model.cells[0].images, model.cells[0].number("box_ap")) == (3, pytest.approx(1))
    empty = next(example for example in model.examples if example.id == "1.jpg")
    assert empty.label == "nothing"
    assert [shot.score for shot in empty.pictures] == [None, None]
    assert "1.jpg" not in [worst.example.id for worst in model.worst]


def test_a_class_without_objects_has_no_row(tmp_path: Path) -> None:
    root = annotated(tmp_path, 3, lambda one: one["category_id"] != 1)
    model = rv.evaluate(Knowing(open_objects(root)), root, "clean", **HOW).models[0]
    first = model.measurements[0].class_accuracies[0]
    assert (first.name, first.images, first.values) == ("disc", 0, {})
    assert model.summary["clean_box_ap"].value == pytest.approx(1)


def test_one_image_has_numbers_without_intervals(coco: Path, knowing: Knowing) -> None:
    model = rv.evaluate(knowing, coco, ["clean", "snow"], severity=1, limit=1, **HOW).models[0]
    assert model.summary["clean_box_ap"].low is None
    assert model.cells[0].images == 1


def test_a_mask_network_on_boxes_alone_is_measured_by_boxes(tmp_path: Path, network: Any) -> None:
    root = write_coco(tmp_path, {"val": 2}, masks=False)
    model = rv.evaluate(network, root, "clean", **{**HOW, "examples": 1}).models[0]
    assert "clean_box_ap" in model.summary
    assert not [key for key in (*model.summary, *model.cells[0].values) if "mask" in key]


def test_grey_and_tiny_images_are_measured(tmp_path: Path, network: Any) -> None:
    root = write_coco(tmp_path, {"val": 3})
    Image.new("L", SIZE[::-1], 40).save(root / "val2017" / "0.jpg")
    Image.new("RGB", (1, 1)).save(root / "val2017" / "1.jpg")
    file = root / "annotations" / "instances_val2017.json"
    contents = json.loads(file.read_text())
    contents["images"][1] |= {"width": 1, "height": 1}
    contents["annotations"] = [one for one in contents["annotations"] if one["image_id"] != 101]
    write_json(file, contents)
    model = rv.evaluate(network, root, "clean", **{**HOW, "examples": 3}).models[0]
    assert (model.cells[0].images, model.skipped) == (3, ())
    spoiled = rv.evaluate(network, root, ["clean", "fog"], severity=1, **HOW).models[0]
    assert [name for name, _ in spoiled.skipped] == ["1.jpg"]  # corruptions need more pixels


def test_a_network_of_nan_finds_nothing_and_says_so(coco: Path) -> None:
    how: Any = dict(width=16, hidden=32, anchor_scale=4)
    broken: Any = rv.create_model("fan_hybrid_nano/mask_rcnn", num_classes=10, img_size=64, **how).eval()
    for parameter in broken.parameters():
        parameter.data.fill_(float("nan"))
    found = rv.evaluate(broken, coco, ["clean", "fog"], severity=1, limit=2, **HOW)
    assert found.models[0].summary["clean_box_ap"].value == 0
    assert "retention" not in found.models[0].summary
    assert "no-detections" in [note.kind for _, note in found.remarks()]


class StoppedError(Exception):
    """Somebody pulled the plug."""


def test_an_interrupted_run_goes_on_where_it_was(coco: Path, network: Any, tmp_path: Path) -> None:
    how: Any = dict(severity=3, batch_size=1, limit=3, predictions=True, **HOW)
    whole = rv.evaluate({"n": network}, coco, ["clean", "fog"], **how)

    def stop(what: str, done: int, total: int) -> None:
        if done > total / 2:
            raise StoppedError

    with pytest.raises(StoppedError):
        rv.evaluate({"n": network}, coco, ["clean", "fog"], output=tmp_path, report=stop, **how)
    resumed = rv.evaluate({"n": network}, coco, ["clean", "fog"], output=tmp_path, resume=True, **how)
    assert numbers(resumed.models[0]) == pytest.approx(numbers(whole.models[0]), abs=1e-6)
    assert [len(table) for table in resumed.predictions] == [len(table) for table in whole.predictions]
