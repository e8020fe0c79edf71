"""Files of every kind become 8-bit RGB, or are named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from refusals import refused
from torchvision.datasets import ImageFolder

from robustvit.data.samples import ArraySamples, DatasetSamples, SomeSamples, UnreadablePictureError, read_image

RAMP = np.arange(48 * 40, dtype=np.int64).reshape(48, 40) % 256


@pytest.mark.parametrize("mode", ["RGB", "L", "1", "P", "CMYK", "RGBA", "LA", "HSV", "YCbCr"])
def test_every_mode_becomes_rgb_of_the_same_size(mode: str, tmp_path: Path) -> None:
    image = Image.fromarray(np.stack([RAMP] * 3, -1).astype(np.uint8)).convert(mode)
    suffix = "tif" if mode in ("CMYK", "HSV", "YCbCr") else "png"
    path = tmp_path / f"a.{suffix}"
    (image if mode != "HSV" else image.convert("RGB")).save(path)
    read = read_image(path)
    assert (read.mode, read.size) == ("RGB", (40, 48))


def test_grey_is_repeated_in_three_channels(tmp_path: Path) -> None:
    Image.fromarray(RAMP.astype(np.uint8)).save(tmp_path / "a.png")
    read = np.array(read_image(tmp_path / "a.png"))
    assert (read == RAMP[..., None]).all()


def test_sixteen_bits_are_scaled_to_eight(tmp_path: Path) -> None:
    Image.fromarray((RAMP * 257).astype(np.uint16)).save(tmp_path / "a.png")
    assert (np.array(read_image(tmp_path / "a.png"))[..., 0] == RAMP).all()


def test_a_dark_image_of_sixteen_bits_stays_dark(tmp_path: Path) -> None:
    Image.fromarray(RAMP.astype(np.uint16)).save(tmp_path / "a.png")  # values up to 255 of 65535
    with Image.open(tmp_path / "a.png") as image:
        assert image.mode == "I;16"
    assert np.array(read_image(tmp_path / "a.png")).max() == 0
    assert (np.array(read_image(Image.fromarray(RAMP.astype(np.int32))))[..., 0] == RAMP).all()  # "I" holds 8 bits as well


def test_of_an_animation_the_first_frame_is_taken(tmp_path: Path) -> None:
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "blue")]
    frames[0].save(tmp_path / "a.gif", save_all=True, append_images=frames[1:])
    assert read_image(tmp_path / "a.gif").getpixel((0, 0)) == (255, 0, 0)


def test_truncated_empty_and_foreign_files_are_unreadable(tmp_path: Path) -> None:
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (64, 64, 3), np.uint8)).save(tmp_path / "whole.jpg")
    (tmp_path / "cut.jpg").write_bytes((tmp_path / "whole.jpg").read_bytes()[:900])
    (tmp_path / "empty.jpg").write_bytes(b"")
    (tmp_path / "text.jpg").write_text("no picture")
    for name in ("cut.jpg", "empty.jpg", "text.jpg", "missing.jpg"):
        with pytest.raises(UnreadablePictureError):
            read_image(tmp_path / name)


def test_arrays_and_datasets_give_their_images() -> None:
    images = np.random.default_rng(0).integers(0, 255, (3, 32, 32, 3), np.uint8)
    tensors = [(torch.from_numpy(image).permute(2, 0, 1), i) for i, image in enumerate(images)]
    for pictures in (ArraySamples(images, [0, 1, 2], "arrays"), DatasetSamples(tensors, "tensors")):
        assert [(p.id, p.target()) for p in pictures] == [("0", 0), ("1", 1), ("2", 2)]
        assert all((np.array(p.open()) == image).all() for p, image in zip(pictures, images, strict=True))


def test_arrays_of_another_kind_are_refused() -> None:
    with refused(ValueError, "uint8 [N, H, W, 3]", "float64 [2, 3]"):
        ArraySamples(np.zeros((2, 3)), [0, 1], "a")
    with refused(ValueError, "2 images", "1 labels"):
        ArraySamples(np.zeros((2, 4, 4, 3), np.uint8), [0], "a")


def test_normalised_tensors_are_refused() -> None:
    pictures = DatasetSamples([(torch.zeros(3, 8, 8), 0)])
    with refused(ValueError, "normalis"):
        next(iter(pictures)).open()


class Counted:
    """A dataset that counts how often it decodes, and has a damaged picture at position 1."""

    def __init__(self) -> None:
        self.decoded: list[int] = []

    def __len__(self) -> int:
        return 3

    def __getitem__(self, i: int) -> tuple[Image.Image, int]:
        self.decoded.append(i)
        if i == 1:
            raise OSError("image file is truncated")
        return Image.new("RGB", (8, 8), (i, 0, 0)), 5 + i


def test_a_dataset_decodes_when_a_image_is_opened_and_not_before() -> None:
    dataset = Counted()
    pictures = list(DatasetSamples(dataset))
    assert dataset.decoded == []
    assert (pictures[2].open().getpixel((0, 0)), pictures[2].target(), dataset.decoded) == ((2, 0, 0), 7, [2])
    assert (pictures[0].target(), pictures[0].target(), dataset.decoded) == (5, 5, [2, 0])


def test_a_damaged_image_of_a_dataset_is_unreadable_and_does_not_stop_the_others() -> None:
    _, broken, last = DatasetSamples(Counted())
    with refused(UnreadablePictureError, "image file is truncated"):
        broken.open()
    assert last.open().size == (8, 8)


@pytest.mark.parametrize("habit", ["targets", "labels", "samples"])
def test_labels_that_a_dataset_tells_need_no_decoding(habit: str) -> None:
    dataset = Counted()
    known = [5, 6, 7] if habit != "samples" else [("a.png", 5), ("b.png", 6), ("c.png", 7)]
    setattr(dataset, habit, torch.tensor(known) if habit == "labels" else known)
    assert [picture.target() for picture in DatasetSamples(dataset)] == [5, 6, 7]
    assert dataset.decoded == []


def test_labels_that_a_dataset_changes_on_the_way_are_decoded(tmp_path: Path) -> None:
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
        Image.new("RGB", (8, 8)).save(tmp_path / name / "a.png")
    assert [p.target() for p in DatasetSamples(ImageFolder(str(tmp_path), transform=lambda image: image))] == [0, 1]
    assert [p.target() for p in DatasetSamples(ImageFolder(str(tmp_path), target_transform=lambda label: 9 - label))] == [9, 8]


def test_a_dataset_without_pairs_is_explained() -> None:
    with refused(TypeError, "mine", "item 0", "dict"):
        DatasetSamples([{"image": 1}], "mine").at(0).open()


def test_some_images_are_reached_by_position_where_the_set_allows_it() -> None:
    images = np.arange(5, dtype=np.uint8).repeat(32 * 32 * 3).reshape(5, 32, 32, 3)
    some = SomeSamples(ArraySamples(images, range(5), "arrays"), [4, 1])
    assert [p.id for p in some] == ["1", "4"]
    assert some.at(1).open().getpixel((0, 0)) == (4, 4, 4)

    class Stream(ArraySamples):
        at = None  # type: ignore[assignment]

        def __iter__(self):  # type: ignore[no-untyped-def]
            return (ArraySamples.at(self, i) for i in range(5))

    assert not hasattr(SomeSamples(Stream(images, range(5), "stream"), [4, 1]), "at")
    assert [p.id for p in SomeSamples(Stream(images, range(5), "stream"), [4, 1])] == ["1", "4"]
