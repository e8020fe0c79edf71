"""Attacks in an evaluation: their numbers are those of the functions, whatever the batch, the interruption or the network."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import timm
import torch
from grey_network import ByGrey
from PIL import Image
from refusals import refused
from torch import Tensor, nn
from torchvision.transforms.functional import pil_to_tensor

import robustvit as rv
from robustvit.attacks import PGD_PRESETS, PixelNetwork, build_attack, pgd
from robustvit.corruptions.conditions import CLEAN, Condition
from robustvit.data.layouts import open_samples
from robustvit.data.scenes.dataset import Scenes
from robustvit.evaluation.attack_examples import _chosen
from robustvit.evaluation.evaluate import UnfinishedRunError
from robustvit.evaluation.tallied import Tallied
from robustvit.tasks.classification import Classification
from robustvit.tasks.tallies import Tallies

QUICK: dict[str, dict[str, Any]] = {"patch-fool": {"iterations": 2}, "patches-adversarial": {"fit_steps": 2}}
ALL = ("fgsm", "pgd", "patch-fool", "patches-random", "patches-adversarial")
"""But for AutoAttack, which needs a package of its own."""


def attacks(names: tuple[str, ...] = ALL) -> list[Any]:
    return [build_attack(name, QUICK.get(name)) for name in names]


@pytest.fixture(scope="module")
def model() -> Any:
    return rv.create_model("vit_nano", pretrained=True)


@pytest.fixture(scope="module")
def found(model: Any) -> Any:
    """All attacks on six images."""
    return rv.evaluate(model, "scenes-easy:6", "clean", attacks=attacks(), batch_size=4, examples=2)


def pixels(count: int) -> tuple[Tensor, Tensor, list[str]]:
    pictures = list(open_samples(f"scenes-easy:{count}", scene_size=(32, 32)))
    images = torch.stack([pil_to_tensor(picture.open()) for picture in pictures]).float() / 255
    return images, torch.tensor([picture.target() for picture in pictures]), [picture.id for picture in pictures]


def test_the_cell_of_an_attack_is_the_accuracy_on_what_the_function_gives(model: Any) -> None:
    images, labels, ids = pixels(16)
    results = rv.evaluate(model, "scenes-easy:16", "clean", attacks=["pgd"], seed=3, examples=0)
    network = PixelNetwork(model)
    attacked = pgd(network, images, labels, PGD_PRESETS["rvt"], seed=3, sample_ids=ids)
    right = (network(attacked).argmax(1) == labels).double().mean().item()
    cell = results.models[0].cells[-1]
    assert (cell.suite, cell.condition) == ("attack", "pgd")
    assert cell.accuracy.value == results.models[0].summary["pgd_accuracy"].value == results.models[0].accuracy("pgd")
    assert cell.accuracy.value == pytest.approx(right)
    change = attacked - images
    assert cell.largest_change == pytest.approx(1 / 255, rel=1e-3)
    assert cell.change_norm == pytest.approx(change.flatten(1).norm(dim=1).mean().item(), rel=1e-3)
    assert cell.changed_pixels == pytest.approx((change != 0).any(1).double().mean().item(), rel=1e-3)


@pytest.mark.parametrize("name", ["vit_nano", "fan_vit_nano"])
def test_gradient_attacks_never_raise_the_accuracy(name: str) -> None:
    network = rv.create_model(name, pretrained=True)
    made = [*attacks(("fgsm", "pgd")), build_attack("patch-fool", {"iterations": 3})]
    summary = rv.evaluate(network, "scenes-easy:16", "clean", attacks=made, examples=0).models[0].summary
    for key in ("fgsm_accuracy", "pgd_accuracy", "patch_fool_accuracy"):
        assert summary[key].value < summary["clean_accuracy"].value
        assert summary[key].low <= summary[key].value <= summary[key].high


def test_the_size_of_the_batches_changes_nothing(model: Any, found: Any) -> None:
    alone = rv.evaluate(model, "scenes-easy:6", "clean", attacks=attacks(), batch_size=1, examples=0)
    for one, other in zip(alone.models[0].cells, found.models[0].cells, strict=True):
        assert one.accuracy == other.accuracy
        for size in ("largest_change", "change_norm", "changed_pixels"):
            assert (getattr(one, size) or 0) == pytest.approx(getattr(other, size) or 0, rel=0.02)


def test_several_masks_have_a_mean_a_spread_and_a_worst_case(model: Any) -> None:
    made = build_attack("patches-random", {"masks": 4, "rho": 0.4})
    results = rv.evaluate(model, "scenes-easy:24", "clean", attacks=made, examples=0).models[0]
    masks = [c.accuracy.value for c in results.cells if c.suite == "attack"]
    assert len(masks) == 4
    assert results.summary["patches_random_accuracy"].value == pytest.approx(np.mean(masks))
    assert results.summary["patches_random_spread"].value == pytest.approx(np.std(masks, ddof=1))
    assert results.summary["patches_random_worst"].value <= min(masks)
    assert results.summary["patches_random_worst"].low is not None
    single = rv.evaluate(model, "scenes-easy:4", "clean", attacks=build_attack("patches-random", {"masks": 1}), examples=0)
    assert "patches_random_spread" not in single.models[0].summary


class Stops(nn.Module):
    """The network, until it has been asked `calls` times."""

    def __init__(self, model: Any, calls: int) -> None:
        super().__init__()
        self.model, self.calls = model, calls
        self.num_classes, self.pretrained_cfg = model.num_classes, model.pretrained_cfg

    def forward(self, x: Tensor) -> Tensor:
        self.calls -= 1
        if self.calls < 0:
            raise KeyboardInterrupt
        return self.model(x)


def test_an_interrupted_run_goes_on_and_ends_as_if_nothing_had_happened(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = rv.create_model("vit_nano", num_classes=10, depth=1, embed_dim=32, num_heads=2).eval()
    made = attacks(("pgd", "patches-random", "patches-adversarial"))
    options: dict[str, Any] = dict(attacks=made, batch_size=2, examples=0)
    counted = Stops(model, 10**6)
    whole = rv.evaluate({"m": counted}, "scenes-easy:6", "clean", **options)
    needed = 10**6 - counted.calls
    with pytest.raises(KeyboardInterrupt):
        rv.evaluate({"m": Stops(model, needed - 5)}, "scenes-easy:6", "clean", output=tmp_path, **options)
    other = {**options, "attacks": [build_attack("pgd", {"steps": 6}), *made[1:]]}
    with pytest.raises(UnfinishedRunError, match="of other settings"):
        rv.evaluate({"m": Stops(model, 10**6)}, "scenes-easy:6", "clean", output=tmp_path, resume=True, **other)
    rest = Stops(model, 10**6)
    resumed = rv.evaluate({"m": rest}, "scenes-easy:6", "clean", output=tmp_path, resume=True, **options)
    assert 10**6 - rest.calls < needed
    assert resumed.models[0].cells == whole.models[0].cells
    assert resumed.models[0].summary == whole.models[0].summary


def test_results_are_read_again_as_they_were_saved(found: Any, tmp_path: Path) -> None:
    found.save(tmp_path)
    again = rv.Results.load(tmp_path)
    assert again.models[0].attack_examples == found.models[0].attack_examples
    assert again.models[0].cells == found.models[0].cells
    assert json.dumps(again.to_json()) == json.dumps(found.to_json())
    with (tmp_path / "results.csv").open() as file:
        rows = {row["condition"]: row for row in csv.DictReader(file)}
    assert float(rows["fgsm"]["largest_change"]) == pytest.approx(1 / 255, rel=1e-4)
    assert rows["clean"]["largest_change"] == ""


def test_results_of_an_earlier_layout_are_refused_with_their_version(found: Any, tmp_path: Path) -> None:
    stored = json.loads(json.dumps(found.to_json()))
    stored["versions"]["robustvit"] = "0.1.0"
    for cell in stored["models"][0]["cells"]:
        cell.update(cell.pop("values"))
    (tmp_path / "results.json").write_text(json.dumps(stored))
    with pytest.raises(ValueError, match=r"0\.1\.0"):
        rv.Results.load(tmp_path)


def test_the_settings_and_the_meaning_of_each_attack_are_in_the_results(found: Any) -> None:
    settings = found.models[0].measurements[0].attacks
    assert list(settings) == list(ALL)
    assert settings["pgd"] == {"eps": 1 / 255, "step": 0.5 / 255, "steps": 5, "random_start": True}
    assert settings["patches-adversarial"]["corruption_network"] == "fitted to this network on these images"
    assert all(key in found.definitions for key in found.models[0].summary)


def test_examples_show_what_the_attack_did(found: Any) -> None:
    examples = found.models[0].attack_examples
    assert [attacked.attack for example in examples for attacked in example.attacked] == [
        name for name in ALL for _ in range(2)
    ]
    assert all(example.clean.right for example in examples)
    assert all(attacked.change.startswith("data:image/png") for example in examples for attacked in example.attacked)
    assert examples[0].attacked[0].scale == 100  # 1/255 x 100 is the most that fits between grey and white
    assert found.models[0].examples == ()  # clean images alone would say nothing more


def tallied(right: dict[str, list[bool]]) -> Tallied:
    """Ten images that are right as given, under each condition."""
    rows = [
        Tallies(10, {"label": np.zeros(10, np.int64), "prediction": np.where(row, 0, 1)})
        for row in map(np.array, right.values())
    ]
    return Tallied([f"image {i}" for i in range(10)], tuple(map(Condition, right)), tuple(rows))


def test_the_strip_of_an_attack_shows_first_what_it_turned_then_other_right_ones_then_any() -> None:
    clean = [i in (1, 2, 4, 6, 9) for i in range(10)]
    rows = {CLEAN.name: clean, "fgsm": list(clean), "mask 1": list(clean), "mask 2": [False] * 10}  # mask 2 is not shown
    rows["fgsm"][4] = rows["mask 1"][9] = False
    made = tallied(rows)
    names = made.ids
    assert _chosen(Classification(), made, "fgsm", 1) == [names[4]]
    assert _chosen(Classification(), made, "mask 1", 1) == [names[9]]
    assert _chosen(Classification(), made, "fgsm", 3) == [names[i] for i in (4, 1, 6)]
    assert _chosen(Classification(), made, "fgsm", 7) == [names[i] for i in (4, 1, 2, 6, 9, 0, 5)]
    assert _chosen(Classification(), tallied(dict.fromkeys(rows, [False] * 10)), "fgsm", 3) == [names[i] for i in (0, 3, 6)]


def test_attacks_stand_beside_suites(model: Any) -> None:
    results = rv.evaluate(model, "scenes-easy:4", ["noise", "patches"], attacks=["fgsm"], examples=1).models[0]
    assert {"clean_accuracy", "mean_accuracy", "patches_accuracy", "fgsm_accuracy"} <= set(results.summary)
    assert [c.suite for c in results.cells].count("attack") == 1
    assert results.examples
    assert results.attack_examples
    assert results.measurements[0].corruption["seed"] == 0


def test_two_networks_are_compared_under_each_attack() -> None:
    networks = {name: rv.create_model(name, pretrained=True) for name in ("vit_nano", "fan_vit_nano")}
    results = rv.evaluate(networks, "scenes-easy:8", "clean", attacks=attacks(("fgsm", "patches-random")), examples=0)
    difference = results.between("vit_nano", "fan_vit_nano")[0]
    for key in ("fgsm_accuracy", "patches_random_accuracy", "patches_random_worst"):
        first, second = (model.summary[key].value for model in results.models)
        assert difference.summary[key].value == pytest.approx(first - second)


def test_only_the_outputs_that_compete_are_attacked(model: Any) -> None:
    """With a class map, a target is an output of the network."""
    classes = open_samples("scenes-easy:4", scene_size=(32, 32)).classes
    turned = {name: (place + 1) % 10 for place, name in enumerate(classes)}
    straight = {name: place for place, name in enumerate(classes)}
    made = dict(attacks=["fgsm"], examples=0)
    plain = rv.evaluate(model, "scenes-easy:12", "clean", **made).models[0]
    assert rv.evaluate(model, "scenes-easy:12", "clean", class_map=straight, **made).models[0].cells == plain.cells
    assert rv.evaluate(model, "scenes-easy:12", "clean", class_map=turned, **made).models[0].cells != plain.cells


def test_a_network_without_attention_is_refused_by_patch_fool_and_attacked_by_fgsm() -> None:
    torch.manual_seed(0)
    convolutional = timm.create_model("resnet10t", num_classes=10).eval()
    results = rv.evaluate(convolutional, Scenes("test", 3), "clean", attacks=["fgsm"], size=(32, 32))
    assert results.models[0].cells[-1].largest_change == pytest.approx(1 / 255, rel=1e-3)
    with refused(ValueError, "patch-fool", "ResNet", "attention"):
        rv.evaluate(convolutional, Scenes("test", 3), "clean", attacks=["patch-fool"], size=(32, 32))
    fitted = build_attack("patches-adversarial", {"fit_steps": 2, "patch_size": 8})
    covered = rv.evaluate(convolutional, Scenes("test", 3), "clean", attacks=[fitted], size=(32, 32))
    assert covered.models[0].cells[-1].changed_pixels == pytest.approx(2 / 16)  # floor(0.1 * 15) + 1 of 16 patches


class Rounds(nn.Module):
    """Without gradients."""

    num_classes, pretrained_cfg = 10, ByGrey().pretrained_cfg

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, x: Tensor) -> Tensor:
        return (x * self.scale).detach().flatten(1)[:, :10]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (dict(attacks=["pgdd"]), "there is no attack 'pgdd'"),
        (dict(attacks=["pgd", "fgsm", "pgd"]), "the attack pgd is given twice"),
        (dict(attacks=["fgsm"], size=(20, 20)), "20x20"),
    ],
)
def test_what_cannot_work_is_refused_before_any_image_is_opened(model: Any, options: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        rv.evaluate(model, "scenes-easy:4", "clean", **options)


def test_a_network_without_gradients_is_refused() -> None:
    with refused(ValueError, "Rounds", "gradient"):
        rv.evaluate(Rounds(), Scenes("test", 2), "clean", attacks=["fgsm"])


class Unsure(ByGrey):
    """Says NaN to what is dark."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.where((x.mean((1, 2, 3)) < 0.3)[:, None], torch.nan, super().forward(x))


def greys(*values: int) -> list[tuple[Image.Image, int]]:
    return [(Image.fromarray(np.full((32, 32, 3), value, np.uint8)), 0) for value in values]


def test_images_without_a_finite_gradient_stay_as_they_are() -> None:
    results = rv.evaluate(Unsure(), greys(20, 40), "clean", attacks=[build_attack("pgd", {"random_start": False})], examples=1)
    cell = results.models[0].cells[-1]
    assert cell.no_answer == 2
    assert cell.largest_change == 0
    assert results.models[0].attack_examples[0].attacked[0].scale == 0


class TooLarge(ByGrey):
    """Runs out of memory with more than one image."""

    def forward(self, x: Tensor) -> Tensor:
        if len(x) > 1:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes")
        return super().forward(x)


def test_a_batch_that_does_not_fit_memory_names_its_size_and_the_option() -> None:
    with refused(RuntimeError, "3 images", "32x32", "--batch-size"):
        rv.evaluate(TooLarge(), greys(10, 100, 200), "clean", attacks=["fgsm"])
    assert rv.evaluate(TooLarge(), greys(10, 100, 200), "clean", attacks=["fgsm"], batch_size=1, examples=0).models[0].cells


def test_a_trained_corruption_network_is_named_and_has_to_fit_the_images(model: Any, tmp_path: Path) -> None:
    tiny = ["data.train=scenes:8", "data.val=", "loop.batch_size=8", "schedule.epochs=1", "loop.device=cpu"]
    small = ["model.name=vit_nano", "model.options={embed_dim: 32, depth: 2, num_heads: 2}"]
    rv.train(rv.load_config(None, [*tiny, *small, "methods.afat={}"]), tmp_path / "afat")
    made = build_attack("patches-adversarial", {"corruption_model": str(tmp_path / "afat")})
    results = rv.evaluate(model, "scenes-easy:4", "clean", attacks=made, output=tmp_path / "out", examples=0)
    settings = results.models[0].measurements[0].attacks["patches-adversarial"]
    assert settings["corruption_network"].startswith("trained with AFAT: afat (weights ")
    assert "fit_steps" not in settings
    rv.train(rv.load_config(None, [*tiny, *small, "methods.afat={}", "loop.seed=1"]), tmp_path / "other" / "afat")
    other = build_attack("patches-adversarial", {"corruption_model": str(tmp_path / "other" / "afat")})
    again = rv.evaluate(model, "scenes-easy:4", "clean", attacks=other, output=tmp_path / "more", examples=0)
    assert again.fingerprint != results.fingerprint
    large = rv.create_model("vit_nano", num_classes=10, img_size=64)
    with refused(ValueError, "32x32", "64x64"):
        rv.evaluate(large, "scenes-easy:4", "clean", attacks=made, size=(64, 64))
