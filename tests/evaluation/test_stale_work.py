"""Nothing stale and nothing foreign gets into a result, whatever an earlier run left in the folder."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from grey_network import ByGrey, save_classes
from PIL import Image
from timm.models import save_for_hf
from torch import nn
from torch.utils.data import Subset, TensorDataset

import robustvit as rv
from robustvit.cli import main
from robustvit.data.sample_digest import add_dataset
from robustvit.data.samples import ArraySamples
from robustvit.evaluation.evaluate import FinishedRunError, UnfinishedRunError
from robustvit.evaluation.unfinished import ForeignFileError
from robustvit.runtime.fingerprint import Digest, changed_parts, fingerprint, is_same, numbers_part

GREYS = {f"c{k}": k for k in range(10)}


class Always(nn.Module):
    """Answers every image with one class; `calls` counts batches (not trials of one), and it stops after `most`."""

    num_classes = 10
    pretrained_cfg = ByGrey().pretrained_cfg

    def __init__(self, answer: int, most: int = 10**6) -> None:
        super().__init__()
        self.weight = nn.Parameter(nn.functional.one_hot(torch.tensor(answer), 10).float())
        self.calls, self.most = 0, most

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += len(x) > 1
        if self.calls > self.most:
            raise KeyboardInterrupt
        return self.weight * torch.ones(len(x), 1)


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    save_classes(tmp_path / "set", GREYS)
    return tmp_path / "set"


def answers(results: rv.Results) -> list[tuple[str, float]]:
    return [(cell.condition, cell.accuracy.value) for cell in results.models[0].cells if cell.accuracy]


def quick(network: nn.Module, pictures: Any, output: Path, **options: Any) -> rv.Results:
    return rv.evaluate({"m": network}, pictures, "clean", output=output, **{"batch_size": 4, "examples": 0, **options})


def test_a_kill_inside_the_clean_up_leaves_nothing_that_another_network_could_take(
    pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"

    def killed(folder: Path, *_: object, **__: object) -> None:
        for record in Path(folder).rglob("run.json"):  # as the order of a folder may have it
            record.unlink()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", killed)
        with pytest.raises(KeyboardInterrupt):
            quick(ByGrey(), pictures, out)
    (out / "results.json").unlink()
    assert answers(quick(Always(0), pictures, out)) == [("clean", 0.1)]
    assert sorted(path.name for path in out.iterdir()) == ["classes.csv", "report.html", "results.csv", "results.json"]


@pytest.mark.parametrize("resume", [False, True])
def test_batches_of_another_network_are_not_taken_even_if_nobody_knows_whose_they_are(
    resume: bool, pictures: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        quick(Always(3, most=2), pictures, out)
    (out / "unfinished" / "run.json").unlink()
    if resume:
        with pytest.warns(UserWarning, match=r"batch-000000.npz is not used, and made again: it is of another run"):
            results = quick(ByGrey(), pictures, out, resume=True)
    else:
        results = quick(ByGrey(), pictures, out)
    assert answers(results) == [("clean", 1.0)]


def test_every_stored_batch_and_film_says_which_run_it_is_of(pictures: Path, tmp_path: Path) -> None:
    def stop(what: str, done: int, total: int) -> None:
        if "imagenet-p" in what:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rv.evaluate(Always(0), pictures, ["clean", "imagenet-p"], output=tmp_path / "out", report=stop, protocol="none")
    fingerprint = json.loads((tmp_path / "out" / "unfinished" / "run.json").read_text())["fingerprint"]
    parts = sorted((tmp_path / "out" / "unfinished").rglob("*.npz"))
    assert {part.stem.partition("-")[0] for part in parts} == {"batch", "films"}
    for part in parts:
        with np.load(part) as stored:
            assert json.loads(str(stored["texts"]))["fingerprint"] == fingerprint


def replace_contents(folder: Path) -> None:
    for path in folder.rglob("*.png"):
        Image.new("RGB", (32, 32), (1, 2, 3)).save(path)


def touch(folder: Path) -> None:
    path = next(folder.rglob("*.png"))
    os.utime(path, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns + 1000))


def rename(folder: Path) -> None:
    path = next(folder.rglob("*.png"))
    path.rename(path.with_name("other.png"))


@pytest.mark.parametrize("change", [replace_contents, touch, rename])
def test_images_that_changed_are_noticed_in_a_finished_and_in_an_unfinished_run(
    change: Any, pictures: Path, tmp_path: Path
) -> None:
    quick(ByGrey(), pictures, tmp_path / "finished")
    with pytest.raises(KeyboardInterrupt):
        quick(Always(0, most=2), pictures, tmp_path / "begun")
    change(pictures)
    for resume in (True, False):
        with pytest.raises(FinishedRunError, match="other images"):
            quick(ByGrey(), pictures, tmp_path / "finished", resume=resume)
        with pytest.raises(UnfinishedRunError, match="other images"):
            quick(Always(0), pictures, tmp_path / "begun", resume=resume)


def test_the_error_says_what_is_there_and_what_is_different(pictures: Path, tmp_path: Path) -> None:
    quick(ByGrey(), pictures, tmp_path / "out")
    before = {path: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    with pytest.raises(FinishedRunError, match=rf"m on {pictures} \(clean\).*other networks\..*--output.*results.json"):
        quick(Always(0), pictures, tmp_path / "out")
    with pytest.raises(FinishedRunError, match="other settings"):
        quick(ByGrey(), pictures, tmp_path / "out", resume=True, seed=5)
    assert {path: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before


def test_the_same_run_again_is_shown_with_resume_and_measured_anew_without(pictures: Path, tmp_path: Path) -> None:
    network = Always(0)
    first = quick(network, pictures, tmp_path / "out")
    asked = network.calls
    shown = quick(network, pictures, tmp_path / "out", resume=True)
    assert network.calls == asked
    assert shown.created == first.created
    anew = quick(network, pictures, tmp_path / "out")
    assert network.calls == 2 * asked
    assert answers(anew) == answers(first)
    assert anew.fingerprint == first.fingerprint


@pytest.mark.parametrize("name", ["report.html", "results.csv"])
def test_resuming_a_finished_run_writes_the_files_that_are_missing(name: str, pictures: Path, tmp_path: Path) -> None:
    network, out = Always(0), tmp_path / "out"
    quick(network, pictures, out)
    asked, before = network.calls, (out / name).read_bytes()
    (out / name).unlink()
    quick(network, pictures, out, resume=True)
    assert (out / name).read_bytes() == before
    assert network.calls == asked


def test_a_report_is_never_left_beside_the_numbers_of_another_run(
    pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    quick(Always(0), pictures, out)
    (out / "results.json").unlink()

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("robustvit.report.page.write_page", killed)
        with pytest.raises(KeyboardInterrupt):
            quick(ByGrey(), pictures, out)
    assert not (out / "report.html").exists()
    assert answers(rv.Results.load(out)) == [("clean", 1.0)]
    quick(ByGrey(), pictures, out, resume=True)
    assert "100.0" in (out / "report.html").read_text()
    assert not (out / "unfinished").exists()


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-30])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[content.index("fingerprint".encode("utf-32-le")) + 200] ^= 1
    path.write_bytes(content)


def empty(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("damage", [cut, flip, empty])
def test_a_damaged_batch_is_named_and_made_again(damage: Any, pictures: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        quick(Always(3, most=2), pictures, out)
    damage(out / "unfinished" / "model-0" / "job-0" / "batch-000000.npz")
    network = Always(3)
    with pytest.warns(UserWarning, match="batch-000000.npz is not used, and made again: it is damaged"):
        results = quick(network, pictures, out, resume=True)
    assert network.calls == 2  # of three batches, one was whole
    assert answers(results) == [("clean", 0.1)]


@pytest.mark.parametrize("text", ["[]", "", "{", "null", '{"title": 1}', "\x00", "[" * 100_000])
@pytest.mark.parametrize("resume", [False, True])
def test_a_damaged_record_of_an_unfinished_run_is_named_and_written_again(
    text: str, resume: bool, pictures: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        quick(Always(3, most=2), pictures, out)
    (out / "unfinished" / "run.json").write_text(text)
    network = Always(3)
    with pytest.warns(UserWarning, match="run.json is not used"):
        results = quick(network, pictures, out, resume=resume)
    assert network.calls == (1 if resume else 3)  # each batch says itself whose it is
    assert answers(results) == [("clean", 0.1)]


@pytest.mark.parametrize("text", ["", '{"models": [', "\x00", "[" * 100_000])
def test_damaged_results_are_named_kept_aside_and_made_again(text: str, pictures: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    for name in ("results.json.damaged", "results.json.damaged-3"):
        (tmp_path / "out" / name).write_text("an earlier one")
    (tmp_path / "out" / "results.json").write_text(text)
    with pytest.warns(UserWarning, match="results.json is not used"):
        results = quick(ByGrey(), pictures, tmp_path / "out", resume=True)
    assert rv.Results.load(tmp_path / "out").created == results.created
    assert (tmp_path / "out" / "results.json.damaged-2").read_text() == text
    assert (tmp_path / "out" / "results.json.damaged").read_text() == "an earlier one"


def test_results_of_this_run_that_lack_a_part_are_made_again(pictures: Path, tmp_path: Path) -> None:
    quick(ByGrey(), pictures, tmp_path / "out")
    path = tmp_path / "out" / "results.json"
    stored = json.loads(path.read_text())
    del stored["models"]
    path.write_text(json.dumps(stored))
    with pytest.warns(UserWarning, match="results.json is not used"):
        results = quick(ByGrey(), pictures, tmp_path / "out", resume=True)
    assert answers(results) == [("clean", 1.0)]
    assert "models" not in json.loads((tmp_path / "out" / "results.json.damaged").read_text())


@pytest.mark.parametrize("text", ["[]", "{}", "7", '{"my": "numbers"}', '{"models": 3}'])
@pytest.mark.parametrize("resume", [False, True])
def test_json_that_is_somebody_elses_is_not_replaced(text: str, resume: bool, pictures: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "results.json").write_text(text)
    with pytest.raises(ForeignFileError, match=r"results\.json.*--output"):
        quick(ByGrey(), pictures, tmp_path / "out", resume=resume)
    assert [(path.name, path.read_text()) for path in (tmp_path / "out").iterdir()] == [("results.json", text)]


def test_results_of_an_earlier_version_are_not_replaced(pictures: Path, tmp_path: Path) -> None:
    quick(ByGrey(), pictures, tmp_path / "out")
    path = tmp_path / "out" / "results.json"
    stored = json.loads(path.read_text())
    del stored["fingerprint"]
    path.write_text(json.dumps(stored))
    with pytest.raises(ForeignFileError):
        quick(ByGrey(), pictures, tmp_path / "out", resume=True)
    assert json.loads(path.read_text()) == stored


@pytest.mark.parametrize("resume", [False, True])
@pytest.mark.parametrize("name", ["thesis.txt", "model-0/thesis.txt", "run.json", "drafts/batch-000000.npz"])
def test_a_folder_called_unfinished_that_is_somebody_elses_is_left_alone(
    name: str, resume: bool, pictures: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    own = out / "unfinished" / name
    own.parent.mkdir(parents=True)
    own.write_text('{"title": "mine"}')
    if name == "run.json":
        (out / "unfinished" / "thesis.txt").write_text("mine")
    with pytest.raises(ForeignFileError, match="unfinished"):
        quick(ByGrey(), pictures, out, resume=resume)
    assert own.read_text() == '{"title": "mine"}'


def test_a_finished_run_leaves_somebody_elses_folder_alone_too(pictures: Path, tmp_path: Path) -> None:
    quick(ByGrey(), pictures, tmp_path / "out")
    (tmp_path / "out" / "unfinished").mkdir()
    (tmp_path / "out" / "unfinished" / "thesis.txt").write_text("mine")
    assert answers(quick(ByGrey(), pictures, tmp_path / "out", resume=True)) == [("clean", 1.0)]
    assert (tmp_path / "out" / "unfinished" / "thesis.txt").read_text() == "mine"


class Scaled(ByGrey):
    """What it computes depends on a plain number and on a buffer that no state dict has."""

    def __init__(self, factor: float, shift: float = 0.0) -> None:
        super().__init__()
        self.factor = factor
        self.register_buffer("shift", torch.tensor(shift), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x * self.factor + self.shift)


@pytest.mark.parametrize("other", [Scaled(0.5), Scaled(1.0, 0.3)])
def test_networks_with_the_same_weights_that_compute_something_else_are_told_apart(
    other: nn.Module, pictures: Path, tmp_path: Path
) -> None:
    quick(Scaled(1.0), pictures, tmp_path / "out")
    with pytest.raises(FinishedRunError, match="other network outputs"):
        quick(other, pictures, tmp_path / "out", resume=True)


def test_another_number_of_heads_in_config_json_is_noticed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "net"
    network = rv.create_model("vit_pico", pretrained=True)
    save_for_hf(network, folder, model_config={"num_classes": 10})
    arguments = [
        "eval",
        f"local-dir:{folder}",
        "--data",
        "scenes-easy:4",
        "--suite",
        "clean",
        "--output",
        str(tmp_path / "out"),
    ]
    assert main(arguments) == 0
    config = json.loads((folder / "config.json").read_text())
    assert main([*arguments, "--resume"]) == 0
    (folder / "config.json").write_text(json.dumps({**config, "model_args": {**config.get("model_args", {}), "num_heads": 1}}))
    capsys.readouterr()
    assert main([*arguments, "--resume"]) == 2
    assert "other network outputs" in capsys.readouterr().err


def test_fingerprints_allow_for_last_bits_of_outputs() -> None:
    def with_outputs(*groups: list[float]) -> str:
        return fingerprint({"networks": "a1", "network outputs": numbers_part(groups), "pictures": "b2"})

    first = with_outputs([1.0, -20.0, float("nan")], [0.001, 0.002])
    assert is_same(first, with_outputs([1.00001, -20.0001, float("nan")], [0.001, 0.0020000001]))
    for other in ([[1.0, -20.0, 3.0], [0.001, 0.002]], [[1.0, -20.0, float("nan")], [0.001, 0.0021]], [[1.0]]):
        assert not is_same(first, with_outputs(*other))
        assert changed_parts(first, with_outputs(*other)) == "other network outputs"
    assert not is_same(first, first.replace("b2", "b3"))
    assert not is_same(first, "")


def test_results_with_fields_that_nobody_knows_here_are_not_replaced(pictures: Path, tmp_path: Path) -> None:
    quick(Always(0), pictures, tmp_path / "out")
    path = tmp_path / "out" / "results.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "of_a_later_version": 1}))
    with pytest.raises(FinishedRunError):
        quick(ByGrey(), pictures, tmp_path / "out", resume=True)


@pytest.mark.parametrize("command", [["eval"], ["attack", "--attack", "fgsm"]])
def test_commands_refuse_to_replace_another_result_in_one_line(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name, *options = command
    arguments = [name, "vit_pico", *options, "--suite", "clean", "--output", str(tmp_path / "out")]
    assert main([*arguments, "--data", "scenes-easy:2"]) == 0
    capsys.readouterr()
    assert main([*arguments, "--data", "scenes-easy:3", "--resume"]) == 2
    error = capsys.readouterr().err.strip()
    assert error.startswith("error: ")
    assert error.count("\n") == 0
    assert "vit_pico on scenes-easy" in error


def test_folders_that_could_not_be_removed_go_with_the_next_run(
    pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", lambda *_, **__: None)  # it did not come to anything
        quick(ByGrey(), pictures, out)
    assert not (out / "unfinished").exists()
    assert len(list(out.iterdir())) == 5
    quick(ByGrey(), pictures, out, resume=True)
    assert len(list(out.iterdir())) == 4


def digest_of(dataset: Any) -> str:
    digest = Digest()
    add_dataset(digest, dataset)
    return digest.text()


class Foreign:
    """A dataset that says nothing about itself."""

    def __init__(self, values: list[int]) -> None:
        self.values = values

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, i: int) -> tuple[Image.Image, int]:
        return Image.new("RGB", (4, 4), (self.values[i],) * 3), 0


def test_data_sets_in_memory_count_by_their_contents() -> None:
    images, labels = torch.zeros(4, 3, 8, 8, dtype=torch.uint8), torch.arange(4)
    changed, other_labels = images.clone(), labels.flip(0)
    changed[2, 1, 3, 3] = 1
    sets = [TensorDataset(images, labels), TensorDataset(changed, labels), TensorDataset(images, other_labels)]
    assert len({digest_of(one) for one in sets}) == 3
    assert digest_of(TensorDataset(images.clone(), labels.clone())) == digest_of(sets[0])
    assert digest_of(Subset(sets[0], [0, 1])) != digest_of(Subset(sets[0], [0, 2]))
    assert digest_of(Foreign([1, 2, 3])) == digest_of(Foreign([1, 2, 3]))
    assert digest_of(Foreign([1, 2, 3])) != digest_of(Foreign([1, 2, 4]))
    pairs = [(Image.new("RGB", (4, 4), (k, k, k)), 0) for k in range(300)]
    assert digest_of(pairs) != digest_of([*pairs[:150], (Image.new("RGB", (4, 4)), 0), *pairs[151:]])


def test_arrays_on_disk_count_by_their_files(tmp_path: Path) -> None:
    np.save(tmp_path / "fog.npy", np.zeros((10, 32, 32, 3), np.uint8))

    def digest(rows: slice) -> str:
        images = np.load(tmp_path / "fog.npy", mmap_mode="r")
        found = Digest()
        ArraySamples(images[rows], np.zeros(5, np.int64), "fog").add_to(found)
        return found.text()

    first = digest(slice(0, 5))
    assert digest(slice(0, 5)) == first
    assert digest(slice(5, 10)) != first
    np.save(tmp_path / "fog.npy", np.ones((10, 32, 32, 3), np.uint8))
    os.utime(tmp_path / "fog.npy", ns=(0, 1))
    assert digest(slice(0, 5)) != first
