"""Data sets in archives have the same pictures as in folders; damage is named, and nothing is read before it is needed."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import pytest
from PIL import Image
from refusals import refused

from robustvit.data.layouts import LayoutError, open_samples
from robustvit.data.samples import SomeSamples, UnreadablePictureError


def png(*colour: int) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (40, 36), colour).save(file, "PNG")
    return file.getvalue()


def write_tar(path: Path, members: dict[str, bytes]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def colours(pictures: object) -> list[tuple[int, ...]]:
    return [p.open().getpixel((0, 0)) for p in pictures]  # type: ignore[attr-defined]


@pytest.mark.parametrize("prefix", ["", "set/"])
def test_a_tar_file_has_the_same_images_as_the_folder(prefix: str, tmp_path: Path) -> None:
    members = {f"{prefix}{c}/{i}.png": png(n, i, 0) for n, c in enumerate(("cat", "dog")) for i in range(2)}
    gif = io.BytesIO()
    Image.new("RGB", (40, 36), (255, 0, 0)).save(gif, "GIF")
    members |= {f"{prefix}dog/2.gif": gif.getvalue(), f"{prefix}dog/._2.gif": b"of a Mac"}
    pictures = open_samples(write_tar(tmp_path / "set.tar", members))
    assert pictures.classes == ("cat", "dog")
    assert [p.target() for p in pictures] == [0, 0, 1, 1, 1]
    assert colours(pictures) == [(0, 0, 0), (0, 1, 0), (1, 0, 0), (1, 1, 0), (255, 0, 0)]


def test_tar_files_that_mix_data_sets_or_have_no_images_are_refused(tmp_path: Path) -> None:
    mixed = write_tar(tmp_path / "mixed.tar", {"val/cat/a.png": png(0, 0, 0), "imagenet-a/cat/a.png": png(0, 0, 0)})
    with refused(LayoutError, mixed, "imagenet-a", "val"):
        open_samples(mixed)
    with refused(LayoutError, tmp_path / "empty.tar"):
        open_samples(write_tar(tmp_path / "empty.tar", {}))
    (tmp_path / "bad.tar").write_text("no archive")
    with refused(LayoutError, tmp_path / "bad.tar"):
        open_samples(tmp_path / "bad.tar")


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    for s in range(2):
        samples = {f"{k}.{kind}": value for k in range(2) for kind, value in (("png", png(s, k, 0)), ("cls", b"%d" % k))}
        write_tar(tmp_path / "Shards" / f"val-{s:04}.tar", samples)
    return tmp_path / "Shards"


def test_the_shards_of_webdataset_are_read_as_a_stream(shards: Path) -> None:
    pictures = open_samples(f"wds/{shards}/val-{{0000..0001}}.tar")
    assert len(pictures) == 4
    assert [(p.id, p.target()) for p in pictures] == [
        ("val-0000/0", 0),
        ("val-0000/1", 1),
        ("val-0001/0", 0),
        ("val-0001/1", 1),
    ]
    assert colours(pictures) == [(0, 0, 0), (0, 1, 0), (1, 0, 0), (1, 1, 0)]
    assert colours(SomeSamples(pictures, [3, 1])) == [(0, 1, 0), (1, 1, 0)]
    assert len(open_samples(f"wds/{shards}/val-{{0000..0001}}.tar|4")) == 4


def test_the_split_of_webdataset_comes_from_its_info_file(shards: Path) -> None:
    with refused(LayoutError, shards, "info.json"):
        open_samples(f"wds/{shards}")
    split = {"name": "validation", "num_samples": 4, "filenames": ["val-0000.tar", "val-0001.tar"], "shard_lengths": [2, 2]}
    (shards / "_info.json").write_text(json.dumps({"splits": {"validation": split}}))
    assert len(colours(open_samples(f"wds/{shards}"))) == 4
    (shards / "val-0001.tar").unlink()
    with refused(FileNotFoundError, "val-0001.tar"):
        open_samples(f"wds/{shards}")


def test_damage_in_shards_is_named_and_the_rest_goes_on(shards: Path) -> None:
    write_tar(shards / "val-0000.tar", {"a.png": b"damaged", "a.cls": b"0", "b.png": png(7, 0, 0), "c.cls": b"1"})
    whole = (shards / "val-0001.tar").read_bytes()
    (shards / "val-0001.tar").write_bytes(whole[: len(png(1, 0, 0)) + 1200])  # ends within the first label's sample
    pictures = list(open_samples(f"wds/{shards}/val-{{0000..0001}}.tar"))
    refused = {}
    for picture in pictures:
        try:
            picture.open()
        except UnreadablePictureError as error:
            refused[picture.id] = str(error)
    assert "expected jpg and cls" in refused["val-0000/b"]
    assert "expected jpg and cls" in refused["val-0000/c"]
    assert "cannot identify image file" in refused["val-0000/a"]
    assert any(name.startswith("val-0001") for name in refused)


def test_a_data_set_of_hugging_face_is_read_by_position(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    for n, name in enumerate(("cat", "dog")):
        (tmp_path / "Set" / "test" / name).mkdir(parents=True)
        (tmp_path / "Set" / "test" / name / "a.png").write_bytes(png(n, 0, 0))
    pictures = open_samples(f"hfds/{tmp_path}/Set")
    assert pictures.classes == ("cat", "dog")
    assert [(p.id, p.target()) for p in pictures] == [("0", 0), ("1", 1)]
    assert pictures.at(1).open().getpixel((0, 0)) == (1, 0, 0)  # type: ignore[attr-defined]


def test_a_data_set_of_hugging_face_without_a_split_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    for name in ("cat", "dog"):
        (tmp_path / "Set" / "train" / name).mkdir(parents=True)
        (tmp_path / "Set" / "train" / name / "a.png").write_bytes(png(0, 0, 0))
    with refused(LayoutError, "Set", "validation", "test", "image", "label"):
        open_samples(f"hfds/{tmp_path}/Set")
