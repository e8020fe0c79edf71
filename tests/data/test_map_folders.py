"""Plain folders of images and label maps are found in every usual arrangement, and what does not fit is named at once."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from map_trees import save, street_pairs, write_camvid, write_plain
from PIL import Image
from refusals import refused

from robustvit.data.label_maps import IGNORED, LabelValueError
from robustvit.data.map_layouts import LayoutError, open_maps
from robustvit.data.readers.paired_files import by_key, ordered
from robustvit.data.samples import SomeSamples, UnreadablePictureError
from robustvit.data.scenes.dataset import SEMANTIC_NAMES
from robustvit.data.scenes.maps import SceneMaps
from robustvit.runtime.fingerprint import Digest

NAMES = list(SEMANTIC_NAMES)


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    return write_plain(tmp_path / "plain", classes=NAMES)


def test_images_and_labels_of_a_split_are_paired_by_name(plain: Path) -> None:
    samples = open_maps(plain, split="val")
    assert [sample.id for sample in samples] == ["val0.jpg", "val1.jpg"]
    assert samples.classes == SEMANTIC_NAMES
    assert len(set(samples.palette)) == len(NAMES)
    assert (samples.name, samples.label_ids, samples.has_targets, len(samples)) == (str(plain), None, True, 2)
    for sample, (image, label_map) in zip(samples, street_pairs(2, 1), strict=True):
        assert np.abs(np.asarray(sample.open()).astype(int) - image).mean() < 30
        assert np.array_equal(sample.target(), label_map)
        assert sample.target().dtype == np.uint8


def test_samples_are_in_natural_order_on_every_file_system(tmp_path: Path) -> None:
    image, label_map = street_pairs(1)[0]
    names = ["a1", "a01", "a2", "a10", "b/a1"]
    for name in names:
        save(tmp_path / f"images/{name}.png", image)
        save(tmp_path / f"labels/{name}.png", label_map)
    expected = ["a01.png", "a1.png", "a2.png", "a10.png", "b/a1.png"]
    assert [s.id for s in open_maps(tmp_path)] == expected
    listed = by_key(tmp_path / "images")
    assert ordered(reversed(listed)) == ordered(listed) == [name.removesuffix(".png") for name in expected]


def test_test_means_validation_where_there_is_one(plain: Path) -> None:
    assert [s.id for s in open_maps(plain, split="test")] == ["val0.jpg", "val1.jpg"]
    shutil.rmtree(plain / "images/val")
    shutil.rmtree(plain / "labels/val")
    assert [s.id for s in open_maps(plain, split="val")] == ["test0.jpg"]
    assert len(open_maps(plain, split="train")) == 3
    shutil.rmtree(plain / "images/train")
    with refused(LayoutError, plain, "test", "train"):
        open_maps(plain, split="train")


@pytest.mark.parametrize(
    ("folders", "splits", "ending"),
    [
        (("img_dir", "ann_dir"), True, ""),
        (("images", "masks"), True, "_mask"),
        (("images", "annotations"), True, ""),
        (("images", "labels"), False, "_labels"),
        (("img_dir", "ann_dir"), False, "_gt_2"),
    ],
)
def test_other_names_of_folders_and_files_are_found(
    tmp_path: Path, folders: tuple[str, str], splits: bool, ending: str
) -> None:
    counts = {"train": 2, "val": 2} if splits else {"": 2}
    samples = open_maps(write_plain(tmp_path, counts, folders=folders, classes=NAMES, ending=ending))
    assert [s.id for s in samples] == (["val0.jpg", "val1.jpg"] if splits else ["0.jpg", "1.jpg"])
    assert all(s.target().shape == (32, 48) for s in samples)


def test_splits_may_be_the_outer_folders(tmp_path: Path) -> None:
    for split in ("train", "val"):
        write_plain(tmp_path / "outer" / split, {"": 2}, classes=NAMES)
        for i, (image, label_map) in enumerate(street_pairs(2)):
            save(tmp_path / "segnet" / split / f"{i}.png", image)
            save(tmp_path / "segnet" / f"{split}annot" / f"{i}.png", label_map)
    assert len(open_maps(tmp_path / "outer", split="train")) == 2
    assert [s.id for s in open_maps(tmp_path / "segnet")] == ["0.png", "1.png"]


@pytest.mark.parametrize("label", ["{}_mask.png", "{}_labels.png", "{}_gt_fine.png", "{}-seg.tif", "{}_L.png", "{}.png"])
def test_pairs_in_one_folder_are_found_by_their_names(tmp_path: Path, label: str) -> None:
    for i, (image, label_map) in enumerate(street_pairs(3)):
        save(tmp_path / "city" / f"street_gt_{i}.jpg", image)
        save(tmp_path / "city" / label.format(f"street_gt_{i}"), label_map)
    samples = open_maps(tmp_path)
    assert [s.id for s in samples] == [f"city/street_gt_{i}.jpg" for i in range(3)]
    assert samples.has_targets
    save(tmp_path / "city" / "new.jpg", image)
    with refused(LayoutError, "1 of 4", "new.jpg", label.format("NAME")):
        open_maps(tmp_path)
    (tmp_path / "city" / "new.jpg").unlink()
    (tmp_path / "city" / "street_gt_1.jpg").unlink()
    with refused(LayoutError, "1 of 3", label.format("street_gt_1")):
        open_maps(tmp_path)


def test_pairs_in_one_folder_may_lie_in_splits(tmp_path: Path) -> None:
    for split in ("train", "val"):
        for i, (image, label_map) in enumerate(street_pairs(2)):
            save(tmp_path / split / "a" / f"{split}{i}.png", image)
            save(tmp_path / split / "a" / f"{split}{i}_mask.png", label_map)
    assert [s.id for s in open_maps(tmp_path)] == ["a/val0.png", "a/val1.png"]


def test_of_several_label_maps_per_image_that_of_classes_is_taken(tmp_path: Path) -> None:
    image, label_map = street_pairs(1)[0]
    save(tmp_path / "a.png", image)
    for kind in ("labelIds", "instanceIds", "labelTrainIds"):
        save(tmp_path / f"a_gt_{kind}.png", label_map if kind == "labelTrainIds" else label_map * 0)
    assert np.array_equal(open_maps(tmp_path).at(0).target(), label_map)
    for kind in ("labelIds", "labelTrainIds"):
        (tmp_path / f"a_gt_{kind}.png").unlink()
    save(tmp_path / "a_mask.png", label_map)
    with refused(LayoutError, tmp_path, "_mask", "_gt_instanceIds"):
        open_maps(tmp_path)


def test_a_folder_of_images_has_no_targets(tmp_path: Path, plain: Path) -> None:
    save(tmp_path / "some" / "a.png", np.zeros((8, 8, 3), np.uint8))
    for source, count in ((tmp_path / "some", 1), (tmp_path / "some" / "a.png", 1), (plain / "images" / "test", 1)):
        samples = open_maps(source)
        assert (samples.has_targets, len(samples), samples.classes) == (False, count, ())
        samples.at(0).open()
        with refused(LayoutError, source):
            samples.require_targets()
        with refused(LayoutError, source):
            samples.at(0).target()
    (plain / "labels").rename(plain / "lables")
    samples = open_maps(plain)
    assert (samples.has_targets, samples.classes) == (False, SEMANTIC_NAMES)
    with refused(LayoutError, plain, "val0.jpg", "labels/", "lables"):
        samples.require_targets()


def test_missing_and_misnamed_label_maps_are_counted_and_named_at_once(plain: Path) -> None:
    (plain / "labels/val/val0.png").rename(plain / "labels/val/other.png")
    with refused(LayoutError, plain, "1 of 2 images", "images/val/val0.jpg", "1 of 2 label maps", "labels/val/other.png"):
        open_maps(plain)
    (plain / "labels/val/other.png").rename(plain / "labels/val/val0_mask.png")
    with refused(LayoutError, plain, "1 of 2 images", "val0.jpg"):
        open_maps(plain)


def test_label_maps_that_are_no_label_maps_are_named(plain: Path) -> None:
    for i in range(2):
        save(plain / f"labels/val/val{i}.jpg", street_pairs(1)[0][1])
        (plain / f"labels/val/val{i}.png").unlink()
    with refused(LayoutError, plain / "labels/val", "val0.jpg", ".png", "2 images"):
        open_maps(plain)
    shutil.rmtree(plain / "labels/val")
    shutil.rmtree(plain / "labels/test")
    with refused(LayoutError, plain / "labels/val", "2 images"):
        open_maps(plain)


def test_folders_without_images_are_refused(tmp_path: Path, plain: Path) -> None:
    (tmp_path / "empty").mkdir()
    with refused(LayoutError, tmp_path / "empty"):
        open_maps(tmp_path / "empty")
    for path in (plain / "images/train").iterdir():
        path.rename(path.with_suffix(".raw"))
    with refused(LayoutError, plain / "images/train", "train0.raw"):
        open_maps(plain, split="train")
    shutil.rmtree(plain / "images")
    with refused(LayoutError, plain, "labels", "images/"):
        open_maps(plain)
    with refused(FileNotFoundError, tmp_path / "nowhere"):
        open_maps(tmp_path / "nowhere")
    (tmp_path / "notes.txt").write_text("")
    with refused(LayoutError, tmp_path / "notes.txt"):
        open_maps(tmp_path / "notes.txt")


def test_two_images_of_one_name_are_refused(plain: Path) -> None:
    shutil.copy(plain / "images/val/val0.jpg", plain / "images/val/val0.jpeg")
    with refused(LayoutError, "val0.jpg", "val0.jpeg"):
        open_maps(plain)


def test_label_maps_of_another_size_are_counted_and_named(plain: Path) -> None:
    save(plain / "labels/val/val1.png", np.zeros((16, 24), np.uint8))
    with refused(LayoutError, plain, "1 label maps", "val1.jpg", "24x16", "48x32"):
        open_maps(plain)


def test_label_maps_of_turned_photographs_fit_either_way(plain: Path) -> None:
    path = plain / "images/val/val0.jpg"
    exif = Image.Exif()
    exif[0x0112] = 6
    with Image.open(path) as image:
        image.save(path, exif=exif)
    with refused(LayoutError, "val0.jpg", "48x32 for 32x48", "--ignore-orientation"):
        open_maps(plain)
    stored = open_maps(plain, ignore_orientation=True).at(0)
    assert stored.open().size == (48, 32)
    save(plain / "labels/val/val0.png", np.rot90(stored.target(), -1))
    upright = open_maps(plain).at(0)
    assert upright.open().size == upright.target().shape[::-1] == (32, 48)


def test_values_that_became_unknown_since_are_named_when_their_turn_comes(plain: Path) -> None:
    samples = open_maps(plain)
    samples.check_values()
    path = save(plain / "labels/val/val1.png", np.full((32, 48), 77, np.uint8))
    with refused(LabelValueError, path, 77):
        samples.at(1).target()


def test_damaged_files_are_left_to_the_work(plain: Path) -> None:
    for name in ("images/val/val0.jpg", "labels/val/val1.png"):
        (plain / name).write_bytes(b"damaged")
    samples = open_maps(plain)
    with pytest.raises(UnreadablePictureError):
        samples.at(0).open()
    with refused(UnreadablePictureError, "val1.png"):
        samples.at(1).target()


def test_without_a_list_the_label_maps_of_all_splits_say_how_many_classes(tmp_path: Path) -> None:
    write_plain(tmp_path, {"train": 1, "val": 1})
    save(tmp_path / "labels/train/train0.png", np.array([[0, 30], [255, 1]], np.uint8).repeat(16, 0).repeat(24, 1))
    samples = open_maps(tmp_path, split="val")
    assert samples.classes == tuple(f"class {i}" for i in range(31))
    assert len(samples.palette) == 31


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ([[0, 255]], "255"),
        ([[0, 0]], "one class"),
        ([[255, 255]], "255 only"),
        ([[1, 70000]], "70000"),
        ([[[9, 0, 0], [0, 0, 9]]], "colours"),
    ],
)
def test_label_maps_that_do_not_tell_their_classes_ask_for_a_list(tmp_path: Path, values: list[object], told: str) -> None:
    pixels = np.asarray(values)
    save(tmp_path / "images/a.png", np.zeros((1, 2, 3), np.uint8))
    save(tmp_path / "labels/a.tif", pixels.astype(np.int32 if pixels.max() > 255 else np.uint8))
    with refused(LayoutError, tmp_path, told, "classes.json"):
        open_maps(tmp_path)


def test_a_list_gives_names_colours_values_and_what_is_ignored(tmp_path: Path) -> None:
    classes = [{"name": "sky", "color": [1, 2, 3], "id": 255}, {"name": "road", "colour": [4, 5, 6], "id": 7}]
    save(tmp_path / "images/a.png", np.zeros((1, 3, 3), np.uint8))
    save(tmp_path / "labels/a.png", np.array([[255, 7, 9]], np.uint8))
    for ignore in ([9], "others", 9, [9, [0, 0, 0]]):
        (tmp_path / "classes.json").write_text(json.dumps({"classes": classes, "ignore": ignore}))
        samples = open_maps(tmp_path)
        assert (samples.classes, samples.palette, samples.label_ids) == (("sky", "road"), ((1, 2, 3), (4, 5, 6)), (255, 7))
        assert samples.at(0).target().tolist() == [[0, 1, IGNORED]]


@pytest.mark.parametrize("colours", [False, True])
def test_camvid_is_read_with_indices_and_with_colours(tmp_path: Path, colours: bool) -> None:
    samples = open_maps(write_camvid(tmp_path, colours=colours))
    assert (samples.classes, samples.palette) == (SEMANTIC_NAMES, SceneMaps.palette)
    for sample, (_, label_map) in zip(samples, street_pairs(2, 1), strict=True):
        assert np.array_equal(sample.target(), label_map)


@pytest.mark.parametrize(
    ("stored", "told"),
    [
        ("{", "JSON"),
        (3, "int"),
        ({"clases": []}, "classes"),
        ({"names": ["a"], "classes": ["a"]}, "names"),
        ({"ignore": 255}, "names"),
        ({"names": ["a", "b"], "palette": [[0, 0, 0]]}, "palette"),
        ({"classes": {"road": 7}}, "classes"),
        ({"names": "abc"}, "names"),
        ([], "1 to 255"),
        (["a", "a"], "'a'"),
        ([{"color": [0, 0, 0]}], "name"),
        ([{"name": "a", "colr": [0, 0, 0]}], "color"),
        ([{"name": "a", "color": [0, 0, 256]}], "256"),
        ([{"name": "a", "color": [9, 9, 9]}, {"name": "b", "color": [9, 9, 9]}], "(9, 9, 9)"),
        ([{"name": "a", "id": 1}, "b"], "'b'"),
        ([{"name": "a", "id": 2**31}], "'a'"),
        ([{"name": "a", "id": 1}, {"name": "b", "id": 1}], "id 1"),
        ({"classes": ["a", "b"], "ignore": [1]}, "1"),
        ({"classes": ["a", "b"], "ignore": "none"}, "none"),
    ],
)
def test_lists_that_contradict_themselves_are_refused(plain: Path, stored: object, told: str) -> None:
    (plain / "classes.json").write_text(stored if isinstance(stored, str) else json.dumps(stored))
    with refused(LayoutError, plain / "classes.json", told):
        open_maps(plain)


def test_a_digest_depends_on_files_and_on_what_their_values_stand_for(plain: Path) -> None:
    def digest(positions: list[int] | None = None) -> str:
        made = Digest()
        open_maps(plain).add_to(made, positions)
        return made.text()

    before = digest()
    assert before == digest()
    assert digest([0]) != before
    save(plain / "labels/val/val1.png", np.zeros((32, 48), np.uint8))
    changed = digest()
    assert changed != before
    (plain / "classes.json").write_text(json.dumps({"classes": NAMES, "ignore": "others"}))
    assert digest() != changed


def test_a_part_of_a_set_keeps_what_is_known_about_its_classes(plain: Path) -> None:
    whole = open_maps(plain)
    part: Any = SomeSamples(whole, [1])
    assert [sample.id for sample in part] == ["val1.jpg"]
    for name in ("classes", "palette", "label_ids", "has_targets"):
        assert getattr(part, name) == getattr(whole, name)


def test_scenes_have_label_maps_at_any_size() -> None:
    samples = open_maps("scenes:5", scene_size=(32, 48))
    assert isinstance(samples, SceneMaps)
    assert (samples.classes, samples.label_ids, samples.has_targets, samples.name) == (SEMANTIC_NAMES, None, True, "scenes")
    assert len(set(samples.palette)) == len(SEMANTIC_NAMES)
    drawn = samples.read_many(range(5))
    for i, (sample, (image, label_map)) in enumerate(zip(samples, drawn, strict=True)):
        assert sample.id == str(i)
        assert np.array_equal(np.asarray(sample.open()), image)
        assert np.array_equal(sample.target(), label_map)
        assert label_map.shape == (32, 48)
        assert label_map.max() <= 10
    assert samples.at_size((64, 64)).at(0).target().shape == (64, 64)
    assert open_maps("scenes-easy:5").name == "scenes-easy"
    assert not np.array_equal(open_maps("scenes:5", scene_size=(32, 48), split="train").at(0).target(), drawn[0][1])
    with refused(ValueError, "scenes:many"):
        open_maps("scenes:many")
