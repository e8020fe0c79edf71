"""Cross-entropy over pixels is the published one, with either divisor."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from refusals import refused

from robustvit.tasks.pixel_loss import pixel_cross_entropy

REFERENCE = json.loads((Path(__file__).parents[1] / "reference" / "dense" / "protocols.json").read_text())["cross_entropy"]


@pytest.fixture
def logits() -> torch.Tensor:
    drawn = 2 * np.random.RandomState(30).standard_normal((2, 19, 8, 12)).astype(np.float32)
    return F.interpolate(torch.from_numpy(drawn), (32, 48), mode="bilinear", align_corners=False)


@pytest.fixture
def labels() -> torch.Tensor:
    drawn = np.random.RandomState(1).randint(0, 19, (2, 32, 48))
    drawn[np.random.RandomState(2).rand(2, 32, 48) < 0.1] = 255
    return torch.from_numpy(drawn.astype(np.uint8))


@pytest.mark.parametrize(("divisor", "name"), [("all", "mean_over_all_pixels"), ("counted", "mean_over_valid_pixels")])
def test_both_divisors_give_the_published_loss(logits: torch.Tensor, labels: torch.Tensor, divisor: Any, name: str) -> None:
    assert int((labels != 255).sum()) == REFERENCE["valid"]
    for given in (labels, labels.long()):
        assert pixel_cross_entropy(logits, given, divisor).item() == pytest.approx(REFERENCE[name], rel=1e-6)


@pytest.mark.parametrize("divisor", ["all", "counted"])
def test_a_batch_of_ignored_pixels_has_no_loss_and_no_gradient(divisor: Any) -> None:
    logits = torch.randn(2, 5, 4, 4, requires_grad=True)
    loss = pixel_cross_entropy(logits, torch.full((2, 4, 4), 255, dtype=torch.uint8), divisor)
    loss.backward()
    assert loss.item() == 0
    assert logits.grad is not None
    assert torch.equal(logits.grad, torch.zeros_like(logits))


def test_half_precision_is_summed_in_single(logits: torch.Tensor, labels: torch.Tensor) -> None:
    loss = pixel_cross_entropy(logits.bfloat16(), labels)
    assert loss.dtype is torch.float32
    assert loss.item() == pytest.approx(REFERENCE["mean_over_all_pixels"], rel=1e-3)


def test_logits_of_another_size_than_the_labels_are_refused(logits: torch.Tensor, labels: torch.Tensor) -> None:
    with refused(ValueError, [2, 19, 32, 48], [2, 32, 24]):
        pixel_cross_entropy(logits, labels[:, :, :24])
    with refused(ValueError, "valid"):
        pixel_cross_entropy(logits, labels, "valid")  # type: ignore[arg-type]
