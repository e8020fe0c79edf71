"""mCE, relative mCE, mean accuracy and retention: worked examples and properties."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robustvit.corruptions.registry import corruption_names
from robustvit.metrics import (
    ALEXNET_ERRORS,
    ALEXNET_EXTRA_ERRORS,
    corruption_errors,
    extra_corruption_errors,
    mean_accuracy,
    mean_corruption_error,
    relative_corruption_errors,
    relative_mean_corruption_error,
    retention,
)

COMMON15, EXTRA4 = corruption_names("common15"), corruption_names("extra4")
ERRORS = {"gaussian_noise": [0.30, 0.35, 0.42, 0.55, 0.70], "brightness": [0.22, 0.24, 0.26, 0.30, 0.36]}
MEANS = (0.886428, 0.894468, 0.922640, 0.819880, 0.826268, 0.785948, 0.798360, 0.866816, 0.826572, 0.819324)
MEANS += (0.564592, 0.853204, 0.646056, 0.717840, 0.606500)
TWO = replace(ALEXNET_ERRORS, errors={name: ALEXNET_ERRORS.errors[name] for name in ERRORS})
tables = st.lists(st.lists(st.floats(0, 1), min_size=5, max_size=5), min_size=15, max_size=15)


def test_the_alexnet_rows_have_the_published_means() -> None:
    assert [np.mean(row) for row in ALEXNET_ERRORS.errors.values()] == pytest.approx(MEANS, abs=5e-7)


def test_corruption_error_by_hand() -> None:
    errors = corruption_errors(ERRORS)
    assert errors == {"gaussian_noise": pytest.approx(0.5234, abs=5e-5), "brightness": pytest.approx(0.4888, abs=5e-5)}
    assert mean_corruption_error(ERRORS, baseline=TWO) == pytest.approx(0.5061, abs=5e-5)


def test_relative_corruption_error_by_hand() -> None:
    relative = relative_corruption_errors(ERRORS, 0.20)
    assert relative == {"gaussian_noise": pytest.approx(0.5846, abs=5e-5), "brightness": pytest.approx(0.5856, abs=5e-5)}
    assert relative_mean_corruption_error(ERRORS, 0.20, baseline=TWO) == pytest.approx(0.5851, abs=5e-5)


def test_mean_accuracy_and_retention_by_hand() -> None:
    mean = mean_accuracy({name: 1 - np.array(row) for name, row in ERRORS.items()}, None)
    assert mean == pytest.approx(0.630)
    assert retention(mean, 0.80) == pytest.approx(0.7875)


def test_mce_is_the_plain_mean_of_the_published_corruption_errors() -> None:
    published = (40.12, 39.27, 36.80, 51.58, 63.96, 47.53, 54.98, 40.24, 43.96, 36.98, 36.68, 34.17, 61.59, 53.25, 51.86)
    errors = {n: np.array(ALEXNET_ERRORS.errors[n]) * ce / 100 for n, ce in zip(COMMON15, published, strict=True)}
    assert mean_corruption_error(errors) == pytest.approx(0.46198, abs=5e-6)


def test_mce_of_alexnet_itself_is_1() -> None:
    assert mean_corruption_error(ALEXNET_ERRORS.errors) == pytest.approx(1)
    assert relative_mean_corruption_error(ALEXNET_ERRORS.errors, ALEXNET_ERRORS.clean_error) == pytest.approx(1)
    for severity in range(1, 6):
        errors = {name: [row[severity - 1]] for name, row in ALEXNET_ERRORS.errors.items()}
        assert mean_corruption_error(errors, severities=[severity]) == pytest.approx(1)


@settings(deadline=None)
@given(tables, st.floats(0, 1))
def test_mce_is_linear_in_the_errors(table: list[list[float]], factor: float) -> None:
    errors = dict(zip(COMMON15, table, strict=True))
    scaled = {name: [factor * value for value in row] for name, row in errors.items()}
    assert mean_corruption_error(scaled) == pytest.approx(factor * mean_corruption_error(errors), abs=1e-12)


@settings(deadline=None)
@given(tables)
def test_relative_mce_is_0_when_corruption_costs_nothing(table: list[list[float]]) -> None:
    clean = table[0][0]
    assert relative_mean_corruption_error({name: [clean] * 5 for name in COMMON15}, clean) == pytest.approx(0, abs=1e-12)


def test_the_extra_corruptions_are_never_in_mce() -> None:
    extra = {name: [0.9] * 5 for name in EXTRA4}
    errors = {**ALEXNET_ERRORS.errors, **extra}
    assert mean_corruption_error(errors) == mean_corruption_error(ALEXNET_ERRORS.errors)
    assert not set(corruption_errors(errors)) & set(EXTRA4)
    assert extra_corruption_errors(errors) == {n: pytest.approx(0.9 / ALEXNET_EXTRA_ERRORS.values[n]) for n in EXTRA4}
    assert ALEXNET_EXTRA_ERRORS.name != ALEXNET_ERRORS.name


def test_mce_names_the_missing_corruptions() -> None:
    errors = {name: row for name, row in ALEXNET_ERRORS.errors.items() if name not in ("fog", "snow")}
    for score in (mean_corruption_error, lambda e: relative_mean_corruption_error(e, 0.1)):
        with pytest.raises(ValueError, match=r"15 .*13.* snow, fog"):
            score(errors)


def test_impossible_errors_and_severities_are_refused() -> None:
    with pytest.raises(ValueError, match=r"fog .*\[3\].*\(1, 2, 3, 4, 5\)"):
        corruption_errors({"fog": [0.1, 0.2, 0.3]})
    with pytest.raises(ValueError, match=r"fog .*10 to 50.*percent"):
        corruption_errors({"fog": [10, 20, 30, 40, 50]})
    with pytest.raises(ValueError, match=r"severities=\(6,\)"):
        corruption_errors({"fog": [0.1]}, severities=[6])


def test_mean_accuracy_is_over_a_named_set() -> None:
    accuracies = {name: [0.5, 0.7] for name in COMMON15} | {name: [0.8, 1.0] for name in EXTRA4}
    assert mean_accuracy(accuracies) == pytest.approx(0.6)
    assert mean_accuracy(accuracies, "extra4") == pytest.approx(0.9)
    assert mean_accuracy(accuracies, "all19") == pytest.approx((15 * 0.6 + 4 * 0.9) / 19)
    with pytest.raises(ValueError, match="missing: saturate"):
        mean_accuracy({name: row for name, row in accuracies.items() if name != "saturate"}, "all19")
    with pytest.raises(ValueError, match=r"'all20'.*common15"):
        mean_accuracy(accuracies, "all20")


def test_the_tables_of_alexnet_have_the_corruptions_of_the_sets_they_are_for() -> None:
    assert tuple(ALEXNET_ERRORS.errors) == COMMON15
    assert tuple(ALEXNET_EXTRA_ERRORS.values) == EXTRA4


def test_retention_needs_a_clean_score() -> None:
    with pytest.raises(ValueError, match=r"0\.5 from 0 "):
        retention(0.5, 0)
