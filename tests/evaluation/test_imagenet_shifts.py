"""ImageNet-Sketch by its WordNet ids, ImageNet-V2 by its numbers: on disk, through Python and the command line."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from grey_network import ByGrey
from PIL import Image
from refusals import refused
from safetensors.torch import save_file

import robustvit as rv
from robustvit.cli import main
from robustvit.data.layouts import LayoutError
from robustvit.metrics.imagenet_classes import IMAGENET_WNIDS
from robustvit.tasks.class_matching import ClassMismatchError

LEVELS = (0, 1, 3, 26, 255)
NUMBERS = tuple(round(999 * level / 255) for level in LEVELS)
"""0, 4, 12, 102 and 999: sorted as text, 0, 102, 12, 4, 999."""


def _save(root: Path, folders: tuple[str, ...], levels: tuple[int, ...] = LEVELS) -> Path:
    for folder, level in zip(folders, levels, strict=True):
        (root / folder).mkdir(parents=True)
        Image.fromarray(np.full((32, 32, 3), level, np.uint8)).save(root / folder / "a.jpeg", quality=100)
    return root


def _v2(root: Path, levels: tuple[int, ...] = LEVELS) -> Path:
    return _save(root, tuple(map(str, NUMBERS)), levels)


def test_a_folder_of_imagenet_v2_is_the_number_of_its_class(tmp_path: Path) -> None:
    _v2(tmp_path / "imagenetv2-matched-frequency-format-val")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nothing to say about the order of the folders
        model = rv.evaluate(ByGrey(1000), tmp_path, "imagenet-v2").models[0]
    assert model.summary["imagenet_v2_accuracy"].value == 1
    assert model.accuracy("clean", suite="imagenet-v2") == 1
    assert model.protocol["ignore_orientation"], "as the published numbers were made"
    assert not any("order" in note.title.lower() for note in model.measurements[0].notes)


def test_all_1000_folders_are_in_numeric_order_and_not_in_that_of_their_text(tmp_path: Path) -> None:
    levels = [round(255 * number / 999) for number in range(1000)]
    for number, level in enumerate(levels):
        (tmp_path / str(number)).mkdir()
        Image.fromarray(np.full((32, 32, 3), level, np.uint8)).save(tmp_path / str(number) / "a.png")
    answers = [round(999 * level / 255) for level in levels]  # of `ByGrey`: one of the three or four classes of a level
    expected = np.mean([answer == number for number, answer in enumerate(answers)])
    model = rv.evaluate(ByGrey(1000), tmp_path, "imagenet-v2", examples=0, batch_size=250).models[0]
    assert model.summary["imagenet_v2_accuracy"].value == pytest.approx(expected)
    as_text = sorted(map(str, range(1000)))
    mismatched = np.mean([answer == as_text.index(str(number)) for number, answer in enumerate(answers)])
    assert expected > 0.25 > 0.01 > mismatched


def test_wrong_images_count_as_wrong_and_a_limit_keeps_the_numbers(tmp_path: Path) -> None:
    _v2(tmp_path, (*LEVELS[:-1], 0))  # the last one shows class 0
    results = rv.evaluate(ByGrey(1000), tmp_path, "imagenet-v2")
    assert results.models[0].summary["imagenet_v2_accuracy"].value == pytest.approx(4 / 5)
    limited = rv.evaluate(ByGrey(1000), _v2(tmp_path / "imagenet-v2"), "imagenet-v2", limit=2)
    assert limited.models[0].cells[0].images == 2
    assert limited.models[0].summary["imagenet_v2_accuracy"].value == 1


def test_a_network_that_names_its_outputs_by_wordnet_ids_is_matched(tmp_path: Path) -> None:
    network = ByGrey(1000)
    network.pretrained_cfg["label_names"] = list(reversed(IMAGENET_WNIDS))  # output k is class 999 - k
    _save(tmp_path, tuple(str(999 - number) for number in NUMBERS))
    assert rv.evaluate(network, tmp_path, "imagenet-v2").models[0].summary["imagenet_v2_accuracy"].value == 1
    with pytest.raises(ClassMismatchError):
        rv.evaluate(ByGrey(10), tmp_path, "imagenet-v2")


def test_of_three_sets_matched_frequency_is_measured_or_the_user_is_asked(tmp_path: Path) -> None:
    for name in ("imagenetv2-matched-frequency-format-val", "imagenetv2-threshold0.7-format-val"):
        _v2(tmp_path / "both" / name)
    model = rv.evaluate(ByGrey(1000), tmp_path / "both", "imagenet-v2").models[0]
    assert "matched-frequency" in model.measurements[0].data["name"]
    for name in ("imagenetv2-top-images-format-val", "imagenetv2-threshold0.7-format-val"):
        _v2(tmp_path / "other" / name)
    with refused(LayoutError, "several sets", "top-images", "give the folder"):
        rv.evaluate(ByGrey(1000), tmp_path / "other", "imagenet-v2")


@pytest.mark.parametrize(("odd", "told"), [("n01440764", "NUMBER"), ("007", "'007'"), ("1000", "0 to 999")])
def test_folders_that_are_no_numbers_of_classes_are_refused(odd: str, told: str, tmp_path: Path) -> None:
    _save(tmp_path, ("0", odd), (0, 1))
    with refused(LayoutError, told, "ImageNet-V2"):
        rv.evaluate(ByGrey(1000), tmp_path, "imagenet-v2")


def test_imagenet_v2_needs_its_files() -> None:
    with refused(ValueError, "imagenet-v2", "folder"):
        rv.evaluate(ByGrey(1000), "scenes:4", "imagenet-v2")


def test_imagenet_sketch_is_read_by_its_wordnet_ids(tmp_path: Path) -> None:
    wnids = tuple(IMAGENET_WNIDS[number] for number in NUMBERS)
    _save(tmp_path / "val", wnids, (*LEVELS[:-1], 0))
    _save(tmp_path / "ImageNet-Sketch", wnids)
    model = rv.evaluate(ByGrey(1000), tmp_path, ["clean", "imagenet-sketch"]).models[0]
    assert model.summary["imagenet_sketch_accuracy"].value == 1
    assert model.summary["clean_accuracy"].value == pytest.approx(4 / 5), "its folder is not a class beside val"
    assert model.measurements[1].protocol["ignore_orientation"]


def test_other_images_are_not_taken_for_imagenet_sketch(tmp_path: Path) -> None:
    _save(tmp_path / "val", tuple(IMAGENET_WNIDS[number] for number in NUMBERS))
    with refused(LayoutError, "no folder imagenet-sketch", "CLASS/IMAGE.JPEG"):
        rv.evaluate(ByGrey(1000), tmp_path, ["clean", "imagenet-sketch"])
    with refused(LayoutError, "no folder imagenet-sketch", "CLASS/IMAGE.JPEG"):
        rv.evaluate(ByGrey(1000), tmp_path / "val", "imagenet-sketch")
    with refused(LayoutError, "10 classes", "the 1000 of ImageNet"):
        rv.evaluate(ByGrey(10), "scenes:4", "imagenet-sketch")


@pytest.mark.parametrize("place", ["sketch", "imagenet-sketch/val", "ImageNet-Sketch"])
def test_imagenet_sketch_is_found_where_people_keep_it(place: str, tmp_path: Path) -> None:
    _save(tmp_path / place, tuple(IMAGENET_WNIDS[number] for number in NUMBERS))
    for data in {tmp_path, tmp_path / place, tmp_path / place.split("/")[0]}:
        model = rv.evaluate(ByGrey(1000), data, "imagenet-sketch").models[0]
        assert model.summary["imagenet_sketch_accuracy"].value == 1


def test_a_class_map_says_what_folders_of_imagenet_sketch_are(tmp_path: Path) -> None:
    names = [f"class {number}" for number in NUMBERS]
    _save(tmp_path / "drawings", tuple(names))
    with refused(LayoutError, "5 classes", "class map"):
        rv.evaluate(ByGrey(1000), tmp_path / "drawings", "imagenet-sketch")
    mapped = dict(zip(names, NUMBERS, strict=True))
    model = rv.evaluate(ByGrey(1000), tmp_path / "drawings", "imagenet-sketch", class_map=mapped).models[0]
    assert model.summary["imagenet_sketch_accuracy"].value == 1


def test_the_command_measures_both(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    torch.manual_seed(0)
    save_file(rv.create_model("vit_pico", num_classes=1000).state_dict(), tmp_path / "w.safetensors")
    _v2(tmp_path / "sets" / "imagenet-v2")
    _save(tmp_path / "sets" / "imagenet-sketch", tuple(IMAGENET_WNIDS[number] for number in NUMBERS))
    out = tmp_path / "out"
    line = ["eval", f"vit_pico={tmp_path / 'w.safetensors'}", "--num-classes", "1000", "--data", str(tmp_path / "sets")]
    assert main([*line, "--suite", "imagenet-v2", "imagenet-sketch", "--output", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "ImageNet-V2 accuracy" in printed
    assert "ImageNet-Sketch accuracy" in printed
    stored = json.loads((out / "results.json").read_text())["models"][0]["summary"]
    assert {"imagenet_v2_accuracy", "imagenet_sketch_accuracy"} <= stored.keys()
