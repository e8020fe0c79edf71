"""What a detector says about images becomes pictures, counts and a list in COCO's result format, whole and of one run."""

from __future__ import annotations

import csv
import json
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from object_trees import CATEGORY_IDS, write_coco
from PIL import Image, ImageChops
from refusals import refused

import robustvit as rv
from robustvit.corruptions.registry import corrupt
from robustvit.data.normalisation import Normalisation
from robustvit.data.object_layouts import open_objects
from robustvit.data.readers.class_folders import LayoutError
from robustvit.data.scenes.dataset import CLASS_NAMES
from robustvit.predicting.films import write_film
from robustvit.runtime.stored_work import StoredWork
from robustvit.tasks.box_form import BoxForm
from robustvit.tasks.coco_results import coco_results
from robustvit.tasks.detection import Detection
from robustvit.tasks.detector_inputs import DetectorInputs


@pytest.fixture(scope="module")
def detector() -> Any:
    torch.manual_seed(0)
    how: Any = dict(num_classes=10, anchor_scale=4, region_samples=64, width=16, hidden=32, score_threshold=0.09)
    return rv.create_model("fan_hybrid_nano/mask_rcnn", **how).eval()


def two_boxes(images: list[torch.Tensor]) -> list[dict[str, Any]]:
    """A square with a good score and a disc with a bad one, in every image."""
    boxes = [[4.0, 6.0, 20.0, 30.0], [10.0, 10.0, 30.0, 20.0]]
    return [{"boxes": np.array(boxes), "scores": np.array([0.9, 0.1]), "labels": np.array([1, 0])} for _ in images]


def listed(folder: Path, name: str = "detections") -> list[dict[str, Any]]:
    return json.loads((folder / f"{name}.json").read_text())


def table(folder: Path) -> list[dict[str, str]]:
    with (folder / "predictions.csv").open(newline="") as stream:
        return list(csv.DictReader(stream))


def files(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file() and path.name != "predictions.json")
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


def test_a_detector_writes_overlays_counts_and_all_its_detections(detector: Any, tmp_path: Path) -> None:
    how: Any = dict(size=(48, 64), batch_size=1)  # the last bits of scores depend on the batch
    result = rv.predict(detector, "scenes:3", tmp_path / "out", form=BoxForm(least_score=0.1), **how)
    samples = open_objects("scenes:3", scene_size=(48, 64))
    task = Detection().bind_images(detector, samples, (48, 64))
    expected: list[dict[str, Any]] = []
    for sample, row in zip(samples, table(tmp_path / "out"), strict=True):
        pixels = torch.from_numpy(np.array(sample.open())).permute(2, 0, 1)[None]
        (found,) = task.predict_images(detector, pixels, Normalisation.of(detector))
        expected += coco_results(found, sample.id)
        counts = Counter(CLASS_NAMES[kind] for kind in found.classes[found.scores >= 0.1])
        assert {name: int(row[name]) for name in CLASS_NAMES} == {name: counts[name] for name in CLASS_NAMES}
        assert Image.open(tmp_path / f"out/overlays/{sample.id}.jpg").size == (64, 48)
    assert listed(tmp_path / "out") == expected
    assert {"image_id", "category_id", "bbox", "score", "segmentation"} == expected[0].keys()
    assert result.images["ids"] == "names"
    assert result.form["category_ids"] == list(range(1, 11))
    assert result.files == ("overlays/*.jpg", "legend.png", "detections.json", "predictions.csv")


def test_ids_are_those_of_the_annotations(tmp_path: Path) -> None:
    root = write_coco(tmp_path / "coco", {"val": 2})
    result = rv.predict(two_boxes, root, tmp_path / "out", task="detection")
    square, disc = (CATEGORY_IDS[CLASS_NAMES.index(name)] for name in ("square", "disc"))
    assert [(entry["image_id"], entry["category_id"]) for entry in listed(tmp_path / "out")] == [
        (image, category) for image in (100, 101) for category in (square, disc)
    ]
    assert listed(tmp_path / "out")[0]["bbox"] == [4, 6, 16, 24]
    assert result.images["ids"] == "annotations"
    assert result.form["category_ids"] == list(CATEGORY_IDS)
    alone = rv.predict(two_boxes, root / "annotations/instances_val2017.json", tmp_path / "alone", task="detection", limit=1)
    assert alone.images["predicted"] == 1
    assert listed(tmp_path / "alone") == listed(tmp_path / "out")[:2]


def test_labels_of_a_model_are_read_as_the_task_says(tmp_path: Path) -> None:
    def counted_from_one(images: list[torch.Tensor]) -> list[dict[str, Any]]:
        return [{**answer, "labels": answer["labels"] + 1} for answer in two_boxes(images)]

    root, task = write_coco(tmp_path / "coco", {"val": 1}), Detection(inputs=DetectorInputs(labels="from_one"))
    rv.predict(counted_from_one, root, tmp_path / "out", task=task)
    assert [entry["category_id"] for entry in listed(tmp_path / "out")] == [CATEGORY_IDS[1], CATEGORY_IDS[0]]


def test_objects_below_the_least_score_are_listed_and_neither_drawn_nor_counted(tmp_path: Path) -> None:
    root = write_coco(tmp_path / "coco", {"val": 1})
    for name, least in (("few", 0.3), ("many", 0.05), ("none", 1.0)):
        rv.predict(two_boxes, root, tmp_path / name, task="detection", form=BoxForm(least_score=least))
    counts = {name: table(tmp_path / name)[0] for name in ("few", "many", "none")}
    assert [(counts[name]["square"], counts[name]["disc"]) for name in counts] == [("1", "0"), ("1", "1"), ("0", "0")]
    assert listed(tmp_path / "few") == listed(tmp_path / "many") == listed(tmp_path / "none")
    few, many, none = (Image.open(tmp_path / f"{name}/overlays/0.jpg") for name in counts)
    for more, less in ((few, none), (many, few)):
        assert np.array(ImageChops.difference(more, less)).max() > 60
    with refused(ValueError, "least_score=2"):
        BoxForm(least_score=2)


def test_corrupted_images_have_a_list_of_their_own(detector: Any, tmp_path: Path) -> None:
    how: Any = dict(size=(64, 64), batch_size=1)
    result = rv.predict(detector, "scenes:2", tmp_path / "out", corruption="fog", severity=5, seed=3, **how)
    rv.predict(detector, "scenes:2", tmp_path / "clean", **how)
    assert listed(tmp_path / "out") == listed(tmp_path / "clean")
    pixels = torch.from_numpy(np.array(open_objects("scenes:2", scene_size=(64, 64)).at(1).open())).permute(2, 0, 1)[None]
    foggy = corrupt(pixels, "fog", 5, seed=3, sample_ids=["1"])
    task = Detection().bind_images(detector, open_objects("scenes:2"), (64, 64))
    (found,) = task.predict_images(detector, foggy, Normalisation.of(detector))
    own = [entry for entry in listed(tmp_path / "out", "detections-corrupted") if entry["image_id"] == "1"]
    assert own == coco_results(found, "1")
    assert (tmp_path / "out/comparisons/1.jpg").is_file()
    assert "detections-corrupted.json" in result.files


def test_images_in_which_nothing_is_found_give_an_empty_list(tmp_path: Path) -> None:
    def nothing(images: list[torch.Tensor]) -> list[dict[str, Any]]:
        return [{"boxes": np.zeros((0, 4)), "scores": np.zeros(0), "labels": np.zeros(0, int)} for _ in images]

    result = rv.predict(nothing, write_coco(tmp_path / "coco", {"val": 1}), tmp_path / "out", task="detection")
    assert listed(tmp_path / "out") == []
    assert set(result.shares["clean"].values()) == {0}


def test_frames_of_a_film_are_listed_by_their_numbers(detector: Any, tmp_path: Path) -> None:
    av = pytest.importorskip("av")
    scenes = open_objects("scenes:4", scene_size=(48, 64))
    write_film(tmp_path / "film.mp4", (scenes.at(i).open() for i in range(4)), Fraction(5))
    result = rv.predict(detector, tmp_path / "film.mp4", tmp_path / "out", corruption="fog", batch_size=2)
    frames = {f"{i:06}" for i in range(4)}
    assert {entry["image_id"] for entry in listed(tmp_path / "out")} == frames
    assert files(tmp_path / "out").keys() == {
        *("predictions.csv", "predictions.mp4", "legend.png", "detections.json", "detections-corrupted.json")
    }
    with av.open(str(tmp_path / "out/predictions.mp4")) as film:
        assert len(list(film.decode(video=0))) == 4
    assert result.form["classes"] == [f"class {i}" for i in range(10)]


class _StoppedError(Exception):
    pass


def test_a_list_is_written_at_the_end_also_of_a_run_that_was_interrupted(
    detector: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(what: str, done: int, total: int) -> None:
        if done >= 2:
            raise _StoppedError

    how: Any = dict(corruption="fog", batch_size=1, size=(32, 32))
    rv.predict(detector, "scenes:4", tmp_path / "whole", **how)
    with pytest.raises(_StoppedError):
        rv.predict(detector, "scenes:4", tmp_path / "out", report=stop, **how)
    assert not list((tmp_path / "out").glob("detections*"))
    rv.predict(detector, "scenes:4", tmp_path / "out", resume=True, **how)
    assert files(tmp_path / "out") == files(tmp_path / "whole")
    (tmp_path / "out/detections.json").unlink()
    rv.predict(detector, "scenes:4", tmp_path / "out", resume=True, **how)
    assert files(tmp_path / "out") == files(tmp_path / "whole")


def test_one_batch_of_detections_is_in_memory_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    save = StoredWork.save

    def watched(self: StoredWork, name: str, part: Any) -> None:
        sizes.append(sum(map(len, part.values["records"])))
        save(self, name, part)

    monkeypatch.setattr(StoredWork, "save", watched)
    rv.predict(two_boxes, write_coco(tmp_path / "coco", {"val": 5}), tmp_path / "out", task="detection", batch_size=2)
    assert sizes == [4, 4, 2]
    assert len(listed(tmp_path / "out")) == 10


def test_images_without_annotations_and_splits_are_taken(detector: Any, tmp_path: Path) -> None:
    root = write_coco(tmp_path / "coco", {"train": 3, "val": 2})
    assert rv.predict(detector, root, tmp_path / "train", split="train").images["predicted"] == 3
    (root / "val2017").rename(tmp_path / "images")
    result = rv.predict(detector, tmp_path / "images", tmp_path / "plain")
    assert result.images == {"name": str(tmp_path / "images"), "predicted": 2, "kind": "images", "ids": "names"}
    assert {entry["image_id"] for entry in listed(tmp_path / "plain")} == {"0.jpg", "1.jpg"}
    with refused(LayoutError, root, "'tset'"):
        rv.predict(detector, root, tmp_path / "none", split="tset")
