"""Folders of class folders: which pictures belong to them, in which order, and what is wrong with those that do not."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
from class_tree import fill
from PIL import Image
from refusals import refused
from timm.data.readers import create_reader

from robustvit.data.layouts import LayoutError, imagenet_c_images, open_samples
from robustvit.data.readers.class_folders import is_suite


@pytest.mark.filterwarnings("ignore:.*natural order")
def test_class_folders_are_numbered_in_their_order(tmp_path: Path) -> None:
    pictures = open_samples(fill(tmp_path, ("10", "9", "2")))
    assert pictures.classes == ("2", "9", "10")
    assert [(p.id, p.target()) for p in pictures] == [
        ("2/0.png", 0),
        ("2/1.png", 0),
        ("9/0.png", 1),
        ("9/1.png", 1),
        ("10/0.png", 2),
        ("10/1.png", 2),
    ]
    assert next(iter(pictures)).open().size == (40, 36)


@pytest.mark.filterwarnings("ignore:.*natural order")
def test_the_order_is_that_of_timms_reader(tmp_path: Path) -> None:
    fill(tmp_path, ("Zebra", "apple", "b10", "b2", "cat-2", "cat"), count=12)
    pictures, timms = open_samples(tmp_path), create_reader("", root=str(tmp_path))
    assert [(p.id, p.target()) for p in pictures] == [(timms.filename(i), timms.samples[i][1]) for i in range(len(timms))]


def test_a_numbering_that_differs_from_torchvisions_is_told_once(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match=r"class 1 is 'class2'.* ImageFolder .* be 'class10'.*--class-map") as told:
        pictures = open_samples(fill(tmp_path / "differs", ("class1", "class2", "class10")))
    assert len(told) == 1
    assert "natural order" in pictures.order_note  # type: ignore[attr-defined]
    for severity in range(1, 6):
        fill(tmp_path / "c" / "fog" / str(severity), ("class1", "class2", "class10"), 1)
    with pytest.warns(UserWarning, match="natural order") as told:
        imagenet_c_images(tmp_path / "c", ["fog"])
    assert len(told) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert open_samples(fill(tmp_path / "same", ("n01", "n02"))).order_note is None  # type: ignore[attr-defined]


@pytest.mark.parametrize("split", ["val", "validation", "test"])
@pytest.mark.parametrize("with_train", [True, False])
def test_val_is_taken_with_and_without_train(split: str, with_train: bool, tmp_path: Path) -> None:
    if with_train:
        fill(tmp_path / "train", ("a",))
    fill(tmp_path / split, ("b", "c"))
    fill(tmp_path / "imagenet-a", ("d",))
    pictures = open_samples(tmp_path)
    assert (pictures.classes, len(pictures)) == (("b", "c"), 4)


def test_a_class_may_be_called_test(tmp_path: Path) -> None:
    assert open_samples(fill(tmp_path, ("other", "test"))).classes == ("other", "test")


@pytest.mark.parametrize("name", ["imagenet-a", "ImageNet-R", "imagenet_c", "ImageNetV2-matched-frequency", "CIFAR-10-C"])
def test_other_data_sets_beside_the_class_folders_are_left_out(name: str, tmp_path: Path) -> None:
    fill(tmp_path)
    fill(tmp_path / name / "fog" / "1", ("dog", "eel"))
    pictures = open_samples(tmp_path)
    assert (pictures.classes, len(pictures)) == (("cat", "dog"), 4)


def test_only_names_of_data_sets_are_suites() -> None:
    assert not any(map(is_suite, ("imagenet", "n01440764", "cifar10", "c", "cat", "cifar-10-batches-py")))


def test_images_deeper_than_their_class_are_refused_with_their_place(tmp_path: Path) -> None:
    fill(tmp_path / "set")
    fill(tmp_path / "set" / "more", ("eel",))
    with refused(LayoutError, "set/more/eel/0.png", tmp_path / "set" / "more"):
        open_samples(tmp_path / "set")
    fill(tmp_path / "imagenet" / "train", ("eel",))
    with refused(LayoutError, tmp_path / "imagenet" / "train"):
        open_samples(tmp_path / "imagenet")


@pytest.mark.parametrize("group", ["", "noise"])
def test_imagenet_c_does_not_pass_for_clean(group: str, tmp_path: Path) -> None:
    for severity in range(1, 6):
        fill(tmp_path / group / "shot_noise" / str(severity), ("n01", "n02"))
    with refused(LayoutError, "imagenet-c"):
        open_samples(tmp_path)


def test_every_kind_of_image_is_taken_and_of_animations_the_first_frame(tmp_path: Path) -> None:
    (tmp_path / "cat").mkdir()
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "blue")]
    frames[0].save(tmp_path / "cat" / "a.gif", save_all=True, append_images=frames[1:])
    suffixes = ("webp", "tif", "TIFF", "bmp", "ppm", "jp2", "JPEG", "png")
    for suffix in suffixes:
        frames[0].save(tmp_path / "cat" / f"b.{suffix}")
    pictures = open_samples(tmp_path)
    assert {p.id for p in pictures} == {"cat/a.gif", *(f"cat/b.{suffix}" for suffix in suffixes)}
    for picture in pictures:
        red, green, blue = picture.open().getpixel((4, 4))
        assert red > 250
        assert max(green, blue) < 5


def test_hidden_files_and_lists_are_ignored_and_strange_files_are_told(tmp_path: Path) -> None:
    fill(tmp_path)
    (tmp_path / "cat" / "labels.txt").touch()
    (tmp_path / "cat" / ".0-stopped.png").touch()
    (tmp_path / ".cache").mkdir()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(open_samples(tmp_path)) == 4
    (tmp_path / "dog" / "a.heic").touch()
    (tmp_path / "dog" / "b").touch()
    with pytest.warns(UserWarning, match=r"1 files \.heic, 1 files without suffix"):
        assert len(open_samples(tmp_path)) == 4


def test_wrong_folders_are_explained(tmp_path: Path) -> None:
    with refused(FileNotFoundError, tmp_path / "nowhere"):
        open_samples(tmp_path / "nowhere")
    with refused(LayoutError, tmp_path, "CLASS"):
        open_samples(tmp_path)
    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    with refused(LayoutError, tmp_path, "a.png"):
        open_samples(tmp_path)
    with refused(LayoutError, tmp_path / "a.png"):
        open_samples(tmp_path / "a.png")
    (tmp_path / "empty class").mkdir()
    with refused(LayoutError, "a.png"):
        open_samples(tmp_path)
    (tmp_path / "a.png").unlink()
    with refused(LayoutError, "empty class"):
        open_samples(tmp_path)


def test_a_flat_val_and_lone_suites_are_explained(tmp_path: Path) -> None:
    fill(tmp_path / "flat", ("val",))
    with refused(LayoutError, tmp_path / "flat" / "val"):
        open_samples(tmp_path / "flat")
    fill(tmp_path / "suites" / "imagenet-a")
    with refused(LayoutError, "imagenet-a"):
        open_samples(tmp_path / "suites")
