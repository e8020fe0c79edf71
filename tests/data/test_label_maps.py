"""A label file becomes one class per pixel, whatever it stores; what stands for no class is named."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from refusals import refused

from robustvit.data.label_maps import IGNORED, LabelLookup, LabelValueError, prediction_paths, read_label_map, write_label_ids
from robustvit.data.palettes import completed_palette, distinct_colours
from robustvit.data.samples import UnreadablePictureError

VALUES = np.array([[0, 1, 2], [2, 255, 0]], np.uint8)
LOOKUP = LabelLookup({0: 0, 1: 1, 2: 2, 255: IGNORED}, source="the test")


def saved(path: Path, image: Image.Image, **options: int) -> Path:
    image.save(path, **options)
    return path


def with_palette() -> Image.Image:
    image = Image.new("P", (3, 2))
    image.putdata(VALUES.flatten().tolist())
    image.putpalette([200, 10, 10, 10, 200, 10, 10, 10, 200] + [7] * (3 * 253))
    return image


@pytest.mark.parametrize(
    "image",
    [
        Image.fromarray(VALUES),
        with_palette(),
        Image.fromarray(VALUES.astype(np.uint16)),
        Image.fromarray(np.stack([VALUES] * 3, -1)),
        Image.merge("LA", [Image.fromarray(VALUES), Image.new("L", (3, 2), 128)]),
    ],
    ids=["grey", "palette", "16 bits", "grey as RGB", "grey with alpha"],
)
def test_every_kind_of_file_gives_the_same_map(tmp_path: Path, image: Image.Image) -> None:
    read = read_label_map(saved(tmp_path / "map.png", image), LOOKUP)
    assert read.dtype == np.uint8
    assert np.array_equal(read, VALUES)


@pytest.mark.parametrize("suffix", [".tif", ".bmp", ".pgm"])
def test_formats_without_loss_are_read(tmp_path: Path, suffix: str) -> None:
    assert np.array_equal(read_label_map(saved(tmp_path / f"map{suffix}", Image.fromarray(VALUES)), LOOKUP), VALUES)


@pytest.mark.parametrize("bits", [1, 2, 4])
def test_grey_and_palettes_of_few_bits_keep_their_values(tmp_path: Path, bits: int) -> None:
    values = np.arange(6, dtype=np.uint8).reshape(2, 3) % 2**bits
    image = Image.new("P", (3, 2))
    image.putdata(values.flatten().tolist())
    image.putpalette([9, 9, 9] * 16)
    assert np.array_equal(read_label_map(saved(tmp_path / "palette.png", image, bits=bits)), values)
    assert np.array_equal(read_label_map(_grey_png(tmp_path / "grey.png", values, bits)), values)


def _grey_png(path: Path, values: np.ndarray, bits: int) -> Path:
    """A grey PNG of 1, 2 or 4 bits, which Pillow does not write."""
    import struct
    import zlib

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    H, W = values.shape
    rows = b""
    for row in values:
        text = "".join(f"{value:0{bits}b}" for value in row.tolist())
        rows += b"\0" + int(text.ljust(-(-len(text) // 8) * 8, "0"), 2).to_bytes(-(-len(text) // 8), "big")
    header = struct.pack(">IIBBBBB", W, H, bits, 0, 0, 0, 0)
    data = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + data)
    return path


def test_16_bit_values_are_looked_up(tmp_path: Path) -> None:
    path = saved(tmp_path / "map.png", Image.fromarray(np.array([[1000, 7, 65535]], np.uint16)))
    lookup = LabelLookup({7: 0, 1000: 1, 65535: IGNORED})
    assert read_label_map(path, lookup).tolist() == [[1, 0, IGNORED]]
    with refused(LabelValueError, path, 1000, 65535, "0 to 255"):
        read_label_map(path)


def test_colours_are_looked_up(tmp_path: Path) -> None:
    pixels = np.array([[[128, 0, 0], [0, 0, 0], [60, 40, 222]]], np.uint8)
    path = saved(tmp_path / "map.png", Image.fromarray(pixels))
    colours = {(60, 40, 222): 0, (128, 0, 0): 1}
    assert read_label_map(path, LabelLookup({}, colours, ignores_others=True)).tolist() == [[1, IGNORED, 0]]
    with refused(LabelValueError, path, (0, 0, 0), "33.3 %", "2 colours"):
        read_label_map(path, LabelLookup({}, colours))
    for lookup in (LOOKUP, LabelLookup(LOOKUP.values, ignores_others=True)):  # else nothing of the file would count
        with refused(LabelValueError, path, "classes.json"):
            read_label_map(path, lookup)


def test_grey_saved_as_rgb_is_read_by_value_where_its_colours_are_unknown(tmp_path: Path) -> None:
    path = saved(tmp_path / "map.png", Image.fromarray(np.stack([VALUES] * 3, -1)))
    colours = {(0, 0, 0): 5, (9, 9, 9): 0}
    assert np.array_equal(read_label_map(path, LabelLookup(LOOKUP.values, colours)), VALUES)
    grey = saved(tmp_path / "grey.png", Image.new("RGB", (2, 1), (9, 9, 9)))
    assert read_label_map(grey, LabelLookup(LOOKUP.values, colours)).tolist() == [[0, 0]]


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_values_outside_the_classes_name_file_value_and_range(tmp_path: Path, dtype: type) -> None:
    path = saved(tmp_path / "map.png", Image.fromarray(np.array([[0, 1, 41, 90]], dtype)))
    with refused(LabelValueError, path, 41, 90, "50 %", "0 to 2 or 255", "the test"):
        read_label_map(path, LOOKUP)
    others = LabelLookup({0: 0, 1: 1}, ignores_others=True)
    assert read_label_map(path, others).tolist() == [[0, 1, IGNORED, IGNORED]]


def test_damaged_files_are_unreadable(tmp_path: Path) -> None:
    path = saved(tmp_path / "map.png", Image.fromarray(np.random.default_rng(0).integers(0, 9, (64, 64), np.uint8)))
    path.write_bytes(path.read_bytes()[:200])
    for broken in (path, tmp_path / "missing.png"):
        with refused(UnreadablePictureError, broken):
            read_label_map(broken)


def test_predictions_are_written_as_label_ids_of_8_bits(tmp_path: Path) -> None:
    predicted = np.array([[0, 1], [2, 0]], np.uint8)
    (path,) = prediction_paths(tmp_path / "out", ["fog/GOPR1/a_rgb_anon.png"])
    write_label_ids(predicted, path, (7, 8, 33))
    with Image.open(path) as image:
        assert (image.mode, image.format) == ("L", "PNG")
    assert read_label_map(path).tolist() == [[7, 8], [33, 7]]
    write_label_ids(predicted, path)
    assert read_label_map(path).tolist() == predicted.tolist()
    with refused(ValueError, path, 2, 2):
        write_label_ids(predicted, path, (7, 8))
    with refused(ValueError, 300):
        write_label_ids(predicted, path, (7, 8, 300))


def test_predictions_of_two_images_are_never_one_file(tmp_path: Path) -> None:
    assert prediction_paths(tmp_path, ["a/x.jpg", "b/x.jpg"]) == [tmp_path / "a/x.png", tmp_path / "b/x.png"]
    with refused(ValueError, "a/x.jpg", "a/x.png"):
        prediction_paths(tmp_path, ["a/x.jpg", "a/x.png"])


def test_generated_colours_differ_from_each_other_and_from_given_ones() -> None:
    assert len(set(distinct_colours(255)) - {(0, 0, 0), (255, 255, 255)}) == 255
    palette = completed_palette([None, (255, 0, 0), *[None] * 18])
    assert palette[1] == (255, 0, 0)
    distances = [np.abs(np.subtract(a, b)).sum() for a, b in combinations(palette, 2)]
    assert min(distances) > 70
    assert distinct_colours(20)[:5] == distinct_colours(5)
