"""A corrupted copy of a data set has the published layout, appears file by file, and can be continued."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import robustvit as rv
from robustvit.data.corrupted_tree import Copying, copied_names, corrupt_tree

COPYING = Copying(layout="imagenet", names=("contrast", "gaussian_noise"), severities=(1, 3), size=64, file_format="png")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    generator = np.random.default_rng(0)
    for name in ("cat/a.png", "cat/b.jpg", "dog/c.png"):
        path = tmp_path / "source" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(generator.integers(0, 255, (90, 120, 3), np.uint8)).save(path)
    return tmp_path / "source"


def files(root: Path) -> dict[str, bytes]:
    return {p.relative_to(root).as_posix(): p.read_bytes() for p in root.rglob("*") if p.is_file()}


def pixels(path: Path) -> torch.Tensor:
    return torch.from_numpy(np.array(Image.open(path))).permute(2, 0, 1)


def test_imagenet_trees_have_corruption_severity_class_picture(source: Path, tmp_path: Path) -> None:
    done = corrupt_tree(source, tmp_path / "out", COPYING, workers=1)
    names = {n for n in files(tmp_path / "out") if "/" in n}
    expected = {f"{n}/{s}/{p}.png" for n in COPYING.names for s in (1, 3) for p in ("cat/a", "cat/b", "dog/c")}
    assert names == expected
    assert (done.written, done.present, done.skipped) == (12, 0, ())


def test_dense_trees_keep_whole_pictures_in_their_format(source: Path, tmp_path: Path) -> None:
    for layout, place in (("cityscapes", "contrast/3"), ("coco", "contrast_3")):
        copying = Copying(layout=layout, names=("contrast",), severities=(3,), size=None, file_format="same")  # type: ignore[arg-type]
        corrupt_tree(source, tmp_path / layout, copying, workers=1)
        ours = pixels(tmp_path / layout / place / "cat/a.png")
        assert torch.equal(ours, rv.corrupt(pixels(source / "cat/a.png"), "contrast", 3))
        assert Image.open(tmp_path / layout / place / "cat/b.jpg").format == "JPEG"


def test_a_file_is_what_corrupt_makes_of_the_picture_with_its_path_as_id(source: Path, tmp_path: Path) -> None:
    copying = replace(COPYING, layout="cityscapes", size=None, seed=5)
    corrupt_tree(source, tmp_path / "out", copying, workers=1)
    ours = pixels(tmp_path / "out/gaussian_noise/3/dog/c.png")
    assert torch.equal(ours, rv.corrupt(pixels(source / "dog/c.png"), "gaussian_noise", 3, seed=5, sample_ids="dog/c.png"))


def test_processes_and_machines_write_the_same_files_as_one(source: Path, tmp_path: Path) -> None:
    corrupt_tree(source, tmp_path / "one", COPYING, workers=1)
    corrupt_tree(source, tmp_path / "two", COPYING, workers=2, rank=0, world=2)
    corrupt_tree(source, tmp_path / "two", COPYING, workers=1, rank=1, world=2)
    one, two = ({n: d for n, d in files(tmp_path / f).items() if "/" in n} for f in ("one", "two"))
    assert one == two


def test_a_second_run_does_only_what_is_missing(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    corrupt_tree(source, out, COPYING, workers=1)
    before = files(out)
    (out / "contrast/1/cat/a.png").unlink()
    again = corrupt_tree(source, out, COPYING, workers=1)
    assert (again.written, again.present) == (1, 11)
    assert {n: d for n, d in files(out).items() if "/" in n} == {n: d for n, d in before.items() if "/" in n}
    more = corrupt_tree(source, out, replace(COPYING, names=("fog",)), workers=1)
    assert more.written == 6
    assert json.loads((out / "manifest.json").read_text())["settings"]["names"] == ["contrast", "gaussian_noise", "fog"]


def test_a_file_that_was_not_finished_is_made_again(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    (out / "contrast/1/cat").mkdir(parents=True)
    (out / "contrast/1/cat/a.png").write_bytes(b"half")  # no checksum says that it is whole
    corrupt_tree(source, out, COPYING, workers=1)
    assert Image.open(out / "contrast/1/cat/a.png").size == (64, 64)


def test_checksums_are_those_of_the_files(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    corrupt_tree(source, out, COPYING, workers=1)
    lines = (out / "checksums-0-of-1.sha256").read_text().splitlines()
    assert len(lines) == 12
    for line in lines:
        digest, name = line.split("  ", 1)
        assert hashlib.sha256((out / name).read_bytes()).hexdigest() == digest


def test_unreadable_and_tiny_pictures_are_named(source: Path, tmp_path: Path) -> None:
    (source / "dog" / "bad.png").write_text("no picture")
    Image.new("RGB", (20, 20)).save(source / "dog" / "tiny.png")
    done = corrupt_tree(source, tmp_path / "out", COPYING, workers=1)
    assert [name for name, _ in done.skipped] == ["dog/bad.png", "dog/tiny.png"]
    assert "20x20 pixels; corruptions need 32x32" in (tmp_path / "out/skipped-0-of-1.txt").read_text()
    assert done.written == 12


def test_other_settings_do_not_mix_into_a_tree(source: Path, tmp_path: Path) -> None:
    corrupt_tree(source, tmp_path / "out", COPYING, workers=1)
    with pytest.raises(ValueError, match="was made with seed=0 and this run has 1; give another folder"):
        corrupt_tree(source, tmp_path / "out", replace(COPYING, seed=1), workers=1)


def test_wrong_places_are_refused(source: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        corrupt_tree(tmp_path / "nowhere", tmp_path / "out", COPYING)
    with pytest.raises(ValueError, match="lies inside"):
        corrupt_tree(source, source / "out", COPYING)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="has no pictures"):
        corrupt_tree(tmp_path / "empty", tmp_path / "out", COPYING)


def test_two_pictures_never_become_one_file(source: Path, tmp_path: Path) -> None:
    Image.new("RGB", (64, 64)).save(source / "cat" / "a.jpg")
    with pytest.raises(ValueError, match="would become the same file"):
        corrupt_tree(source, tmp_path / "out", COPYING, workers=1)
    assert corrupt_tree(source, tmp_path / "out", replace(COPYING, file_format="same"), workers=1).written == 16


def test_groups_stand_for_their_corruptions() -> None:
    assert copied_names(["noise", "fog", "shot_noise"]) == ("gaussian_noise", "shot_noise", "impulse_noise", "fog")
    with pytest.raises(ValueError, match="no group of corruptions 'rain'"):
        copied_names(["rain"])
