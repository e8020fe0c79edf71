"""What evaluations of segmenters say beyond one number: intervals, retention of protocols, classes, networks that fail."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from map_trees import save, write_acdc, write_cityscapes, write_cityscapes_c
from PIL import Image
from refusals import refused

import robustvit as rv
from robustvit.data.readers.class_folders import LayoutError
from robustvit.evaluation.suites.registry import suite_named
from robustvit.metrics.bootstrap import resampled_counts
from robustvit.tasks.too_small import TooSmallError, ask

SCENES = "scenes-easy:3"


@pytest.fixture(scope="module")
def shipped() -> Any:
    return rv.create_model("fan_hybrid_nano/segformer", pretrained=True).eval()


@pytest.fixture(scope="module")
def street() -> Any:
    """Of Cityscapes' classes; says the first one, so that there is something to keep."""
    torch.manual_seed(0)
    network = rv.create_model("fan_hybrid_nano/segformer", num_classes=19, img_size=32).eval()
    torch.nn.init.constant_(network.decode_head.classifier.bias.data[:1], 9)
    return network


def test_pixel_and_class_accuracy_have_intervals_and_differences(shipped: Any) -> None:
    torch.manual_seed(0)
    other = rv.create_model("fan_hybrid_nano/segformer", num_classes=11, img_size=64).eval()
    results = rv.evaluate({"one": shipped, "two": other}, "scenes-easy:6", "clean", examples=0)
    one, two = results.models
    for key in ("pixel_accuracy", "mean_class_accuracy"):
        cell, summary = one.cells[0].values[key], one.summary[f"clean_{key}"]
        assert cell == summary
        assert summary.low is not None
        assert summary.high is not None
        assert summary.low < summary.value < summary.high
        difference = results.between("one", "two")[0].summary[f"clean_{key}"]
        assert difference.value == pytest.approx(summary.value - two.summary[f"clean_{key}"].value)
        assert difference.low is not None
    assert one.clean == one.summary["clean_miou"]


def test_every_protocol_has_its_own_retention_in_a_shared_pass(shipped: Any) -> None:
    suites = ["clean", "cityscapes-c-first3", "cityscapes-c-all5"]
    found = rv.evaluate(shipped, SCENES, suites, examples=0).models[0].summary
    for suite in suites[1:]:
        mean, kept = suite_named(suite).measures["miou"]  # type: ignore[attr-defined]
        assert found[kept.key].value == pytest.approx(found[mean.key].value / found["clean_miou"].value)


def test_outputs_that_are_not_finite_are_no_answer(shipped: Any) -> None:
    class Broken(torch.nn.Module):
        task, num_classes, pretrained_cfg = "segmentation", 11, shipped.pretrained_cfg

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return shipped(images) * float("nan")

    model = rv.evaluate(Broken(), SCENES, ["clean", "fog"], severity=3, examples=0).models[0]
    assert model.summary["clean_miou"].value == 0
    assert model.summary["clean_pixel_accuracy"].value == 0
    assert [cell.no_answer for cell in model.cells] == [3, 3]
    assert "retention" not in model.summary


def test_classes_in_another_order_are_matched_by_name(shipped: Any) -> None:
    order = np.random.default_rng(0).permutation(11).tolist()

    class Reordered(torch.nn.Module):
        task, num_classes = "segmentation", 11
        pretrained_cfg = {**shipped.pretrained_cfg, "label_names": [shipped.pretrained_cfg["label_names"][i] for i in order]}

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return shipped(images)[:, order]

    results = rv.evaluate({"own": shipped, "reordered": Reordered()}, SCENES, "clean", attacks="fgsm", examples=0)
    own, other = results.models
    assert own.summary["clean_miou"] == other.summary["clean_miou"]
    assert own.summary["fgsm_miou"].value == pytest.approx(other.summary["fgsm_miou"].value, abs=0.02)
    assert results.remarks() == [entry for entry in results.remarks() if entry[1].kind != "class-mismatch"]


def test_other_classes_are_remarked(shipped: Any) -> None:
    class Foreign(torch.nn.Module):
        task, num_classes = "segmentation", 11
        pretrained_cfg = {**shipped.pretrained_cfg, "label_names": [f"animal {i}" for i in range(11)]}

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return shipped(images)

    [measured] = rv.evaluate(Foreign(), SCENES, "clean", examples=0).models[0].measurements
    assert [note.text for note in measured.notes if note.kind == "class-mismatch" and "animal 0" in note.text]


def test_few_images_are_remarked_for_clean_images_alone(shipped: Any) -> None:
    [measured] = rv.evaluate(shipped, SCENES, "clean", examples=0).models[0].measurements
    assert "few-pictures" in [note.kind for note in measured.notes]


def test_the_family_of_corruptions_goes_by_the_size_of_each_image(shipped: Any) -> None:
    [measured] = rv.evaluate(shipped, SCENES, "fog", severity=1, examples=0).models[0].measurements
    assert measured.corruption["family"] == "by the size of each image"


@pytest.mark.parametrize("options", [{"channel_order": "bgr"}, {"suite": "imagenet-c"}])
def test_what_has_no_effect_is_refused(shipped: Any, options: dict[str, Any]) -> None:
    with refused(ValueError, *(["--bgr"] if "channel_order" in options else ["imagenet-c", "segmentation"])):
        rv.evaluate(shipped, SCENES, **{"suite": "clean", **options})


def test_conditions_of_acdc_have_intervals_however_few_images_there_are(street: Any, tmp_path: Path) -> None:
    model = rv.evaluate(street, write_acdc(tmp_path), "acdc", examples=0).models[0]
    values = [model.summary["acdc_miou"], *(cell.values["miou"] for cell in model.cells)]
    assert len(values) == 6
    assert all(value.low is not None and value.low <= value.value <= (value.high or 0) for value in values)


def test_draws_keep_the_size_of_every_stratum() -> None:
    strata = np.array([0, 1, 1, 2, 2, 2])
    for counts in resampled_counts(6, 50, 0, strata):
        for stratum, size in enumerate((1, 2, 3)):
            assert (counts[:, strata == stratum].sum(1) == size).all()


def tap_tree(root: Path, *, with_clean: bool) -> Path:
    """Cityscapes-C as TAP's authors keep it: everything in ROOT, label maps in ROOT/gtFine/val."""
    write_cityscapes(root, {"val": 3})
    write_cityscapes_c(root, [*suite_named("cityscapes-c").conditions((3,)), ("pixelate", 3)], habit="tap")
    clean = root / "leftImg8bit"
    if with_clean:
        shutil.copytree(clean / "val", root / "clean")
    shutil.rmtree(clean)
    return root


def test_clean_images_beside_their_copies_are_measured_with_them(street: Any, tmp_path: Path) -> None:
    root = tap_tree(tmp_path, with_clean=True)
    found = rv.evaluate(street, root, ["clean", "cityscapes-c"], severity=3, examples=0).models[0]
    assert {"clean_miou", "mean_miou", "retention"} <= found.summary.keys()
    assert len(found.cells) == 17
    model = rv.evaluate(street, root, ["clean", "pixelate"], severity=3, examples=0).models[0]
    assert [cell.condition for cell in model.cells] == ["clean", "pixelate"]
    assert "retention" in model.summary


def test_copies_without_clean_images_have_no_clean_numbers(street: Any, tmp_path: Path) -> None:
    root = tap_tree(tmp_path, with_clean=False)
    assert rv.evaluate(street, root, "pixelate", severity=3, examples=0).models[0].cells[0].condition == "pixelate"
    with refused(LayoutError, root):
        rv.evaluate(street, root, ["clean", "pixelate"], severity=3, examples=0)


@pytest.mark.parametrize("suite", ["clean", "saturate"])
def test_an_image_that_is_too_small_is_left_out_and_named(street: Any, tmp_path: Path, suite: str) -> None:
    root = write_cityscapes(tmp_path, {"val": 3})
    for kind, name in (("leftImg8bit", "leftImg8bit"), ("gtFine", "gtFine_labelTrainIds")):
        path = root / kind / "val/bonn" / f"bonn_000001_000019_{name}.png"
        save(path, np.asarray(Image.open(path))[:1, :1])
    model = rv.evaluate(street, root, suite, batch_size=2).models[0]
    assert {cell.images for cell in model.cells} == {2}
    assert [name.partition("_leftImg8bit")[0].rpartition("/")[2] for name, _ in model.skipped] == ["bonn_000001_000019"]


def test_an_error_that_is_not_about_the_size_is_not_taken_for_one() -> None:
    def full(images: torch.Tensor) -> None:
        if images.shape[-1] < 64:
            raise RuntimeError("CUDA out of memory")

    with pytest.raises(RuntimeError, match="out of memory") as caught:
        ask(full, torch.zeros(1, 3, 8, 8), torch.nn.Identity(), (64, 64))
    assert not isinstance(caught.value, TooSmallError)


def test_groups_do_not_depend_on_the_order_of_suites(shipped: Any) -> None:
    suites = ["cityscapes-c-first3", "weather"]
    one, other = (
        rv.evaluate(shipped, SCENES, order, severity=3, examples=0).models[0].measurements[0]
        for order in (suites, suites[::-1])
    )
    assert {group: set(names) for group, names in one.groups.items()} == {
        group: set(names) for group, names in other.groups.items()
    }
    assert "brightness" in one.groups["weather"]
