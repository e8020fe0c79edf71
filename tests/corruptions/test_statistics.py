"""Random corruptions have the statistics of the published ones, in every family and at every severity."""

from __future__ import annotations

from typing import Any

import golden
import pytest

from robustvit.corruptions.registry import CORRUPTIONS, corrupt

NAMES = [name for name, corruption in CORRUPTIONS.items() if corruption.random and name != "frost"]
"""Without frost, whose generated textures are judged by a rule of their own: see test_frost_textures."""
DRAWS = {"cifar32": 48, "tiny64": 48, "arbitrary96x160": 24, "imagenet224": 8, "arbitrary224": 8}


def deviations(folder: str, name: str, severity: int, draws: int) -> dict[str, str]:
    family: Any = golden.FAMILIES[folder]
    clean = golden.picture(folder).expand(draws, -1, -1, -1)
    return golden.deviations(corrupt(clean, name, severity, family=family), folder, name, severity)


@pytest.mark.parametrize("severity", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("folder", DRAWS)
def test_random_corruptions_have_the_published_statistics(folder: str, name: str, severity: int) -> None:
    assert deviations(folder, name, severity, DRAWS[folder]) == {}


@pytest.mark.slow
@pytest.mark.parametrize("severity", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("folder", ["imagenet224", "arbitrary224"])
def test_random_corruptions_have_the_published_statistics_over_many_draws(folder: str, name: str, severity: int) -> None:
    assert deviations(folder, name, severity, 48) == {}
