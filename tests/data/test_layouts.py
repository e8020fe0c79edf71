"""Data sets are found by their layout, and what is missing is named."""

from __future__ import annotations

import tarfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from robustvit.corruptions.registry import corruption_names
from robustvit.data.layouts import LayoutError, cifar_c_pictures, imagenet_c_pictures, open_pictures, suite_folder

NOISE = corruption_names("noise")


def fill(folder: Path, classes: tuple[str, ...] = ("cat", "dog"), count: int = 2) -> Path:
    for c, name in enumerate(classes):
        (folder / name).mkdir(parents=True)
        for i in range(count):
            Image.new("RGB", (40, 36), (c, i, 0)).save(folder / name / f"{i}.png")
    return folder


def test_class_folders_are_numbered_in_their_order(tmp_path: Path) -> None:
    pictures = open_pictures(fill(tmp_path, ("10", "9", "2")))
    assert pictures.classes == ("2", "9", "10")
    assert [(p.id, p.label) for p in pictures] == [
        ("2/0.png", 0),
        ("2/1.png", 0),
        ("9/0.png", 1),
        ("9/1.png", 1),
        ("10/0.png", 2),
        ("10/1.png", 2),
    ]
    assert next(iter(pictures)).open().size == (40, 36)


def test_beside_a_train_folder_val_is_taken(tmp_path: Path) -> None:
    fill(tmp_path / "train", ("a",))
    fill(tmp_path / "val", ("b", "c"))
    assert open_pictures(tmp_path).classes == ("b", "c")


def test_a_tar_file_has_the_same_pictures(tmp_path: Path) -> None:
    fill(tmp_path / "set")
    with tarfile.open(tmp_path / "set.tar", "w") as archive:
        for name in ("cat", "dog"):
            archive.add(tmp_path / "set" / name, name)
    pictures = open_pictures(tmp_path / "set.tar")
    assert pictures.classes == ("cat", "dog")
    assert [p.open().getpixel((0, 0)) for p in pictures] == [(0, 0, 0), (0, 1, 0), (1, 0, 0), (1, 1, 0)]


def test_the_embedded_data_set_has_a_name() -> None:
    pictures = open_pictures("scenes:5", scene_size=(48, 32))
    assert (len(pictures), len(pictures.classes)) == (5, 10)
    assert next(iter(pictures)).open().size == (32, 48)


def test_wrong_folders_are_explained(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="there is no"):
        open_pictures(tmp_path / "nowhere")
    with pytest.raises(LayoutError, match="is empty; expected a folder for each class"):
        open_pictures(tmp_path)
    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    with pytest.raises(LayoutError, match=r"no class folders, only files such as a\.png"):
        open_pictures(tmp_path)
    with pytest.raises(LayoutError, match="is a file"):
        open_pictures(tmp_path / "a.png")
    (tmp_path / "empty class").mkdir()
    (tmp_path / "a.png").unlink()
    with pytest.raises(LayoutError, match="has no pictures"):
        open_pictures(tmp_path)


@pytest.mark.parametrize("grouped", [False, True])
def test_the_tree_of_imagenet_c_is_read_flat_or_as_published_in_groups(grouped: bool, tmp_path: Path) -> None:
    root = tmp_path / "noise" if grouped else tmp_path
    for name in NOISE:
        for severity in range(1, 6):
            fill(root / name / str(severity), ("n1", "n2"), 1)
    cells = imagenet_c_pictures(tmp_path, NOISE)
    assert cells is not None
    assert list(cells) == [(name, severity) for name in NOISE for severity in range(1, 6)]
    assert [p.id for p in cells["shot_noise", 3]] == ["n1/0.png", "n2/0.png"]


def test_what_is_missing_of_imagenet_c_is_named(tmp_path: Path) -> None:
    fill(tmp_path / "fog" / "1")
    with pytest.raises(LayoutError, match="lacks gaussian_noise/1"):
        imagenet_c_pictures(tmp_path, NOISE)
    assert imagenet_c_pictures(fill(tmp_path / "plain"), NOISE) is None


def test_the_arrays_of_cifar_c_are_cut_by_severity(tmp_path: Path) -> None:
    for name in NOISE:
        np.save(tmp_path / f"{name}.npy", np.repeat(np.arange(10, dtype=np.uint8), 32 * 32 * 3).reshape(10, 32, 32, 3))
    np.save(tmp_path / "labels.npy", np.tile(np.arange(2), 5))
    cells = cifar_c_pictures(tmp_path, NOISE)
    third = [(p.label, p.open().getpixel((0, 0))[0]) for p in cells["impulse_noise", 3]]
    assert third == [(0, 4), (1, 5)]
    (tmp_path / "shot_noise.npy").unlink()
    with pytest.raises(LayoutError, match=r"lacks shot_noise\.npy; expected CORRUPTION\.npy"):
        cifar_c_pictures(tmp_path, NOISE)


def test_a_suite_has_a_folder_of_its_name_or_is_the_folder(tmp_path: Path) -> None:
    assert suite_folder(tmp_path, "imagenet-c") == tmp_path
    (tmp_path / "imagenet-c").mkdir()
    assert suite_folder(tmp_path, "imagenet-c") == tmp_path / "imagenet-c"
