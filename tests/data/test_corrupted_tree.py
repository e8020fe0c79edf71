"""A corrupted copy of a data set has the published layout, appears file by file, and can be continued."""

from __future__ import annotations

import errno
import hashlib
import json
import multiprocessing
import os
import pickle
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from refusals import refused

import robustvit as rv
from robustvit.data.copies import copy_workers, source_records, tree_records
from robustvit.data.copies.copying import Copying, copied_names, images_below
from robustvit.data.copies.corrupted_tree import corrupt_tree

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


def test_imagenet_trees_have_corruption_severity_class_image(source: Path, tmp_path: Path) -> None:
    done = corrupt_tree(source, tmp_path / "out", COPYING, workers=1)
    names = {n for n in files(tmp_path / "out") if "/" in n}
    expected = {f"{n}/{s}/{p}.png" for n in COPYING.names for s in (1, 3) for p in ("cat/a", "cat/b", "dog/c")}
    assert names == expected
    assert (done.written, done.present, done.skipped) == (12, 0, ())


def test_dense_trees_keep_whole_images_in_their_format(source: Path, tmp_path: Path) -> None:
    for name in ("a.png", "b.jpg"):
        path = source / "cat" / name
        shutil.copy(path, path.with_stem(f"{path.stem}_leftImg8bit"))
    for layout, place in (("cityscapes", "contrast/3"), ("coco", "contrast_3")):
        copying = Copying(layout=layout, names=("contrast",), severities=(3,), size=None, file_format="same")  # type: ignore[arg-type]
        corrupt_tree(source, tmp_path / layout, copying, workers=1)
        ours = pixels(tmp_path / layout / place / "cat/a_leftImg8bit.png")
        assert torch.equal(ours, rv.corrupt(pixels(source / "cat/a.png"), "contrast", 3))
        assert Image.open(tmp_path / layout / place / "cat/b_leftImg8bit.jpg").format == "JPEG"


def test_labels_of_cityscapes_and_coco_are_no_images(source: Path, tmp_path: Path) -> None:
    for name in ("leftImg8bit/val/bonn/b_0_leftImg8bit.png", "gtFine/val/bonn/b_0_gtFine_labelIds.png"):
        (source / name).parent.mkdir(parents=True)
        shutil.copy(source / "cat/a.png", source / name)
    assert [p.as_posix() for p in images_below(source, "cityscapes")] == ["leftImg8bit/val/bonn/b_0_leftImg8bit.png"]
    (source / "annotations" / "panoptic_val2017").mkdir(parents=True)
    shutil.copy(source / "cat/a.png", source / "annotations/panoptic_val2017/1.png")
    assert not any("annotations" in p.parts for p in images_below(source, "coco"))
    with refused(ValueError, source / "cat", "_leftImg8bit.png", "a.png", "--layout coco"):
        images_below(source / "cat", "cityscapes")


def test_imagenet_trees_are_made_of_class_folders_only(source: Path) -> None:
    with refused(ValueError, source / "cat" / "a.png", "CLASS", "--layout coco"):
        images_below(source / "cat", "imagenet")
    with refused(ValueError, "source/cat/a.png", source):
        images_below(source.parent, "imagenet")


def test_hidden_files_are_no_images_and_links_are_followed_once(source: Path) -> None:
    shutil.copy(source / "cat/a.png", source / "cat/.a-left.png")
    (source / "fox").symlink_to(source / "dog")
    (source / "cat" / "circle").symlink_to(source)
    assert {p.as_posix() for p in images_below(source, "imagenet")} >= {"cat/a.png", "cat/b.jpg"}
    assert not any(p.name.startswith(".") for p in images_below(source, "imagenet"))


def test_a_file_is_what_corrupt_makes_of_the_image_with_its_path_as_id(source: Path, tmp_path: Path) -> None:
    copying = replace(COPYING, layout="coco", size=None, seed=5)
    corrupt_tree(source, tmp_path / "out", copying, workers=1)
    ours = pixels(tmp_path / "out/gaussian_noise_3/dog/c.png")
    assert torch.equal(ours, rv.corrupt(pixels(source / "dog/c.png"), "gaussian_noise", 3, seed=5, sample_ids="dog/c.png"))


def test_processes_and_machines_write_the_same_files_as_one(source: Path, tmp_path: Path) -> None:
    corrupt_tree(source, tmp_path / "one", COPYING, workers=1)
    corrupt_tree(source, tmp_path / "two", COPYING, workers=2, rank=0, world=2)
    corrupt_tree(source, tmp_path / "two", COPYING, workers=1, rank=1, world=2)
    one, two = ({n: d for n, d in files(tmp_path / f).items() if "/" in n} for f in ("one", "two"))
    assert one == two


def test_there_may_be_more_processes_than_images(source: Path, tmp_path: Path) -> None:
    done = corrupt_tree(source, tmp_path / "out", COPYING, workers=2, rank=4, world=5)
    assert (done.written, done.present, done.skipped) == (0, 0, ())


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="processes cannot be bound to cores here")
@pytest.mark.parametrize("asked", [None, 10**6])
def test_there_are_no_more_processes_than_cores_that_this_one_may_use(
    asked: int | None, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    monkeypatch.setattr(copy_workers, "ProcessPoolExecutor", None)  # for one, none is started
    done = corrupt_tree(source, tmp_path / "out", COPYING, workers=asked)
    assert done.written
    assert [note for note in done.notes if str(10**6) in note] == list(done.notes if asked else ())


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


def test_unreadable_and_tiny_images_are_named(source: Path, tmp_path: Path) -> None:
    (source / "dog" / "bad.png").write_text("no picture")
    Image.new("RGB", (20, 20)).save(source / "dog" / "tiny.png")
    done = corrupt_tree(source, tmp_path / "out", COPYING, workers=1)
    assert [name for name, _ in done.skipped] == ["dog/bad.png", "dog/tiny.png"]
    assert "20x20 pixels; corruptions need 32x32" in (tmp_path / "out/skipped-0-of-1.txt").read_text()
    assert done.written == 12


def test_other_settings_do_not_mix_into_a_tree(source: Path, tmp_path: Path) -> None:
    corrupt_tree(source, tmp_path / "out", COPYING, workers=1)
    with refused(ValueError, tmp_path / "out", "seed=0", "1"):
        corrupt_tree(source, tmp_path / "out", replace(COPYING, seed=1), workers=1)


def test_wrong_places_are_refused(source: Path, tmp_path: Path) -> None:
    with refused(FileNotFoundError, tmp_path / "nowhere"):
        corrupt_tree(tmp_path / "nowhere", tmp_path / "out", COPYING)
    with refused(ValueError, source, source / "out"):
        corrupt_tree(source, source / "out", COPYING)
    (tmp_path / "empty").mkdir()
    with refused(ValueError, tmp_path / "empty"):
        corrupt_tree(tmp_path / "empty", tmp_path / "out", COPYING)


def test_two_images_never_become_one_file(source: Path, tmp_path: Path) -> None:
    Image.new("RGB", (64, 64)).save(source / "cat" / "a.jpg")
    with refused(ValueError, "cat/a.jpg", "cat/a.png"):
        corrupt_tree(source, tmp_path / "out", COPYING, workers=1)
    assert corrupt_tree(source, tmp_path / "out", replace(COPYING, file_format="same"), workers=1).written == 16


def test_groups_stand_for_their_corruptions() -> None:
    assert copied_names(["noise", "fog", "shot_noise"]) == ("gaussian_noise", "shot_noise", "impulse_noise", "fog")
    with refused(ValueError, "'rain'"):
        copied_names(["rain"])
    with refused(ValueError, "'fogg'", "did you mean fog"):
        copied_names(["fogg"])


def test_a_job_carries_only_its_own_cells(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corrupt_tree(source, tmp_path / "out", COPYING, workers=1)
    (tmp_path / "out/contrast/1/cat/a.png").unlink()
    sizes, cells = [], []
    copy = copy_workers._copy

    def watched(job: copy_workers.Job) -> copy_workers.Copied:
        sizes.append(len(pickle.dumps(job)))
        cells.append(job.missing)
        return copy(job)

    monkeypatch.setattr(copy_workers, "_copy", watched)
    corrupt_tree(source, tmp_path / "out", COPYING, workers=1)
    assert cells == [(("contrast", 1),), (), ()]
    assert max(sizes) < 2000


def test_only_a_few_jobs_are_handed_out_ahead(source: Path, tmp_path: Path) -> None:
    handed_out = 0

    def jobs() -> Iterator[copy_workers.Job]:
        nonlocal handed_out
        work = copy_workers.Work(source, tmp_path, COPYING, tmp_path)
        for _ in range(100):
            handed_out += 1
            yield copy_workers.Job(work, Path("cat/a.png"), (), 4)

    running = copy_workers.results(jobs(), workers=2)
    job, done = next(running)
    assert (job.present, done) == (4, copy_workers.Copied())
    assert handed_out == copy_workers.AHEAD * 2
    assert len(list(running)) == 99
    assert not multiprocessing.active_children()  # nothing was missing, so no process was needed


def test_another_source_does_not_mix_into_a_tree_but_a_moved_one_may_go_on(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    corrupt_tree(source, out, COPYING, workers=1)
    other = tmp_path / "other"
    shutil.copytree(source, other)
    Image.new("RGB", (90, 90)).save(other / "cat" / "a.png")
    with refused(ValueError, out, source, other):
        corrupt_tree(other, out, COPYING, workers=1)
    source.rename(tmp_path / "moved")
    moved = corrupt_tree(tmp_path / "moved", out, COPYING, workers=1)
    assert (moved.written, moved.present) == (0, 12)
    assert all(str(tmp_path / name) in moved.notes[0] for name in ("source", "moved"))
    Image.new("RGB", (90, 90)).save(tmp_path / "moved" / "dog" / "added.png")
    grown = corrupt_tree(tmp_path / "moved", out, COPYING, workers=1)
    assert (grown.written, grown.present, grown.notes) == (4, 12, ())


def test_versions_that_made_the_files_are_listed_and_a_mixture_is_told(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corrupt_tree(source, tmp_path / "out", COPYING, workers=1)
    monkeypatch.setattr(tree_records, "version", lambda package: "99.0")
    done = corrupt_tree(source, tmp_path / "out", COPYING, workers=1)
    assert json.loads((tmp_path / "out/manifest.json").read_text())["robustvit"][-1] == "99.0"
    assert "99.0" in done.notes[0]


def test_a_damaged_manifest_is_explained(source: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "manifest.json").write_text("{")
    with refused(ValueError, tmp_path / "out" / "manifest.json"):
        corrupt_tree(source, tmp_path / "out", COPYING, workers=1)


def test_what_was_skipped_is_forgotten_when_it_was_mended(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    (source / "dog" / "bad.png").write_text("no picture")
    corrupt_tree(source, out, COPYING, workers=1)
    (out / "skipped-1-of-2.txt").write_text("of a run with two processes")
    Image.new("RGB", (90, 90)).save(source / "dog" / "bad.png")
    corrupt_tree(source, out, COPYING, workers=1)
    assert not list(out.glob("skipped-*"))


def test_a_line_that_a_kill_cut_is_not_taken_for_a_file(source: Path, tmp_path: Path) -> None:
    out, sums = tmp_path / "out", tmp_path / "out" / "checksums-0-of-1.sha256"
    corrupt_tree(source, out, COPYING, workers=1)
    sums.write_bytes(sums.read_bytes()[:-3])
    assert corrupt_tree(source, out, COPYING, workers=1).written == 1
    lines = sums.read_text().splitlines()
    assert len(lines) == 12
    assert all((out / line[66:]).is_file() for line in lines)


def test_nothing_unfinished_stays(source: Path, tmp_path: Path) -> None:
    left = tmp_path / "out" / ".unfinished-0-of-1"
    left.mkdir(parents=True)
    (left / "1.tmp").write_bytes(b"half")
    corrupt_tree(source, tmp_path / "out", COPYING, workers=1)
    assert not [p for p in (tmp_path / "out").rglob("*") if p.name.startswith(".") or p.suffix == ".tmp"]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_full_disk_is_told_and_finished_files_are_listed(
    workers: int, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    written = []
    write = Path.write_bytes

    def full(path: Path, data: bytes) -> int:
        written.append(path)
        if len(written) > 5:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(path, data)

    if workers == 1:
        monkeypatch.setattr(Path, "write_bytes", full)
    else:  # a folder that cannot be written to, seen from the other process
        out.mkdir()
        (out / "gaussian_noise").write_text("in the way")
    with refused(OSError, out):
        corrupt_tree(source, out, COPYING, workers=workers)
    assert len((out / "checksums-0-of-1.sha256").read_text().splitlines()) in (0, 4)


def test_photographs_of_frost_are_checked_before_the_work_starts(source: Path, tmp_path: Path) -> None:
    (tmp_path / "frost").mkdir()
    for content, named in ((None, tmp_path / "frost"), ("no image", "frost1.png")):
        if content:
            (tmp_path / "frost" / "frost1.png").write_text(content)
        frost = replace(COPYING, frost_folder=str(tmp_path / "frost"))
        with refused((OSError, ValueError), named):
            corrupt_tree(source, tmp_path / "out", frost, workers=1)
    assert not (tmp_path / "out").exists()


def repaint(path: Path, size: tuple[int, int] = (90, 120), later_ns: int = 10**9) -> None:
    """Another picture in the same file, as big in bytes where it is a PNG without compression."""
    before = path.stat().st_mtime_ns
    Image.fromarray(np.random.default_rng(99).integers(0, 255, (*size, 3), np.uint8)).save(path)
    os.utime(path, ns=(before + later_ns, before + later_ns))


@pytest.mark.parametrize("size", [(90, 120), (70, 70)])
def test_a_image_that_was_replaced_in_place_is_copied_again(size: tuple[int, int], source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    corrupt_tree(source, out, COPYING, workers=1)
    repaint(source / "cat/a.png", size)
    again = corrupt_tree(source, out, COPYING, workers=1)
    assert (again.written, again.present, again.changed) == (4, 8, ("cat/a.png",))
    corrupt_tree(source, tmp_path / "fresh", COPYING, workers=1)
    for kind in ("files", "listed"):
        ours, fresh = (copied(root) if kind == "files" else sums(root) for root in (out, tmp_path / "fresh"))
        assert ours == fresh
    third = corrupt_tree(source, out, COPYING, workers=1)
    assert (third.written, third.changed) == (0, ())


def copied(root: Path) -> dict[str, bytes]:
    return {name: data for name, data in files(root).items() if "/" in name}


def sums(root: Path) -> list[str]:
    return sorted(line for path in root.glob("checksums-*") for line in path.read_text().splitlines())


def test_a_image_that_only_looks_newer_is_not_copied_again(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, read = tmp_path / "out", []
    corrupt_tree(source, out, COPYING, workers=1)
    os.utime(source / "dog/c.png", ns=(1, 1))
    checksum = source_records._checksum
    monkeypatch.setattr(source_records, "_checksum", lambda path: read.append(path.name) or checksum(path))
    for expected in (["c.png"], ["c.png"]):  # its new time is noted, so that it is read once
        assert corrupt_tree(source, out, COPYING, workers=1).written == 0
        assert read == expected


def test_a_change_is_found_however_the_work_is_shared_out(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    for rank in (0, 1):
        corrupt_tree(source, out, COPYING, workers=1, rank=rank, world=2)
    repaint(source / "cat/b.jpg")
    repaint(source / "dog/c.png")
    done = [corrupt_tree(source, out, COPYING, workers=1, rank=rank, world=3) for rank in (2, 0, 1)]
    assert sum(d.written for d in done) == 8
    corrupt_tree(source, tmp_path / "fresh", COPYING, workers=1)
    assert copied(out) == copied(tmp_path / "fresh")
    assert sums(out) == sums(tmp_path / "fresh")


def test_old_copies_of_a_changed_image_do_not_stay_where_this_run_makes_none(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    corrupt_tree(source, out, COPYING, workers=1)
    repaint(source / "cat/a.png")
    corrupt_tree(source, out, replace(COPYING, names=("fog",)), workers=1)
    assert not (out / "contrast/1/cat/a.png").exists()
    assert (out / "contrast/1/dog/c.png").exists()
    (source / "dog/c.png").write_text("no picture any more")
    corrupt_tree(source, out, replace(COPYING, names=("fog",)), workers=1)
    assert not (out / "fog/1/dog/c.png").exists()


def test_a_tree_without_records_goes_on(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    corrupt_tree(source, out, COPYING, workers=1)
    (out / "sources-0-of-1.tsv").unlink()
    assert corrupt_tree(source, out, COPYING, workers=1).present == 12
