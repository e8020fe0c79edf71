"""What is in the label maps is known before the work starts, whichever map it is in; each is decoded once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from map_trees import save, write_camvid, write_cityscapes, write_cityscapes_c, write_plain
from refusals import refused

from robustvit.data import label_values
from robustvit.data.label_maps import LabelLookup, LabelValueError, read_label_map
from robustvit.data.label_values import values_of_files
from robustvit.data.map_layouts import LayoutError, corrupted_maps, open_maps
from robustvit.data.samples import SomeSamples, UnreadablePictureError, check_values
from robustvit.data.scenes.dataset import SEMANTIC_NAMES

NAMES = list(SEMANTIC_NAMES)


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """Forty pairs with a list of their classes, 0 to 10."""
    return write_plain(tmp_path / "many", {"val": 40, "train": 1}, classes=NAMES)


def spoil(root: Path, *numbers: int, value: int = 77, split: str = "val") -> list[Path]:
    """Gives a pixel of some label maps an unknown value."""
    paths = [root / f"labels/{split}/{split}{i}.png" for i in numbers]
    for path in paths:
        pixels = read_label_map(path)
        pixels[5, 7] = value
        save(path, pixels)
    return paths


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files that are decoded to be looked into."""
    files: list[Path] = []
    read = label_values.read_values
    monkeypatch.setattr(label_values, "read_values", lambda file: files.append(file) or read(file))
    return files


@pytest.mark.parametrize("number", [0, 17, 39])
def test_an_unknown_value_is_found_in_whichever_map_it_is(many: Path, number: int) -> None:
    (path,) = spoil(many, number)
    with refused(LabelValueError, many, "1 of 40", f"{path} has 77.", "0 to 10 or 255", many / "classes.json"):
        open_maps(many).check_values()


def test_all_maps_with_unknown_values_are_counted_in_one_error(many: Path) -> None:
    first, second = spoil(many, 3, 21)
    spoil(many, 21, value=200)
    spoil(many, 30, 31, 32, value=99)
    with refused(LabelValueError, "5 of 40", f"{first} has 77", f"{second} has 200", "..."):
        open_maps(many).check_values()


def test_a_training_set_is_looked_into_when_it_is_opened(many: Path) -> None:
    open_maps(many, split="train")
    (path,) = spoil(many, 0, split="train")
    with refused(LabelValueError, path, 77):
        open_maps(many, split="train")


def test_of_a_part_only_its_own_maps_are_looked_into(many: Path, decoded: list[Path]) -> None:
    (path,) = spoil(many, 17)
    samples = open_maps(many)
    check_values(SomeSamples(samples, [2, 30, 5]))
    assert sorted(file.stem for file in decoded) == ["val2", "val30", "val5"]
    with refused(LabelValueError, "1 of 2", path):
        check_values(SomeSamples(SomeSamples(samples, [2, 30, 17, 18]), [1, 2]))
    check_values([])  # type: ignore[arg-type]  # other sets have nothing to look at


def test_each_map_is_decoded_once_however_often_its_dataset_is_opened(many: Path, decoded: list[Path]) -> None:
    for _ in range(3):
        samples = open_maps(many)
        samples.check_values()
        samples.check_values([1, 2])
    assert len(decoded) == 40
    (path,) = spoil(many, 17)
    with refused(LabelValueError, path):
        open_maps(many).check_values()
    assert decoded[40:] == [path]


def test_maps_that_said_how_many_classes_there_are_are_not_decoded_again(tmp_path: Path, decoded: list[Path]) -> None:
    root = write_plain(tmp_path, {"val": 3, "train": 2})
    open_maps(root).check_values()
    assert len(decoded) == 5


def test_copies_of_all_severities_share_their_label_maps(tmp_path: Path, decoded: list[Path]) -> None:
    root = write_cityscapes_c(write_cityscapes(tmp_path), [("fog", severity) for severity in (1, 2, 3)])
    cells = corrupted_maps(root, ["fog"], [1, 2, 3])
    assert cells is not None
    for samples in cells.values():
        samples.check_values()
    assert len(decoded) == 2


def test_damaged_maps_are_no_error_and_their_samples_cannot_be_opened(many: Path) -> None:
    path = many / "labels/val/val3.png"
    path.write_bytes(path.read_bytes()[:60])
    samples = open_maps(many)
    samples.at(3).open()  # an image to predict, whatever its label map is
    samples.check_values()
    for sample in (samples.at(3), SomeSamples(samples, [2, 3]).at(1)):
        with refused(UnreadablePictureError, "label map", path):
            sample.open()
    samples.at(2).open()


def test_images_without_label_maps_and_generated_ones_have_nothing_to_look_into(tmp_path: Path) -> None:
    save(tmp_path / "a.png", np.zeros((8, 8, 3), np.uint8))
    open_maps(tmp_path).check_values()
    open_maps("scenes:2").check_values()


@pytest.mark.parametrize("ignores_others", [False, True])
@pytest.mark.parametrize("colours", [{}, {(9, 0, 0): 0, (4, 4, 4): 1}])
@pytest.mark.parametrize(
    "pixels",
    [
        np.array([[0, 1, 2]], np.uint8),
        np.array([[0, 5, 255]], np.uint8),
        np.array([[1, 40000]], np.uint16),
        np.array([[-7, 1]], np.int32),
        np.array([[2**30, 1]], np.int32),
        np.array([[[9, 0, 0], [4, 4, 4]]], np.uint8),
        np.array([[[9, 0, 0], [4, 4, 5]]], np.uint8),
        np.array([[[1, 1, 1], [2, 2, 2]]], np.uint8),
        np.array([[[1, 1, 1], [8, 8, 8]]], np.uint8),
    ],
)
def test_what_is_looked_for_is_what_reading_refuses(
    tmp_path: Path, pixels: np.ndarray, colours: dict[tuple[int, int, int], int], ignores_others: bool
) -> None:
    path = save(tmp_path / "map.tif", pixels)
    lookup = LabelLookup({0: 0, 1: 1, 2: 2, 255: 255}, colours, ignores_others)
    (found,) = values_of_files([path], "here")
    try:
        read_label_map(path, lookup)
    except LabelValueError:
        assert lookup.unknown(found)
    else:
        assert not lookup.unknown(found)


def test_unknown_colours_are_named(tmp_path: Path) -> None:
    root = write_camvid(tmp_path, colours=True)
    open_maps(root).check_values()
    path = save(root / "labels/val/val1.png", np.full((32, 48, 3), (9, 8, 7), np.uint8))
    with refused(LabelValueError, "1 of 2", f"{path} has (9, 8, 7)", "12 colours"):
        open_maps(root).check_values()


def test_a_photograph_in_place_of_a_map_is_named_by_a_few_of_its_colours(many: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (32, 48, 3), np.uint8)
    path = save(many / "labels/val/val8.png", noise)
    with refused(LabelValueError, path, "...", "color", "classes.json"):
        open_maps(many).check_values()


def test_values_that_can_be_no_class_are_named_and_no_others(tmp_path: Path) -> None:
    save(tmp_path / "images/a.png", np.zeros((4, 5, 3), np.uint8))
    path = save(tmp_path / "labels/a.png", np.array([*range(15), 300, 301, 1000, 65535, 255], np.uint16).reshape(4, 5))
    with refused(LayoutError, tmp_path, "1 of 1", "the values 300, 301, 1000, 65535, such as", path, "0 to 254"):
        open_maps(tmp_path)


def test_a_long_look_says_once_a_minute_how_far_it_is(many: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(label_values.EveryMinute, "is_due", lambda self: True)
    with pytest.warns(UserWarning, match="of 2 label maps") as told:
        check_values(SomeSamples(open_maps(many), [4, 5]))
    assert [str(warning.message) for warning in told] == [f"{many}: looked into {n} of 2 label maps" for n in (1, 2)]
