"""Annotation files of COCO's format are found in every usual arrangement, and read as the measure needs them."""

from __future__ import annotations

import json
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from map_trees import save
from object_trees import CATEGORY_IDS, SIZE, coco_dict, scene_objects, write_coco, write_json
from refusals import refused

from robustvit.data.object_annotations import ObjectTable, Problems
from robustvit.data.object_layouts import LayoutError, open_object_split, open_objects
from robustvit.data.object_samples import ObjectSamples
from robustvit.data.readers.coco_annotations import coco_table, read_coco
from robustvit.data.samples import SomeSamples
from robustvit.data.scenes.dataset import CLASS_NAMES
from robustvit.metrics.box_matching import Labelled
from robustvit.runtime.fingerprint import Digest
from robustvit.runtime.run_lengths import RunLengths


def assert_same(found: Labelled, expected: Labelled, *, masks: bool = True) -> None:
    assert (found.boxes.dtype, found.classes.dtype, found.areas.dtype) == (np.float64, np.int64, np.float64)
    assert found.is_crowd.dtype == bool
    for name in ("boxes", "classes", "areas", "is_crowd"):
        assert np.array_equal(getattr(found, name), getattr(expected, name)), name
    assert (found.masks is not None) == masks
    if found.masks is not None and expected.masks is not None:
        assert np.array_equal(found.masks.dense(), expected.masks.dense())


def digest(samples: Any, positions: list[int] | None = None) -> str:
    found = Digest()
    samples.add_to(found, positions)
    return found.text()


def opened(root: Path, contents: dict[str, Any], images: int = 1) -> ObjectSamples:
    """A dataset of these annotations with grey images 0.jpg, 1.jpg, ...; warnings are errors."""
    for k in range(images):
        save(root / "images" / f"{k}.jpg", np.full((*SIZE, 3), 128, np.uint8))
    write_json(root / "annotations.json", contents)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return open_objects(root)


def test_coco_is_read_with_its_boxes_classes_masks_and_ids(tmp_path: Path) -> None:
    samples = open_objects(write_coco(tmp_path))
    assert [sample.id for sample in samples] == ["0.jpg", "1.jpg"]
    assert (samples.name, samples.classes, samples.category_ids) == (str(tmp_path), CLASS_NAMES, CATEGORY_IDS)
    assert (samples.has_targets, samples.has_masks, samples.problems) == (True, True, ())
    assert samples.image_ids == {"0.jpg": 100, "1.jpg": 101}
    assert len(set(samples.palette)) == len(CLASS_NAMES)
    for sample, (image, objects) in zip(samples, scene_objects(2, 1), strict=True):
        assert np.abs(np.asarray(sample.open()).astype(int) - image).mean() < 30
        assert_same(sample.target(), objects)
    assert len(open_objects(tmp_path, split="train")) == 3


@pytest.mark.parametrize(
    ("images", "annotations"),
    [
        ("images/{}", "annotations/instances_{}.json"),
        ("images/{}2017", "annotations/instances_{}2017.json"),
        ("{}", "{}/_annotations.coco.json"),
        ("{}", "{}.json"),
        ("{}/images", "{}/labels.json"),
        ("images", "annotations/{}.json"),
        ("images/{}", "{}_annotations.json"),
        ("coco_{}", "coco_{}.json"),
        ("data", "annotations/{}.json"),
    ],
)
@pytest.mark.parametrize("split", ["train", "val"])
def test_annotation_files_and_images_are_found_in_the_usual_places(
    tmp_path: Path, images: str, annotations: str, split: str
) -> None:
    write_coco(tmp_path, {"train": 3, "val": 2}, images=images, annotations=annotations)
    write_json(tmp_path / "settings.json", {"classes": []})
    expected = 3 if split == "train" else 2
    for source in (tmp_path, tmp_path / annotations.format(split)):
        samples = open_objects(source, split=split)  # type: ignore[arg-type]
        assert len(samples) == expected
        assert samples.problems == ()
        if images.format(split) != images:  # else the last written images are those of both
            assert_same(samples.at(1).target(), scene_objects(expected, int(split == "val"))[1][1])


def test_a_single_annotation_file_is_for_every_split(tmp_path: Path) -> None:
    write_json(tmp_path / "my labels.json", coco_dict(scene_objects(2)))
    for k, (image, _) in enumerate(scene_objects(2)):
        save(tmp_path / "pictures" / f"{k}.jpg", image)
    assert [len(open_objects(tmp_path, split=split)) for split in ("train", "val", "test")] == [2, 2, 2]


def test_the_folder_of_the_images_of_a_split_may_be_given(tmp_path: Path) -> None:
    write_coco(tmp_path / "a")
    write_coco(tmp_path / "b", images="images/{}", annotations="annotations/{}.json")
    assert len(open_objects(tmp_path / "a/val2017")) == 2
    samples = open_objects(tmp_path / "b/images/train")
    assert (len(samples), samples.has_targets) == (3, True)


def test_a_split_that_is_missing_is_named(tmp_path: Path) -> None:
    write_coco(tmp_path, {"val": 2})
    with refused(LayoutError, tmp_path, "instances_val2017.json", "train"):
        open_objects(tmp_path, split="train")
    assert len(open_object_split(tmp_path, "val2017")) == 2
    save(tmp_path / "test2017/9.jpg", np.zeros((*SIZE, 3), np.uint8))
    assert not open_object_split(tmp_path, "test2017").has_targets
    with refused(LayoutError, tmp_path, "nothing"):
        open_object_split(tmp_path, "nothing")


def test_several_annotation_files_of_a_split_are_told_apart_by_their_images(tmp_path: Path) -> None:
    write_coco(tmp_path, {"val": 2})
    shutil.copy(tmp_path / "annotations/instances_val2017.json", tmp_path / "annotations/instances_val2014.json")
    (tmp_path / "annotations/captions_val2017.json").write_text('{"images": [], "annotations": []}')
    assert len(open_objects(tmp_path)) == 2
    (tmp_path / "val2014").mkdir()
    with refused(LayoutError, tmp_path, "instances_val2014.json", "instances_val2017.json"):
        open_objects(tmp_path)


def test_images_without_annotations_have_no_targets(tmp_path: Path) -> None:
    save(tmp_path / "b/2.png", np.zeros((*SIZE, 3), np.uint8))
    save(tmp_path / "10.png", np.zeros((*SIZE, 3), np.uint8))
    save(tmp_path / "9.png", np.zeros((*SIZE, 3), np.uint8))
    for source, ids in ((tmp_path, ["9.png", "10.png", "b/2.png"]), (tmp_path / "9.png", ["9.png"])):
        samples = open_objects(source)
        assert [sample.id for sample in samples] == ids
        assert (samples.has_targets, samples.has_masks, samples.classes, samples.image_ids) == (False, False, (), None)
        assert samples.at(0).open().size == (64, 48)
        with refused(LayoutError, source, ids[0]):
            samples.require_targets()
        with refused(LayoutError, source):
            samples.at(0).target()
    with refused(LayoutError, tmp_path / "empty"):
        (tmp_path / "empty").mkdir()
        open_objects(tmp_path / "empty")
    with refused(FileNotFoundError, tmp_path / "none"):
        open_objects(tmp_path / "none")


def test_a_file_of_images_alone_has_classes_and_no_targets(tmp_path: Path) -> None:
    contents = coco_dict(scene_objects(1))
    del contents["annotations"]
    samples = opened(tmp_path, contents)
    assert (samples.has_targets, samples.classes) == (False, CLASS_NAMES)
    with refused(LayoutError, "annotations.json"):
        samples.require_targets()


def test_names_of_files_may_have_other_folders_in_front(tmp_path: Path) -> None:
    contents = coco_dict(scene_objects(4))
    names = ["pictures/0.jpg", "C:\\data\\1.jpg", "/home/someone/2.jpg", "./../3.jpg"]
    for image, name in zip(contents["images"], names, strict=True):
        image["file_name"] = name
    samples = opened(tmp_path, contents, 4)
    assert [sample.id for sample in samples] == ["0.jpg", "1.jpg", "2.jpg", "3.jpg"]
    assert samples.image_ids == {f"{k}.jpg": 100 + k for k in range(4)}


def test_names_of_files_may_lack_their_folders(tmp_path: Path) -> None:
    contents = coco_dict(scene_objects(2))
    for k, (image, _) in enumerate(scene_objects(2)):
        save(tmp_path / "images" / f"city{k}" / f"{k}.jpg", image)
    write_json(tmp_path / "a.json", contents)
    assert [sample.id for sample in open_objects(tmp_path)] == ["city0/0.jpg", "city1/1.jpg"]


def test_an_image_without_objects_is_kept(tmp_path: Path) -> None:
    contents = coco_dict(scene_objects(2))
    contents["annotations"] = [a for a in contents["annotations"] if a["image_id"] == 101]
    target = opened(tmp_path, contents, 2).at(0).target()
    assert (target.boxes.shape, target.classes.shape, target.areas.shape, target.is_crowd.shape) == ((0, 4), (0,), (0,), (0,))
    assert target.masks is not None
    assert (len(target.masks), target.masks.size) == (0, SIZE)
    contents["annotations"] = []
    samples = opened(tmp_path, contents, 2)
    assert (samples.has_targets, samples.has_masks, samples.at(1).target().masks) == (True, False, None)


@settings(max_examples=50, deadline=None)
@given(ids=st.lists(st.integers(0, 10**6), min_size=1, max_size=20, unique=True), data=st.data())
def test_the_index_of_a_class_is_the_rank_of_its_category_id(tmp_path_factory: Any, ids: list[int], data: Any) -> None:
    used = data.draw(st.lists(st.sampled_from(ids), max_size=20))
    contents = {
        "images": [{"id": 1, "file_name": "0.jpg", "width": 9, "height": 9}],
        "categories": [{"id": key, "name": f"n{key}"} for key in ids],
        "annotations": [{"image_id": 1, "category_id": key, "bbox": [0, 0, 1, 1]} for key in used],
    }
    file = read_coco(write_json(tmp_path_factory.getbasetemp() / "categories" / "a.json", contents))
    assert file.about.category_ids == tuple(sorted(ids))
    assert file.about.names == tuple(f"n{key}" for key in sorted(ids))
    table = coco_table(file, file.images, [Path("0.jpg")], Problems())
    assert isinstance(table, ObjectTable)
    assert [file.about.category_ids[c] for c in table.objects(0, (9, 9)).classes] == used


def test_polygons_and_run_lengths_become_the_masks_of_the_measure(tmp_path: Path) -> None:
    square: dict[str, Any] = {"id": 1, "image_id": 100, "category_id": 1, "bbox": [8, 8, 16, 8]}
    dense = np.zeros((1, *SIZE), bool)
    dense[:, 8:16, 8:24] = True
    runs = RunLengths.from_dense(dense)
    polygon = [8, 8, 24, 8, 24, 16, 8, 16]
    forms: list[Any] = [
        [polygon],
        polygon,  # some tools write a polygon without the list around it
        [[0, 0, 1, 1], polygon],  # and corners that are no polygon beside one
        {"size": list(SIZE), "counts": runs.runs[0].tolist()},
        runs.to_coco()[0],
    ]
    contents = coco_dict(scene_objects(1))
    contents["annotations"] = [{**square, "id": k, "segmentation": form} for k, form in enumerate(forms)]
    samples = opened(tmp_path, contents)
    target = samples.at(0).target()
    assert target.masks is not None
    for mask in target.masks.dense():
        assert np.array_equal(mask, dense[0])
    assert target.areas.tolist() == [128.0] * len(forms)


def test_areas_are_annotated_or_those_of_the_mask_or_of_the_box(tmp_path: Path) -> None:
    contents = coco_dict(scene_objects(1))
    triangle = [[0, 0, 10, 0, 0, 10]]
    objects: list[dict[str, Any]] = [{"area": 7.5}, {}, {"area": None}, {"area": "much"}, {"area": -1}]
    one = {"image_id": 100, "category_id": 1, "bbox": [0, 0, 10, 10]}
    contents["annotations"] = [{**one, "id": k, **about} for k, about in enumerate(objects)]
    assert opened(tmp_path / "a", contents).at(0).target().areas.tolist() == [7.5, 100, 100, 100, 100]
    contents["annotations"] = [{**a, "segmentation": triangle} for a in contents["annotations"]]
    target = opened(tmp_path / "b", contents).at(0).target()
    assert target.masks is not None
    assert target.areas.tolist() == [7.5, *target.masks.areas().tolist()[1:]]
    assert 40 < target.areas[1] < 60


def test_crowds_are_marked(tmp_path: Path) -> None:
    contents = coco_dict(scene_objects(1))
    for annotation, crowd in zip(contents["annotations"], [1, 0], strict=False):
        annotation["iscrowd"] = crowd
    assert opened(tmp_path, contents).at(0).target().is_crowd.tolist()[:2] == [True, False]


def test_sizes_that_are_not_annotated_are_asked_of_the_images(tmp_path: Path) -> None:
    contents = coco_dict(scene_objects(1))
    expected = opened(tmp_path / "a", contents).at(0).target()
    for k, sizes in enumerate([{}, {"width": 0, "height": 0}, {"width": "wide", "height": 10**9}]):
        contents["images"] = [{"id": 100, "file_name": "0.jpg", **sizes}]
        samples = opened(tmp_path / str(k), contents)
        samples.check_values()
        assert_same(samples.at(0).target(), expected)


def test_json_files_of_single_images_are_no_annotation_files(tmp_path: Path) -> None:
    for k in range(70):
        write_json(tmp_path / f"{k}.json", {"images": [], "annotations": []})
    save(tmp_path / "0.jpg", np.zeros((*SIZE, 3), np.uint8))
    assert not open_objects(tmp_path).has_targets


def test_ids_may_be_words_or_whole_numbers_with_a_point(tmp_path: Path) -> None:
    contents = coco_dict(scene_objects(2))
    contents["images"][0]["id"] = "first"
    contents["images"][1]["id"] = 101.0
    contents["categories"][0]["id"] = "90"
    for annotation in contents["annotations"]:
        annotation["image_id"] = {100: "first", 101: 101.0}[annotation["image_id"]]
    samples = opened(tmp_path, contents, 2)
    assert samples.image_ids == {"0.jpg": "first", "1.jpg": 101}
    assert samples.category_ids == CATEGORY_IDS
    assert all(len(sample.target().boxes) for sample in samples)


def test_a_part_of_the_samples_knows_what_the_whole_knows(tmp_path: Path) -> None:
    samples = open_objects(write_coco(tmp_path), split="train")
    part = SomeSamples(samples, [0, 2])
    for name in ("classes", "palette", "category_ids", "image_ids", "has_targets", "has_masks", "problems"):
        assert getattr(part, name) == getattr(samples, name)
    assert [sample.id for sample in part] == ["0.jpg", "2.jpg"]
    assert_same(part.at(1).target(), samples.at(2).target())


def test_the_digest_depends_on_images_and_objects_of_the_chosen_samples(tmp_path: Path) -> None:
    file = write_coco(tmp_path) / "annotations/instances_train2017.json"
    samples = open_objects(tmp_path, split="train")
    assert digest(samples) == digest(open_objects(tmp_path, split="train"))
    assert digest(samples, [0]) != digest(samples, [1])
    contents = json.loads(file.read_text())
    last = next(a for a in contents["annotations"] if a["image_id"] == 102)
    last["bbox"][2] -= 1
    file.write_text(json.dumps(contents))
    changed = open_objects(tmp_path, split="train")
    assert digest(changed) != digest(samples)
    assert digest(changed, [0, 1]) == digest(samples, [0, 1])
    last["segmentation"] = [[0, 0, 9, 0, 9, 9]]
    file.write_text(json.dumps(contents))
    assert digest(open_objects(tmp_path, split="train"), [2]) != digest(changed, [2])


def test_scenes_have_the_objects_of_their_images() -> None:
    samples = open_objects("scenes:5", scene_size=(40, 56))
    assert (samples.name, len(samples), samples.classes) == ("scenes", 5, CLASS_NAMES)
    assert (samples.has_targets, samples.has_masks, samples.category_ids, samples.problems) == (True, True, None, ())
    drawn = samples.read_many([0, 3])  # type: ignore[attr-defined]
    for (image, objects), i in zip(drawn, (0, 3), strict=True):
        sample = samples.at(i)
        assert sample.id == str(i)
        assert_same(sample.target(), objects)
        assert np.array_equal(np.asarray(sample.open()), image)
        assert_same(sample.target(), objects)
        assert objects.masks is not None
        assert np.array_equal(objects.masks.boxes(), objects.boxes)
        assert np.array_equal(objects.masks.areas(), objects.areas)
    larger = samples.at_size((80, 112))  # type: ignore[attr-defined]
    assert larger.at(0).open().size == (112, 80)
    assert np.allclose(larger.at(0).target().boxes[0], 2 * samples.at(0).target().boxes[0], atol=3)
    assert digest(samples, [1]) != digest(samples, [2])
    assert digest(samples) != digest(open_objects("scenes-easy:5", scene_size=(40, 56)))
