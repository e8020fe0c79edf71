"""Cityscapes, ACDC and Cityscapes-C are read as they lie on disk, with the published table of classes."""

from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from map_trees import save, street_pairs, to_label_ids, write_acdc, write_cityscapes, write_cityscapes_c, write_plain
from refusals import refused

import robustvit as rv
from robustvit.data.copies.copying import Copying
from robustvit.data.copies.corrupted_tree import corrupt_tree
from robustvit.data.label_maps import LabelValueError, read_label_map, write_label_ids
from robustvit.data.map_layouts import CONDITIONS, LayoutError, acdc_conditions, corrupted_maps, open_maps
from robustvit.data.map_samples import MapFiles
from robustvit.data.readers.cityscapes_classes import CITYSCAPES, CITYSCAPES_LABEL_IDS
from robustvit.data.scenes.dataset import SEMANTIC_NAMES

REFERENCE = json.loads((Path(__file__).parents[1] / "reference/dense/classes.json").read_text())["cityscapes"]
VAL = ["bonn/bonn_000000_000019_leftImg8bit.png", "bonn/bonn_000001_000019_leftImg8bit.png"]
CELLS = [("fog", 1), ("fog", 3), ("snow", 1), ("snow", 3)]


@pytest.fixture
def cityscapes(tmp_path: Path) -> Path:
    return write_cityscapes(tmp_path / "cityscapes")


def targets(samples: Any) -> list[np.ndarray]:
    return [sample.target() for sample in samples]


def is_street(samples: Any, seed: int) -> bool:
    expected = street_pairs(len(samples), seed)
    return all(np.array_equal(found, label) for found, (_, label) in zip(targets(samples), expected, strict=True))


def test_the_classes_of_cityscapes_are_the_published_ones() -> None:
    rows = REFERENCE["classes"]
    assert [row["train_id"] for row in rows] == list(range(19))
    assert CITYSCAPES.names == tuple(row["name"] for row in rows)
    assert CITYSCAPES.palette == tuple(tuple(row["colour"]) for row in rows)
    assert CITYSCAPES.label_ids == tuple(row["label_id"] for row in rows)
    published = {int(label_id): train_id for label_id, train_id in REFERENCE["label_id_to_train_id"].items()}
    assert CITYSCAPES_LABEL_IDS.values == published | {255: 255}


@pytest.mark.parametrize("kinds", [("labelTrainIds", "labelIds", "color"), ("labelTrainIds",), ("labelIds", "color")])
def test_cityscapes_is_read_from_train_ids_or_label_ids(tmp_path: Path, kinds: tuple[str, ...]) -> None:
    root = write_cityscapes(tmp_path, kinds=kinds)
    for source in (root, root / "leftImg8bit", root / "leftImg8bit" / "val"):
        samples = open_maps(source)
        assert [sample.id for sample in samples] == VAL
        assert (samples.classes, samples.palette) == (CITYSCAPES.names, CITYSCAPES.palette)
        assert samples.label_ids == CITYSCAPES.label_ids
        assert is_street(samples, 1)
    assert is_street(open_maps(root, split="train"), 0)
    assert [s.id for s in open_maps(root / "leftImg8bit/val/bonn")] == VAL


def test_train_ids_come_before_label_ids_image_by_image(cityscapes: Path) -> None:
    label = cityscapes / "gtFine/val/bonn/bonn_000000_000019_gtFine_labelIds.png"
    save(label, read_label_map(label) * 0)
    assert is_street(open_maps(cityscapes), 1)
    label.with_name("bonn_000000_000019_gtFine_labelTrainIds.png").unlink()
    first, second = targets(open_maps(cityscapes))
    assert (first == 255).all()
    assert np.array_equal(second, street_pairs(2, 1)[1][1])


def test_the_test_split_of_cityscapes_has_no_label_maps(cityscapes: Path) -> None:
    samples = open_maps(cityscapes / "leftImg8bit/test")
    assert (samples.has_targets, len(samples), samples.label_ids) == (False, 1, CITYSCAPES.label_ids)
    assert open_maps(cityscapes, split="test").has_targets
    for folder in ("leftImg8bit/val", "gtFine/val"):
        shutil.rmtree(cityscapes / folder)
    assert not open_maps(cityscapes, split="test").has_targets
    shutil.rmtree(cityscapes / "leftImg8bit/train")
    with refused(LayoutError, cityscapes / "leftImg8bit/train"):
        open_maps(cityscapes, split="train")


def test_images_of_cityscapes_without_gt_have_no_targets(cityscapes: Path) -> None:
    shutil.rmtree(cityscapes / "gtFine")
    samples = open_maps(cityscapes)
    assert not samples.has_targets
    with refused(LayoutError, cityscapes, "gtFine"):
        samples.require_targets()


def test_what_does_not_fit_in_cityscapes_is_counted_and_named(cityscapes: Path) -> None:
    for kind in ("labelIds", "labelTrainIds"):
        (cityscapes / f"gtFine/val/bonn/bonn_000000_000019_gtFine_{kind}.png").unlink()
    image = cityscapes / "leftImg8bit/val" / VAL[1]
    image.rename(image.with_name("bonn_1.png"))
    with refused(LayoutError, "1 of 1 images", VAL[0], "1 of 1 label maps", "bonn_000001_000019", "_labelTrainIds.png"):
        open_maps(cityscapes)
    (cityscapes / "leftImg8bit/val" / VAL[0]).unlink()
    with refused(LayoutError, cityscapes / "leftImg8bit/val", "_leftImg8bit.png", "bonn_1.png"):
        open_maps(cityscapes)


def test_label_ids_that_cityscapes_does_not_have_are_named(tmp_path: Path) -> None:
    root = write_cityscapes(tmp_path, kinds=("labelIds",))
    label = save(root / "gtFine/val/bonn/bonn_000000_000019_gtFine_labelIds.png", np.full((32, 48), 90, np.uint8))
    with refused(LabelValueError, label, 90, "-1 to 33 or 255"):
        open_maps(root).check_values()


def test_predictions_for_the_server_are_label_ids(cityscapes: Path, tmp_path: Path) -> None:
    samples = open_maps(cityscapes)
    train_ids = samples.at(0).target()
    predicted = np.where(train_ids == 255, 18, train_ids).astype(np.uint8)
    write_label_ids(predicted, tmp_path / "out.png", samples.label_ids)
    assert np.array_equal(read_label_map(tmp_path / "out.png"), to_label_ids(predicted))
    assert np.array_equal(read_label_map(tmp_path / "out.png", CITYSCAPES_LABEL_IDS), predicted)


@pytest.mark.parametrize("archives", [False, True])
@pytest.mark.parametrize("kinds", [("labelTrainIds", "labelIds"), ("labelIds",)])
def test_acdc_is_read_in_both_layouts(tmp_path: Path, archives: bool, kinds: tuple[str, ...]) -> None:
    root = write_acdc(tmp_path, archives=archives, kinds=kinds)
    samples = open_maps(root)
    assert len(samples) == 8
    assert samples.at(2).id == "night/GOPR01/GOPR01_frame_000000_rgb_anon.png"
    assert (samples.classes, samples.label_ids) == (CITYSCAPES.names, CITYSCAPES.label_ids)
    by_condition = acdc_conditions(root, "val")
    assert tuple(by_condition) == CONDITIONS
    assert [s.id for part in by_condition.values() for s in part] == [s.id for s in samples]
    for c, part in enumerate(by_condition.values()):
        assert is_street(part, 10 * c + 1)
    images = root / ("rgb_anon_trainvaltest/rgb_anon" if archives else "rgb_anon")
    assert is_street(open_maps(images / "rain/val"), 21)
    assert is_street(open_maps(images / "rain", split="train"), 20)
    assert [s.id for s in open_maps(images / "rain/val")] == [s.id for s in by_condition["rain"]]


def test_the_test_split_of_acdc_is_there_to_be_predicted(tmp_path: Path) -> None:
    root = write_acdc(tmp_path)
    for name, samples in acdc_conditions(root, "test").items():
        assert (samples.has_targets, len(samples), samples.label_ids) == (False, 2, CITYSCAPES.label_ids)
        assert samples.at(0).id.startswith(f"{name}/")
        assert open_maps(root / f"rgb_anon/{name}/test").has_targets is False
    assert open_maps(root, split="test").has_targets


def test_acdc_without_a_condition_or_label_is_refused(tmp_path: Path) -> None:
    root = write_acdc(tmp_path)
    with refused(ValueError, "vall", "val"):
        acdc_conditions(root, "vall")
    with refused(LayoutError, tmp_path / "gt", "rgb_anon"):
        acdc_conditions(tmp_path / "gt")
    (root / "gt/fog/val/GOPR00/GOPR00_frame_000000_gt_labelTrainIds.png").unlink()
    with refused(LayoutError, "1 of 2", "GOPR00_frame_000000_rgb_anon.png", "_gt_labelIds.png"):
        open_maps(root)
    shutil.rmtree(root / "rgb_anon/rain/val")
    with refused(LayoutError, "rain/val"):
        open_maps(root)


@pytest.mark.parametrize("habit", ["fan", "tap"])
def test_both_habits_of_cityscapes_c_have_the_label_maps_of_the_clean_images(cityscapes: Path, habit: str) -> None:
    write_cityscapes_c(cityscapes, CELLS, habit=habit)
    cells = corrupted_maps(cityscapes, ["snow", "fog"], [1, 3])
    assert cells is not None
    assert list(cells) == [("snow", 1), ("snow", 3), ("fog", 1), ("fog", 3)]
    clean = open_maps(cityscapes)
    for (_, severity), samples in cells.items():
        assert [s.id for s in samples] == [s.id for s in clean]
        assert (samples.classes, samples.label_ids) == (clean.classes, clean.label_ids)
        assert is_street(samples, 1)
        assert samples.at(0).open().getpixel((0, 0)) == (severity, 0, 0)


@pytest.mark.parametrize("habit", ["fan", "tap"])
def test_clean_images_of_cityscapes_c_may_lie_in_clean(cityscapes: Path, habit: str) -> None:
    write_cityscapes_c(cityscapes, CELLS, habit=habit)
    clean = cityscapes / ("leftImg8bit/clean/val" if habit == "fan" else "clean")
    clean.parent.mkdir(exist_ok=True)
    (cityscapes / "leftImg8bit/val").rename(clean)
    if habit == "tap":
        shutil.rmtree(cityscapes / "leftImg8bit")
    samples = open_maps(cityscapes)
    assert [s.id for s in samples] == VAL
    assert is_street(samples, 1)
    assert corrupted_maps(cityscapes, ["fog"], [1]) is not None


def test_incomplete_trees_of_cityscapes_c_are_refused(cityscapes: Path) -> None:
    assert corrupted_maps(cityscapes, ["fog"], [1]) is None
    write_cityscapes_c(cityscapes, CELLS, habit="tap")
    with refused(LayoutError, cityscapes, "snow/2"):
        corrupted_maps(cityscapes, ["fog", "snow"], [1, 2])
    (cityscapes / "fog/3" / VAL[0]).unlink()
    with refused(LayoutError, cityscapes / "fog/3", "1 of 2", VAL[0]):
        corrupted_maps(cityscapes, ["fog"], [3])
    save(cityscapes / "fog/3" / VAL[0], np.zeros((8, 8, 3), np.uint8))
    with refused(LayoutError, VAL[0], "48x32", "8x8"):
        corrupted_maps(cityscapes, ["fog"], [3])
    shutil.rmtree(cityscapes / "gtFine")
    with refused(LayoutError, cityscapes / "gtFine/val", "bonn"):
        corrupted_maps(cityscapes, ["snow"], [1])


@pytest.mark.parametrize("inside", ["leftImg8bit/val", "leftImg8bit", ""])
@pytest.mark.parametrize("place", ["cityscapes/cityscapes-c", "elsewhere"])
def test_what_corrupt_wrote_of_cityscapes_is_read(cityscapes: Path, tmp_path: Path, inside: str, place: str) -> None:
    copying = Copying(layout="cityscapes", names=("contrast",), severities=(2,), size=None, file_format="same")
    source = tmp_path / "source"
    shutil.copytree(cityscapes, source)
    corrupt_tree(source / inside, tmp_path / place, copying, workers=1)
    if place != "elsewhere":
        shutil.rmtree(source)  # the label maps around the tree are enough
    cells = corrupted_maps(tmp_path / place, ["fog", "contrast"], [1, 2])
    assert cells is not None
    assert list(cells) == [("contrast", 2)]
    assert [s.id for s in cells["contrast", 2]] == VAL
    assert is_street(cells["contrast", 2], 1)


def test_a_copy_on_disk_is_what_its_id_gives_in_memory(cityscapes: Path, tmp_path: Path) -> None:
    copying = Copying(layout="cityscapes", names=("gaussian_noise",), severities=(1,), size=None, file_format="same")
    corrupt_tree(cityscapes / "leftImg8bit/val", tmp_path / "copies", copying, workers=1)
    cells = corrupted_maps(tmp_path / "copies", ["gaussian_noise"], [1])
    assert cells is not None
    for copy, clean in zip(cells["gaussian_noise", 1], open_maps(cityscapes), strict=True):
        made = rv.corrupt(np.asarray(clean.open()), "gaussian_noise", severity=1, sample_ids=clean.id)
        assert np.array_equal(np.asarray(copy.open()), made)


@pytest.mark.parametrize("inside", ["images/val", "images", ""])
def test_what_corrupt_wrote_of_a_plain_tree_is_read(tmp_path: Path, inside: str) -> None:
    plain = write_plain(tmp_path / "plain", {"train": 2, "val": 2}, classes=list(SEMANTIC_NAMES))
    for folder, suffix in (("images", "jpg"), ("labels", "png")):  # of the same name in both splits
        for split in ("train", "val"):
            (plain / folder / split / f"{split}0.{suffix}").rename(plain / folder / split / f"0.{suffix}")
    copying = Copying(layout="coco", names=("contrast",), severities=(1, 3), size=None, file_format="png")
    corrupt_tree(plain / inside, tmp_path / "copies", copying, workers=1)
    cells = corrupted_maps(tmp_path / "copies", ["contrast"], [1, 3])
    assert cells is not None
    for samples in cells.values():
        assert isinstance(samples, MapFiles)
        assert [s.id for s in samples] == [s.id for s in open_maps(plain)] == ["0.jpg", "val1.jpg"]
        assert is_street(samples, 1)
        assert np.asarray(samples.at(0).open()).std() > 5
        assert all("train" not in file.image.parts and "labels" not in file.image.parts for file in samples.files)


def test_images_that_corrupt_could_not_read_are_left_out(tmp_path: Path) -> None:
    plain = write_plain(tmp_path / "plain", {"val": 3}, classes=list(SEMANTIC_NAMES))
    (plain / "images/val/val1.jpg").write_bytes(b"damaged")
    copying = Copying(layout="coco", names=("contrast",), severities=(1,), size=None, file_format="same")
    corrupt_tree(plain / "images/val", tmp_path / "copies", copying, workers=1)
    cells = corrupted_maps(tmp_path / "copies", ["contrast"], [1])
    assert cells is not None
    assert [s.id for s in cells["contrast", 1]] == ["val0.jpg", "val2.jpg"]


def test_what_is_wrong_with_the_dataset_that_was_copied_is_said(tmp_path: Path) -> None:
    plain = write_plain(tmp_path / "plain", {"val": 2}, classes=list(SEMANTIC_NAMES))
    copying = Copying(layout="coco", names=("contrast",), severities=(1,), size=None, file_format="same")
    corrupt_tree(plain / "images/val", tmp_path / "copies", copying, workers=1)
    (plain / "labels/val/val1.png").unlink()
    with refused(LayoutError, plain, "1 of 2", "val1.jpg"):
        corrupted_maps(tmp_path / "copies", ["contrast"], [1])
    shutil.rmtree(plain)
    with refused(LayoutError, tmp_path / "copies", "val0.jpg"):
        corrupted_maps(tmp_path / "copies", ["contrast"], [1])


def test_a_corrupted_tree_is_no_dataset_of_its_own(cityscapes: Path, tmp_path: Path) -> None:
    write_cityscapes_c(cityscapes, CELLS, habit="tap")
    for name in ("fog", "snow"):
        shutil.move(cityscapes / name, tmp_path / "copies" / name)
    with refused(LayoutError, tmp_path / "copies", "cityscapes-c"):
        open_maps(tmp_path / "copies")


def test_samples_can_be_sent_to_other_processes(cityscapes: Path) -> None:
    for source in (cityscapes, "scenes:3"):
        samples = open_maps(source)
        assert np.array_equal(pickle.loads(pickle.dumps(samples)).at(0).target(), samples.at(0).target())
