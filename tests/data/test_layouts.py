"""Data sets are found by their layout, and what is missing is named."""

from __future__ import annotations

import hashlib
import pickle
from pathlib import Path

import numpy as np
import pytest
import torchvision
from class_tree import fill
from refusals import refused

from robustvit.corruptions.registry import corruption_names
from robustvit.data.layouts import LayoutError, cifar_c_images, imagenet_c_images, open_samples, suite_folder
from robustvit.data.readers.cifar_classes import CIFAR_CLASSES

NOISE = corruption_names("noise")


def test_the_embedded_data_set_has_a_name() -> None:
    pictures = open_samples("scenes:5", scene_size=(48, 32))
    assert (len(pictures), len(pictures.classes)) == (5, 10)
    assert next(iter(pictures)).open().size == (32, 48)


@pytest.mark.parametrize("grouped", [False, True])
def test_the_tree_of_imagenet_c_is_read_flat_or_as_published_in_groups(grouped: bool, tmp_path: Path) -> None:
    root = tmp_path / "noise" if grouped else tmp_path
    for name in NOISE:
        for severity in range(1, 6):
            fill(root / name / str(severity), ("n1", "n2"), 1)
    cells = imagenet_c_images(tmp_path, NOISE)
    assert cells is not None
    assert list(cells) == [(name, severity) for name in NOISE for severity in range(1, 6)]
    assert [p.id for p in cells["shot_noise", 3]] == ["n1/0.png", "n2/0.png"]


def test_what_is_missing_of_imagenet_c_is_named(tmp_path: Path) -> None:
    fill(tmp_path / "fog" / "1")
    with refused(LayoutError, tmp_path, "gaussian_noise/1"):
        imagenet_c_images(tmp_path, NOISE)
    assert imagenet_c_images(fill(tmp_path / "plain"), NOISE) is None


def fill_cifar_c(folder: Path, labels: int = 2, names: tuple[str, ...] = NOISE) -> Path:
    folder.mkdir(exist_ok=True)
    for name in names:
        np.save(folder / f"{name}.npy", np.repeat(np.arange(10, dtype=np.uint8), 32 * 32 * 3).reshape(10, 32, 32, 3))
    np.save(folder / "labels.npy", np.tile([0, labels - 1], 5))
    return folder


def test_the_arrays_of_cifar_c_are_cut_by_severity(tmp_path: Path) -> None:
    cells = cifar_c_images(fill_cifar_c(tmp_path / "CIFAR-10-C"), NOISE)
    third = [(p.target(), p.open().getpixel((0, 0))[0]) for p in cells["impulse_noise", 3]]
    assert third == [(0, 4), (1, 5)]
    assert {cell.name for cell in cells.values()} == {str(tmp_path / "CIFAR-10-C")}
    (tmp_path / "CIFAR-10-C" / "shot_noise.npy").unlink()
    with refused(LayoutError, "shot_noise.npy", "CORRUPTION.npy"):
        cifar_c_images(tmp_path / "CIFAR-10-C", NOISE)


def test_the_arrays_of_cifar_c_have_the_classes_of_their_data_set(tmp_path: Path) -> None:
    assert (len(CIFAR_CLASSES["cifar10"]), len(CIFAR_CLASSES["cifar100"])) == (10, 100)
    root = fill_cifar_c(tmp_path, labels=100)
    assert cifar_c_images(root, NOISE, kind="cifar100")["shot_noise", 1].classes[99] == "worm"
    with refused(LayoutError, "0 to 99", "cifar10", "0 to 9"):
        cifar_c_images(root, NOISE, kind="cifar10")


def test_arrays_of_another_shape_or_damaged_ones_are_explained(tmp_path: Path) -> None:
    root = fill_cifar_c(tmp_path)
    np.save(root / "shot_noise.npy", np.zeros((10, 32, 32), np.uint8))
    with refused(LayoutError, "shot_noise.npy", "uint8 [10, 32, 32]", "uint8 [N, 32, 32, 3]"):
        cifar_c_images(root, NOISE)
    (root / "shot_noise.npy").write_bytes(b"\x93NUMPY")
    with refused(LayoutError, "shot_noise.npy"):
        cifar_c_images(root, NOISE)


@pytest.mark.parametrize(
    ("suite", "published"),
    [
        ("imagenet-c", "ImageNet-C"),
        ("imagenet-a", "imagenet_a"),
        ("imagenet-r", "imagenet-r"),
        ("imagenet-r", "IMAGENETR"),
        ("imagenet-sketch", "ImageNet-Sketch"),
        ("cifar10-c", "CIFAR-10-C"),
        ("cifar100-c", "CIFAR-100-C"),
    ],
)
def test_a_suite_has_a_folder_of_its_name_however_it_is_written(suite: str, published: str, tmp_path: Path) -> None:
    assert suite_folder(tmp_path, suite) == tmp_path
    (tmp_path / published).mkdir()
    (tmp_path / f"{published}-more").mkdir()
    assert suite_folder(tmp_path, suite) == tmp_path / published


def save_cifar10(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three test pictures in CIFAR-10's files, with the checksums that torchvision compares."""
    folder = root / "cifar-10-batches-py"
    folder.mkdir(parents=True)
    stored = {
        name: {"data": np.zeros((1, 3072), np.uint8), "labels": [0]} for name, _ in torchvision.datasets.CIFAR10.train_list
    }
    pixels = np.repeat(np.array([0, 100, 200], np.uint8)[:, None], 3072, 1)
    stored["test_batch"] = {"data": pixels, "labels": [3, 1, 9]}
    stored["batches.meta"] = {"label_names": list(CIFAR_CLASSES["cifar10"])}
    sums = {}
    for name, content in stored.items():
        (folder / name).write_bytes(pickle.dumps(content))
        sums[name] = hashlib.md5((folder / name).read_bytes()).hexdigest()
    cifar10 = torchvision.datasets.CIFAR10
    monkeypatch.setattr(cifar10, "train_list", [[name, sums[name]] for name, _ in cifar10.train_list])
    monkeypatch.setattr(cifar10, "test_list", [["test_batch", sums["test_batch"]]])
    monkeypatch.setattr(cifar10, "meta", {**cifar10.meta, "md5": sums["batches.meta"]})


@pytest.mark.parametrize("source", ["{}", "{}/cifar-10-batches-py", "cifar10:{}"])
def test_the_test_images_of_cifar_are_read(source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_cifar10(tmp_path, monkeypatch)
    pictures = open_samples(source.format(tmp_path))
    assert pictures.classes == CIFAR_CLASSES["cifar10"]
    assert [picture.target() for picture in pictures] == [3, 1, 9]
    assert [picture.open().getpixel((5, 5)) for picture in pictures] == [(v, v, v) for v in (0, 100, 200)]


def test_damaged_cifar_files_are_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_cifar10(tmp_path, monkeypatch)
    (tmp_path / "cifar-10-batches-py" / "test_batch").write_bytes(b"cut")
    with refused(LayoutError, "CIFAR10", tmp_path):
        open_samples(tmp_path)
