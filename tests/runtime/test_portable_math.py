"""Tables that are the same on every processor, against the library's functions, and against what they must add up to."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robustvit.runtime.portable_math import circle, exp, gaussian_taps, normal_means, sine_and_cosine, whole_weights


@given(st.floats(-700, 300))
def test_exp_is_that_of_the_library_but_for_the_last_bit(x: float) -> None:
    assert exp(x) == pytest.approx(math.exp(x), rel=3e-16)


@given(st.floats(-7, 7))
@settings(max_examples=50)
def test_sine_and_cosine_are_those_of_the_library_but_for_the_last_bit(angle: float) -> None:
    assert sine_and_cosine(angle) == pytest.approx((math.sin(angle), math.cos(angle)), rel=3e-16, abs=1e-30)


@pytest.mark.parametrize("count", [2, 4, 6, 10, 1024])
def test_a_circle_is_divided_evenly(count: int) -> None:
    cosines, sines = circle(count)
    angles = 2 * np.pi * np.arange(count) / count
    np.testing.assert_allclose(cosines, np.cos(angles), rtol=0, atol=1e-15)
    np.testing.assert_allclose(sines, np.sin(angles), rtol=0, atol=1e-15)


@given(st.integers(0, 40), st.floats(0.3, 30))
def test_gaussian_taps_are_symmetric_and_add_up_to_1(radius: int, sigma: float) -> None:
    taps = gaussian_taps(radius, sigma)
    assert taps == taps[::-1]
    assert len(taps) == 2 * radius + 1
    assert math.fsum(taps) == pytest.approx(1, abs=1e-15)


@given(st.lists(st.floats(1e-6, 1), min_size=1, max_size=50), st.sampled_from([2**8, 2**22]))
def test_whole_weights_add_up_exactly_and_keep_proportions(weights: list[float], total: int) -> None:
    whole = whole_weights(tuple(weights), total)
    assert sum(whole) == total
    scale = total / math.fsum(weights)
    errors = [abs(number - weight * scale) for number, weight in zip(whole, weights, strict=True)]
    assert sum(error > 0.5 + 1e-6 for error in errors) <= 1  # the largest takes what rounding leaves over
    assert max(errors) <= len(weights) / 2 + 1


def test_normal_means_are_those_between_the_quantiles() -> None:
    means = normal_means(65536)
    normal = statistics.NormalDist()
    assert math.fsum(means**2) / 65536 == pytest.approx(1, abs=1e-12)
    assert np.array_equal(means, -means[::-1])
    assert np.all(np.diff(means) > 0)
    for i in (1, 100, 5000, 32767, 60000, 65534):
        assert normal.inv_cdf(i / 65536) < means[i] / means.std() < normal.inv_cdf((i + 1) / 65536)
