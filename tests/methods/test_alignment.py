"""AFAT's alignment loss is the mean of squared differences of image tokens, block by block."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

from robustvit.methods.alignment import alignment_loss


def test_the_loss_is_the_mean_over_blocks_of_the_mean_squared_difference() -> None:
    clean = [torch.zeros(1, 2, 2), torch.zeros(1, 1, 4)]
    corrupted = [torch.tensor([[[1.0, 1.0], [0.0, 2.0]]]), torch.full((1, 1, 4), 3.0)]  # means 6/4 and 9
    assert alignment_loss(clean, corrupted).item() == pytest.approx((1.5 + 9) / 2)
    assert alignment_loss(clean, corrupted, variant="released").item() == pytest.approx(10.5 / 2.0001)


def test_prefix_tokens_take_no_part() -> None:
    clean, corrupted = torch.randn(2, 6, 3), torch.randn(2, 6, 3)
    shifted = corrupted.clone()
    shifted[:, :2] += 100
    found = alignment_loss([clean], [shifted], prefix_tokens=2)
    torch.testing.assert_close(found, alignment_loss([clean[:, 2:]], [corrupted[:, 2:]]))


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 4))
def test_a_batch_costs_the_mean_of_its_images_and_equal_features_cost_nothing(seed: int, batch: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    clean, corrupted = torch.randn(2, batch, 4, 3, generator=generator)
    single = [alignment_loss([clean[i : i + 1]], [corrupted[i : i + 1]]) for i in range(batch)]
    torch.testing.assert_close(alignment_loss([clean], [corrupted]), torch.stack(single).mean())
    assert alignment_loss([clean], [clean]).item() == 0


def test_gradients_reach_both_sides_and_half_precision_is_summed_in_float32() -> None:
    clean = torch.full((1, 64, 64), 300.0, dtype=torch.float16, requires_grad=True)
    corrupted = torch.zeros(1, 64, 64, dtype=torch.float16, requires_grad=True)
    loss = alignment_loss([clean], [corrupted])
    loss.backward()
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(300**2)  # beyond float16
    assert clean.grad is not None
    assert corrupted.grad is not None
    torch.testing.assert_close(clean.grad, -corrupted.grad)
    assert clean.grad.abs().min() > 0


def test_wrong_requests_are_explained() -> None:
    x = torch.zeros(1, 2, 3)
    with refused(ValueError, "0 clean", "0 corrupted"):
        alignment_loss([], [])
    with refused(ValueError, "1 clean", "2 corrupted"):
        alignment_loss([x], [x, x])
    with refused(ValueError, [1, 2, 3], [1, 1, 3]):
        alignment_loss([x], [x[:, :1]])
    with refused(ValueError, "variant='code'", "paper, released"):
        alignment_loss([x], [x], variant="code")  # type: ignore[arg-type]
