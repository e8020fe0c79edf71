"""Files of every kind become 8-bit RGB, or are named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from robustvit.data.pictures import ArrayPictures, DatasetPictures, UnreadablePictureError, read_picture

RAMP = np.arange(48 * 40, dtype=np.int64).reshape(48, 40) % 256


@pytest.mark.parametrize("mode", ["RGB", "L", "1", "P", "CMYK", "RGBA", "LA", "HSV", "YCbCr"])
def test_every_mode_becomes_rgb_of_the_same_size(mode: str, tmp_path: Path) -> None:
    image = Image.fromarray(np.stack([RAMP] * 3, -1).astype(np.uint8)).convert(mode)
    suffix = "tif" if mode in ("CMYK", "HSV", "YCbCr") else "png"
    path = tmp_path / f"a.{suffix}"
    (image if mode != "HSV" else image.convert("RGB")).save(path)
    read = read_picture(path)
    assert (read.mode, read.size) == ("RGB", (40, 48))


def test_grey_is_repeated_in_three_channels(tmp_path: Path) -> None:
    Image.fromarray(RAMP.astype(np.uint8)).save(tmp_path / "a.png")
    read = np.array(read_picture(tmp_path / "a.png"))
    assert (read == RAMP[..., None]).all()


def test_sixteen_bits_are_scaled_to_eight(tmp_path: Path) -> None:
    Image.fromarray((RAMP * 257).astype(np.uint16)).save(tmp_path / "a.png")
    assert (np.array(read_picture(tmp_path / "a.png"))[..., 0] == RAMP).all()


def test_of_an_animation_the_first_frame_is_taken(tmp_path: Path) -> None:
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "blue")]
    frames[0].save(tmp_path / "a.gif", save_all=True, append_images=frames[1:])
    assert read_picture(tmp_path / "a.gif").getpixel((0, 0)) == (255, 0, 0)


def test_truncated_empty_and_foreign_files_are_unreadable(tmp_path: Path) -> None:
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (64, 64, 3), np.uint8)).save(tmp_path / "whole.jpg")
    (tmp_path / "cut.jpg").write_bytes((tmp_path / "whole.jpg").read_bytes()[:900])
    (tmp_path / "empty.jpg").write_bytes(b"")
    (tmp_path / "text.jpg").write_text("no picture")
    for name in ("cut.jpg", "empty.jpg", "text.jpg", "missing.jpg"):
        with pytest.raises(UnreadablePictureError):
            read_picture(tmp_path / name)


def test_arrays_and_datasets_give_their_pictures() -> None:
    images = np.random.default_rng(0).integers(0, 255, (3, 32, 32, 3), np.uint8)
    tensors = [(torch.from_numpy(image).permute(2, 0, 1), i) for i, image in enumerate(images)]
    for pictures in (ArrayPictures(images, [0, 1, 2], "arrays"), DatasetPictures(tensors, "tensors")):
        assert [(p.id, p.label) for p in pictures] == [("0", 0), ("1", 1), ("2", 2)]
        assert all((np.array(p.open()) == image).all() for p, image in zip(pictures, images, strict=True))


def test_arrays_of_another_kind_are_refused() -> None:
    with pytest.raises(ValueError, match=r"uint8 \[N, H, W, 3\], got float64 \[2, 3\]"):
        ArrayPictures(np.zeros((2, 3)), [0, 1], "a")
    with pytest.raises(ValueError, match="2 pictures, but 1 labels"):
        ArrayPictures(np.zeros((2, 4, 4, 3), np.uint8), [0], "a")


def test_normalised_tensors_are_refused() -> None:
    pictures = DatasetPictures([(torch.zeros(3, 8, 8), 0)])
    with pytest.raises(ValueError, match="leave normalising to the evaluation"):
        next(iter(pictures)).open()
