"""Classes and outputs are matched by name where names say it, and a mismatch does not pass for a bad network."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from refusals import refused
from torch import nn

import robustvit as rv
from robustvit.cli.measured import tell_notes
from robustvit.data.samples import ArraySamples
from robustvit.metrics.imagenet_classes import IMAGENET_WNIDS
from robustvit.report.page import render_page
from robustvit.tasks.class_matching import ClassMismatchError, match_classes, read_class_map
from robustvit.tasks.imagenet_names import imagenet_label, look_up


class ByColour(nn.Module):
    """Answers the class whose number is written in the colour of the picture: 256 * green + red."""

    def __init__(self, num_classes: int = 1000, **cfg: Any) -> None:
        super().__init__()
        self.num_classes = num_classes
        self.pretrained_cfg = dict(input_size=(3, 32, 32), mean=(0.0,) * 3, std=(1.0,) * 3, crop_pct=1.0, **cfg)
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        red, green = (255 * self.scale * x[:, :2].mean((2, 3))).round().unbind(1)
        return -((256 * green + red)[:, None] - torch.arange(self.num_classes)).abs()


def save(root: Path, answers: dict[str, int], count: int = 1) -> Path:
    """`root/CLASS/*.png`, to which `ByColour` answers as given."""
    for name, answer in answers.items():
        (root / name).mkdir(parents=True)
        for i in range(count):
            pixels = np.full((32, 32, 3), (answer % 256, answer // 256, i), np.uint8)
            Image.fromarray(pixels).save(root / name / f"{i}.png")
    return root


def test_names_synonyms_and_wordnet_ids_of_imagenet_are_recognised() -> None:
    found = look_up(["tench", "Tinca tinca", "Golden_Retriever", "n01440764", "black-footed ferret", "crayfish", "no such"])
    assert found.found == {
        "tench": 0,
        "Tinca tinca": 0,
        "Golden_Retriever": 207,
        "n01440764": 0,
        "black-footed ferret": 359,
        "crayfish": 124,  # not the spiny lobster, whose synonym it is
    }
    assert found.unknown == ("no such",)
    assert look_up(["crane", "maillot"]).ambiguous == {"crane": (134, 517), "maillot": (638, 639)}
    assert imagenet_label(0) == "tench"
    assert imagenet_label(134) != imagenet_label(517)


def test_folders_with_human_names_are_mapped_to_the_outputs_of_imagenet_networks(tmp_path: Path) -> None:
    answers = {"tench": 0, "golden_retriever": 207, "African grey": 87, "n01443537": 1, "zebra": 3}
    results = rv.evaluate(ByColour(), save(tmp_path, answers), "clean", predictions=True)
    assert results.clean == 0.8  # the zebra looks like class 3
    assert results.data["classes_matched_by"] == "ImageNet's names"
    rows = [row for table in results.predictions for row in table.rows()]
    assert {row["label"]: row["prediction"] for row in rows} == {
        "tench": "tench",
        "golden_retriever": "golden_retriever",
        "African grey": "African grey",
        "goldfish": "goldfish",  # the folder has its WordNet id
        "zebra": "tiger shark",  # an output that no folder has
    }


def test_all_1000_classes_by_name_are_in_imagenets_order_not_in_that_of_the_alphabet() -> None:
    names = [imagenet_label(i) if "(" not in imagenet_label(i) else IMAGENET_WNIDS[i] for i in range(1000)]
    classes = sorted(names)
    targets = match_classes(classes, 1000).targets
    assert [names[target] for target in targets] == classes
    assert targets != tuple(range(1000))


def test_ambiguous_names_are_refused_with_their_candidates_and_a_class_map_to_complete(tmp_path: Path) -> None:
    data = save(tmp_path / "set", {"crane": 134, "tench": 0, "zebra": 340})
    with pytest.raises(ClassMismatchError, match=r"'crane' may be 134 .*wading bird.* or 517") as caught:
        rv.evaluate(ByColour(), data, "clean", output=tmp_path / "out")
    place = tmp_path / "out" / "class_map_template.json"
    assert str(place) in "".join(caught.value.__notes__)
    template = json.loads(place.read_text())
    assert (template["tench"], template["zebra"]) == (0, 340)
    with refused(ValueError, "crane"):
        read_class_map(place)
    place.write_text(json.dumps({**template, "crane": 134}))
    assert rv.evaluate(ByColour(), data, "clean", class_map=place).clean == 1
    with pytest.raises(ClassMismatchError):
        rv.evaluate(ByColour(), data, "clean", output=tmp_path / "out")
    assert json.loads(place.read_text())["crane"] == 134  # what somebody edited is not overwritten


def test_a_network_that_names_its_outputs_is_matched_by_them(tmp_path: Path) -> None:
    network = ByColour(3, label_names=["dog", "cat", "bird"])
    results = rv.evaluate(network, save(tmp_path, {"bird": 2, "cat": 1, "dog": 0}), "clean")
    assert results.clean == 1
    assert results.data["classes_matched_by"] == "the network's label names"


def test_accuracy_at_chance_is_reported_as_a_mismatch_of_classes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = save(tmp_path / "set", {f"c{k}": 9 - k for k in range(10)}, count=3)
    results = rv.evaluate(ByColour(10), data, "clean", output=tmp_path / "out")
    [note] = [note for _, note in results.remarks() if note.kind == "class-mismatch"]
    assert "0 of 30" in note.text
    assert note.text.replace("'", "&#39;") in render_page(results)
    stored = json.loads((tmp_path / "out" / "results.json").read_text())
    assert stored["models"][0]["measurements"][0]["notes"][0]["kind"] == "class-mismatch"
    tell_notes(results, tmp_path / "out")
    assert "class_map_template.json has the classes" in capsys.readouterr().err
    place = tmp_path / "out" / "class_map_template.json"
    assert json.loads(place.read_text()) == {f"c{k}": k for k in range(10)}
    place.write_text(json.dumps({f"c{k}": 9 - k for k in range(10)}))
    mended = rv.evaluate(ByColour(10), data, "clean", class_map=place)
    assert mended.clean == 1
    assert [note.kind for _, note in mended.remarks()] == []


def test_the_class_map_to_be_edited_is_of_this_run_and_told_only_where_it_is(tmp_path: Path) -> None:
    data = save(tmp_path / "set", {f"c{k}": 9 - k for k in range(10)}, count=3)
    [(_, without)] = rv.evaluate(ByColour(10), data, "clean").remarks()
    assert without.kind == "class-mismatch"
    assert "template" not in without.text + without.file
    out = tmp_path / "out"
    out.mkdir()
    (out / "class_map_template.json").write_text('{"cat": 3}')  # of another dataset
    results = rv.evaluate(ByColour(10), data, "clean", output=out)
    [(_, note)] = results.remarks()
    assert json.loads((out / note.file).read_text()) == {f"c{k}": k for k in range(10)}
    assert (out / "class_map_template.json").read_text() == '{"cat": 3}'
    assert note.file in (out / "report.html").read_text()
    (out / note.file).unlink()
    resumed = rv.evaluate(ByColour(10), data, "clean", output=out, resume=True)
    assert resumed.remarks() == results.remarks()
    assert (out / note.file).is_file()


def unnamed(count: int, answer: int) -> ArraySamples:
    images = np.full((count, 32, 32, 3), (answer % 256, answer // 256, 0), np.uint8)
    return ArraySamples(images, [(answer + 1) % 1000] * count, "unnamed")


def test_without_names_of_classes_no_class_map_is_offered(tmp_path: Path) -> None:
    [(_, note)] = rv.evaluate(ByColour(), unnamed(100, 207), "clean", output=tmp_path, examples=0).remarks()
    assert note.kind == "class-mismatch"
    assert "class map" not in note.text.lower()
    assert not note.file
    assert not list(tmp_path.glob("class_map*"))


def test_an_untrained_network_is_called_that_and_no_mismatch(tmp_path: Path) -> None:
    data = save(tmp_path / "set", {f"c{k}": 9 - k for k in range(10)}, count=3)
    network = ByColour(10)
    network.is_untrained = True
    results = rv.evaluate(network, data, "clean", output=tmp_path / "out")
    [(_, note)] = results.remarks()
    assert note.kind == "untrained"
    assert note.text.replace("'", "&#39;") in render_page(results)
    assert not list((tmp_path / "out").glob("class_map*"))


def test_answers_of_imagenet_networks_have_imagenets_names_where_the_images_have_none() -> None:
    results = rv.evaluate(ByColour(), unnamed(2, 207), "clean", predictions=True)
    row = next(results.predictions[0].rows())
    assert (row["prediction"], row["label"]) == (imagenet_label(207), imagenet_label(208))
    assert results.models[0].examples[0].pictures[0].answer == imagenet_label(207)
    own = rv.evaluate(ByColour(label_names=[f"mine {i}" for i in range(1000)]), unnamed(2, 207), "clean", predictions=True)
    assert next(own.predictions[0].rows())["prediction"] == "mine 207"
