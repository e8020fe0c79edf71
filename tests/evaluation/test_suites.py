"""Every suite measures what it says, on files in the published layout whose answers are known."""

from __future__ import annotations

import json
import re
from pathlib import Path

import av
import numpy as np
import pytest
import torch
from grey_network import ByGrey, grey, save_classes
from PIL import Image
from refusals import refused
from torch import nn

import robustvit as rv
from robustvit.cli import main
from robustvit.corruptions.sequences import SEQUENCES
from robustvit.data.layouts import LayoutError
from robustvit.data.scenes.dataset import Scenes
from robustvit.evaluation.suites.imagenet_p import film_kinds
from robustvit.evaluation.suites.registry import SUITES
from robustvit.metrics.class_subset import imagenet_subset
from robustvit.tasks.class_matching import ClassMismatchError

RIGHT = {f"c{k}": k for k in range(10)}
HALF = {**RIGHT, **{f"c{k}": 9 for k in range(5)}}


@pytest.fixture(scope="module")
def imagenet_c(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """val/ with right answers only, imagenet-c/ with all right but for fog: half of them."""
    root = tmp_path_factory.mktemp("sets")
    save_classes(root / "val", RIGHT)
    for name in rv.corruption_names("common15"):
        for severity in range(1, 6):
            save_classes(root / "imagenet-c" / name / str(severity), HALF if name == "fog" else RIGHT)
    return root


def test_imagenet_c_on_disk_gives_a_cell_for_every_folder(imagenet_c: Path) -> None:
    model = rv.evaluate(ByGrey(), imagenet_c, "imagenet-c").models[0]
    assert len(model.cells) == 75
    assert all(c.accuracy and c.accuracy.value == (0.5 if c.condition == "fog" else 1.0) for c in model.cells)
    assert model.protocol["name"] == "crop"
    assert model.protocol["ignore_orientation"], "as the published numbers were made"
    assert model.measurements[0].data["origin"] == "files on disk"
    assert model.measurements[0].corruption == {}
    assert "retention" not in model.summary  # there are no clean images among the files


def test_clean_images_beside_imagenet_c_give_retention(imagenet_c: Path) -> None:
    model = rv.evaluate(ByGrey(), imagenet_c, ["clean", "imagenet-c"]).models[0]
    mean = (14 + 0.5) / 15
    assert model.summary["clean_accuracy"].value == 1.0
    assert model.summary["mean_accuracy"].value == pytest.approx(mean)
    assert model.summary["retention"].value == pytest.approx(mean)
    assert [m.suites for m in model.measurements] == [("clean",), ("imagenet-c",)]
    assert [m.protocol["name"] for m in model.measurements] == ["model", "crop"]


def test_a_subset_of_a_suite_of_files_has_the_same_images_in_every_cell(tmp_path: Path) -> None:
    for name in rv.corruption_names("common15"):
        for severity in range(1, 6):
            folder = save_classes(tmp_path / name / str(severity), RIGHT)
            Image.fromarray(grey(3)).save(folder / "c3" / "b.png")
    (tmp_path / "snow" / "2" / "c3" / "b.png").unlink()  # cells need not have the same number of files
    results = rv.evaluate(ByGrey(), tmp_path, "imagenet-c", limit=4)
    assert {cell.images for cell in results.models[0].cells} == {4}


def test_a_folder_that_is_no_imagenet_c_is_not_replaced_in_silence(tmp_path: Path) -> None:
    save_classes(tmp_path / "val", RIGHT)
    save_classes(tmp_path / "imagenet-c" / "oddity", RIGHT)
    with refused(LayoutError, "ImageNet-C", "CORRUPTION/SEVERITY/CLASS"):
        rv.evaluate(ByGrey(), tmp_path, "imagenet-c")


def test_imagenet_c_made_in_memory_passes_through_jpeg_unless_told_not_to(tmp_path: Path) -> None:
    save_classes(tmp_path, RIGHT, side=80)
    published, plain = (rv.evaluate(ByGrey(side=64), tmp_path, "imagenet-c", jpeg=jpeg, limit=2) for jpeg in (True, False))
    assert "quality 85" in published.models[0].measurements[0].corruption["jpeg"]
    assert plain.models[0].measurements[0].corruption["jpeg"] == "no"
    assert published.models[0].protocol["short_side"] == round(64 * 256 / 224)
    assert rv.evaluate(ByGrey(side=64), tmp_path, "noise", limit=2).models[0].measurements[0].corruption["jpeg"] == "no"


def test_images_that_do_not_fit_are_refused_before_the_work(imagenet_c: Path) -> None:
    with refused(ValueError, "crop", "imagenet-c", "--protocol model"):
        rv.evaluate(ByGrey(side=48), imagenet_c, "imagenet-c")
    resized = rv.evaluate(ByGrey(side=48), imagenet_c, "imagenet-c", protocol="model")
    assert resized.models[0].protocol["name"] == "model"


@pytest.mark.parametrize("kind", ["a", "r"])
def test_only_the_200_classes_of_the_set_compete(kind: str, tmp_path: Path) -> None:
    subset = imagenet_subset(kind)  # type: ignore[arg-type]
    network = ByGrey(1000)
    levels = [round(255 * index / 999) for index in subset.indices]
    for wnid, level in zip(subset.wnids, levels, strict=True):
        (tmp_path / f"imagenet-{kind}" / wnid).mkdir(parents=True)
        Image.fromarray(np.full((32, 32, 3), level, np.uint8)).save(tmp_path / f"imagenet-{kind}" / wnid / "a.png")
    results = rv.evaluate(network, tmp_path, f"imagenet-{kind}")
    assert results.models[0].protocol["ignore_orientation"], "as the published numbers were made"
    centres, kept = np.linspace(0, 1, 1000), np.array(subset.indices)
    nearest = [np.abs(centres[kept] - level / 255).argmin() for level in levels]
    expected = np.mean(np.array(nearest) == np.arange(200))
    assert results.models[0].summary[f"imagenet_{kind}_accuracy"].value == pytest.approx(expected)
    assert results.models[0].accuracy("clean", suite=f"imagenet-{kind}") == pytest.approx(expected)
    with pytest.raises(KeyError):
        results.models[0].accuracy("clean")
    with pytest.raises(ClassMismatchError, match="class map cannot change"):
        rv.evaluate(network, tmp_path, f"imagenet-{kind}", class_map=dict.fromkeys(subset.wnids, 0))


def save_cifar_c(root: Path, classes: int) -> Path:
    """All right but for contrast at severity 5: none."""
    root.mkdir(parents=True)
    right = np.stack([grey(k, classes=classes) for k in range(classes)])
    for name in rv.corruption_names("common15"):
        last = np.full_like(right, 255 if name == "contrast" else 0)
        last[-1] = 0 if name == "contrast" else 255
        np.save(root / f"{name}.npy", np.concatenate([right] * 4 + [last if name == "contrast" else right]))
    np.save(root / "labels.npy", np.tile(np.arange(classes), 5))
    return root


@pytest.mark.parametrize(("suite", "folder", "classes"), [("cifar10-c", "CIFAR-10-C", 10), ("cifar100-c", "CIFAR-100-C", 100)])
def test_cifar_c_is_read_and_not_divided_by_alexnet(suite: str, folder: str, classes: int, tmp_path: Path) -> None:
    save_cifar_c(tmp_path / folder, classes)
    model = rv.evaluate(ByGrey(classes), tmp_path, suite).models[0]
    assert model.accuracy("contrast", 4) == 1
    assert model.accuracy("contrast", 5) == 0
    assert model.summary["mean_accuracy"].value == pytest.approx(74 / 75)
    assert not any("corruption_error" in name for name in model.summary)
    assert model.measurements[0].corruption_errors == {}


def test_cifar_c_needs_a_network_with_as_many_outputs(tmp_path: Path) -> None:
    save_cifar_c(tmp_path / "CIFAR-100-C", 100)
    with pytest.raises(ClassMismatchError, match=r"100 classes .* 10 outputs"):
        rv.evaluate(ByGrey(10), tmp_path, "cifar100-c")


def test_all_19_corruptions_and_every_group_can_be_asked_for_at_once(tmp_path: Path) -> None:
    save_classes(tmp_path, RIGHT)
    model = rv.evaluate(ByGrey(), tmp_path, ["extra4", "noise", "patches"], limit=2).models[0]
    by_suite = {cell.condition: cell.suite for cell in model.cells}
    assert by_suite["clean"] == "clean"
    assert by_suite["spatter"] == "extra4"
    assert by_suite["shot_noise"] == "noise"
    assert by_suite["patches"] == "patches"
    everything = rv.evaluate(ByGrey(), tmp_path, "all19", limit=2).models[0]
    assert len(everything.cells) == 1 + 19 * 5
    assert everything.summary["retention"].value == pytest.approx(
        everything.summary["mean_accuracy_15"].value / everything.summary["clean_accuracy"].value
    )
    assert everything.measurements[0].corruption_errors == {}, "AlexNet's errors are of ImageNet-C's 1000 classes"


def test_a_second_suite_keeps_its_own_numbers(tmp_path: Path) -> None:
    save_classes(tmp_path, RIGHT, side=80)
    model = rv.evaluate(ByGrey(side=64), tmp_path, ["common15", "imagenet-c"], limit=2).models[0]
    first, second = (m.summary["mean_accuracy_15"] for m in model.measurements)
    assert model.summary["mean_accuracy_15"] == first
    assert model.summary["mean_accuracy_15 (imagenet-c)"] == second
    assert "mean_corruption_error" not in model.summary, "AlexNet's errors are of ImageNet-C's 1000 classes"
    assert {c.suite for c in model.cells} == {"clean", "common15", "imagenet-c"}


@pytest.mark.parametrize("side", [32, 60, 130, 222])
def test_patches_divide_images_of_any_usual_size(side: int, tmp_path: Path) -> None:
    save_classes(tmp_path, {"c0": 0, "c1": 1}, side)
    model = rv.evaluate(ByGrey(2, side), tmp_path, "patches").models[0]
    assert side % model.measurements[0].corruption["patch"] == 0
    assert model.summary["patches_accuracy"].value <= 1


class Restless(nn.Module):
    """Answers with the parity of how many frames it has seen: flips at every frame."""

    num_classes = 10
    pretrained_cfg = ByGrey().pretrained_cfg

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))
        self.seen = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parity = (torch.arange(len(x)) + self.seen) % 2
        self.seen += len(x)
        return torch.eye(10)[parity]


def test_flips_are_counted_along_films() -> None:
    calm = rv.evaluate(ByGrey(2), Scenes("test", 2), "imagenet-p", class_map=dict.fromkeys(Scenes("test", 1).classes, 0))
    assert len(calm.models[0].cells) == 10
    assert {"spatter", "gaussian_noise"} <= {c.condition for c in calm.models[0].cells}  # CIFAR-P has no snow
    restless = rv.evaluate(Restless(), Scenes("test", 1), "imagenet-p").models[0]
    flips = {c.condition: c.flip_probability for c in restless.cells}
    assert flips["rotate"] == 1  # every frame differs from the one before
    frames = SEQUENCES["gaussian_noise"].frames("cifar")
    assert flips["gaussian_noise"] == pytest.approx((frames // 2) / (frames - 1))  # every second from the first
    assert restless.summary["mean_top5_distance"].value > 0


def save_film(path: Path, levels: list[int]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate=10)
        stream.width = stream.height = 224
        for level in levels:
            frame = av.VideoFrame.from_ndarray(np.full((224, 224, 3), level, np.uint8), format="rgb24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode())


def save_imagenet_p(root: Path) -> None:
    """A film of each kind; the answer changes at every frame of the one that rotates."""
    for kind in film_kinds("imagenet"):
        group = "noise" if "noise" in kind else "blur"
        levels = [0, 255, 0, 255, 0] if kind == "rotate" else [0] * 5
        save_film(root / "imagenet-p" / group / kind / "n01" / "a.mp4", levels)


def test_mfr_is_marked_as_unconfirmed_in_terminal_report_and_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "140")
    save_imagenet_p(tmp_path)
    line = ["eval", "resnet10t", "--untrained", "--num-classes", "10", "--img-size", "224", "224", "--data", str(tmp_path)]
    assert main([*line, "--suite", "imagenet-p", "--output", str(tmp_path / "out")]) == 0
    assert "mFR (AlexNet = 100 %, unconfirmed)" in capsys.readouterr().out
    shown = re.sub(r"<[^>]*>", " ", (tmp_path / "out" / "report.html").read_text())
    named = [shown[found.start() : found.start() + 60] for found in re.finditer(r"\bmFR\b", shown)]
    assert len(named) > 3
    assert [words for words in named if "unconfirmed" not in words and not words.startswith("mFR in papers")] == []
    stored = json.loads((tmp_path / "out" / "results.json").read_text())
    assert "Unconfirmed" in stored["measures"]["mean_flip_rate"]["meaning"]
    assert "to be confirmed" in stored["models"][0]["measurements"][0]["corruption"]["flip_rates_divided_by"]


def test_films_on_disk_are_read(tmp_path: Path) -> None:
    save_imagenet_p(tmp_path)
    model = rv.evaluate(ByGrey(side=224), tmp_path, "imagenet-p").models[0]
    flips = {c.condition: c.flip_probability for c in model.cells}
    assert flips == {**dict.fromkeys(flips, 0.0), "rotate": 1.0}
    assert model.summary["mean_flip_rate"].value == pytest.approx(1 / 0.1310 / 10)
    assert model.measurements[0].data["origin"] == "films on disk"
    assert "AlexNet" in model.measurements[0].corruption["flip_rates_divided_by"]
    (tmp_path / "imagenet-p" / "blur" / "tilt" / "n01" / "a.mp4").write_bytes(b"no film")
    with pytest.raises(ValueError, match="imagenet-p"):
        rv.evaluate(ByGrey(side=224), tmp_path, "imagenet-p")


def test_the_docs_list_every_suite_with_its_summary() -> None:
    page = (Path(__file__).parents[2] / "docs" / "evaluating.md").read_text()
    missing = [name for name in SUITES if f"| `{name}` | {SUITES[name].summary} |" not in page]
    assert not missing
