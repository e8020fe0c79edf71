"""Copies of detection datasets keep ids and objects of the clean images, whoever made them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from map_trees import save
from object_trees import SIZE, write_coco, write_coco_c, write_json, write_voc, write_yolo
from refusals import refused

from robustvit.data.copies.copying import Copying
from robustvit.data.copies.corrupted_tree import corrupt_tree
from robustvit.data.object_layouts import DOMAINS, LayoutError, coco_o_domains, corrupted_objects, open_objects
from robustvit.data.object_samples import ObjectSamples
from robustvit.metrics.box_matching import Labelled

CELLS = [("fog", 1), ("fog", 3), ("snow", 1), ("snow", 3)]
NAMES, SEVERITIES = ("fog", "snow"), (1, 3)


def equal(a: Labelled, b: Labelled) -> bool:
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in ("boxes", "classes", "areas", "is_crowd"))


def assert_copies(copies: ObjectSamples, clean: ObjectSamples) -> None:
    assert [sample.id for sample in copies] == [sample.id for sample in clean]
    assert all(equal(a.target(), b.target()) for a, b in zip(copies, clean, strict=True))
    for name in ("classes", "category_ids", "image_ids", "has_targets", "has_masks", "palette"):
        assert getattr(copies, name) == getattr(clean, name)
    copies.check_values()


@pytest.mark.parametrize("form", ["{}_{}", "{}/{}", "weather/{}/{}"])
@pytest.mark.parametrize("clean", [True, False])
def test_coco_c_is_read_in_both_habits_with_or_without_clean_images(tmp_path: Path, form: str, clean: bool) -> None:
    cells = corrupted_objects(write_coco_c(tmp_path, CELLS, form=form, clean=clean), NAMES, SEVERITIES)
    assert cells is not None
    assert list(cells) == CELLS
    expected = open_objects(write_coco_c(tmp_path / "clean one", []))
    for (_, severity), samples in cells.items():
        assert_copies(samples, expected)
        assert np.abs(np.asarray(samples.at(1).open())[..., 0].astype(int) - severity).max() <= 2
    if clean:
        assert_copies(open_objects(tmp_path), expected)


def test_annotations_of_coco_c_may_lie_around_it(tmp_path: Path) -> None:
    root = write_coco_c(tmp_path / "coco-c", CELLS)
    shutil.move(root / "annotations", tmp_path / "annotations")
    cells = corrupted_objects(root, NAMES, SEVERITIES)
    assert cells is not None
    assert cells["fog", 3].has_targets


def test_copies_may_have_another_suffix(tmp_path: Path) -> None:
    root = write_coco_c(tmp_path, CELLS)
    for file in root.glob("*_*/*.jpg"):
        file.rename(file.with_suffix(".png"))
    cells = corrupted_objects(root, NAMES, SEVERITIES)
    assert cells is not None
    assert_copies(cells["snow", 1], open_objects(root))


def test_what_coco_c_lacks_is_named(tmp_path: Path) -> None:
    root = write_coco_c(tmp_path / "coco-c", CELLS)
    assert corrupted_objects(root / "clean", NAMES) is None
    with refused(LayoutError, root, "fog/2", "frost/1", "fog 1, 3"):
        corrupted_objects(root, ("fog", "frost"), (1, 2))
    (root / "fog_3/1.jpg").unlink()
    with refused(LayoutError, root / "fog_3", "1 of 2", "1.jpg"):
        corrupted_objects(root, NAMES, SEVERITIES)
    save(root / "fog_3/1.jpg", np.zeros((SIZE[0], SIZE[1] + 1, 3), np.uint8))
    with refused(LayoutError, root, "1.jpg", f"{SIZE[1] + 1}x{SIZE[0]}"):
        corrupted_objects(root, NAMES, SEVERITIES)
    shutil.copy(root / "annotations/instances_val2017.json", tmp_path / "something.json")  # of whatever else is around
    shutil.rmtree(root / "annotations")
    with refused(LayoutError, root / "fog_1", "0.jpg", root / "annotations"):
        corrupted_objects(root, NAMES, SEVERITIES)
    with refused(LayoutError, root, "coco-c"):
        open_objects(root)


@pytest.mark.parametrize("kind", ["coco", "coco root", "bccd", "voc", "yolo"])
def test_what_robustvit_corrupt_wrote_has_the_objects_of_its_source(tmp_path: Path, kind: str) -> None:
    root = tmp_path / "data"
    if kind == "voc":
        images = write_voc(root) / "JPEGImages"
    elif kind == "yolo":
        images = write_yolo(root) / "images/val"
        (root / "classes.txt").write_text("\n".join("abcdefghij"))
    elif kind == "bccd":
        images = write_coco(root, images="images/{}", annotations="annotations/instances_{}.json") / "images/val"
    else:
        images = write_coco(root) / ("" if kind == "coco root" else "val2017")
    copying = Copying("coco", ("fog",), (3,), size=None, file_format="png" if kind == "bccd" else "same")
    corrupt_tree(images, tmp_path / "copies", copying, workers=1)
    assert (tmp_path / "copies/fog_3").is_dir()
    cells = corrupted_objects(tmp_path / "copies", NAMES, SEVERITIES)
    assert cells is not None
    assert list(cells) == [("fog", 3)]
    assert_copies(cells["fog", 3], open_objects(root))
    assert not np.array_equal(np.asarray(cells["fog", 3].at(0).open()), np.asarray(open_objects(root).at(0).open()))
    with refused(LayoutError, tmp_path / "copies", "coco-c"):
        open_objects(tmp_path / "copies")


@pytest.mark.parametrize("write", [write_coco, write_voc, write_yolo])
def test_copies_that_were_cropped_are_refused(tmp_path: Path, write: Callable[[Path], Path]) -> None:
    copying = Copying("coco", ("fog",), (3,), size=32, file_format="same")
    corrupt_tree(write(tmp_path / "data"), tmp_path / "copies", copying, workers=1)
    with refused(LayoutError, tmp_path / "copies", "64x48 for 32x32"):
        corrupted_objects(tmp_path / "copies", NAMES, SEVERITIES)


def test_copies_of_training_images_have_their_objects(tmp_path: Path) -> None:
    images = write_coco(tmp_path / "data") / "train2017"
    copying = Copying("coco", ("fog",), (3,), size=None, file_format="same")
    corrupt_tree(images, tmp_path / "data/train-c", copying, workers=1)
    cells = corrupted_objects(tmp_path / "data/train-c", NAMES, SEVERITIES)
    assert cells is not None
    assert_copies(cells["fog", 3], open_objects(tmp_path / "data", split="train"))


@pytest.mark.parametrize("inside", ["", "ood_coco"])
def test_coco_o_has_six_domains(tmp_path: Path, inside: str) -> None:
    for k, domain in enumerate(DOMAINS):
        write_coco(tmp_path / inside / domain, {"val": k + 1})
    domains = coco_o_domains(tmp_path)
    assert {domain: len(samples) for domain, samples in domains.items()} == {d: k + 1 for k, d in enumerate(DOMAINS)}
    assert all(samples.has_targets and samples.has_masks for samples in domains.values())
    with refused(LayoutError, tmp_path, "coco-o"):
        open_objects(tmp_path)
    assert len(open_objects(tmp_path / inside / "weather")) == 6
    shutil.rmtree(tmp_path / inside / "tattoo")
    with refused(LayoutError, tmp_path, "tattoo"):
        coco_o_domains(tmp_path)


def test_broken_annotations_of_copies_are_told_once(tmp_path: Path) -> None:
    root = write_coco_c(tmp_path, CELLS)
    file = root / "annotations/instances_val2017.json"
    contents = json.loads(file.read_text())
    contents["annotations"][0]["category_id"] = 4
    write_json(file, contents)
    with pytest.warns(UserWarning, match=r"1 \(annotation 1\)") as caught:
        cells = corrupted_objects(root, NAMES, SEVERITIES)
    assert len(caught) == 1
    assert cells is not None
    assert all(len(samples.problems) == 1 for samples in cells.values())
