"""Bootstrap intervals, of one mean and of scores over cells that share their images."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robustvit.corruptions.registry import corruption_names
from robustvit.metrics import (
    Interval,
    bootstrap_differences,
    bootstrap_scores,
    mean_accuracy,
    mean_corruption_error,
    relative_mean_corruption_error,
    retention,
)
from robustvit.metrics.arrays import ArrayLike
from robustvit.metrics.bootstrap import Statistic
from robustvit.metrics.cells import CLEAN, clean_accuracy_of
from robustvit.metrics.corruption_error import mean_corruption_error_of, relative_mean_corruption_error_of
from robustvit.metrics.mean_accuracy import mean_accuracy_of
from robustvit.metrics.retention import retention_of

COMMON15 = corruption_names("common15")
CELLS = [CLEAN, *[(name, severity) for name in COMMON15 for severity in range(1, 6)]]
outcomes = st.lists(st.booleans(), min_size=1, max_size=60)


def bootstrap_cells(outcomes: ArrayLike, statistic: Statistic, **options: Any) -> Interval:
    return bootstrap_scores(outcomes, {"score": statistic}, **options)["score"]


def bootstrap_mean(outcomes: ArrayLike, **options: Any) -> Interval:
    return bootstrap_cells(np.asarray(outcomes)[None], lambda accuracies: accuracies[..., 0], **options)


def _outcomes(images: int = 300) -> np.ndarray:
    """Correctness [cells, images]: every image has a difficulty that it keeps in all cells."""
    generator = np.random.default_rng(0)
    skill = np.concatenate([[0.8], generator.uniform(0.3, 0.7, len(CELLS) - 1)])
    return generator.uniform(size=images) < skill[:, None]


@settings(deadline=None)
@given(outcomes, st.integers(0, 100))
def test_the_interval_contains_the_estimate(values: list[bool], seed: int) -> None:
    interval = bootstrap_mean(values, seed=seed, resamples=500)
    if len(set(values)) == 1:
        assert np.isnan([interval.low, interval.high]).all()  # draws of equal images say nothing
        return
    assert 0 <= interval.low <= interval.estimate <= interval.high <= 1
    assert interval.estimate == pytest.approx(np.mean(values))


@settings(deadline=None)
@given(outcomes.filter(lambda values: len(set(values)) == 2))
def test_a_higher_level_gives_a_wider_interval(values: list[bool]) -> None:
    narrow, wide = (bootstrap_mean(values, level=level, resamples=200) for level in (0.5, 0.99))
    assert wide.low <= narrow.low <= narrow.high <= wide.high


def test_the_interval_of_a_mean_has_the_width_of_the_normal_law() -> None:
    values = np.arange(1000) < 700
    interval = bootstrap_mean(values, resamples=4000)
    half = 1.96 * np.sqrt(0.7 * 0.3 / 1000)
    assert (interval.low, interval.high) == (pytest.approx(0.7 - half, abs=0.003), pytest.approx(0.7 + half, abs=0.003))


def test_the_seed_decides_the_interval() -> None:
    values = np.random.default_rng(1).uniform(size=100)
    assert bootstrap_mean(values, seed=3) == bootstrap_mean(values, seed=3)
    assert bootstrap_mean(values, seed=3) != bootstrap_mean(values, seed=4)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_statistics_equal_the_metrics_they_bootstrap(seed: int) -> None:
    accuracies = np.random.default_rng(seed).uniform(0.1, 1, len(CELLS))
    rows = {name: accuracies[1:].reshape(15, 5)[i] for i, name in enumerate(COMMON15)}
    errors, clean = {name: 1 - row for name, row in rows.items()}, float(accuracies[0])
    assert clean_accuracy_of(CELLS)(accuracies) == clean
    assert mean_accuracy_of(CELLS)(accuracies) == pytest.approx(mean_accuracy(rows))
    assert mean_accuracy_of(CELLS[1:8], None)(accuracies[1:8]) == pytest.approx(
        (rows["gaussian_noise"].mean() + rows["shot_noise"][:2].mean()) / 2
    )
    assert retention_of(CELLS)(accuracies) == pytest.approx(retention(mean_accuracy(rows), clean))
    assert mean_corruption_error_of(CELLS)(accuracies) == pytest.approx(mean_corruption_error(errors))
    assert relative_mean_corruption_error_of(CELLS)(accuracies) == pytest.approx(
        relative_mean_corruption_error(errors, 1 - clean)
    )


@pytest.mark.parametrize(
    "statistic", [mean_accuracy_of, retention_of, mean_corruption_error_of, relative_mean_corruption_error_of]
)
def test_scores_of_many_cells_get_an_interval(statistic: object) -> None:
    interval = bootstrap_cells(_outcomes(), statistic(CELLS), resamples=300)  # type: ignore[operator]
    assert interval.low < interval.estimate < interval.high


def test_images_are_resampled_together_in_all_cells() -> None:
    values = np.random.default_rng(2).uniform(size=50) < 0.5
    same = np.stack([values, values])
    interval = bootstrap_cells(same, lambda accuracies: accuracies[..., 0] - accuracies[..., 1])
    assert interval.estimate == 0
    assert np.isnan([interval.low, interval.high]).all()  # 0 in every draw, of which nothing is learned


def test_a_large_test_set_is_resampled_in_parts_with_the_right_spread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("robustvit.metrics.bootstrap._COUNTS_AT_ONCE", 1000)
    interval = bootstrap_mean(np.arange(400) < 200, resamples=1000)
    assert interval.high - interval.low == pytest.approx(2 * 1.96 * 0.5 / 20, rel=0.15)


def test_missing_cells_are_named() -> None:
    with pytest.raises(ValueError, match="missing: clean"):
        retention_of([("fog", 1)], None)
    with pytest.raises(ValueError, match="missing: jpeg_compression at severity 5"):
        mean_corruption_error_of(CELLS[:-1])
    with pytest.raises(ValueError, match=r"common15 .*jpeg_compression$"):
        mean_accuracy_of(CELLS[:-5])


def test_impossible_requests_are_refused() -> None:
    with pytest.raises(ValueError, match="level=95"):
        bootstrap_mean([True], level=95)
    with pytest.raises(ValueError, match=r"\[1, 0\]"):
        bootstrap_mean(np.zeros(0))
    with pytest.raises(ValueError, match=r"\[1000, cells\]"):
        bootstrap_cells(np.ones((2, 3)), lambda accuracies: accuracies.mean())


def test_a_paired_difference_follows_the_draws_of_the_images_that_differ() -> None:
    """Of 4 images one differs, so a draw has a difference of k/4 with k binomial (4, 1/4): P(k <= 2) = 0.949."""
    first, second = [[True, True, False, False]], [[True, False, False, False]]
    found = bootstrap_differences(first, second, {"accuracy": lambda a: a[..., 0]}, resamples=20_000)["accuracy"]
    assert (found.estimate, found.low, found.high) == (0.25, 0.0, 0.75)


def test_pairing_leaves_out_what_makes_images_hard_for_both_networks() -> None:
    generator = np.random.default_rng(0)
    hard = generator.uniform(size=500) < 0.5
    first = ~hard | (generator.uniform(size=500) < 0.06)
    clean = clean_accuracy_of([CLEAN])
    paired = bootstrap_differences(first[None], ~hard[None], {"clean": clean})["clean"]
    one, other = bootstrap_mean(first), bootstrap_mean(~hard)
    assert one.low < other.high  # side by side, the intervals overlap
    assert 0 < paired.low < paired.estimate == pytest.approx(one.estimate - other.estimate)


@settings(deadline=None)
@given(outcomes, st.integers(0, 100))
def test_a_network_does_not_differ_from_itself(values: list[bool], seed: int) -> None:
    found = bootstrap_differences([values], [values], {"clean": clean_accuracy_of([CLEAN])}, seed=seed, resamples=50)
    assert found["clean"].estimate == 0
    assert np.isnan([found["clean"].low, found["clean"].high]).all()


def test_differences_of_other_cells_or_images_are_refused() -> None:
    with pytest.raises(ValueError, match=r"\[1, 3\] and \[1, 4\]"):
        bootstrap_differences(np.ones((1, 3)), np.ones((1, 4)), {})


def test_scores_of_one_call_are_those_of_single_calls() -> None:
    table = _outcomes()
    scores = {"clean": clean_accuracy_of(CELLS), "mean": mean_accuracy_of(CELLS), "kept": retention_of(CELLS)}
    together = bootstrap_scores(table, scores, seed=3)
    assert together == {name: bootstrap_cells(table, score, seed=3) for name, score in scores.items()}


def test_the_mean_of_some_types_leaves_the_others_out() -> None:
    table = _outcomes()
    fog = [i for i, (name, _) in enumerate(CELLS) if name == "fog"]
    assert mean_accuracy_of(CELLS, ["fog"])(table.mean(1)) == pytest.approx(table[fog].mean())
    with pytest.raises(ValueError, match="rain"):
        mean_accuracy_of(CELLS, ["fog", "rain"])
