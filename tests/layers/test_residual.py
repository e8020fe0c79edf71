"""Stochastic depth and how branches join the residual stream."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import robustvit as rv
from robustvit.layers.residual import add_branch, drop_path, drop_path_rates


def test_the_three_rules() -> None:
    assert drop_path_rates(0.3, 4, "constant") == [0.3] * 4
    assert drop_path_rates(0.3, 4, "linear") == pytest.approx([0, 0.1, 0.2, 0.3])
    assert drop_path_rates(0.4, 4, "rvt") == pytest.approx([0, 0.1, 0.2, 0.3])


@settings(max_examples=30, deadline=None)
@given(rate=st.floats(0, 0.99), depth=st.integers(1, 30), rule=st.sampled_from(["constant", "linear", "rvt"]))
def test_rates_never_fall_with_depth_and_never_exceed_the_largest(rate: float, depth: int, rule: str) -> None:
    rates = drop_path_rates(rate, depth, rule)
    assert len(rates) == depth
    assert rates == sorted(rates)
    assert 0 <= rates[0] <= rates[-1] <= rate * (1 + 1e-6)


@pytest.mark.parametrize("rate", [-0.1, 1.0, 2])
def test_a_rate_that_is_no_probability_is_refused(rate: float) -> None:
    with pytest.raises(ValueError, match="drop_path_rate"):
        drop_path_rates(rate, 4, "constant")


def test_an_unknown_rule_brings_the_choices() -> None:
    with pytest.raises(ValueError, match="constant, linear, rvt"):
        drop_path_rates(0.1, 4, "cosine")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("fan_vit_nano", [0.3] * 4),
        ("fan_swin_nano", [0.3 * k / 7 for k in range(8)]),
        ("rvt_nano", [0.3 * k / 6 for k in range(6)]),
    ],
)
def test_each_family_has_its_published_rule(name: str, expected: list[float]) -> None:
    model = rv.create_model(name, drop_path_rate=0.3)
    blocks = [m for m in model.modules() if hasattr(m, "drop_path") or hasattr(m, "drop_path1")]
    drops = [getattr(b, "drop_path", None) or b.drop_path1 for b in blocks]
    assert [getattr(d, "drop_prob", 0.0) for d in drops] == pytest.approx(expected)


def test_rate_zero_is_nothing_at_all() -> None:
    assert isinstance(drop_path(0.0), nn.Identity)


@pytest.mark.parametrize("gamma", [None, torch.tensor([0.5, -2.0, 3.0])], ids=["folded", "gamma"])
@pytest.mark.parametrize(
    "drop", [nn.Identity(), drop_path(0.5).eval(), nn.Dropout(0.5).eval()], ids=["none", "path", "dropout"]
)
def test_a_branch_is_scaled_and_added(gamma: torch.Tensor | None, drop: nn.Module) -> None:
    x, branch = torch.randn(2, 5, 3), torch.randn(2, 5, 3)
    expected = x + (branch if gamma is None else gamma * branch)
    torch.testing.assert_close(add_branch(x, branch, gamma, drop), expected)


@pytest.mark.parametrize("gamma", [None, torch.full((3,), 2.0)], ids=["folded", "gamma"])
def test_training_drops_the_branch_of_whole_samples_and_rescales_the_rest(gamma: torch.Tensor | None) -> None:
    x, branch = torch.zeros(400, 5, 3), torch.ones(400, 5, 3)
    out = add_branch(x, branch, gamma, drop_path(0.2).train())
    kept = out[:, 0, 0] != 0
    torch.testing.assert_close(out[kept], torch.full_like(out[kept], (1 if gamma is None else 2) / 0.8))
    assert (out[~kept] == 0).all()
    assert 0.7 < kept.float().mean() < 0.9


def test_the_residual_stream_is_not_changed_in_place() -> None:
    x, branch = torch.randn(1, 2, 3), torch.randn(1, 2, 3)
    before = x.clone(), branch.clone()
    add_branch(x, branch, torch.ones(3), nn.Identity())
    assert torch.equal(x, before[0])
    assert torch.equal(branch, before[1])
