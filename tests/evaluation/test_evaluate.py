"""One command answers for any network and any pictures, and its numbers are what the definitions say."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import robustvit as rv
from robustvit.data.layouts import LayoutError
from robustvit.data.scenes import Scenes
from robustvit.evaluation import classification
from robustvit.evaluation.classes import ClassMismatchError
from robustvit.evaluation.evaluate import UnfinishedRunError
from robustvit.metrics.class_subset import imagenet_subset


@pytest.fixture(scope="module")
def model() -> Any:
    torch.manual_seed(0)
    return rv.create_model("fan_vit_nano", num_classes=10, depths=(1,)).eval()


@pytest.fixture(scope="module")
def scenes() -> Scenes:
    return Scenes("test", 12)


class BySum(nn.Module):
    """A network of 1000 outputs at 32 pixels that costs nothing: the answer is a function of the mean of the picture."""

    num_classes = 1000
    pretrained_cfg = dict(input_size=(3, 32, 32), mean=(0.0,) * 3, std=(1.0,) * 3, crop_pct=1.0, architecture="by_sum")

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        centres = torch.linspace(0, 1, self.num_classes)
        return -(((x.mean((1, 2, 3)) * self.scale)[:, None] - centres) ** 2) * 1e4


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


def test_every_cell_is_the_accuracy_on_corrupt_pictures(model: Any, scenes: Scenes) -> None:
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
    errors = {n: [1 - results.models[0].accuracy(n, s) for s in range(1, 6)] for n in rv.corruption_names("common15")}
    from robustvit.metrics.corruption_error import mean_corruption_error

    assert results.mean_corruption_error == pytest.approx(mean_corruption_error(errors))


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
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["report.html", "results.csv", "results.json"]
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
    with pytest.raises(UnfinishedRunError, match="has an unfinished run; go on with --resume"):
        rv.evaluate({"m": Stops(model, 30)}, scenes, "digital", output=tmp_path, **options)
    with pytest.raises(UnfinishedRunError, match="of other networks, pictures or settings"):
        rv.evaluate({"m": Stops(model, 30)}, scenes, "digital", output=tmp_path, resume=True, seed=1, **options)
    rest = Stops(model, 10**6)
    resumed = rv.evaluate({"m": rest}, scenes, "digital", output=tmp_path, resume=True, **options)
    assert 10**6 - rest.calls == 2 * 21  # one of three batches was done
    assert resumed.models[0].cells == whole.models[0].cells
    assert not (tmp_path / "unfinished").exists()


def test_unreadable_pictures_are_named_and_left_out(model: Any, tmp_path: Path) -> None:
    class_tree(tmp_path, [f"c{i}" for i in range(10)])
    (tmp_path / "c3" / "bad.jpg").write_text("no picture")
    results = rv.evaluate(model, tmp_path, ["clean", "noise"])
    assert [name for name, _ in results.models[0].skipped] == ["c3/bad.jpg"]
    assert {c.images for c in results.models[0].cells} == {10}


def test_grey_and_single_pictures_work(model: Any, tmp_path: Path) -> None:
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
    with pytest.raises(ClassMismatchError, match=r"2 classes \(cat, dog\) and the network has 10 outputs.*class map"):
        rv.evaluate(model, tmp_path, "clean")
    results = rv.evaluate(model, tmp_path, "clean", class_map={"cat": 7, "dog": 2})
    assert results.models[0].cells[0].images == 2
    with pytest.raises(ClassMismatchError, match="no entry for dog"):
        rv.evaluate(model, tmp_path, "clean", class_map={"cat": 7})


def test_imagenet_a_lets_only_its_classes_compete(tmp_path: Path) -> None:
    subset = imagenet_subset("a")
    class_tree(tmp_path / "imagenet-a", list(subset.wnids))
    results = rv.evaluate(BySum(), tmp_path, "imagenet-a")
    assert set(results.models[0].summary) == {"imagenet_a_accuracy"}
    assert results.models[0].cells[0].images == 200
    with pytest.raises(ClassMismatchError, match="not the 200 classes of ImageNet-R"):
        rv.evaluate(BySum(), tmp_path / "imagenet-a", "imagenet-r")


def test_imagenet_c_is_read_from_disk_or_made_in_memory(tmp_path: Path) -> None:
    wnids = list(imagenet_subset("r").wnids[:3])
    made = rv.evaluate(BySum(), class_tree(tmp_path / "val", wnids, side=300), "imagenet-c", size=(224, 224))
    assert made.mean_corruption_error > 0
    for name in rv.corruption_names("common15"):
        for severity in range(1, 6):
            class_tree(tmp_path / "imagenet-c" / name / str(severity), wnids)
    read = rv.evaluate(BySum(), tmp_path, "imagenet-c")
    assert len(read.models[0].cells) == 75
    assert read.models[0].protocol["name"] == "crop"
    assert "retention" not in read.models[0].summary  # there are no clean pictures among the files


def test_cifar_c_arrays_are_measured(model: Any, tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    for name in rv.corruption_names("common15"):
        np.save(tmp_path / f"{name}.npy", generator.integers(0, 255, (15, 32, 32, 3), np.uint8))
    np.save(tmp_path / "labels.npy", np.tile(np.arange(3), 5))
    results = rv.evaluate(model, tmp_path, "cifar10-c")
    assert len(results.models[0].cells) == 75
    assert {c.images for c in results.models[0].cells} == {3}


def test_sequences_give_flip_probabilities(model: Any) -> None:
    results = rv.evaluate(model, Scenes("test", 3), "imagenet-p", protocol="none")
    assert len(results.models[0].cells) == 10
    assert all(0 <= (c.flip_probability or 0) <= 1 for c in results.models[0].cells)
    assert "mean_flip_probability" in results.models[0].summary


def test_wrong_requests_are_refused_before_the_work_starts(model: Any, scenes: Scenes, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no suite 'common'; choose among clean, common15"):
        rv.evaluate(model, scenes, "common")
    with pytest.raises(LayoutError, match="is empty"):
        rv.evaluate(model, tmp_path, "clean")
    with pytest.raises(LayoutError, match=r"lacks gaussian_noise\.npy"):
        rv.evaluate(model, tmp_path, "cifar10-c")
    with pytest.raises(ValueError, match="limit=0 is not possible"):
        rv.evaluate(model, scenes, limit=0)
    with pytest.raises(AttributeError, match="mean_corruption_error was not measured"):
        _ = rv.evaluate(model, scenes, "clean", protocol="none").mean_corruption_error


def test_an_error_beside_the_network_reaches_the_caller(model: Any, scenes: Scenes, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise MemoryError("no room")

    monkeypatch.setattr(classification, "_decode", broken)
    with pytest.raises(MemoryError, match="no room"):
        rv.evaluate(model, scenes, "clean", protocol="none")
