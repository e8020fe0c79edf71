"""How attention is spread, on maps that can be worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from robustvit.methods.attention_spread import attention_spread, layer_spread

N = 8


def uniform(batch: int = 2, tokens: int = N) -> Tensor:
    return torch.full((batch, tokens, tokens), 1 / tokens)


def test_uniform_attention_has_entropy_1_no_maximum_and_no_row_that_counts() -> None:
    expected = dict(entropy=1.0, max_times_tokens=1.0, column_max_times_tokens=1.0, rows_counted=0.0)
    assert layer_spread([uniform()], tau=2.0) == pytest.approx(expected, abs=1e-6)


def test_queries_that_all_look_at_one_token_have_a_column_of_n() -> None:
    A = torch.zeros(2, N, N)
    A[:, :, 3] = 1
    expected = dict(entropy=0.0, max_times_tokens=N, column_max_times_tokens=N, rows_counted=1.0)
    assert layer_spread([A], tau=2.0) == pytest.approx(expected)


def test_queries_that_each_look_at_themselves_are_sharp_and_have_no_column() -> None:
    expected = dict(entropy=0.0, max_times_tokens=N, column_max_times_tokens=1.0, rows_counted=1.0)
    assert layer_spread([torch.eye(N).expand(2, N, N)], tau=2.0) == pytest.approx(expected)


def test_half_of_the_rows_at_two_tokens_each() -> None:
    A = uniform()
    A[:, : N // 2] = 0
    A[:, : N // 2, :2] = 0.5
    entropy = (1 + math.log(2) / math.log(N)) / 2
    column = N * (0.5 * 0.5 + 0.5 / N)
    expected = dict(entropy=entropy, max_times_tokens=(N / 2 + 1) / 2, column_max_times_tokens=column, rows_counted=0.5)
    assert layer_spread([A], tau=2.0) == pytest.approx(expected, rel=1e-6)


def test_a_row_counts_from_tau_over_n_on() -> None:
    A = uniform(1)
    A[0, 0] = (1 - 2 / N) / (N - 1)
    A[0, 0, 0] = 2 / N
    assert layer_spread([A], tau=2.0)["rows_counted"] == pytest.approx(1 / N)
    assert layer_spread([A], tau=2.1)["rows_counted"] == 0


def test_rows_in_blocks_give_the_same_as_all_at_once() -> None:
    A = torch.randn(3, N, N).mul(2).softmax(-1)
    assert layer_spread(A.split(3, dim=1), tau=2.0) == pytest.approx(layer_spread([A], tau=2.0), rel=1e-6)


def test_layers_are_averaged() -> None:
    layers = [([uniform()], None), ([torch.eye(N).expand(2, N, N)], None)]
    assert attention_spread(layers, tau=2.0)["entropy"] == pytest.approx(0.5, abs=1e-6)


def test_tokens_of_other_regions_and_padding_are_no_part_of_n() -> None:
    """One window of two regions of 4 tokens, one of them padding: uniform within a region is uniform."""
    regions = torch.tensor([[0, 0, 0, 0, -1, -1, -1, -1]])
    A = torch.zeros(1, N, N)
    A[0, :4, :4] = 0.25
    A[0, 4:, 4] = 1
    expected = dict(entropy=1.0, max_times_tokens=1.0, rows_counted=0.0)
    found = layer_spread([A], tau=2.0, regions=regions)
    assert {name: found[name] for name in expected} == pytest.approx(expected, abs=1e-6)
