"""FGSM and PGD: the reference numbers, the bounds, and what an attack may not touch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused
from torch import Tensor, nn

import robustvit as rv
from robustvit.attacks import PGD_PRESETS, PgdSettings, PixelNetwork, fgsm, pgd

CASE = json.loads((Path(__file__).parents[1] / "reference" / "afat.json").read_text())["case5_pgd"]
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def reference() -> tuple[PixelNetwork, Tensor, Tensor]:
    """The network, images and labels that CASE["inputs"] describes."""
    draws = np.random.RandomState(1)
    network = nn.Sequential(nn.Conv2d(3, 4, 3, stride=2, padding=1), nn.GELU(), nn.Flatten(), nn.Linear(64, 5))
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(torch.from_numpy(0.5 * draws.standard_normal(parameter.shape)))
    images = torch.from_numpy(draws.random_sample((3, 3, 8, 8))).float()
    return PixelNetwork(network, MEAN, STD), images, torch.from_numpy(draws.randint(0, 5, 3))


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("FGSM(eps=1/255,alpha=1/255,1 step)", PgdSettings(1 / 255, 1 / 255, 1, random_start=False)),
        ("PGD-5 RVT (eps=1/255,alpha=0.5/255) without random start", PgdSettings(1 / 255, 0.5 / 255, 5, random_start=False)),
        ("PGD-5 RSPC code (eps=8/255,alpha=2/255) without random start", PgdSettings(8 / 255, 2 / 255, 5, random_start=False)),
    ],
)
def test_perturbations_and_losses_are_those_of_the_published_programs(name: str, how: PgdSettings) -> None:
    model, images, labels = reference()
    expected = CASE["results"][name]
    attacked = pgd(model, images, labels, how)
    with torch.no_grad():
        before, after = (nn.functional.cross_entropy(model(x), labels).item() for x in (images, attacked))
    change = 255 * (attacked - images)
    assert before == pytest.approx(expected["loss_before"], rel=1e-5)
    assert after == pytest.approx(expected["loss_after"], rel=1e-4)
    torch.testing.assert_close(change[0, 0, :2], torch.tensor(expected["delta_pixels_x255_b0_c0_rows0-1"]), atol=1e-3, rtol=0)
    assert change.sum().item() == pytest.approx(expected["sum_delta_x255"], abs=0.05)


def test_one_step_of_eps_without_a_random_start_is_fgsm() -> None:
    model, images, labels = reference()
    one = pgd(model, images, labels, PgdSettings(3 / 255, 3 / 255, 1, random_start=False))
    assert torch.equal(one, fgsm(model, images, labels, 3 / 255))


@settings(deadline=None, max_examples=20)
@given(eps=st.floats(0.001, 0.5), step=st.floats(0.001, 1.0), steps=st.integers(1, 3), random_start=st.booleans())
def test_a_perturbation_stays_within_eps_and_within_the_range_of_pixels(
    eps: float, step: float, steps: int, random_start: bool
) -> None:
    model, images, labels = reference()
    attacked = pgd(model, images, labels, PgdSettings(eps, step, steps, random_start=random_start))
    assert (attacked - images).abs().max() <= eps + 1e-6
    assert attacked.min() >= 0
    assert attacked.max() <= 1


def test_the_random_start_of_a_image_depends_on_seed_and_id_alone() -> None:
    model, images, labels = reference()
    whole = pgd(model, images, labels, seed=3, sample_ids=["a", "b", "c"])
    alone = pgd(model, images[2:], labels[2:], seed=3, sample_ids=["c"])
    torch.testing.assert_close(whole[2:], alone, rtol=0, atol=1e-6)
    assert not torch.equal(whole, pgd(model, images, labels, seed=4, sample_ids=["a", "b", "c"]))


def test_a_network_keeps_its_mode_its_flags_and_its_gradients() -> None:
    network = rv.create_model("fan_vit_nano", num_classes=10).train()
    network.blocks[0].eval()
    first = next(network.parameters())
    first.requires_grad_(False)
    network(torch.rand(2, 3, 32, 32)).sum().backward()
    state = {name: value.clone() for name, value in network.state_dict().items()}
    modes = [module.training for module in network.modules()]
    flags = [p.requires_grad for p in network.parameters()]
    gradients = [None if p.grad is None else p.grad.clone() for p in network.parameters()]
    pgd(PixelNetwork(network), torch.rand(2, 3, 32, 32), torch.tensor([0, 1]))
    assert [module.training for module in network.modules()] == modes
    assert [p.requires_grad for p in network.parameters()] == flags
    assert all(torch.equal(value, state[name]) for name, value in network.state_dict().items())
    for parameter, gradient in zip(network.parameters(), gradients, strict=True):
        assert (parameter.grad is None) == (gradient is None)
        assert gradient is None or torch.equal(parameter.grad, gradient)  # type: ignore[arg-type]


def test_images_that_are_not_pixels_are_refused() -> None:
    model, images, labels = reference()
    with refused(ValueError, "0 .. 1"):
        pgd(model, images * 2 - 0.5, labels)
    with pytest.raises(ValueError, match="as many labels"):
        pgd(model, images, labels[:2])
    with pytest.raises(ValueError, match="as many seeds"):
        pgd(model, images, labels, sample_ids=[1])
    with pytest.raises(ValueError, match="float pixels"):
        pgd(model, (255 * images).to(torch.uint8), labels)
    for wrong in (dict(eps=2.0), dict(step=0.0), dict(steps=0)):
        with pytest.raises(ValueError, match="is not possible"):
            PgdSettings(**wrong)  # type: ignore[arg-type]


def test_presets_are_the_published_settings() -> None:
    assert PGD_PRESETS["rvt"] == PgdSettings(1 / 255, 0.5 / 255, 5, random_start=True)
    assert PGD_PRESETS["rspc"] == PgdSettings(8 / 255, 2 / 255, 5, random_start=True)


class Broken(nn.Module):
    """Answers as the network inside, but the square root of 0 has no gradient."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> Tensor:
        return self.network(x) + (0 * x).sum((1, 2, 3), keepdim=True).flatten(1).sqrt()


@pytest.mark.parametrize("attack", [fgsm, pgd])
def test_a_gradient_that_is_not_finite_is_an_error_and_no_robustness(attack: Any) -> None:
    network = PixelNetwork(Broken(rv.create_model("vit_nano", num_classes=10)))
    images = torch.rand(2, 3, 32, 32)
    assert network(images).isfinite().all()
    with pytest.raises(ValueError, match=r"for 2 of 2"):
        attack(network, images, torch.tensor([1, 2]))
