"""Beside the clean label maps: those of corrupted images and of films, the legend, and what is left out or refused."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from refusals import refused

import robustvit as rv
from robustvit.corruptions.registry import corrupt
from robustvit.data.map_layouts import open_maps
from robustvit.data.normalisation import Normalisation
from robustvit.data.readers.cityscapes_classes import CITYSCAPES
from robustvit.data.readers.class_folders import LayoutError
from robustvit.predicting import predict as predicting
from robustvit.predicting.films import write_film
from robustvit.tasks.map_form import MapForm
from robustvit.tasks.overlays import MOST_ROWS, legend_image
from robustvit.tasks.segmentation import Segmentation


@pytest.fixture(scope="module")
def segmenter() -> Any:
    torch.manual_seed(0)
    return rv.create_model("fan_hybrid_nano/segformer", num_classes=19).eval()


@pytest.fixture
def images(tmp_path: Path) -> Path:
    (tmp_path / "images").mkdir()
    generator = np.random.default_rng(0)
    for i in range(3):
        Image.fromarray(generator.integers(0, 256, (32, 48, 3), np.uint8)).save(tmp_path / "images" / f"{i}.png")
    return tmp_path / "images"


@pytest.fixture
def film(tmp_path: Path) -> Path:
    pytest.importorskip("av")
    scenes = open_maps("scenes:4", scene_size=(32, 48))
    write_film(tmp_path / "film.mp4", (scenes.at(i).open() for i in range(4)), Fraction(5))
    return tmp_path / "film.mp4"


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_label_maps_of_corrupted_images_are_written_too(segmenter: Any, images: Path, tmp_path: Path) -> None:
    result = rv.predict(segmenter, images, tmp_path / "out", corruption="fog", form=MapForm(label_ids=True))
    task = Segmentation().bind_images(segmenter, open_maps(images), (32, 32))
    pixels = torch.from_numpy(np.array(Image.open(images / "1.png"))).permute(2, 0, 1)
    foggy = corrupt(pixels[None], "fog", 3, seed=0, sample_ids=["1.png"])
    (expected,) = task.predict_images(segmenter, foggy, Normalisation.of(segmenter))
    labels, ids = (np.array(Image.open(tmp_path / f"out/{folder}-corrupted/1.png")) for folder in ("labels", "label_ids"))
    np.testing.assert_array_equal(labels, expected)
    np.testing.assert_array_equal(ids, np.array(CITYSCAPES.label_ids)[expected])
    assert (labels != np.array(Image.open(tmp_path / "out/labels/1.png"))).any()
    assert {"labels-corrupted/*.png", "label_ids-corrupted/*.png", "legend.png"} <= set(result.files)


def test_a_film_has_label_maps_of_its_frames_clean_and_corrupted(segmenter: Any, film: Path, tmp_path: Path) -> None:
    rv.predict(segmenter, film, tmp_path / "out", corruption="fog", form=MapForm(label_ids=True))
    frames = {f"{i:06}.png" for i in range(4)}
    for folder in ("labels", "label_ids", "labels-corrupted", "label_ids-corrupted"):
        assert names(tmp_path / "out" / folder) == frames
    labels, ids = (np.array(Image.open(tmp_path / f"out/{folder}/000002.png")) for folder in ("labels", "label_ids"))
    assert labels.shape == (32, 48)
    np.testing.assert_array_equal(ids, np.array(CITYSCAPES.label_ids)[labels])


def test_lost_label_maps_of_a_film_are_made_again(
    segmenter: Any, film: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rv.predict(segmenter, film, tmp_path / "out")
    lost = tmp_path / "out/labels/000003.png"
    before = lost.read_bytes()
    lost.unlink()
    rv.predict(segmenter, film, tmp_path / "out", resume=True)
    assert lost.read_bytes() == before
    monkeypatch.setattr(predicting, "run_job", None)
    assert rv.predict(segmenter, film, tmp_path / "out", resume=True).images == {
        "name": str(film),
        "predicted": 4,
        "kind": "frames",
    }


def test_a_legend_shows_every_class_in_its_colour(segmenter: Any, images: Path, tmp_path: Path) -> None:
    rv.predict(segmenter, images, tmp_path / "out")
    shown = {colour for _, colour in Image.open(tmp_path / "out/legend.png").convert("RGB").getcolors(2**16)}
    assert shown >= set(CITYSCAPES.palette)
    many = [(f"class {i}", (i, 0, 0)) for i in range(3 * MOST_ROWS)]
    assert legend_image(many).width > 2.5 * legend_image(many[:MOST_ROWS]).width
    assert legend_image(many).height == legend_image(many[:MOST_ROWS]).height


def test_a_classifier_has_no_legend(images: Path, tmp_path: Path) -> None:
    rv.predict(rv.create_model("vit_pico", num_classes=10), images, tmp_path / "out")
    assert names(tmp_path / "out") == {"predictions.csv", "predictions.json"}


def test_a_lost_legend_is_drawn_again(segmenter: Any, images: Path, tmp_path: Path) -> None:
    rv.predict(segmenter, images, tmp_path / "out")
    (tmp_path / "out/legend.png").unlink()
    rv.predict(segmenter, images, tmp_path / "out", resume=True)
    assert (tmp_path / "out/legend.png").is_file()


@pytest.mark.parametrize("name", ["fan_hybrid_nano/segformer", "resnet18/segformer", "vit_nano/segformer"])
def test_an_image_too_small_for_the_network_is_named_and_the_run_goes_on(name: str, images: Path, tmp_path: Path) -> None:
    network = rv.create_model(name, num_classes=4)
    Image.new("RGB", (1, 1)).save(images / "0-first.png")
    result = rv.predict(network, images, tmp_path / "out", batch_size=1)
    predicted = {path.name for path in (tmp_path / "out/labels").iterdir()}
    assert {"0.png", "1.png", "2.png"} <= predicted
    assert [image for image, _ in result.skipped] == ([] if "0-first.png" in predicted else ["0-first.png"])
    if name.startswith("fan"):
        assert "1x1" in result.skipped[0][1]
        again = rv.predict(network, images, tmp_path / "out", batch_size=1, resume=True)
        assert again.created == result.created


def test_an_error_that_is_not_about_the_size_ends_the_run(tmp_path: Path) -> None:
    def wrong(*given: Any) -> Any:
        raise ValueError("my own mistake")

    with refused(ValueError, "my own mistake"):
        rv.predict(wrong, "scenes:2", tmp_path / "out", task="segmentation")
    network = rv.create_model("fan_hybrid_nano/segformer", num_classes=4)
    network.decode_head.register_forward_hook(wrong)
    Image.new("RGB", (20, 20)).save(tmp_path / "small.png")
    with refused(ValueError, "my own mistake"):
        rv.predict(network, tmp_path / "small.png", tmp_path / "out")


def test_only_tiny_images_leave_nothing_to_predict(segmenter: Any, tmp_path: Path) -> None:
    Image.new("RGB", (2, 3)).save(tmp_path / "tiny.png")
    with refused(ValueError, tmp_path / "tiny.png", "3x2"):
        rv.predict(segmenter, tmp_path / "tiny.png", tmp_path / "out")


@pytest.mark.parametrize("protocol", ["squash", "crop", "imagenet-c", "model"])
def test_a_protocol_that_changes_the_size_is_refused_for_label_maps(
    protocol: str, segmenter: Any, images: Path, tmp_path: Path
) -> None:
    with refused(ValueError, protocol, "--fit"):
        rv.predict(segmenter, images, tmp_path / "out", protocol=protocol)
    assert not (tmp_path / "out").exists()
    rv.predict(segmenter, images, tmp_path / "native", protocol="native")
    rv.predict(rv.create_model("vit_pico", num_classes=10), images, tmp_path / "classes", protocol="squash")


@pytest.mark.parametrize("name", ["fan_hybrid_nano/segformer", "vit_pico"])
def test_an_empty_folder_and_a_wrong_path_are_one_message_about_images(
    name: str, tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    network = rv.create_model(name, num_classes=10)
    (tmp_path / "empty/below").mkdir(parents=True)
    for place, error in ((tmp_path / "empty", LayoutError), (tmp_path / "nowhere", FileNotFoundError)):
        with refused(error, place, "film"):
            rv.predict(network, place, tmp_path / "out")
    assert not [one for one in recwarn if "taken for" in str(one.message)]
