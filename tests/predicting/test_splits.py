"""The split that is asked for is the one that is predicted; one that is not there is an error that names those that are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from map_trees import save, write_acdc, write_cityscapes, write_endings, write_plain
from refusals import refused

from robustvit.data.map_layouts import LayoutError
from robustvit.data.readers.paired_files import UnmatchedMapsError
from robustvit.data.scenes.dataset import SEMANTIC_NAMES
from robustvit.predicting.given_images import images_at
from robustvit.tasks.classification import Classification
from robustvit.tasks.segmentation import Segmentation

NAMES = list(SEMANTIC_NAMES)


def ids(images: Any, split: str | None, task: Any = None) -> list[str]:
    found = images_at(images, task or Segmentation(), size=(32, 32), output=Path("nowhere"), split=split)
    return [sample.id for sample in found]


def test_each_split_of_cityscapes_can_be_had(tmp_path: Path) -> None:
    root = write_cityscapes(tmp_path, {"train": 3, "val": 2, "test": 1, "train_extra": 4})
    for split, count in (("train", 3), ("val", 2), ("test", 1)):
        expected = [f"bonn/bonn_{i:06}_000019_leftImg8bit.png" for i in range(count)]
        assert ids(root, split) == ids(root / "leftImg8bit", split) == expected
    assert len(ids(root, "train_extra")) == 4


def test_a_split_that_cityscapes_lacks_is_refused(tmp_path: Path) -> None:
    root = write_cityscapes(tmp_path, {"train": 1, "val": 1})
    for split in ("test", "bogus"):
        with refused(LayoutError, root, repr(split), "it has train, val"):
            ids(root, split)
    with refused(LayoutError, "'vall'", "val"):
        ids(root, "vall")


def test_the_clean_images_of_cityscapes_c_are_its_split_val(tmp_path: Path) -> None:
    root = write_cityscapes(tmp_path, {"val": 2})
    (root / "leftImg8bit/clean").mkdir()
    for before, place in (("leftImg8bit/val", "leftImg8bit/clean/val"), ("leftImg8bit/clean/val", "clean")):
        (root / before).rename(root / place)
        assert len(ids(root, "val")) == 2
        with refused(LayoutError, "'test'", "it has val"):
            ids(root, "test")


@pytest.mark.parametrize("archives", [False, True])
def test_a_split_that_acdc_lacks_is_refused(tmp_path: Path, archives: bool) -> None:
    root = write_acdc(tmp_path, archives=archives)
    images = root / ("rgb_anon_trainvaltest/rgb_anon" if archives else "rgb_anon")
    for split in ("train", "val", "test"):
        found = ids(root, split)
        assert len(found) == 8
        assert all((images / name.partition("/")[0] / split / name.partition("/")[2]).is_file() for name in found)
        assert ids(images / "fog", split) == found[:2]
    for split in ("bogus", "val_ref"):
        for place in (root, images / "fog"):
            with refused(LayoutError, place, repr(split), "it has train, val, test"):
                ids(place, split)


def test_each_split_of_a_plain_folder_can_be_had_with_label_maps_or_without(tmp_path: Path) -> None:
    root = write_plain(tmp_path, classes=NAMES)
    (root / "labels/test/test0.png").unlink()
    (root / "labels/test").rmdir()
    assert ids(root, "train") == ["train0.jpg", "train1.jpg", "train2.jpg"]
    assert ids(root, "test") == ["test0.jpg"]
    assert ids(root, None) == ids(root, "val") == ["val0.jpg", "val1.jpg"]
    for split in ("bogus", "validation"):
        with refused(LayoutError, root, repr(split), "it has train, val, test"):
            ids(root, split)


def test_folders_without_splits_have_none(tmp_path: Path) -> None:
    write_plain(tmp_path / "pairs", {"": 2}, classes=NAMES)
    save(tmp_path / "images_alone/a.png", np.zeros((8, 8, 3), np.uint8))
    for name in ("pairs", "images_alone"):
        with refused(LayoutError, tmp_path / name, "no splits", "'val'"):
            ids(tmp_path / name, "val")


def test_class_folders_have_splits_for_classifiers(tmp_path: Path) -> None:
    for split in ("train", "val"):
        save(tmp_path / split / "cat" / f"{split}.png", np.zeros((8, 8, 3), np.uint8))
    assert ids(tmp_path, "val", Classification()) == ["cat/val.png"]
    with refused(LayoutError, tmp_path, "'test'", "it has train, val"):
        ids(tmp_path, "test", Classification())


def test_generated_images_have_three_splits() -> None:
    assert len(ids("scenes:3", "train")) == 3
    with refused(ValueError, "scenes:3", "'bogus'", "train, val, test"):
        ids("scenes:3", "bogus")


def test_label_maps_of_no_image_are_not_predicted(tmp_path: Path) -> None:
    write_endings(tmp_path, tmp_path, "_shot", "_mask")
    with refused(UnmatchedMapsError, tmp_path, "3 of 6", "a/0_mask.png"):
        ids(tmp_path, None)
    write_endings(tmp_path / "pairs", tmp_path / "pairs", "_img", "_mask")
    assert ids(tmp_path / "pairs", None) == [f"a/{i}_img.png" for i in range(3)]
