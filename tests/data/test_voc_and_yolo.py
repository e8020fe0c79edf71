"""Pascal VOC and YOLO's text files, in the folders that people have them in, with what may be wrong in them."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from map_trees import save
from object_trees import SIZE, scene_objects, voc_xml, write_voc, write_yolo
from refusals import refused

from robustvit.data.object_layouts import LayoutError, open_object_split, open_objects
from robustvit.data.object_samples import ObjectSamples
from robustvit.data.readers.voc import VOC_CLASSES
from robustvit.data.samples import UnreadablePictureError
from robustvit.data.scenes.dataset import CLASS_NAMES

H, W = SIZE
YAML = "names: [disc, square, triangle, ring, cross, star, heart, crescent, arrow, drop]\n"


def quiet(path: Path, **options: Any) -> ObjectSamples:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return open_objects(path, **options)


# Pascal VOC


@pytest.mark.parametrize("inside", ["", "VOC2007", "VOCdevkit/VOC2012"])
def test_voc_is_read_with_boxes_from_pixel_0_and_difficult_objects_ignored(tmp_path: Path, inside: str) -> None:
    write_voc(tmp_path / inside)
    samples = open_objects(tmp_path)
    assert [sample.id for sample in samples] == ["val_0.jpg", "val_1.jpg"]
    assert (samples.has_targets, samples.has_masks, samples.category_ids, samples.problems) == (True, False, None, ())
    assert samples.image_ids == {"val_0.jpg": "val_0", "val_1.jpg": "val_1"}
    assert samples.classes == tuple(sorted(set(samples.classes) & set(CLASS_NAMES)))
    for sample, (_, objects) in zip(samples, scene_objects(2, 1), strict=True):
        target = sample.target()
        assert np.array_equal(target.boxes, objects.boxes)
        assert [samples.classes[c] for c in target.classes] == [CLASS_NAMES[c] for c in objects.classes]
        assert np.array_equal(target.areas, np.prod(objects.boxes[:, 2:] - objects.boxes[:, :2], axis=1))
        assert target.is_crowd.tolist() == [k == 1 for k in range(len(objects.boxes))]
        assert target.masks is None
    assert next(iter(open_objects(tmp_path, split="train"))).id == "train_0.jpg"


def test_the_twenty_classes_of_voc_keep_their_order(tmp_path: Path) -> None:
    write_voc(tmp_path, names=VOC_CLASSES[::-1][:10])
    assert len(VOC_CLASSES) == 20
    assert sorted(VOC_CLASSES) == list(VOC_CLASSES)
    assert open_objects(tmp_path).classes == open_objects(tmp_path, split="train").classes == VOC_CLASSES


def test_splits_of_voc_share_their_classes(tmp_path: Path) -> None:
    write_voc(tmp_path, {"train": 1, "val": 1})
    (tmp_path / "Annotations/train_0.xml").write_text(voc_xml([("zebra", (1, 1, 9, 9), 0)]))
    (tmp_path / "Annotations/val_0.xml").write_text(voc_xml([("cat", (1, 1, 9, 9), 0)]))
    assert open_objects(tmp_path).classes == open_objects(tmp_path, split="train").classes == ("cat", "zebra")


def test_lists_of_voc_can_be_chosen(tmp_path: Path) -> None:
    write_voc(tmp_path, {"trainval": 3, "test": 2})
    assert len(open_objects(tmp_path, split="train")) == 3
    assert len(open_objects(tmp_path)) == 2
    assert len(open_objects(tmp_path / "ImageSets/Main/trainval.txt")) == 3
    assert len(open_object_split(tmp_path, "trainval")) == 3
    with refused(LayoutError, "nothing", "trainval"):
        open_object_split(tmp_path, "nothing")
    (tmp_path / "ImageSets/Main/test.txt").unlink()
    (tmp_path / "ImageSets/Main/car_val.txt").write_text("test_0  1\n")
    with refused(LayoutError, "'val'", "trainval"):
        open_objects(tmp_path, split="val")
    shutil.rmtree(tmp_path / "ImageSets")
    assert len(open_objects(tmp_path)) == len(open_objects(tmp_path, split="train")) == 5


def test_several_years_of_voc_are_not_mixed(tmp_path: Path) -> None:
    for year in (2007, 2012):
        write_voc(tmp_path / f"VOC{year}")
    with refused(LayoutError, tmp_path, "VOC2007", "VOC2012"):
        open_objects(tmp_path)


def test_voc_without_the_xml_files_of_a_split_has_no_targets(tmp_path: Path) -> None:
    write_voc(tmp_path)
    for file in tmp_path.glob("Annotations/val_*.xml"):
        file.unlink()
    assert not open_objects(tmp_path).has_targets
    with refused(LayoutError, "Annotations"):
        open_objects(tmp_path).require_targets()


@pytest.mark.parametrize(
    ("images", "xml", "lists"),
    [
        ("images", "annotations", False),
        ("images", "Annotations", True),
        ("{}", "{}", False),
        ("", "", False),
    ],
)
def test_voc_files_are_found_where_others_put_them(tmp_path: Path, images: str, xml: str, lists: bool) -> None:
    made = write_voc(tmp_path / "made")
    root = tmp_path / "dataset"
    for split in ("train", "val"):
        for folder, place in (("JPEGImages", images), ("Annotations", xml)):
            (root / place.format(split)).mkdir(parents=True, exist_ok=True)
            for file in (made / folder).glob(f"{split}_*"):
                shutil.copy(file, root / place.format(split))
    if lists:
        shutil.copytree(made / "ImageSets", root / "ImageSets")
    samples, expected = open_objects(root), open_objects(made)
    has_splits = lists or "{}" in images
    assert (len(samples), len(open_objects(root, split="train"))) == ((2, 3) if has_splits else (5, 5))
    found = {sample.id: sample.target().boxes.tolist() for sample in samples}
    assert {sample.id: found[sample.id] for sample in expected} == {s.id: s.target().boxes.tolist() for s in expected}
    assert samples.classes == expected.classes  # of all splits


def test_images_of_voc_without_xml_file_are_named_where_no_list_leaves_them_out(tmp_path: Path) -> None:
    write_voc(tmp_path, {"val": 2})
    shutil.rmtree(tmp_path / "ImageSets")
    (tmp_path / "Annotations/val_1.xml").unlink()
    samples = quiet(tmp_path)
    assert [sample.id for sample in samples] == ["val_0.jpg"]
    assert len(samples.problems) == 1
    assert "val_1" in samples.problems[0]


BOMB = '<!DOCTYPE a [<!ENTITY b "bbbbbbbbbb"><!ENTITY c "&b;&b;&b;&b;&b;&b;">]>'


@pytest.mark.parametrize(
    "contents",
    [
        "<annotation><object>",
        "",
        "no xml",
        "<html></html>",
        f"{BOMB}<annotation>&c;</annotation>",
        BOMB.replace("<annotation>", "").encode("utf-16"),
        "<annotation>" + " " * 2**22 + "</annotation>",
    ],
)
def test_an_xml_file_that_cannot_be_read_is_left_out_with_its_image(tmp_path: Path, contents: str | bytes) -> None:
    write_voc(tmp_path)
    data = contents if isinstance(contents, bytes) else contents.encode()
    (tmp_path / "Annotations/val_0.xml").write_bytes(data)
    with pytest.warns(UserWarning, match=r"1 \(val_0.xml"):
        samples = open_objects(tmp_path)
    assert [sample.id for sample in samples] == ["val_1.jpg"]


def test_broken_objects_and_missing_files_of_voc_are_left_out_and_named(tmp_path: Path) -> None:
    write_voc(tmp_path, {"val": 4})
    things = [("cat", (1, 1, 9, 9), 0), ("cat", (9, 1, 3, 9), 0), ("", (1, 1, 9, 9), 0), ("cat", ("x", 1, 9, 9), 0)]
    (tmp_path / "Annotations/val_0.xml").write_text(voc_xml(things))  # type: ignore[arg-type]
    (tmp_path / "JPEGImages/val_1.jpg").unlink()
    (tmp_path / "Annotations/val_2.xml").unlink()
    samples = quiet(tmp_path)
    assert [sample.id for sample in samples] == ["val_0.jpg", "val_3.jpg"]
    assert samples.at(0).target().boxes.tolist() == [[0, 0, 9, 9]]
    assert len(samples.problems) == 5
    told = " ".join(samples.problems)
    assert all(name in told for name in ("object 2 of val_0", "object 3 of val_0", "object 4 of val_0", "val_1.jpg", "val_2"))


def test_sizes_that_xml_files_lack_are_asked_of_the_images(tmp_path: Path) -> None:
    write_voc(tmp_path, {"val": 1})
    for size in ((0, 0), (-1, 4)):
        (tmp_path / "Annotations/val_0.xml").write_text(voc_xml([("cat", (1, 1, 1000, 9), 0)], size))
        assert quiet(tmp_path).at(0).target().boxes.tolist() == [[0, 0, W, 9]]
    (tmp_path / "Annotations/val_0.xml").write_text(voc_xml([("cat", (1, 1, 9, 9), 0)], (H, W + 1)))
    with refused(LayoutError, "val_0.jpg", f"{W + 1}x{H}"):
        open_objects(tmp_path).check_values()


# YOLO


@pytest.mark.parametrize(
    ("images", "labels"),
    [("images/{}", "labels/{}"), ("{}/images", "{}/labels"), ("{}", "{}"), ("images/{}", "images/{}")],
)
@pytest.mark.parametrize("described", [True, False])
def test_yolo_is_found_in_the_usual_places(tmp_path: Path, images: str, labels: str, described: bool) -> None:
    write_yolo(tmp_path, images=images, labels=labels)
    if described:
        entries = "".join(f"{split}: ../{images.format(split)}\n" for split in ("train", "val"))
        (tmp_path / "data.yaml").write_text(YAML + entries)
    else:
        (tmp_path / "classes.txt").write_text("\n".join(CLASS_NAMES) + "\n")
    for source in [tmp_path, *([tmp_path / "data.yaml"] if described else [])]:
        samples = open_objects(source)
        assert [sample.id for sample in samples] == ["0.jpg", "1.jpg"]
        assert (samples.classes, samples.category_ids, samples.image_ids) == (CLASS_NAMES, None, None)
        assert (samples.has_targets, samples.has_masks, samples.problems) == (True, False, ())
        assert len(open_objects(source, split="train")) == 3
        for sample, (_, objects) in zip(samples, scene_objects(2, 1), strict=True):
            assert np.allclose(sample.target().boxes, objects.boxes, atol=1e-9)
            assert np.array_equal(sample.target().classes, objects.classes)


def test_the_folder_of_the_images_of_a_split_of_yolo_may_be_given(tmp_path: Path) -> None:
    write_yolo(tmp_path)
    (tmp_path / "data.yaml").write_text(YAML + "train: images/train\nval: images/val\n")
    samples = open_objects(tmp_path / "images/train")
    assert (len(samples), samples.has_targets, samples.classes) == (3, True, CLASS_NAMES)
    assert len(open_object_split(tmp_path, "train")) == 3
    with refused(LayoutError, "nothing", "train"):
        open_object_split(tmp_path, "nothing")


@pytest.mark.parametrize("base", ["", "path: .\n", "path: nowhere\n", "path: {root}\n"])
def test_a_description_may_name_folders_in_several_ways(tmp_path: Path, base: str) -> None:
    write_yolo(tmp_path)
    for k in range(2):
        shutil.copy(tmp_path / "images/train/0.jpg", tmp_path / f"images/val/more{k}.jpg")
    lists = tmp_path / "val.txt"
    lists.write_text("./images/val/0.jpg\n" + f"{tmp_path}/images/val/more1.jpg\n\n")
    base = base.format(root=tmp_path)
    for train, val, count in [
        ("images/train", "images/val", 4),
        (f"{tmp_path}/images/train", "[images/val]", 4),
        ("/content/data/images/train", "../images/val", 4),
        ("C:\\\\data\\\\images\\\\train", "val.txt", 2),
    ]:
        (tmp_path / "my.yaml").write_text(f"{YAML}{base}train: {train}\nval: {val}\n")
        samples = open_objects(tmp_path / "my.yaml")
        assert (len(samples), samples.problems) == (count, ())
        assert len(open_objects(tmp_path / "my.yaml", split="train")) == 3


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("names: {0: a, 2: b}\nval: images/val", ("0, 2",)),
        ("names: 3\nval: images/val", ("3",)),
        ("names: [[a]]\nval: images/val", ("[['a']]",)),
        ("names: [a]\nval: {a: b}", ("val",)),
        ("names: [a]\nval: [nowhere, neither]", ("nowhere, neither",)),
        ("names: [a]", ()),
        ("names: [", ("line 1",)),
        ("- names", ("list",)),
        ("a: &a [b, b, b, b, b, b, b, b, b, b]\n" + "\n".join(f"x{k}: &x{k} [{'*a, ' * 9}*a]" for k in range(300)), ()),
        ("# " + "x" * 2**20, ()),
    ],
)
def test_a_description_that_cannot_be_understood_is_refused(tmp_path: Path, text: str, values: tuple[object, ...]) -> None:
    write_yolo(tmp_path)
    (tmp_path / "data.yaml").write_text(text)
    with refused(LayoutError, tmp_path / "data.yaml", *values):
        open_objects(tmp_path / "data.yaml")


def test_folders_that_a_description_names_and_that_are_not_there_are_named(tmp_path: Path) -> None:
    write_yolo(tmp_path)
    (tmp_path / "data.yaml").write_text(f"{YAML}train: [images/train, images/more]\nval: images/gone\n")
    with pytest.warns(UserWarning, match="images/more"):
        samples = open_objects(tmp_path / "data.yaml", split="train")
    assert (len(samples), len(samples.problems)) == (3, 1)
    with refused(LayoutError, tmp_path / "data.yaml", "images/gone", "val"):
        open_objects(tmp_path / "data.yaml")


def test_class_names_of_yolo_may_be_numbered_or_absent(tmp_path: Path) -> None:
    write_yolo(tmp_path)
    (tmp_path / "labels/train/0.txt").write_text("12 0.5 0.5 0.1 0.1\n")
    assert open_objects(tmp_path).classes == tuple(f"class {k}" for k in range(13))
    names = "\n".join(f"  {k}: n{k}" for k in range(13))
    (tmp_path / "data.yaml").write_text(f"names:\n{names}\nval: images/val\ntrain: images/train\n")
    assert open_objects(tmp_path).classes == tuple(f"n{k}" for k in range(13))


def test_an_image_without_text_file_has_no_objects(tmp_path: Path) -> None:
    write_yolo(tmp_path)
    (tmp_path / "labels/val/0.txt").unlink()
    (tmp_path / "labels/val/1.txt").write_text("")
    samples = open_objects(tmp_path)
    assert [len(sample.target().boxes) for sample in samples] == [0, 0]
    assert samples.has_targets
    shutil.rmtree(tmp_path / "labels/val")
    assert not open_objects(tmp_path).has_targets
    with refused(LayoutError, "labels/val"):
        open_objects(tmp_path).require_targets()


def test_outlines_of_yolo_become_masks(tmp_path: Path) -> None:
    write_yolo(tmp_path)
    for file in tmp_path.glob("labels/val/*.txt"):
        file.write_text("3 0.25 0.25 0.75 0.25 0.75 0.5 0.25 0.5\n")
    samples = open_objects(tmp_path)
    target = samples.at(0).target()
    assert samples.has_masks
    assert target.masks is not None
    assert target.boxes.tolist() == [[W / 4, H / 4, 3 * W / 4, H / 2]]
    assert np.array_equal(target.masks.boxes(), target.boxes)
    assert target.areas.tolist() == [W / 2 * H / 4] == target.masks.areas().tolist()


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), *[st.integers(0, 40)] * 4), max_size=6))
def test_boxes_survive_the_way_to_shares_and_back(tmp_path_factory: Any, things: list[tuple[int, ...]]) -> None:
    boxes = [(c, min(x1, x2), min(y1, y2), max(x1, x2) + 1, max(y1, y2) + 1) for c, x1, y1, x2, y2 in things]
    root = tmp_path_factory.getbasetemp() / "shares"
    if not root.exists():
        write_yolo(root)
        (root / "classes.txt").write_text("\n".join(CLASS_NAMES))
    lines = [f"{c} {(a + x) / 2 / W!r} {(b + y) / 2 / H!r} {(x - a) / W!r} {(y - b) / H!r}\n" for c, a, b, x, y in boxes]
    (root / "labels/val/0.txt").write_text("".join(lines))
    samples = open_objects(root)
    target = samples.at(0).target()
    assert samples.problems == ()
    assert target.classes.tolist() == [box[0] for box in boxes]
    assert np.allclose(target.boxes, np.array([box[1:] for box in boxes]).reshape(-1, 4), atol=1e-9)


def test_broken_lines_of_yolo_are_left_out_and_named(tmp_path: Path) -> None:
    write_yolo(tmp_path)
    (tmp_path / "classes.txt").write_text("\n".join(CLASS_NAMES))
    bad = [
        "1 2 3",
        "a 0.5 0.5 0.1 0.1",
        "1 0.5 0.5 0.1 0.1 0.9",
        "10 0.5 0.5 0.1 0.1",
        "-1 0.5 0.5 0.1 0.1",
        "0.5 0.5 0.5 0.1 0.1",
    ]
    bad += ["1 0.5 0.5 0 0.1", "1 0.5 nan 0.1 0.1", "1 1.5 0.5 0.1 0.1", "inf 0.5 0.5 0.1 0.1"]
    (tmp_path / "labels/val/0.txt").write_text("\ufeff1 0.5 0.5 0.5 0.5\n\n" + "\n".join(bad) + "\n1 1.0 0.5 0.5 0.5")
    (tmp_path / "labels/val/other.txt").write_text("1 0.5 0.5 0.5 0.5\n")
    samples = quiet(tmp_path)
    assert np.allclose(samples.at(0).target().boxes, [[16, 12, 48, 36], [48, 12, 64, 36]])
    told = " ".join(samples.problems)
    assert ": 3 (0.txt:3, 0.txt:4, 0.txt:5)" in told
    assert ": 4 (0.txt:6, 0.txt:7, 0.txt:8, 0.txt:12)" in told
    assert all(f": 1 ({name})" in told for name in ("0.txt:9", "0.txt:10", "0.txt:11", "0.txt:13", "other.txt"))


def test_labels_in_pixels_are_refused(tmp_path: Path) -> None:
    write_yolo(tmp_path, {"val": 1})
    (tmp_path / "labels/val/0.txt").write_text("1 32 24 10 10\n1 20 24 10 10\n")
    with refused(LayoutError, tmp_path, "0.txt:1"):
        open_objects(tmp_path)


def test_text_files_that_are_no_labels_do_not_make_a_dataset(tmp_path: Path) -> None:
    save(tmp_path / "a.jpg", np.zeros((*SIZE, 3), np.uint8))
    (tmp_path / "readme.txt").write_text("what this is")
    assert not open_objects(tmp_path).has_targets


def test_a_damaged_image_of_yolo_is_left_to_whoever_opens_it(tmp_path: Path) -> None:
    write_yolo(tmp_path)
    (tmp_path / "images/val/1.jpg").write_bytes(b"damaged")
    samples = open_objects(tmp_path)
    samples.check_values()
    for read in (samples.at(1).open, samples.at(1).target):
        with pytest.raises(UnreadablePictureError):
            read()
