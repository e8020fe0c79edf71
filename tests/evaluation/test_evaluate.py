"""One command answers for any network and any images, and its numbers are what the definitions say."""

from __future__ import annotations

import copy
import csv
import json
import pickle
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from grey_network import ByGrey, save_classes
from PIL import Image
from refusals import refused
from torch import nn

import robustvit as rv
from robustvit.data.layouts import LayoutError
from robustvit.data.scenes.dataset import Scenes
from robustvit.evaluation.evaluate import FinishedRunError, UnfinishedRunError
from robustvit.tasks.class_matching import ClassMismatchError


@pytest.fixture(scope="module")
def model() -> Any:
    torch.manual_seed(0)
    return rv.create_model("fan_vit_nano", num_classes=10, depths=(1,)).eval()


@pytest.fixture(scope="module")
def scenes() -> Scenes:
    return Scenes("test", 12)


def class_tree(root: Path, classes: list[str], count: int = 1, side: int = 32) -> Path:
    generator = np.random.default_rng(0)
    for name in classes:
        (root / name).mkdir(parents=True)
        for i in range(count):
            Image.fromarray(generator.integers(0, 255, (side, side, 3), np.uint8)).save(root / name / f"{i}.png")
    return root


def test_the_clean_cell_is_the_accuracy_of_the_network(model: Any, scenes: Scenes) -> None:
    results = rv.evaluate(model, scenes, "clean", protocol="none")
    images = torch.stack([image for image, _ in scenes])
    mean, std = (torch.tensor(model.pretrained_cfg[key])[:, None, None] for key in ("mean", "std"))
    with torch.no_grad():
        answers = model((images / 255 - mean) / std).argmax(-1)
    right = (answers == torch.tensor([label for _, label in scenes])).double().mean()
    assert results.clean == pytest.approx(float(right))


def test_every_cell_is_the_accuracy_on_corrupt_images(model: Any, scenes: Scenes) -> None:
    results = rv.evaluate(model, scenes, "noise", protocol="none", seed=3)
    images = torch.stack([image for image, _ in scenes])
    labels = torch.tensor([label for _, label in scenes])
    mean, std = (torch.tensor(model.pretrained_cfg[key])[:, None, None] for key in ("mean", "std"))
    ids = [str(i) for i in range(len(scenes))]
    for name in rv.corruption_names("noise"):
        for severity in (1, 4):
            spoiled = rv.corrupt(images, name, severity, seed=3, sample_ids=ids)
            with torch.no_grad():
                answers = model((spoiled / 255 - mean) / std).argmax(-1)
            assert results.models[0].accuracy(name, severity) == pytest.approx(float((answers == labels).double().mean()))


def test_summaries_follow_from_the_cells(model: Any, scenes: Scenes) -> None:
    results = rv.evaluate(model, scenes, "common15", protocol="none")
    cells = [c for c in results.models[0].cells if c.severity]
    assert len(cells) == 75
    mean = np.mean([c.accuracy.value for c in cells if c.accuracy])
    assert results.mean_accuracy == pytest.approx(mean)
    assert results.retention == pytest.approx(mean / results.clean)
    with pytest.raises(AttributeError, match="mean_corruption_error"):
        _ = results.mean_corruption_error  # AlexNet's errors are of ImageNet-C's 1000 classes


@pytest.mark.parametrize("batch_size", [1, 5, 12])
def test_the_batch_size_changes_nothing(model: Any, scenes: Scenes, batch_size: int) -> None:
    suites = ["weather", "patches"]
    one, other = (rv.evaluate(model, scenes, suites, protocol="none", batch_size=size).models[0] for size in (batch_size, 7))
    assert [(c.condition, c.severity, c.accuracy) for c in one.cells] == [
        (c.condition, c.severity, c.accuracy) for c in other.cells
    ]
    gaps = ([c.calibration_error for c in m.cells] for m in (one, other))
    np.testing.assert_allclose(*gaps, atol=1e-5)


def test_files_are_written_and_read_back(model: Any, scenes: Scenes, tmp_path: Path) -> None:
    results = rv.evaluate({"mine": model}, scenes, ["clean", "blur"], protocol="none", output=tmp_path / "out")
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [
        "classes.csv",
        "report.html",
        "results.csv",
        "results.json",
    ]
    again = rv.Results.load(tmp_path / "out")
    assert again == rv.Results.load(tmp_path / "out" / "results.json")
    assert json.loads(json.dumps(again.to_json())) == json.loads(json.dumps(results.to_json()))
    with (tmp_path / "out" / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 21
    assert float(rows[0]["accuracy"]) == results.clean


class Stops(nn.Module):
    """The network, until it has been asked `calls` times."""

    def __init__(self, model: Any, calls: int) -> None:
        super().__init__()
        self.model, self.calls = model, calls
        self.num_classes, self.pretrained_cfg = model.num_classes, model.pretrained_cfg

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls -= 1
        if self.calls < 0:
            raise KeyboardInterrupt
        return self.model(x)


def test_an_interrupted_run_goes_on_and_ends_as_if_nothing_had_happened(model: Any, scenes: Scenes, tmp_path: Path) -> None:
    options: dict[str, Any] = dict(protocol="none", batch_size=4, examples=0)
    whole = rv.evaluate({"m": Stops(model, 10**6)}, scenes, "digital", **options)
    with pytest.raises(KeyboardInterrupt):
        rv.evaluate({"m": Stops(model, 30)}, scenes, "digital", output=tmp_path, **options)
    with refused(UnfinishedRunError, "--resume"):
        rv.evaluate({"m": Stops(model, 30)}, scenes, "digital", output=tmp_path, **options)
    with pytest.raises(UnfinishedRunError, match="of other settings"):
        rv.evaluate({"m": Stops(model, 30)}, scenes, "digital", output=tmp_path, resume=True, seed=1, **options)
    rest = Stops(model, 10**6)
    resumed = rv.evaluate({"m": rest}, scenes, "digital", output=tmp_path, resume=True, **options)
    assert (
        10**6 - rest.calls == 2 + 2 * 21
    )  # it was asked what it returns, and for its fingerprint; one of three batches was done
    assert resumed.models[0].cells == whole.models[0].cells
    assert not (tmp_path / "unfinished").exists()


def test_unreadable_images_are_named_and_left_out(model: Any, tmp_path: Path) -> None:
    class_tree(tmp_path, [f"c{i}" for i in range(10)])
    (tmp_path / "c3" / "bad.jpg").write_text("no image")
    results = rv.evaluate(model, tmp_path, ["clean", "noise"])
    assert [name for name, _ in results.models[0].skipped] == ["c3/bad.jpg"]
    assert {c.images for c in results.models[0].cells} == {10}


def test_grey_and_single_images_work(model: Any, tmp_path: Path) -> None:
    class_tree(tmp_path, [f"c{i}" for i in range(9)], count=0)
    (tmp_path / "c9").mkdir()
    Image.new("L", (50, 40), 77).save(tmp_path / "c9" / "grey.png")
    results = rv.evaluate(model, tmp_path, "common15", class_map={"c9": 9})
    assert results.data["images"] == 1
    assert results.clean in (0.0, 1.0)


def test_a_subset_is_drawn_by_the_seed(model: Any, scenes: Scenes) -> None:
    results = rv.evaluate(model, scenes, "clean", protocol="none", limit=5)
    assert results.models[0].cells[0].images == 5
    assert results.data["limit"] == 5


def test_classes_that_do_not_match_are_explained(model: Any, tmp_path: Path) -> None:
    class_tree(tmp_path, ["cat", "dog"])
    with refused(ClassMismatchError, "cat, dog", 10, "class map"):
        rv.evaluate(model, tmp_path, "clean")
    results = rv.evaluate(model, tmp_path, "clean", class_map={"cat": 7, "dog": 2})
    assert results.models[0].cells[0].images == 2
    with pytest.raises(ClassMismatchError, match="no entry for dog"):
        rv.evaluate(model, tmp_path, "clean", class_map={"cat": 7})


def test_wrong_requests_are_refused_before_the_work_starts(model: Any, scenes: Scenes, tmp_path: Path) -> None:
    with refused(ValueError, "'common'", "clean", "common15"):
        rv.evaluate(model, scenes, "common")
    with pytest.raises(LayoutError, match="is empty"):
        rv.evaluate(model, tmp_path, "clean")
    with pytest.raises(LayoutError, match=r"lacks gaussian_noise\.npy"):
        rv.evaluate(model, tmp_path, "cifar10-c")
    with pytest.raises(ValueError, match="limit=0 is not possible"):
        rv.evaluate(model, scenes, limit=0)
    with refused(AttributeError, "mean_corruption_error"):
        _ = rv.evaluate(model, scenes, "clean", protocol="none").mean_corruption_error


def test_an_error_beside_the_network_reaches_the_caller(model: Any, scenes: Scenes, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise MemoryError("no room")

    monkeypatch.setattr("robustvit.tasks.passes._decode", broken)
    with pytest.raises(MemoryError, match="no room"):
        rv.evaluate(model, scenes, "clean", protocol="none")


@pytest.mark.parametrize("suite", ["noise", "imagenet-p"])
def test_a_finished_run_is_shown_again_and_not_repeated(suite: str, model: Any, tmp_path: Path) -> None:
    first = rv.evaluate(model, Scenes("test", 2), suite, output=tmp_path)
    again = rv.evaluate(model, Scenes("test", 2), suite, output=tmp_path, resume=True)
    assert again.created == first.created
    assert again.models[0].cells == first.models[0].cells
    with pytest.raises(FinishedRunError, match="other"):
        rv.evaluate(model, Scenes("test", 2), suite, output=tmp_path, resume=True, seed=1)


def test_films_that_are_done_are_not_shown_again(model: Any, tmp_path: Path) -> None:
    whole = rv.evaluate(model, Scenes("test", 3), "imagenet-p")
    with pytest.raises(KeyboardInterrupt):
        rv.evaluate(model, Scenes("test", 3), "imagenet-p", output=tmp_path, report=_stop_after(2))
    seen: list[tuple[int, int]] = []
    resumed = rv.evaluate(
        model,
        Scenes("test", 3),
        "imagenet-p",
        output=tmp_path,
        resume=True,
        report=lambda _, done, total: seen.append((done, total)),
    )
    assert seen == [(2, 3), (3, 3)]
    assert resumed.models[0].cells == whole.models[0].cells
    assert resumed.models[0].summary == whole.models[0].summary


def _stop_after(steps: int) -> Any:
    def report(what: str, done: int, total: int) -> None:
        if done == steps:
            raise KeyboardInterrupt

    return report


class Unsure(ByGrey):
    """Gives NaN for dark images."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.where(x.mean((1, 2, 3))[:, None] < 0.25, torch.nan, super().forward(x))


def test_answers_that_are_not_finite_count_as_wrong_and_are_reported(tmp_path: Path) -> None:
    save_classes(tmp_path / "set", {f"c{k}": k for k in range(10)})
    results = rv.evaluate(Unsure(), tmp_path / "set", "clean", output=tmp_path / "out")
    cell = results.models[0].cells[0]
    assert cell.no_answer == 3  # of the greys 0, 1/9, 2/9
    assert cell.accuracy is not None
    assert cell.accuracy.value == 0.7
    assert "gave no answer 3 times" in (tmp_path / "out" / "report.html").read_text()


def test_a_network_that_does_not_say_how_many_classes_it_has_is_asked(tmp_path: Path) -> None:
    save_classes(tmp_path, {"a": 0, "b": 1})
    network = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 2))
    assert rv.evaluate(network, tmp_path, "clean", size=(32, 32), protocol="none").models[0].cells[0].images == 2
    assert network.training
    with refused(ValueError, "AdaptiveAvgPool2d", [1, 3, 1, 1]):
        rv.evaluate(nn.AdaptiveAvgPool2d(1), tmp_path, "clean", size=(32, 32))


def test_labels_beyond_the_outputs_are_explained() -> None:
    pictures = [(Image.fromarray(np.zeros((32, 32, 3), np.uint8)), 12)]
    with refused(ClassMismatchError, "label 12", "0 to 9"):
        rv.evaluate(ByGrey(), pictures, "clean")


def test_the_network_is_left_in_training_mode_even_after_an_error(model: Any, scenes: Scenes) -> None:
    network = copy.deepcopy(model).train()
    with pytest.raises(KeyboardInterrupt):
        rv.evaluate(network, scenes, "clean", report=_stop_after(0))
    assert network.training


def test_a_frost_folder_without_images_is_found_before_the_work(model: Any, scenes: Scenes, tmp_path: Path) -> None:
    with pytest.raises((ValueError, FileNotFoundError)):
        rv.evaluate(model, scenes, "weather", frost_folder=tmp_path, output=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_number_of_threads_is_left_as_it_was(model: Any, scenes: Scenes) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        rv.evaluate(model, scenes, "noise")
        assert torch.get_num_threads() == 2
        seen: list[int] = []
        thread = threading.Thread(target=lambda: seen.append(torch.get_num_threads()))
        thread.start()
        thread.join()
        assert seen == [2]
    finally:
        torch.set_num_threads(before)


def test_results_can_be_copied_and_pickled(model: Any, scenes: Scenes) -> None:
    results = rv.evaluate(model, scenes, "clean", protocol="none", examples=0)
    assert pickle.loads(pickle.dumps(results)) == copy.deepcopy(results) == results
    cell = results.models[0].cells[0]
    assert cell.flip_probability is None
    with pytest.raises(AttributeError, match="retention"):
        _ = cell.retention
