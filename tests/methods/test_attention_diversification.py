"""ADL equals the reference values, and means what it says on attention one can compute by hand."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused
from torch import Tensor

from robustvit.methods import attention_diversification

REFERENCE = json.loads((Path(__file__).parents[1] / "reference" / "adl.json").read_text())
CASES = [(kind, tau) for kind, values in REFERENCE.items() for tau in values]


def reference_attention(kind: str) -> list[Tensor]:
    layers = []
    for seed, shape in ((1, (2, 6, 196, 196)), (2, (2, 12, 49, 49))):
        Z = np.random.RandomState(seed).standard_normal(shape).astype("float32")
        if kind == "overfocused":
            Z[..., :5] += 3
        layers.append((torch.from_numpy(Z) * (4 if kind == "random" else 1)).softmax(-1))
    return layers


@pytest.mark.parametrize(("kind", "tau"), CASES)
def test_values_equal_the_reference(kind: str, tau: str) -> None:
    layers, expected = reference_attention(kind), REFERENCE[kind][tau]
    options = {
        "code": dict(variant="released"),
        "paper_head_mean": dict(variant="paper"),
        "paper_per_head": dict(variant="paper", per_head=True),
    }
    for name, chosen in options.items():
        value = attention_diversification(layers, tau=float(tau), **chosen)  # type: ignore[arg-type]
        assert float(value) == pytest.approx(expected[name], abs=2e-6)


def test_rows_that_look_at_different_tokens_cost_little_and_equal_rows_cost_one() -> None:
    identity = torch.eye(9).expand(2, 3, 9, 9)
    assert float(attention_diversification([identity])) == pytest.approx(1 / 3)  # cos(e_i, mean of all e) = 1 / sqrt(9)
    one_column = torch.zeros(2, 3, 9, 9)
    one_column[..., 4] = 1
    assert float(attention_diversification([one_column])) == pytest.approx(1)


def test_attention_below_the_threshold_costs_nothing_and_has_a_finite_gradient() -> None:
    uniform = torch.full((1, 1, 16, 16), 1 / 16, requires_grad=True)
    loss = attention_diversification([uniform], tau=2)
    loss.backward()
    assert loss.item() == 0
    assert uniform.grad is not None
    assert torch.isfinite(uniform.grad).all()


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 4))
def test_the_loss_of_a_batch_is_the_mean_over_its_images(seed: int, batch: int) -> None:
    maps = torch.randn(batch, 2, 12, 12, generator=torch.Generator().manual_seed(seed)).mul(3).softmax(-1)
    for variant in ("paper", "released"):
        single = [attention_diversification([image[None]], variant=variant) for image in maps]  # type: ignore[arg-type]
        whole = attention_diversification([maps], variant=variant)  # type: ignore[arg-type]
        torch.testing.assert_close(whole, torch.stack(single).mean(), rtol=1e-5, atol=1e-6)


def test_prefix_tokens_are_left_out_without_renormalising() -> None:
    maps = torch.randn(2, 2, 10, 10).mul(3).softmax(-1)
    expected = attention_diversification([maps[..., 1:, 1:]])
    torch.testing.assert_close(attention_diversification([maps], prefix_tokens=1), expected)


@pytest.mark.parametrize("per_head", [False, True])
@pytest.mark.parametrize("variant", ["paper", "released"])
def test_regions_of_a_shifted_window_are_windows_of_their_own(variant: str, per_head: bool) -> None:
    torch.manual_seed(0)
    small = [torch.randn(2, 3, 6, 6).mul(3).softmax(-1) for _ in range(2)]  # two regions of 6 tokens each
    window = torch.zeros(2, 3, 12, 12)
    window[..., :6, :6], window[..., 6:, 6:] = small[0], small[1]
    regions = torch.tensor([[0] * 6 + [1] * 6])
    options = dict(variant=variant, per_head=per_head)
    expected = (attention_diversification([small[0]], **options) + attention_diversification([small[1]], **options)) / 2  # type: ignore[arg-type]
    found = attention_diversification([window], regions=[regions], **options)  # type: ignore[arg-type]
    torch.testing.assert_close(found, expected)


def test_rows_of_padding_do_not_count() -> None:
    torch.manual_seed(0)
    real = torch.randn(2, 1, 6, 6).mul(3).softmax(-1)
    window = torch.zeros(2, 1, 9, 9)
    window[..., :6, :6] = real
    window[..., 6:, 6] = 1  # padding looks at padding
    regions = torch.tensor([[0] * 6 + [-1] * 3])
    torch.testing.assert_close(attention_diversification([window], regions=[regions]), attention_diversification([real]))


def test_wrong_requests_are_explained() -> None:
    with pytest.raises(ValueError, match="no attention maps"):
        attention_diversification([])
    with refused(ValueError, "[B, heads, N, N]", [2, 4, 4]):
        attention_diversification([torch.rand(2, 4, 4)])
    with refused(ValueError, "variant='code'", "paper, released"):
        attention_diversification([torch.rand(1, 1, 4, 4)], variant="code")  # type: ignore[arg-type]
