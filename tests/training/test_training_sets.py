"""The training set is found by its layout, joined by its copies, and shares its classes with the validation set."""

from __future__ import annotations

import hashlib
import pickle
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torchvision
from image_folders import fill, picture
from PIL import Image
from refusals import refused

from robustvit.data.layouts import LayoutError
from robustvit.data.samples import UnreadablePictureError
from robustvit.tasks.classification import Classification
from robustvit.training.config import DataConfig
from robustvit.training.training_sets import Decoded, TrainingSamples, training_samples, validation_samples

TASK = Classification()
SIZE = (16, 16)


def opened(seed: int = 0, **config: object) -> TrainingSamples:
    pictures = training_samples(TASK, DataConfig(**config), seed=seed)  # type: ignore[arg-type]
    pictures.draw_at(SIZE)
    return pictures


def ids(pictures: TrainingSamples) -> list[str]:
    return [pictures.id(i) for i in range(len(pictures))]


def read(pictures: TrainingSamples, position: int) -> Decoded:
    (found,) = pictures.read([position])
    assert isinstance(found, Decoded)
    return found


def test_photographs_are_trained_on_and_validated_upright_unless_told_otherwise(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    for name in ("train/a", "train/b", "val/a", "val/b"):
        (tmp_path / name).mkdir(parents=True)
        Image.new("RGB", (20, 10)).save(tmp_path / name / "1.jpg", exif=exif)
    for ignore, size in ((False, (10, 20)), (True, (20, 10))):
        config = DataConfig(train=str(tmp_path), val=str(tmp_path), copies=(f"{tmp_path}/train",), ignore_orientation=ignore)
        pictures = training_samples(TASK, config, seed=0)
        assert {read(pictures, i).image.size for i in range(len(pictures))} == {size}
        assert {p.open().size for p in validation_samples(TASK, config, img_size=SIZE, seed=0) or ()} == {size}


@pytest.mark.parametrize("place", ["", "train"])
def test_class_folders_are_taken_from_train_or_from_the_folder_itself(place: str, tmp_path: Path) -> None:
    fill(tmp_path / place, count=2)
    if place:
        fill(tmp_path / "val", count=1)
    pictures = opened(train=str(tmp_path))
    assert ids(pictures) == ["cat/0.png", "cat/1.png", "dog/0.png", "dog/1.png"]
    assert (pictures.classes, pictures.outputs) == (("cat", "dog"), 2)
    assert read(pictures, 3).target == 1
    assert np.array_equal(np.asarray(read(pictures, 3).image), np.asarray(picture(101)))


def test_a_folder_with_val_alone_has_nothing_to_train_on(tmp_path: Path) -> None:
    fill(tmp_path / "val")
    with refused(LayoutError, "val/", "train/CLASS/"):
        opened(train=str(tmp_path))


def test_scenes_to_train_on_are_not_those_to_validate_on() -> None:
    train = opened(train="scenes:4")
    val = validation_samples(TASK, DataConfig(val="scenes:4"), img_size=SIZE, seed=0, classes=train.classes)
    assert val is not None
    assert [p.target() for p in val] != [read(train, i).target for i in range(4)]
    drawn = train.read([2, 0])
    assert all(np.array_equal(d.image, read(train, i).image) for d, i in zip(drawn, (2, 0), strict=True))  # type: ignore[union-attr]


def test_cifars_training_split_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cifar10 = torchvision.datasets.CIFAR10
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    train_names = [name for name, _ in cifar10.train_list]
    stored = {
        name: {"data": np.full((2, 3072), i, np.uint8), "labels": [i, 9]}
        for i, name in enumerate([*train_names, "test_batch"])
    }
    stored["batches.meta"] = {"label_names": [f"class{i}" for i in range(10)]}
    for name, content in stored.items():
        (folder / name).write_bytes(pickle.dumps(content))
    sums = {name: hashlib.md5((folder / name).read_bytes()).hexdigest() for name in stored}
    monkeypatch.setattr(cifar10, "train_list", [[name, sums[name]] for name in train_names])
    monkeypatch.setattr(cifar10, "test_list", [["test_batch", sums["test_batch"]]])
    monkeypatch.setattr(cifar10, "meta", {**cifar10.meta, "md5": sums["batches.meta"]})
    pictures = opened(train=f"cifar10:{tmp_path}")
    assert (len(pictures), pictures.outputs, read(pictures, 2).target) == (10, 10, 1)
    val = validation_samples(TASK, DataConfig(val=str(tmp_path)), img_size=SIZE, seed=0, classes=pictures.classes)
    assert val is not None
    assert [p.target() for p in val] == [5, 9]


def test_a_tar_file_is_read(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "train.tar", "w") as archive:
        archive.add(fill(tmp_path / "train", count=2), "train")
    pictures = opened(train=str(tmp_path / "train.tar"))
    assert [read(pictures, i).target for i in range(4)] == [0, 0, 1, 1]


def test_the_training_split_of_a_data_set_of_hugging_face_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("datasets")
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    fill(tmp_path / "Set" / "train", count=1)
    pictures = opened(train=f"hfds/{tmp_path}/Set")
    assert (pictures.classes, [read(pictures, i).target for i in range(2)]) == (("cat", "dog"), [0, 1])
    fill(tmp_path / "Other" / "test", count=1)
    with refused(LayoutError, "Other", "train", "image", "label"):
        opened(train=f"hfds/{tmp_path}/Other")


@pytest.mark.parametrize("layout", ["copies/{kind}", "copies"])
def test_distorted_copies_join_the_clean_images(layout: str, tmp_path: Path) -> None:
    fill(tmp_path / "train", count=2)
    kinds = ("CAE", "EDSR") if "kind" in layout else ("",)
    for kind in kinds:
        fill(tmp_path / layout.format(kind=kind), count=1)
    pictures = opened(train=str(tmp_path), copies=(str(tmp_path / "copies"),))
    assert len(pictures) == 4 + 2 * len(kinds)
    assert len(set(ids(pictures))) == len(pictures)
    assert [read(pictures, i).target for i in range(4, len(pictures))] == [0, 1] * len(kinds)


def test_copies_of_other_classes_are_refused_and_named(tmp_path: Path) -> None:
    train = fill(tmp_path / "train", ("cat", "dog", "owl"), 1)
    fill(tmp_path / "copies" / "EDSR", ("cat", "wolf"), 1)
    with refused(ValueError, "EDSR", 3, "dog, owl", "wolf"):
        opened(train=str(train), copies=(str(tmp_path / "copies"),))


@pytest.mark.parametrize("made", [False, True])
def test_missing_and_empty_folders_of_copies_are_named(made: bool, tmp_path: Path) -> None:
    train = fill(tmp_path / "train", count=1)
    if made:
        (tmp_path / "copies").mkdir()
    with refused((FileNotFoundError, LayoutError), tmp_path / "copies", "/CLASS/IMAGE.jpg"):
        opened(train=str(train), copies=(str(tmp_path / "copies"),))


def test_a_limit_takes_a_random_subset_that_depends_on_the_seed_alone(tmp_path: Path) -> None:
    fill(tmp_path, count=20)
    first = ids(opened(train=str(tmp_path), train_limit=10))
    assert len(set(first)) == 10
    assert first == ids(opened(train=str(tmp_path), train_limit=10))
    assert first != ids(opened(train=str(tmp_path), train_limit=10, seed=1))
    assert len(opened(train=str(tmp_path), train_limit=1000)) == 40
    config = DataConfig(val=str(tmp_path), val_limit=7)
    val = validation_samples(TASK, config, img_size=SIZE, seed=0)
    assert val is not None
    assert len(list(val)) == 7
    with refused(ValueError, "data.train_limit=-1"):
        opened(train=str(tmp_path), train_limit=-1)


def test_validation_labels_are_those_of_the_training_set(tmp_path: Path) -> None:
    fill(tmp_path / "val", ("owl",), 2)
    config = DataConfig(val=str(tmp_path / "val"))
    val = validation_samples(TASK, config, img_size=SIZE, seed=0, classes=("cat", "dog", "owl"))
    assert val is not None
    assert ([p.target() for p in val], val.classes) == ([2, 2], ("cat", "dog", "owl"))
    with refused(ValueError, "owl"):
        validation_samples(TASK, config, img_size=SIZE, seed=0, classes=("cat", "dog"))
    assert validation_samples(TASK, DataConfig(val=""), img_size=SIZE, seed=0) is None


def test_what_is_wrong_with_a_training_set_is_said(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    fill(tmp_path / "one", ("cat",))
    with refused(FileNotFoundError, tmp_path / "nowhere"):
        opened(train=str(tmp_path / "nowhere"))
    with refused(LayoutError, tmp_path / "empty"):
        opened(train=str(tmp_path / "empty"))
    with refused(LayoutError, tmp_path / "one", "cat"):
        opened(train=str(tmp_path / "one"))
    with refused(LayoutError, "wds/somewhere"):
        opened(train="wds/somewhere")
    with refused(ValueError, "data.train"):
        opened(train="")


def test_unreadable_images_are_errors_beside_the_others(tmp_path: Path) -> None:
    fill(tmp_path, count=1)
    (tmp_path / "cat" / "0.png").write_bytes(b"")
    pictures = opened(train=str(tmp_path))
    broken, good = pictures.read([0, 1])
    assert isinstance(broken, UnreadablePictureError)
    assert isinstance(good, Decoded)


@pytest.mark.parametrize("mode", ["L", "CMYK", "P", "1"])
def test_images_of_every_mode_become_rgb(mode: str, tmp_path: Path) -> None:
    fill(tmp_path, count=1)
    suffix = "tif" if mode == "CMYK" else "png"
    picture(0).convert(mode).save(tmp_path / "cat" / f"1.{suffix}")
    image = read(opened(train=str(tmp_path)), 1).image
    assert isinstance(image, Image.Image)
    assert (image.mode, image.size) == ("RGB", (16, 16))
