"""Segmentation through the same commands as classification: trained, measured, resumed, in intervals and per class."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from refusals import refused

import robustvit as rv
from robustvit.cli import main
from robustvit.corruptions.conditions import CLEAN
from robustvit.data.map_layouts import open_maps
from robustvit.data.normalisation import Normalisation
from robustvit.evaluation.suites.registry import suite_named
from robustvit.evaluation.suites.sixteen_corruptions import GROUPS
from robustvit.metrics.iou import mean_iou
from robustvit.metrics.mean_accuracy import mean_accuracy_of
from robustvit.models.dense import Initialised
from robustvit.runtime.weights import read_weights
from robustvit.tasks.class_matching import ClassMismatchError
from robustvit.tasks.segmentation import Segmentation
from robustvit.tasks.tallies import Tallies
from robustvit.tasks.windows import Inference
from robustvit.training.config_io import ConfigError, load_config
from robustvit.training.metrics_log import read_metrics
from robustvit.training.networks import initialisation_notes
from robustvit.training.train import train

PROTOCOLS = json.loads((Path(__file__).parents[1] / "reference" / "dense" / "protocols.json").read_text())["cityscapes_c"]
CLASSES = 11


@pytest.fixture(scope="module")
def segmenter() -> torch.nn.Module:
    torch.manual_seed(0)
    return rv.create_model("fan_hybrid_nano/segformer", num_classes=CLASSES, img_size=64).eval()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Scenes of two sizes as a plain folder of images and label maps."""
    root = tmp_path_factory.mktemp("maps")
    for kind in ("images", "labels"):
        (root / kind / "val").mkdir(parents=True)
    for size in ((64, 96), (64, 64)):
        for i, sample in enumerate(open_maps("scenes-easy:3", scene_size=size)):
            sample.open().save(root / "images" / "val" / f"{size[1]}_{i}.png")
            Image.fromarray(sample.target()).save(root / "labels" / "val" / f"{size[1]}_{i}.png")
    names = open_maps("scenes:1").classes
    (root / "classes.json").write_text(json.dumps({"classes": [{"name": name} for name in names]}))
    return root


def test_the_numbers_are_those_of_all_pixels_together(segmenter: torch.nn.Module, folder: Path) -> None:
    results = rv.evaluate(segmenter, folder, suite="clean", batch_size=4)
    task = Segmentation(classes=tuple(map(str, range(CLASSES))))
    normalisation = Normalisation.of(segmenter)
    counts = []
    for sample in open_maps(folder):
        image = torch.from_numpy(np.array(sample.open())).permute(2, 0, 1)[None]
        (prediction,) = task.predict_images(segmenter, image, normalisation)
        assert prediction.shape == sample.target().shape
        counts.append(list(task.tally(prediction, sample.target()).values()))
    expected = float(mean_iou(*np.sum(counts, axis=0)))
    value = results.models[0].summary["clean_miou"]
    assert value.value == pytest.approx(expected, abs=1e-9)
    assert value.low <= value.value <= value.high


def test_images_of_several_sizes_share_a_run_and_batches_change_nothing(segmenter: torch.nn.Module, folder: Path) -> None:
    options = dict(suite=["clean", "fog"], severity=3)
    alone, together = (rv.evaluate(segmenter, folder, batch_size=size, **options) for size in (1, 6))
    for one, other in zip(alone.models[0].cells, together.models[0].cells, strict=True):
        assert one.values["miou"].value == pytest.approx(other.values["miou"].value, abs=1e-6)


def test_every_class_has_its_iou(segmenter: torch.nn.Module, folder: Path) -> None:
    measured = rv.evaluate(segmenter, folder, suite=["clean", "fog"], severity=3).models[0].measurements[0]
    ious = [entry.clean for entry in measured.class_accuracies]
    assert [entry.name for entry in measured.class_accuracies] == list(open_maps("scenes:1").classes)
    known = [value for value in ious if value is not None]
    assert np.mean(known) == pytest.approx(measured.summary["clean_miou"].value)


def test_windows_are_part_of_the_result(segmenter: torch.nn.Module, folder: Path) -> None:
    task = Segmentation(inference=Inference(window=(32, 32)))
    results = rv.evaluate(segmenter, folder, suite="clean", task=task)
    assert results.data["inference"]["window"] == (32, 32)
    whole = rv.evaluate(segmenter, folder, suite="clean")
    assert results.models[0].summary["clean_miou"] != whole.models[0].summary["clean_miou"]


def test_a_network_with_other_classes_is_refused(folder: Path) -> None:
    network = rv.create_model("fan_hybrid_nano/segformer", num_classes=4)
    with refused(ClassMismatchError, "4", "11"):
        rv.evaluate(network, folder, suite="clean")


@pytest.mark.parametrize("suite", ["imagenet-a", "cifar10-c", "patches"])
def test_suites_of_classifiers_are_refused(segmenter: torch.nn.Module, folder: Path, suite: str) -> None:
    with refused(ValueError, suite, "segmentation"):
        rv.evaluate(segmenter, folder, suite=suite)


@pytest.mark.parametrize(("suite", "protocol"), [("", "kamann"), ("-all5", "all5"), ("-first3", "first3")])
def test_protocols_of_cityscapes_c_average_as_published(suite: str, protocol: str) -> None:
    cells = [CLEAN, *suite_named(f"cityscapes-c{suite}").conditions(range(1, 6))]
    table = PROTOCOLS["table"]
    scores = np.array([PROTOCOLS["clean"] if cell == CLEAN else table[cell.name][cell.severity - 1] for cell in cells])
    corruptions = [name for names in GROUPS.values() for name in names]
    assert float(mean_accuracy_of(cells, corruptions)(scores)) == pytest.approx(PROTOCOLS[protocol]["mean"], abs=1e-5)
    for group, names in GROUPS.items():
        assert float(mean_accuracy_of(cells, names)(scores)) == pytest.approx(PROTOCOLS[protocol]["groups"][group], abs=1e-5)


def test_tallies_of_some_images_counted_twice_are_those_of_the_repeated_images() -> None:
    random = np.random.default_rng(0)
    task = Segmentation(classes=("a", "b", "c"))
    maps = [(random.integers(0, 3, (5, 7)), random.integers(0, 3, (5, 7))) for _ in range(4)]
    tallies = Tallies.stack([task.tally(*pair) for pair in maps])
    counts = np.array([[2, 0, 1, 1]])
    repeated = Tallies.stack([task.tally(*maps[i]) for i in (0, 0, 2, 3)])
    for key, value in task.score(tallies, counts).items():
        assert value[0] == pytest.approx(task.scores(repeated)[key])


CHANGES = [
    "task=segmentation",
    "model.name=fan_hybrid_nano/segformer",
    "model.img_size=32",
    "data.train=scenes-easy:16",
    "data.val=scenes-easy:8",
    "loss.smoothing=0",
    "loop.batch_size=8",
    "loop.device=cpu",
    "schedule.epochs=2",
    "schedule.warmup_epochs=0",
]


def test_the_loss_of_a_run_has_the_divisor_that_was_chosen(tmp_path: Path) -> None:
    padded = ["augment.crop=scene", "augment.ratio_range=[0.5, 0.5]", "augment.cat_max_ratio=1"]  # a quarter has labels
    changes = [*CHANGES, *padded, "loop.log_every=1", "loop.max_updates=1", "data.val="]
    for divisor in ("all", "counted"):
        train(load_config(None, [*changes, f"loss.divisor={divisor}"]), tmp_path / divisor)
    all_pixels, counted = (read_metrics(tmp_path / name / "metrics.jsonl")[0]["loss"] for name in ("all", "counted"))
    assert all_pixels == pytest.approx(counted / 4, rel=1e-5)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (["loss.divisor=some"], ("loss.divisor", "some", "counted")),
        (["task=classification", "model.name=vit_nano", "loss.divisor=counted"], ("loss.divisor", "classification")),
    ],
)
def test_another_divisor_is_refused_before_the_work(change: list[str], named: tuple[str, ...], tmp_path: Path) -> None:
    with refused(ConfigError, *named):
        train(load_config(None, [*CHANGES, *change]), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_run_says_what_the_weights_of_its_backbone_lacked_and_had_besides(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torch.save(rv.create_model("fan_hybrid_nano", num_classes=10).state_dict(), tmp_path / "classifier.pth")
    start = [f"model.options={{backbone_weights: {tmp_path / 'classifier.pth'}}}", "model.tap=4", "loop.max_updates=1"]
    changes = [part for change in (*CHANGES, *start, "data.val=") for part in ("--set", change)]
    assert main(["train", *changes, "--output", str(tmp_path / "run")]) == 0
    network = rv.create_model("fan_hybrid_nano/segformer", backbone_weights=tmp_path / "classifier.pth", tap=4)
    missing, unused = network.initialised
    assert len(missing) > 3
    assert len(unused) > 3
    (note,) = [note for note in json.loads((tmp_path / "run" / "summary.json").read_text())["notes"] if "backbone" in note]
    for names in (missing, unused):
        assert f"{len(names)} ({names[0]}, {names[1]}, {names[2]} and {len(names) - 3} more)" in note
    assert note in capsys.readouterr().err


@pytest.mark.parametrize(
    ("initialised", "told"),
    [(Initialised(("a", "b"), ()), ("2 (a, b)", "none")), (Initialised((), ("c",)), ("none", "1 (c)")), (None, ())],
)
def test_few_names_are_all_said_and_without_given_weights_none(initialised: Initialised | None, told: tuple[str, ...]) -> None:
    network = torch.nn.Module()
    network.initialised = initialised
    notes = initialisation_notes(network)
    assert len(notes) == bool(told)
    assert all(text in note for note in notes for text in told)


def test_a_segmenter_is_trained_resumed_bit_for_bit_and_measured_from_its_folder(tmp_path: Path) -> None:
    result = train(load_config(None, CHANGES), tmp_path / "whole")
    train(load_config(None, [*CHANGES, "loop.max_updates=3"]), tmp_path / "parts")
    train(load_config(None, CHANGES), tmp_path / "parts", resume=True)
    one, other = (read_weights(tmp_path / run / "weights" / "model.safetensors") for run in ("whole", "parts"))
    assert all(torch.equal(one[name], other[name]) for name in one)
    network = rv.create_model(f"local-dir:{tmp_path / 'whole' / 'weights'}", pretrained=True)
    measured = rv.evaluate(network, "scenes-easy:8", suite="clean")
    assert measured.task == "segmentation"
    assert 0 <= result.score <= 1
