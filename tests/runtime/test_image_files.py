"""Only images are opened, and they stand upright."""

from __future__ import annotations

import io
import json
import random
import struct
import tarfile
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import EpsImagePlugin, Image

import robustvit as rv
from robustvit.analysis.given_images import images_at
from robustvit.cli import main
from robustvit.data.layouts import open_samples
from robustvit.data.samples import DatasetSamples
from robustvit.runtime.image_files import MOST_BYTES, UnreadablePictureError, image_size, read_image

RED_BELOW = np.zeros((48, 64, 3), np.uint8)
RED_BELOW[24:, :, 0] = 255


def photograph(path: Path, orientation: int = 6) -> Path:
    """Stored lying: red at the bottom. By its tag (6: turn clockwise) it stands, with red on the left."""
    exif = Image.Exif()
    exif[0x0112] = orientation
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(RED_BELOW).save(path, exif=exif)
    return path


def is_upright(image: Image.Image) -> bool:
    return image.size == (48, 64) and image.getpixel((5, 32))[0] > 200 and image.getpixel((40, 32))[0] < 50  # type: ignore[index]


def test_an_eps_named_jpg_starts_no_ghostscript(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[object] = []
    monkeypatch.setattr(EpsImagePlugin, "Ghostscript", lambda *_, **__: started.append(1) or Image.new("RGB", (9, 9)).im)
    path = tmp_path / "a.jpg"
    path.write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n%%EOF\n")
    Image.open(path).load()
    assert started, "Pillow alone starts it"
    started.clear()
    with pytest.raises(UnreadablePictureError):
        read_image(path)
    with pytest.raises(ValueError, match="cannot be read"):
        rv.corrupt(Image.new("RGB", (64, 64)), "frost", 1, frost_folder=tmp_path)
    assert not started


@pytest.mark.parametrize("suffix", ["jpg", "png", "webp"])
def test_a_photograph_is_read_upright_unless_told_otherwise(suffix: str, tmp_path: Path) -> None:
    path = photograph(tmp_path / f"a.{suffix}")
    assert is_upright(read_image(path))
    stored = read_image(path, ignore_orientation=True)
    assert stored.size == (64, 48)
    assert not stored.getexif(), "nobody turns it later"


def test_a_tiff_is_turned_once(tmp_path: Path) -> None:
    assert is_upright(read_image(photograph(tmp_path / "a.tif")))


@pytest.mark.parametrize("orientation", range(1, 9))
def test_every_orientation_is_undone(orientation: int, tmp_path: Path) -> None:
    upright = np.arange(48, dtype=np.uint8).reshape(8, 6)
    back = {6: Image.Transpose.ROTATE_90, 8: Image.Transpose.ROTATE_270}  # what the camera did; the others undo themselves
    turns = {2: 0, 3: 3, 4: 1, 5: 5, 7: 6}
    turn = back.get(orientation, turns.get(orientation))
    image = Image.fromarray(upright)
    image = image if turn is None else image.transpose(Image.Transpose(turn))
    exif = Image.Exif()
    exif[0x0112] = orientation
    image.save(tmp_path / "a.png", exif=exif)
    assert (np.array(read_image(tmp_path / "a.png"))[..., 0] == upright).all()


@pytest.mark.parametrize("orientation", [0, 9, 77])
def test_an_orientation_that_means_nothing_turns_nothing(orientation: int, tmp_path: Path) -> None:
    assert read_image(photograph(tmp_path / "a.jpg", orientation)).size == (64, 48)


@pytest.mark.filterwarnings("ignore")  # of Pillow, about the tag
def test_a_damaged_tag_does_not_cost_the_image(tmp_path: Path) -> None:
    path = photograph(tmp_path / "a.jpg")
    content = bytearray(path.read_bytes())
    start = content.index(b"Exif\x00\x00") + 6
    content[start + 4 : start + 8] = struct.pack("<I", 2**31)  # where the tags are
    path.write_bytes(content)
    assert sorted(read_image(path).size) == [48, 64]


def test_corrupt_takes_an_image_upright_and_leaves_no_tag(tmp_path: Path) -> None:
    image = Image.open(photograph(tmp_path / "a.jpg"))
    assert is_upright(rv.corrupt(image, "brightness", 1))
    stored = rv.corrupt(image, "brightness", 1, ignore_orientation=True)
    assert stored.size == (64, 48)
    assert not stored.getexif()


def test_class_folders_tar_files_and_loose_images_are_upright(tmp_path: Path) -> None:
    photograph(tmp_path / "set" / "a" / "1.jpg")
    with tarfile.open(tmp_path / "set.tar", "w") as archive:
        archive.add(tmp_path / "set" / "a", "a")
    for source in (tmp_path / "set", tmp_path / "set.tar"):
        assert is_upright(next(iter(open_samples(source))).open())
        assert next(iter(open_samples(source, ignore_orientation=True))).open().size == (64, 48)
    loose = tmp_path / "set" / "a"
    for sources in (images_at(loose, (32, 32)), DatasetSamples([(Image.open(loose / "1.jpg").convert("RGB"), 0)])):
        assert is_upright(next(iter(sources)).open())
    assert next(iter(images_at(loose, (32, 32), ignore_orientation=True))).open().size == (64, 48)


def test_copies_are_upright_and_the_switch_is_part_of_the_tree(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    photograph(tmp_path / "set" / "a" / "1.png")
    one = ["--names", "brightness", "--severities", "1", "--whole", "--format", "png", "--workers", "1"]
    assert main(["corrupt", f"{tmp_path}/set", f"{tmp_path}/up", *one]) == 0
    assert is_upright(Image.open(tmp_path / "up" / "brightness" / "1" / "a" / "1.png"))
    assert main(["corrupt", f"{tmp_path}/set", f"{tmp_path}/as-stored", *one, "--ignore-orientation"]) == 0
    stored = Image.open(tmp_path / "as-stored" / "brightness" / "1" / "a" / "1.png")
    assert (stored.size, dict(stored.getexif())) == ((64, 48), {})
    assert main(["corrupt", f"{tmp_path}/set", f"{tmp_path}/up", *one, "--ignore-orientation"]) == 2
    assert "ignore_orientation" in capsys.readouterr().err


def test_an_evaluation_records_the_orientation(tmp_path: Path) -> None:
    for name in ("a", "b"):
        photograph(tmp_path / "set" / name / "1.jpg")
    network = rv.create_model("vit_pico", num_classes=2)
    prints = set()
    for ignore in (False, True):
        results = rv.evaluate(network, tmp_path / "set", "clean", ignore_orientation=ignore, output=tmp_path / f"out-{ignore}")
        stored = json.loads((tmp_path / f"out-{ignore}" / "results.json").read_text())
        assert stored["models"][0]["measurements"][0]["protocol"]["ignore_orientation"] is ignore
        prints.add(results.fingerprint)
    assert len(prints) == 2, "work of one is not taken for the other"


def test_a_image_that_would_fill_the_memory_is_unreadable(tmp_path: Path) -> None:
    file = io.BytesIO()
    Image.new("1", (8, 8)).save(file, "PNG")
    content = bytearray(file.getvalue())
    content[16:24] = struct.pack(">II", 60000, 60000)
    content[29:33] = struct.pack(">I", zlib.crc32(content[12:29]))
    with pytest.raises(UnreadablePictureError, match="pixels"):
        read_image(bytes(content))


def test_a_sparse_member_of_a_tar_file_is_refused_before_it_fills_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in ("runtime.image_files", "data.samples"):
        monkeypatch.setattr(f"robustvit.{place}.MOST_BYTES", 2**20)
    content = io.BytesIO()
    Image.new("RGB", (8, 8)).save(content, "PNG")
    with tarfile.open(tmp_path / "set.tar", "w", format=tarfile.PAX_FORMAT) as archive:
        good = tarfile.TarInfo("a/0.png")
        good.size = len(content.getvalue())
        archive.addfile(good, io.BytesIO(content.getvalue()))
        huge = tarfile.TarInfo("a/1.png")
        huge.pax_headers = {"GNU.sparse.map": "0,0", "GNU.sparse.size": str(MOST_BYTES * 100), "GNU.sparse.major": "0"}
        archive.addfile(huge)
    first, second = open_samples(tmp_path / "set.tar")
    assert first.open().size == (8, 8)
    with pytest.raises(UnreadablePictureError, match="more than"):
        second.open()


@pytest.mark.filterwarnings("ignore")  # of Pillow, about tags
def test_damaged_files_of_every_format_are_read_or_unreadable() -> None:
    draws = random.Random(0)
    pixels = Image.fromarray(np.random.default_rng(0).integers(0, 255, (24, 16, 3), np.uint8))
    exif = Image.Exif()
    exif[0x0112] = 6
    whole = []
    for name in ("JPEG", "PNG", "WEBP", "AVIF", "TIFF", "JPEG2000", "BMP", "PPM"):
        file = io.BytesIO()
        pixels.save(file, name, **({} if name in ("JPEG2000", "BMP", "PPM") else {"exif": exif}))
        whole.append(file.getvalue())
    unreadable = 0
    for case in range(400):
        content = bytearray(whole[case % len(whole)])
        for _ in range(draws.randrange(1, 5)):
            content[draws.randrange(min(len(content), 300))] = draws.randrange(256)
        try:
            read_image(bytes(content))
        except UnreadablePictureError:
            unreadable += 1
    assert 100 < unreadable < 400


@pytest.mark.parametrize("orientation", [1, 3, 6, 8])
@pytest.mark.parametrize("suffix", [".jpg", ".png", ".tif", ".webp"])
def test_the_size_of_an_image_is_known_before_it_is_decoded(tmp_path: Path, suffix: str, orientation: int) -> None:
    path = photograph(tmp_path / f"photograph{suffix}", orientation)
    for ignore in (False, True):
        assert image_size(path, ignore_orientation=ignore) == read_image(path, ignore_orientation=ignore).size[::-1]
