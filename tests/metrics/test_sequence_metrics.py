"""Flips, top-5 distance and Zipf distance: worked examples and properties."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robustvit.metrics import (
    ALEXNET_FLIPS,
    flip_probability,
    flip_rates,
    mean_flip_probability,
    mean_flip_rate,
    mean_top5_distance,
    ranking,
    sequence_rule,
    sequence_top5_distance,
    top5_distance,
    zipf_distance,
)

FRAMES = [3, 5, 5, 5, 3]
RESNEXT_8D = (10.63, 13.10, 4.46, 3.52, 5.78, 2.61, 4.02, 5.59, 3.31, 8.87)
RESNEXT_48D = (5.85, 6.99, 2.84, 2.32, 3.67, 1.54, 2.42, 3.47, 2.15, 4.62)
permutations = st.permutations(range(8))
sequences = st.integers(2, 6).flatmap(lambda n: st.lists(st.lists(st.integers(0, 3), min_size=n, max_size=n), min_size=1))


def _probabilities(percent: tuple[float, ...]) -> dict[str, float]:
    return {name: value / 100 for name, value in zip(ALEXNET_FLIPS.values, percent, strict=True)}


def test_flip_probability_by_hand() -> None:
    assert flip_probability(FRAMES, "temporal") == 0.50
    assert flip_probability(FRAMES, "noise") == 0.75
    assert flip_probability(FRAMES, "temporal", difficulty=2) == pytest.approx(2 / 3)
    assert flip_probability([FRAMES, [1] * 5], "noise") == 0.375


@settings(deadline=None)
@given(sequences, st.sampled_from(["temporal", "noise"]))
def test_flip_probability_is_a_fraction_and_0_for_constant_predictions(predictions: list[list[int]], rule: str) -> None:
    assert 0 <= flip_probability(predictions, rule) <= 1  # type: ignore[arg-type]
    assert flip_probability(np.zeros_like(predictions), rule) == 0  # type: ignore[arg-type]


@settings(deadline=None)
@given(sequences)
def test_temporal_flips_are_the_same_backwards(predictions: list[list[int]]) -> None:
    backwards = [row[::-1] for row in predictions]
    assert flip_probability(predictions, "temporal") == flip_probability(backwards, "temporal")


def test_noise_types_are_known_by_name() -> None:
    rules = {name: sequence_rule(name) for name in ALEXNET_FLIPS.values}
    assert [name for name, rule in rules.items() if rule == "noise"] == ["gaussian_noise", "shot_noise"]


def test_impossible_sequences_are_refused() -> None:
    with pytest.raises(ValueError, match=r"5 frames .*1 to 4"):
        flip_probability(FRAMES, "temporal", difficulty=5)
    with pytest.raises(ValueError, match="difficulty=2"):
        flip_probability(FRAMES, "noise", difficulty=2)
    with pytest.raises(ValueError, match="rule='time'"):
        flip_probability(FRAMES, "time")  # type: ignore[arg-type]


def test_mean_flip_rate_by_hand() -> None:
    rates = flip_rates(_probabilities(RESNEXT_8D))
    expected = (44.9, 43.6, 48.0, 59.3, 48.4, 53.4, 36.5, 42.7, 47.0, 37.7)
    assert [100 * rate for rate in rates.values()] == pytest.approx(expected, abs=0.06)
    assert mean_flip_rate(_probabilities(RESNEXT_8D)) == pytest.approx(0.461, abs=5e-4)
    assert mean_flip_rate(_probabilities(RESNEXT_48D)) == pytest.approx(0.278, abs=5e-4)


def test_mean_flip_rate_of_the_baseline_itself_is_1() -> None:
    assert mean_flip_rate(ALEXNET_FLIPS.values) == pytest.approx(1)


def test_the_flip_table_says_that_it_is_to_be_confirmed() -> None:
    assert not ALEXNET_FLIPS.confirmed
    assert "to be confirmed" in ALEXNET_FLIPS.name


def test_mean_flip_rate_names_the_missing_types_and_refuses_percent() -> None:
    with pytest.raises(ValueError, match="missing: gaussian_noise, shot_noise"):
        mean_flip_rate({name: 0.1 for name in ALEXNET_FLIPS.values if "noise" not in name})
    with pytest.raises(ValueError, match=r"tilt .*fractions"):
        flip_rates({"tilt": 3.3})


def test_the_cifar_score_is_a_plain_mean() -> None:
    assert mean_flip_probability({"spatter": 0.1, "tilt": 0.3}) == pytest.approx(0.2)


def test_top5_distance_by_hand() -> None:
    first = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert top5_distance(first, [1, 0, 2, 3, 5, 4, 6, 7, 8, 9]) == 3
    assert top5_distance(first, [5, 6, 7, 8, 9, 0, 1, 2, 3, 4]) == 15
    assert top5_distance(first, first) == 0


@settings(deadline=None)
@given(permutations, permutations)
def test_top5_distance_is_the_formula_with_whole_rankings(first: list[int], second: list[int]) -> None:
    expected = sum(abs((k - 1) - min(second.index(first[k - 1]), 5)) for k in range(1, 6))
    assert top5_distance(first, second) == expected
    assert 0 <= expected <= 18


def test_top5_distance_of_sequences_follows_the_rule_of_flips() -> None:
    a, b = [0, 1, 2, 3, 4], [1, 0, 2, 3, 4]
    assert sequence_top5_distance([[a, b, b, b, a]], "temporal") == pytest.approx(2 * 0.5)
    assert sequence_top5_distance([[a, b, b, b, a]], "noise") == pytest.approx(2 * 0.75)
    assert sequence_top5_distance([[a, b, b, b, a]], "temporal", difficulty=2) == pytest.approx(2 * 2 / 3)


def test_mean_top5_distance_is_divided_by_a_baseline_that_the_user_gives() -> None:
    assert mean_top5_distance({"tilt": 1.0, "scale": 3.0}) == pytest.approx(2.0)  # uT5D, as evaluations report it
    assert mean_top5_distance({"tilt": 1.0, "scale": 3.0}, {"tilt": 2.0, "scale": 4.0}) == pytest.approx(0.625)
    with pytest.raises(ValueError, match=r"mT5D .*missing: scale"):
        mean_top5_distance({"tilt": 1.0}, {"tilt": 2.0, "scale": 4.0})
    with pytest.raises(ValueError, match="above 0"):
        mean_top5_distance({"tilt": 1.0}, {"tilt": 0.0})


def test_of_equal_scores_the_lower_class_ranks_first() -> None:
    assert ranking([[1.0, 2.0, 2.0, 0.0]]).tolist() == [[1, 2, 0, 3]]


def test_zipf_distance_by_hand() -> None:
    # sigma = 2, 1, 3: |1 - 1/2| / 1 + |1/2 - 1| / 2
    assert zipf_distance([0, 1, 2], [1, 0, 2]) == pytest.approx(0.75)


@settings(deadline=None)
@given(permutations, permutations)
def test_zipf_distance_is_0_only_for_equal_rankings(first: list[int], second: list[int]) -> None:
    assert (zipf_distance(first, second) == 0) == (first == second)


def test_incomplete_rankings_are_refused() -> None:
    with pytest.raises(ValueError, match="5 classes or more"):
        top5_distance([0, 1, 2], [0, 1, 2])
    with pytest.raises(ValueError, match="each of the 3 classes"):
        zipf_distance([0, 1, 1], [0, 1, 2])
