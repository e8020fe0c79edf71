"""Images and label maps are found by their names where both have an ending; label maps are not taken for images."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from map_trees import save, street_pairs, write_endings
from refusals import refused

from robustvit.data.map_layouts import LayoutError, open_maps
from robustvit.data.readers.paired_files import UnmatchedMapsError

ENDINGS = [
    ("_leftImg8bit", "_gtFine_labelTrainIds"),
    ("_img", "_mask"),
    ("-image", "-labels"),
    ("_rgb_anon", "_gt_labelTrainIds"),
    ("_frame_camera", "_gt_labelIds"),
    ("_sat", "_mask"),
    ("_RGB", ""),
]


@pytest.mark.parametrize(("image", "label"), ENDINGS)
@pytest.mark.parametrize("folders", [("img_dir", "ann_dir"), ("images", "labels")])
def test_images_with_an_ending_find_their_label_maps_in_folders(
    tmp_path: Path, folders: tuple[str, str], image: str, label: str
) -> None:
    write_endings(tmp_path / folders[0] / "train", tmp_path / folders[1] / "train", image, label)
    samples = open_maps(tmp_path, split="train")
    assert [s.id for s in samples] == [f"a/{i}{image}.png" for i in range(3)]
    for sample, (_, label_map) in zip(samples, street_pairs(3), strict=True):
        assert np.array_equal(sample.target(), label_map)


@pytest.mark.parametrize(("image", "label"), ENDINGS[:-1])
def test_images_with_an_ending_find_their_label_maps_beside_them(tmp_path: Path, image: str, label: str) -> None:
    write_endings(tmp_path, tmp_path, image, label)
    samples = open_maps(tmp_path)
    assert samples.has_targets
    assert [s.id for s in samples] == [f"a/{i}{image}.png" for i in range(3)]
    assert np.array_equal(samples.at(1).target(), street_pairs(3)[1][1])


def test_images_alone_in_a_folder_of_that_name_may_have_their_label_maps_beside_them(tmp_path: Path) -> None:
    write_endings(tmp_path / "images", tmp_path / "images", "_img", "_mask")
    assert [s.id for s in open_maps(tmp_path) if s.target() is not None] == [f"a/{i}_img.png" for i in range(3)]


def test_of_several_kinds_of_label_maps_one_counts_in_all_splits(tmp_path: Path) -> None:
    for split in ("train", "val"):
        for kind, factor in (("labelTrainIds", 1), ("labelIds", 3), ("instanceIds", 4000)):
            labels = tmp_path / "ann_dir" / split
            write_endings(tmp_path / "img_dir" / split, labels, "_leftImg8bit", f"_gtFine_{kind}", factor)
    assert len(open_maps(tmp_path).classes) == 11


def test_what_has_no_partner_is_counted_and_named_with_endings_too(tmp_path: Path) -> None:
    images, labels = tmp_path / "img_dir", tmp_path / "ann_dir"
    write_endings(images, labels, "_leftImg8bit", "_gtFine_labelTrainIds")
    (labels / "a/1_gtFine_labelTrainIds.png").unlink()
    with refused(LayoutError, "1 of 3 images", "img_dir/a/1_leftImg8bit.png"):
        open_maps(tmp_path)
    (images / "a/1_leftImg8bit.png").unlink()
    (images / "a/2_leftImg8bit.png").unlink()
    with refused(LayoutError, "1 of 2 label maps", "ann_dir/a/2_gtFine_labelTrainIds.png"):
        open_maps(tmp_path)


def test_an_image_with_an_ending_beside_one_without_is_another_image(tmp_path: Path) -> None:
    write_endings(tmp_path, tmp_path, "", "_mask")
    save(tmp_path / "a/0_img.png", street_pairs(1)[0][0])
    with refused(LayoutError, "1 of 4 images", "0_img.png"):
        open_maps(tmp_path)


def test_files_that_are_called_like_label_maps_of_no_image_are_not_taken_for_images(tmp_path: Path) -> None:
    write_endings(tmp_path, tmp_path, "_shot", "_gtFine_labelIds")
    with refused(UnmatchedMapsError, tmp_path, "3 of 6", "a/0_gtFine_labelIds.png", "a/0_shot.png", "NAME_img.jpg"):
        open_maps(tmp_path)
    for path in tmp_path.rglob("*_shot.png"):
        path.unlink()
    with refused(UnmatchedMapsError, tmp_path, "3 of 3", "a/0_gtFine_labelIds.png"):
        open_maps(tmp_path)


@pytest.mark.parametrize("names", [("0_L", "1_L"), ("0_R", "0_left"), ("a", "b", "no_mask"), ("gt_0", "gt_1"), ("mask",)])
def test_images_whose_names_remind_of_label_maps_stay_images(tmp_path: Path, names: tuple[str, ...]) -> None:
    for name in names:
        save(tmp_path / f"{name}.png", np.zeros((8, 8, 3), np.uint8))
    samples = open_maps(tmp_path)
    assert (len(samples), samples.has_targets) == (len(names), False)
