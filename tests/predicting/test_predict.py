"""What a network says about images becomes files that are whole, named like the images, and of one run."""

from __future__ import annotations

import csv
import json
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from refusals import refused

import robustvit as rv
from robustvit.corruptions.conditions import Condition
from robustvit.data.map_layouts import open_maps
from robustvit.data.normalisation import Normalisation
from robustvit.data.readers.cityscapes_classes import CITYSCAPES
from robustvit.data.samples import Sample, UnreadablePictureError
from robustvit.evaluation.unfinished import FinishedRunError, ForeignFileError, UnfinishedRunError
from robustvit.predicting import predict as predicting
from robustvit.predicting.films import write_film
from robustvit.predicting.result import Predicted
from robustvit.tasks.class_form import ClassForm
from robustvit.tasks.map_form import MapForm
from robustvit.tasks.segmentation import Segmentation
from robustvit.tasks.windows import Inference

SIZES = ((40, 56), (32, 48), (40, 56), (48, 33))


@pytest.fixture(scope="module")
def segmenter() -> Any:
    torch.manual_seed(0)
    return rv.create_model("fan_hybrid_nano/segformer", num_classes=19).eval()


@pytest.fixture(scope="module")
def classifier() -> Any:
    torch.manual_seed(0)
    return rv.create_model("vit_pico", num_classes=10).eval()


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """Four images, two of them in a folder below."""
    root = tmp_path / "images"
    (root / "street/left").mkdir(parents=True)
    generator = np.random.default_rng(0)
    for i, (H, W) in enumerate(SIZES):
        place = root / ("street/left" if i % 2 else "")
        Image.fromarray(generator.integers(0, 256, (H, W, 3), np.uint8)).save(place / f"{i}.png")
    return root


def table(folder: Path) -> list[dict[str, str]]:
    with (folder / "predictions.csv").open(newline="") as stream:
        return list(csv.DictReader(stream))


def files(folder: Path) -> dict[str, bytes]:
    """All files but for what says when they were made."""
    found = (path for path in folder.rglob("*") if path.is_file() and path.name != "predictions.json")
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


def test_a_segmenter_writes_label_maps_overlays_and_shares(segmenter: Any, images: Path, tmp_path: Path) -> None:
    result = rv.predict(segmenter, images, tmp_path / "out")
    task = Segmentation().bind_images(segmenter, open_maps(images), (32, 32))
    shares = {row["image"]: row for row in table(tmp_path / "out")}
    for name in ("0.png", "street/left/1.png", "2.png", "street/left/3.png"):
        image = Image.open(images / name)
        pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1)[None]
        (expected,) = task.predict_images(segmenter, pixels, Normalisation.of(segmenter))
        labels = Image.open(tmp_path / "out/labels" / name)
        assert labels.mode == "P"
        assert labels.getpalette()[:57] == [value for colour in CITYSCAPES.palette for value in colour]
        np.testing.assert_array_equal(np.array(labels), expected)
        overlay = Image.open((tmp_path / "out/overlays" / name).with_suffix(".jpg"))
        assert overlay.size == image.size
        assert float(shares[name]["road"]) == pytest.approx((expected == 0).mean(), abs=1e-6)
    assert result.images["predicted"] == len(shares) == 4
    assert sum(result.shares["clean"].values()) == pytest.approx(1)
    stored = json.loads((tmp_path / "out/predictions.json").read_text())
    assert stored["form"]["classes"] == list(CITYSCAPES.names)
    assert {"network", "protocol", "versions", "fingerprint"} <= stored.keys()
    assert Predicted.from_json(stored) == Predicted.from_json(json.loads(json.dumps(result.to_json())))


def test_label_ids_are_what_a_server_wants(segmenter: Any, tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (32, 40, 3), np.uint8)
    for condition in ("fog", "night", "rain", "snow"):
        place = tmp_path / f"acdc/rgb_anon/{condition}/test/one"
        place.mkdir(parents=True)
        Image.fromarray(pixels).save(place / "f1_rgb_anon.png")
    rv.predict(segmenter, tmp_path / "acdc", tmp_path / "out", split="test", form=MapForm(label_ids=True))
    for condition in ("fog", "night", "rain", "snow"):
        name = f"{condition}/one/f1_rgb_anon.png"
        train_ids, label_ids = (Image.open(tmp_path / "out" / folder / name) for folder in ("labels", "label_ids"))
        assert label_ids.mode == "L"
        np.testing.assert_array_equal(np.array(label_ids), np.array(CITYSCAPES.label_ids)[np.array(train_ids)])


def test_label_ids_of_unknown_classes_are_refused(tmp_path: Path, images: Path) -> None:
    network = rv.create_model("fan_hybrid_nano/segformer", num_classes=3)
    with refused(ValueError, 3, "--label-ids"):
        rv.predict(network, images, tmp_path / "out", form=MapForm(label_ids=True))
    assert not (tmp_path / "out").exists()


def test_windows_of_the_task_are_used_and_noted(segmenter: Any, images: Path, tmp_path: Path) -> None:
    task = Segmentation(inference=Inference(window=(32, 32)))
    result = rv.predict(segmenter, images, tmp_path / "windows", task=task)
    rv.predict(segmenter, images, tmp_path / "whole")
    assert result.form["inference"]["window"] == (32, 32)
    assert files(tmp_path / "windows")["labels/0.png"] != files(tmp_path / "whole")["labels/0.png"]
    with refused(FinishedRunError, tmp_path / "whole"):
        rv.predict(segmenter, images, tmp_path / "whole", task=task, resume=True)


def test_a_classifier_writes_its_best_answers(classifier: Any, images: Path, tmp_path: Path) -> None:
    rv.predict(classifier, images, tmp_path / "out", form=ClassForm(top=3))
    rows = table(tmp_path / "out")
    assert list(rows[0])[3:] == ["class_1", "probability_1", "class_2", "probability_2", "class_3", "probability_3"]
    for row in rows:
        chances = [float(row[f"probability_{rank}"]) for rank in (1, 2, 3)]
        assert chances == sorted(chances, reverse=True)
        assert sum(chances) <= 1
    assert files(tmp_path / "out").keys() == {"predictions.csv"}


def test_outputs_that_are_not_finite_are_no_answer(images: Path, tmp_path: Path) -> None:
    rv.predict(lambda given: torch.full((len(given), 4), torch.nan), images, tmp_path / "out")
    assert {(row["class_1"], row["probability_1"]) for row in table(tmp_path / "out")} == {("no answer", "")}


def test_classes_have_the_names_of_the_network(classifier: Any, images: Path, tmp_path: Path) -> None:
    classifier.pretrained_cfg["label_names"] = [f"kind {i}" for i in range(10)]
    rv.predict(classifier, images, tmp_path / "out")
    assert {row["class_1"] for row in table(tmp_path / "out")} <= {f"kind {i}" for i in range(10)}


def test_a_corrupted_image_is_shown_beside_the_clean_one(segmenter: Any, images: Path, tmp_path: Path) -> None:
    result = rv.predict(segmenter, images, tmp_path / "out", corruption="fog", severity=4, seed=3)
    assert [(row["condition"], row["severity"]) for row in table(tmp_path / "out")[:2]] == [("clean", "0"), ("fog", "4")]
    assert result.shares.keys() == {"clean", str(Condition("fog", 4))}
    comparison = Image.open(tmp_path / "out/comparisons/street/left/1.jpg")
    assert comparison.width > 2 * 224  # small images are enlarged
    rv.predict(segmenter, images, tmp_path / "alone")
    clean = {name: content for name, content in files(tmp_path / "out").items() if name.startswith("labels/")}
    assert clean == {name: content for name, content in files(tmp_path / "alone").items() if name.startswith("labels/")}


def test_what_happens_to_an_image_does_not_depend_on_its_batch(segmenter: Any, images: Path, tmp_path: Path) -> None:
    rv.predict(segmenter, images, tmp_path / "one", corruption="shot_noise", batch_size=1)
    rv.predict(segmenter, images, tmp_path / "all", corruption="shot_noise", batch_size=4)
    one, together = ({row["image"]: row for row in table(tmp_path / name)} for name in ("one", "all"))
    assert one.keys() == together.keys()
    for name, row in one.items():
        assert float(row["bus"]) == pytest.approx(float(together[name]["bus"]), abs=0.01)


def test_unreadable_images_are_named_and_left_out(segmenter: Any, images: Path, tmp_path: Path) -> None:
    (images / "broken.jpg").write_bytes(b"no image")
    Image.new("RGB", (8, 8)).save(images / "tiny.png")
    result = rv.predict(segmenter, images, tmp_path / "out", corruption="fog")
    assert {name for name, _ in result.skipped} == {"broken.jpg", "tiny.png"}
    assert len(table(tmp_path / "out")) == 2 * len(SIZES)
    for image in images.rglob("*.png"):
        image.write_bytes(b"")
    with refused(ValueError, images):
        rv.predict(segmenter, images, tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_names_that_differ_in_their_suffix_stay_apart(segmenter: Any, tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    for name, grey in (("a.jpg", 10), ("a.png", 200), ("b.png", 90)):
        Image.new("RGB", (32, 32), (grey,) * 3).save(tmp_path / "images" / name)
    with pytest.warns(UserWarning, match=r"plain folder"):
        rv.predict(segmenter, tmp_path / "images", tmp_path / "out")
    assert {path.name for path in (tmp_path / "out/labels").iterdir()} == {"a.jpg.png", "a.png.png", "b.png"}


def test_ids_of_archives_stay_in_the_folder(segmenter: Any, tmp_path: Path) -> None:
    class Archive:
        name, classes = "archive", ()

        def __len__(self) -> int:
            return 1

        def __iter__(self) -> Any:
            image = Image.new("RGB", (32, 32))
            yield Sample("../../escaped.png", lambda: image, lambda: None)

    rv.predict(segmenter, Archive(), tmp_path / "deep/er/out")
    assert (tmp_path / "deep/er/out/labels/escaped.png").is_file()
    assert not list(tmp_path.glob("escaped*"))


def test_an_output_folder_inside_the_images_is_not_predicted(segmenter: Any, images: Path) -> None:
    first = rv.predict(segmenter, images, images / "out")
    again = rv.predict(segmenter, images, images / "out")
    assert first.images == again.images
    assert first.fingerprint == again.fingerprint


class _StoppedError(Exception):
    pass


def test_an_interrupted_run_goes_on_where_it_was(segmenter: Any, images: Path, tmp_path: Path) -> None:
    def stop(what: str, done: int, total: int) -> None:
        if done >= 2:
            raise _StoppedError

    how: Any = dict(corruption="fog", batch_size=1)
    rv.predict(segmenter, images, tmp_path / "whole", **how)
    with pytest.raises(_StoppedError):
        rv.predict(segmenter, images, tmp_path / "out", report=stop, **how)
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "out/labels").rglob("*.png")}
    assert kept
    assert not (tmp_path / "out/predictions.json").exists()
    with refused(UnfinishedRunError, tmp_path / "out"):
        rv.predict(segmenter, images, tmp_path / "out", **how)
    with refused(UnfinishedRunError, tmp_path / "out", "settings"):
        rv.predict(segmenter, images, tmp_path / "out", corruption="snow", batch_size=1, resume=True)
    rv.predict(segmenter, images, tmp_path / "out", resume=True, **how)
    assert files(tmp_path / "out") == files(tmp_path / "whole")
    assert all(path.stat().st_mtime_ns == when for path, when in kept.items())


def test_a_finished_run_is_shown_again_and_lost_files_are_made_again(
    segmenter: Any, images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = rv.predict(segmenter, images, tmp_path / "out")
    before = files(tmp_path / "out")
    (tmp_path / "out/overlays/0.jpg").unlink()
    rv.predict(segmenter, images, tmp_path / "out", resume=True)
    assert files(tmp_path / "out") == before
    monkeypatch.setattr(predicting, "run_job", None)
    again = rv.predict(segmenter, images, tmp_path / "out", resume=True)
    assert again.shares == first.shares


def test_files_of_somebody_else_are_not_replaced(segmenter: Any, images: Path, tmp_path: Path) -> None:
    (tmp_path / "out/labels").mkdir(parents=True)
    (tmp_path / "out/labels/0.png").write_text("mine")
    with refused(ForeignFileError, tmp_path / "out/labels"):
        rv.predict(segmenter, images, tmp_path / "out")
    assert (tmp_path / "out/labels/0.png").read_text() == "mine"


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"corruption": "fogg"}, "fogg"),
        ({"corruption": "fog", "severity": 6}, 6),
        ({"batch_size": 0}, "batch_size=0"),
        ({"limit": 0}, "limit=0"),
        ({"task": "segmentatio"}, "segmentatio"),
    ],
)
def test_what_is_not_possible_is_refused_before_the_work(
    options: dict[str, Any], named: object, segmenter: Any, images: Path, tmp_path: Path
) -> None:
    with refused(ValueError, named):
        rv.predict(segmenter, images, tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_a_film_becomes_a_film_and_a_row_per_frame(segmenter: Any, classifier: Any, tmp_path: Path) -> None:
    av = pytest.importorskip("av")
    scenes = open_maps("scenes:5", scene_size=(34, 49))
    write_film(tmp_path / "film.mp4", (scenes.at(i).open() for i in range(5)), Fraction(5))
    maps = {"legend.png", *(f"labels/{i:06}.png" for i in range(5))}
    for network, how, further in ((segmenter, {}, maps), (classifier, {"corruption": "fog"}, set())):
        output = tmp_path / network.pretrained_cfg["architecture"].replace("/", "-")
        rv.predict(network, tmp_path / "film.mp4", output, batch_size=2, **how)
        assert [row["image"] for row in table(output) if row["condition"] == "clean"] == [f"{i:06}" for i in range(5)]
        with av.open(str(output / "predictions.mp4")) as film:
            assert film.streams.video[0].average_rate == 5
            assert len(list(film.decode(video=0))) == 5
        assert files(output).keys() == {"predictions.csv", "predictions.mp4", *further}


def test_a_film_without_its_package_or_of_no_film_is_refused(
    segmenter: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("av")
    (tmp_path / "film.mp4").write_bytes(b"no film")
    with refused(UnreadablePictureError, tmp_path / "film.mp4"):
        rv.predict(segmenter, tmp_path / "film.mp4", tmp_path / "out")
    monkeypatch.setitem(sys.modules, "av", None)
    with refused(RuntimeError, "robustvit[video]"):
        rv.predict(segmenter, tmp_path / "film.mp4", tmp_path / "out")


def test_predictions_in_half_precision_say_how_far_they_differ(tmp_path: Path) -> None:
    network = rv.create_model("fan_vit_nano", pretrained=True).eval()
    predicted = rv.predict(network, "scenes-easy:6", tmp_path / "half", precision="bf16", corruption="fog")
    assert predicted.protocol["precision"] == "bf16"
    assert predicted.protocol["checked_images"] == 4
    assert 0 <= predicted.protocol["changed"] <= 0.5
    assert 0 <= predicted.protocol["share_change"] <= predicted.protocol["changed"] * 2  # of two conditions
    plain = rv.predict(network, "scenes-easy:6", tmp_path / "full", corruption="fog")
    assert plain.protocol["precision"] == "fp32"
    assert "changed" not in plain.protocol
