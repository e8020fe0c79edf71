"""A broken annotation is counted, named and left out; what makes a whole file ambiguous is refused in one message."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from map_trees import save
from object_trees import SIZE, coco_dict, scene_objects, write_coco, write_json
from PIL import Image
from refusals import refused

from robustvit.data.object_annotations import Problems, TableBuilder
from robustvit.data.object_layouts import LayoutError, open_objects
from robustvit.data.object_samples import ObjectSamples
from robustvit.data.samples import UnreadablePictureError

H, W = SIZE
BOX = [8, 8, 16, 8]


def annotated(root: Path, changes: list[dict[str, Any]], *, files: int = 2, **others: Any) -> Path:
    """A dataset of two images with a good object in the first, id 1, and one for each change, from id 2 on."""
    contents = coco_dict(scene_objects(2))
    good = {"id": 1, "image_id": 100, "category_id": 1, "bbox": BOX, "area": 128.0, "iscrowd": 0}
    contents["annotations"] = [good, *({**good, "id": k, **change} for k, change in enumerate(changes, 2))]
    contents |= others
    for k in range(files):
        save(root / "images" / f"{k}.jpg", np.full((*SIZE, 3), 128, np.uint8))
    return write_json(root / "annotations.json", contents)


def told(path: Path, **options: Any) -> tuple[ObjectSamples, str]:
    """The samples and the one warning about them."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        samples = open_objects(path, **options)
    messages = [str(one.message) for one in caught]
    assert len(messages) == bool(samples.problems)
    assert all(problem in messages[0] for problem in samples.problems)
    return samples, "".join(messages)


@pytest.mark.parametrize(
    "change",
    [
        {"bbox": [W + 1, 0, 10, 10]},
        {"bbox": [-20, 0, 10, 10]},
        {"bbox": [5, 5, 0, 10]},
        {"bbox": [5, 5, 10, -3]},
        {"bbox": [5, 5, math.nan, 10]},
        {"bbox": [5, 5, math.inf, 10]},
        {"bbox": [5, 5, 10]},
        {"bbox": None},
        {"bbox": "5, 5, 10, 10"},
        {"bbox": {"x": 5}},
        {"bbox": [10**400, 5, 10, 10]},
        {"category_id": 4},
        {"category_id": None},
        {"category_id": [1]},
        {"category_id": 1.5},
        {"image_id": 7},
        {"image_id": None},
        {"image_id": [100]},
        {"id": 1},
    ],
)
def test_a_broken_annotation_is_left_out_and_named(tmp_path: Path, change: dict[str, Any]) -> None:
    samples, message = told(annotated(tmp_path, [change, change]))
    assert samples.at(0).target().boxes.tolist() == [[8, 8, 24, 16]]
    assert len(samples.at(1).target().boxes) == 0
    assert len(samples.problems) == 1
    assert f": 2 (annotation {change.get('id', 2)}, " in message


@pytest.mark.parametrize(
    "segmentation",
    [
        [[1, 2, 3]],
        [[1, 2, 3, 4]],
        [[1, 2, 3, 4, 5, math.nan]],
        [[0, 0, 10**9, 0, 10**9, 10**9]],
        [["a", "b", "c", "d", "e", "f"]],
        [[], []],
        "polygon",
        7,
        {"counts": "abc"},
        {"size": [H, W], "counts": "abc"},
        {"size": [H, W], "counts": [1, 2, 3]},
        {"size": [W, H], "counts": [H * W]},
        {"size": 3, "counts": [H * W]},
        {"size": [H, W], "counts": [[1], 2]},
        {"size": [H, W], "counts": None},
    ],
)
def test_an_object_with_a_malformed_segmentation_is_left_out(tmp_path: Path, segmentation: Any) -> None:
    contents = coco_dict(scene_objects(1))
    contents["annotations"][0]["segmentation"] = segmentation
    save(tmp_path / "0.jpg", np.zeros((*SIZE, 3), np.uint8))
    samples, message = told(write_json(tmp_path / "a.json", contents))
    assert ": 1 (annotation 1)" in message
    target = samples.at(0).target()
    assert len(target.boxes) == len(contents["annotations"]) - 1
    assert target.masks is not None
    assert len(target.masks) == len(target.boxes)


def test_boxes_partly_outside_are_clipped_and_counted_and_stay_where_it_is_rounding(tmp_path: Path) -> None:
    boxes = [[-5, -5, 10, 10], [W - 5, H - 5, 10, 10], [0, 0, W + 0.01, H + 0.5]]
    samples, message = told(annotated(tmp_path, [{"bbox": box} for box in boxes]))
    assert samples.at(0).target().boxes[1:].tolist() == [[0, 0, 5, 5], [W - 5, H - 5, W, H], [0, 0, W + 0.01, H + 0.5]]
    assert ": 2 (annotation 2, annotation 3)" in message


@settings(max_examples=200, deadline=None)
@given(st.lists(st.lists(st.floats(width=32), min_size=4, max_size=4), max_size=6))
def test_what_is_taken_lies_within_the_image_to_a_pixel_and_has_an_area(boxes: list[list[float]]) -> None:
    problems = Problems()
    builder = TableBuilder(Path("a"), [SIZE], problems)
    builder.add(0, 0, (1, 1, 2, 2), "good")
    for box in boxes:
        builder.add(0, 1, box, "any")
    found = builder.table().objects(0, SIZE).boxes
    x1, y1, x2, y2 = found.T
    assert np.isfinite(found).all()
    assert ((x1 >= -1) & (y1 >= -1) & (x2 <= W + 1) & (y2 <= H + 1) & (x1 < x2) & (y1 < y2)).all()
    assert len(found) <= 1 + len(boxes)
    assert len(found) == 1 + len(boxes) or problems.told()


def test_an_id_that_was_given_to_two_objects_costs_neither(tmp_path: Path) -> None:
    samples, message = told(annotated(tmp_path, [{"id": 1, "bbox": [0, 0, 4, 4]}]))
    assert len(samples.at(0).target().boxes) == 2
    assert ": 1 (annotation 1)" in message


def test_masks_are_used_if_every_object_has_one(tmp_path: Path) -> None:
    outline = {"segmentation": [[8, 8, 24, 8, 24, 16]]}
    samples, message = told(annotated(tmp_path, [outline, {"segmentation": []}, {"segmentation": None}]))
    assert (samples.has_masks, samples.at(0).target().masks, len(samples.at(0).target().boxes)) == (False, None, 4)
    assert ": 3 (annotation 1, annotation 3, annotation 4)" in message


def test_images_whose_file_is_missing_are_left_out_with_their_objects(tmp_path: Path) -> None:
    samples, message = told(annotated(tmp_path, [{"image_id": 101}], files=1))
    assert [sample.id for sample in samples] == ["0.jpg"]
    assert len(samples.problems) == 1
    assert ": 1 (1.jpg)" in message
    (tmp_path / "images/0.jpg").unlink()
    with refused(LayoutError, tmp_path / "annotations.json", "2 images", "0.jpg"):
        open_objects(tmp_path)


def test_many_faults_are_counted_and_few_named(tmp_path: Path) -> None:
    _, message = told(annotated(tmp_path, [{"category_id": 4}] * 1000))
    assert ": 1000 (annotation 2, annotation 3, annotation 4, annotation 5, ...)" in message
    assert len(message) < 400


def test_images_listed_twice_count_once(tmp_path: Path) -> None:
    images = coco_dict(scene_objects(2))["images"]
    samples, message = told(annotated(tmp_path, [], images=[*images, images[1], {"id": 3}, "x"]))
    assert len(samples) == 2
    assert ": 1 (1.jpg)" in message
    assert ": 2 (number 3, number 4)" in message


@pytest.mark.parametrize(
    ("contents", "values"),
    [
        ("not json", ()),
        ("[]", ()),
        ('{"images": 3}', ()),
        ('{"images": [{"id": 1, "file_name": "0.jpg"}], "annotations": 3}', ("int",)),
        ('{"images": [{"id": 1, "file_name": "0.jpg"}], "annotations": [{"image_id": 1}]}', ("categories",)),
        ('{"images": [], "annotations": [], "categories": []}', ()),
        ('{"images": [{"id": 1, "file_name": "a.jpg"}, {"id": 1, "file_name": "b.jpg"}]}', ("a.jpg", "b.jpg", 1)),
        ('{"images": [{"id": 1, "file_name": "a.jpg"}, {"id": 2, "file_name": "a.jpg"}]}', ("a.jpg", 1, 2)),
        ('{"images": [{"id": 1, "file_name": "a.jpg"}], "categories": [{"name": "x"}]}', ("x",)),
        ('{"images": [], "categories": [{"id": 1, "name": "x"}, {"id": 1, "name": "y"}]}', ("'x'", "'y'", 1)),
        ("[" * 100_000, ()),
    ],
)
def test_a_file_that_cannot_be_understood_is_refused(tmp_path: Path, contents: str, values: tuple[object, ...]) -> None:
    save(tmp_path / "0.jpg", np.zeros((*SIZE, 3), np.uint8))
    (tmp_path / "a.json").write_text(contents)
    with refused(LayoutError, tmp_path / "a.json", *values):
        open_objects(tmp_path / "a.json")


def test_a_folder_whose_only_annotations_are_no_coco_names_them_where_labels_are_needed(tmp_path: Path) -> None:
    save(tmp_path / "images" / "0.jpg", np.full((*SIZE, 3), 128, np.uint8))
    (tmp_path / "labels.json").write_text("[1, 2]")
    samples = open_objects(tmp_path)
    assert not samples.has_targets
    with refused(LayoutError, tmp_path, "0.jpg", "labels.json", "predict"):
        samples.require_targets()


def test_annotations_none_of_which_can_be_used_are_refused(tmp_path: Path) -> None:
    file = annotated(tmp_path, [], annotations=[{"id": 5, "image_id": 100, "category_id": 4, "bbox": BOX}])
    with refused(LayoutError, file, "annotation 5"):
        open_objects(file)


def test_categories_of_one_name_stay_apart(tmp_path: Path) -> None:
    samples, _ = told(annotated(tmp_path, [], categories=[{"id": 3, "name": "cat"}, {"id": 1, "name": "cat"}, {"id": 2}]))
    assert samples.classes == ("cat (1)", "category 2", "cat (3)")


def test_images_of_another_size_than_annotated_are_refused(tmp_path: Path) -> None:
    write_coco(tmp_path)
    save(tmp_path / "val2017/1.jpg", np.zeros((H, W + 1, 3), np.uint8))
    save(tmp_path / "train2017/1.jpg", np.zeros((H, W + 1, 3), np.uint8))
    samples = open_objects(tmp_path)
    samples.check_values([0])
    for _ in range(2):
        with refused(LayoutError, tmp_path, "1 images", "1.jpg", f"{W}x{H}", f"{W + 1}x{H}"):
            samples.check_values()
    with refused(LayoutError, "1.jpg"):
        open_objects(tmp_path, split="train")


def test_images_that_their_tag_turns_are_told_as_such(tmp_path: Path) -> None:
    write_coco(tmp_path)
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (W, H)).save(tmp_path / "val2017/1.jpg", exif=exif)
    with refused(LayoutError, "1.jpg", "--ignore-orientation"):
        open_objects(tmp_path).check_values()
    open_objects(tmp_path, ignore_orientation=True).check_values()


def test_a_damaged_image_is_left_to_whoever_opens_it(tmp_path: Path) -> None:
    write_coco(tmp_path)
    (tmp_path / "val2017/1.jpg").write_bytes(b"damaged")
    samples = open_objects(tmp_path)
    samples.check_values()
    assert len(samples.at(1).target().boxes)
    with pytest.raises(UnreadablePictureError):
        samples.at(1).open()
