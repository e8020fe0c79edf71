"""FGSM and PGD on segmenters: the loss of an image is the mean cross-entropy over its labelled pixels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from refusals import refused
from torch import Tensor, nn
from torch.nn import functional as F

import robustvit as rv
from robustvit.attacks import ATTACKS, PgdSettings, PixelNetwork, fgsm, pgd
from robustvit.data.normalisation import Normalisation
from robustvit.metrics.iou import MIOU
from robustvit.metrics.measures import measure_of
from robustvit.tasks.segmentation import Segmentation
from robustvit.tasks.windows import Inference

CLASSES = 5
SETTINGS = PgdSettings(8 / 255, 2 / 255, 3)


def segmenter() -> nn.Module:
    torch.manual_seed(0)
    return rv.create_model("fan_hybrid_nano/segformer", num_classes=CLASSES, img_size=64).eval()


def attackable() -> PixelNetwork:
    return PixelNetwork(segmenter(), task=Segmentation())


def scene(B: int = 2) -> tuple[Tensor, Tensor]:
    """Pixels and labels, of which a band is unknown."""
    drawn = torch.Generator().manual_seed(1)
    labels = torch.randint(0, CLASSES, (B, 32, 48), generator=drawn).byte()
    labels[:, :8] = 255
    return torch.rand(B, 3, 32, 48, generator=drawn), labels


def test_fgsm_follows_the_mean_cross_entropy_over_labelled_pixels() -> None:
    model, (images, labels) = attackable(), scene(1)
    x = images.clone().requires_grad_()
    F.cross_entropy(model(x)[:, :, 8:], labels[:, 8:].long()).backward()  # without the unknown band
    assert x.grad is not None
    expected = (images + x.grad.sign() / 255).clamp(0, 1)
    torch.testing.assert_close(fgsm(model, images, labels, 1 / 255), expected)


def test_what_happens_to_an_image_depends_on_neither_its_batch_nor_its_unlabelled_neighbours() -> None:
    model, (images, labels) = attackable(), scene()
    labels[1, 16:] = 255  # fewer labelled pixels, another divisor
    together = pgd(model, images, labels, SETTINGS, sample_ids=["a", "b"])
    alone = [pgd(model, images[i, None], labels[i, None], SETTINGS, sample_ids=[name])[0] for i, name in enumerate("ab")]
    same = (together - torch.stack(alone)).abs() < 1e-6
    assert same.float().mean() > 0.999  # but for gradients of 0 to rounding


def test_pgd_raises_the_loss_within_eps_and_leaves_the_network_as_it_was() -> None:
    model, (images, labels) = attackable(), scene()
    state = {name: value.clone() for name, value in model.state_dict().items()}
    attacked = pgd(model, images, labels, SETTINGS)
    assert (attacked - images).abs().max() <= SETTINGS.eps + 1e-6
    with torch.no_grad():
        assert (model.losses(attacked, labels) > model.losses(images, labels)).all()
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())


def test_an_image_without_labelled_pixels_has_no_gradient_to_follow() -> None:
    model, (images, labels) = attackable(), scene(1)
    assert torch.equal(fgsm(model, images, torch.full_like(labels, 255), 1 / 255), images)


def test_windows_do_not_change_what_an_attack_sees() -> None:
    (images, labels), network = scene(1), segmenter()
    models = [
        PixelNetwork(network, task=Segmentation(inference=how)) for how in (Inference(), Inference(window=(16, 16), flip=True))
    ]
    whole, windowed = (fgsm(model, images, labels) for model in models)
    assert torch.equal(whole, windowed)


def test_images_under_attack_are_resized_without_rounding() -> None:
    pixels = torch.full((1, 3, 8, 8), 0.3)
    task, seen = Segmentation(inference=Inference(fit=(16, 16))), []

    class Noting(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            seen.append(x)
            return x

    task.predict_images(Noting(), pixels, Normalisation((0.0, 0.0, 0.0), (1.0, 1.0, 1.0)))
    torch.testing.assert_close(seen[0], torch.full((1, 3, 16, 16), 0.3))


@pytest.fixture(scope="module")
def two_sizes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("maps")
    for kind in ("images", "labels"):
        (folder / kind / "val").mkdir(parents=True)
    rng = np.random.default_rng(0)
    for name, (H, W) in {"a": (32, 48), "b": (48, 32), "c": (32, 48)}.items():
        labels = rng.integers(0, CLASSES, (H // 16, W // 16)).repeat(16, 0).repeat(16, 1).astype(np.uint8)
        Image.fromarray(labels).save(folder / "labels" / "val" / f"{name}.png")
        noise = rng.integers(0, 60, (H, W, 3))
        Image.fromarray((labels[..., None] * 40 + noise).astype(np.uint8)).save(folder / "images" / "val" / f"{name}.png")
    (folder / "classes.json").write_text('{"classes": ["a", "b", "c", "d", "e"]}')
    return folder


def test_an_evaluation_attacks_images_at_their_own_size(two_sizes: Path) -> None:
    network = segmenter()
    results = rv.evaluate(network, str(two_sizes), "clean", attacks=["fgsm", "pgd"], batch_size=4, examples=2)
    model = results.models[0]
    assert {"clean_miou", "fgsm_miou", "pgd_miou"} <= set(model.summary)
    attacked = next(cell for cell in model.cells if cell.condition == "pgd")
    assert model.summary["pgd_miou"].value == pytest.approx(attacked.values[MIOU.key].value)
    assert attacked.largest_change == pytest.approx(1 / 255, rel=1e-3)
    assert {shown.attacked[0].attack for shown in model.attack_examples} == {"fgsm", "pgd"}
    one_by_one = rv.evaluate(network, str(two_sizes), "clean", attacks=["fgsm"], batch_size=1, examples=0)
    assert one_by_one.models[0].summary["fgsm_miou"].value == pytest.approx(model.summary["fgsm_miou"].value, abs=1e-3)


def test_numbers_under_attack_are_called_after_the_measure_of_the_task() -> None:
    assert measure_of("pgd_miou").label == f"{MIOU.label} under {ATTACKS['pgd'].label}"
    assert measure_of("pgd_accuracy").label == "Accuracy under PGD"
    assert measure_of("fgsm_miou").family == "attack"


@pytest.mark.parametrize("name", ["patch-fool", "patches-random", "patches-adversarial", "autoattack"])
def test_attacks_on_classes_are_refused(name: str, two_sizes: Path) -> None:
    with refused(ValueError, name, "classification", "segmentation"):
        rv.evaluate(segmenter(), str(two_sizes), "clean", attacks=[name])


@pytest.mark.parametrize("shape", [(2, 32), (2, 16, 48), (1,)])
def test_labels_that_do_not_fit_the_images_are_refused(shape: tuple[int, ...]) -> None:
    images, _ = scene()
    given: dict[str, Any] = dict(labels=torch.zeros(shape, dtype=torch.uint8))
    with refused(ValueError, list(shape)):
        pgd(attackable(), images, **given)
