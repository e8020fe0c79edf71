"""Intervals of single proportions, and accuracies that are no better than guessing, worked by hand."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robustvit.metrics import wilson_interval
from robustvit.metrics.chance import is_at_chance, p_value_of_chance

Z2 = 1.959964**2
"""Square of the 97.5 % quantile of the normal law."""


def test_wilson_intervals_are_those_worked_by_hand() -> None:
    """All right: p >= n / (n + z^2). None right: p <= z^2 / (n + z^2). Half: 1/2 -+ z / (2 sqrt(n + z^2))."""
    every, none, half = wilson_interval(8, 8), wilson_interval(0, 24), wilson_interval(10, 20)
    assert (every.low, every.high) == (pytest.approx(8 / (8 + Z2)), 1.0)  # 0.676
    assert (none.low, none.high) == (0.0, pytest.approx(Z2 / (24 + Z2)))  # 0.138
    reach = math.sqrt(Z2) / (2 * math.sqrt(20 + Z2))
    assert (half.low, half.high) == (pytest.approx(0.5 - reach), pytest.approx(0.5 + reach))


@given(st.integers(1, 200).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_the_interval_holds_the_estimate_is_never_a_point_and_solves_wilsons_equation(pair: tuple[int, int]) -> None:
    right, n = pair
    found = wilson_interval(right, n)
    assert 0 <= found.low <= found.estimate <= found.high <= 1
    assert found.high - found.low > 0.5 / n
    for p in (found.low, found.high):
        if 0 < p < 1:
            assert abs(found.estimate - p) == pytest.approx(math.sqrt(Z2 * p * (1 - p) / n), rel=1e-5)


def test_impossible_proportions_are_refused() -> None:
    with pytest.raises(ValueError, match=r"9 .*8 images"):
        wilson_interval(9, 8)
    with pytest.raises(ValueError, match=" 0 images"):
        wilson_interval(0, 0)
    with pytest.raises(ValueError, match="level=95"):
        wilson_interval(1, 2, level=95)


def test_the_p_value_of_chance_is_the_upper_tail_of_the_binomial_law() -> None:
    """Two of three coins: (3 + 1) / 8. At least one six in four throws: 1 - (5/6)^4."""
    assert p_value_of_chance(2, 3, 2) == pytest.approx(0.5)
    assert p_value_of_chance(1, 4, 6) == pytest.approx(1 - (5 / 6) ** 4)
    assert p_value_of_chance(0, 50, 10) == 1
    assert p_value_of_chance(50_000, 50_000, 1000) == 0


def test_chance_is_called_only_with_enough_images_and_never_of_a_network_that_works() -> None:
    assert is_at_chance(0, 1000, 1000)
    assert is_at_chance(3, 1000, 1000)  # P(X >= 3) = 0.08 for a mean of 1
    assert not is_at_chance(4, 1000, 1000)  # 0.019
    assert is_at_chance(12, 100, 10)
    assert not is_at_chance(0, 8, 1000)  # too few to accuse anybody
    assert not is_at_chance(14, 20, 2)  # 70 % of two classes: no proof of anything
