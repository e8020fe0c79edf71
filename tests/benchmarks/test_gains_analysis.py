"""The analysis of repeated trainings: intervals of paired differences, Holm's correction, accuracy beyond a line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import gains_analysis

FAN = {0: (50, 40), 1: (52, 41), 2: (54, 43)}
STL = {0: (51, 42), 1: (52, 44), 2: (56, 44)}


def records(folder: Path, **runs: dict[int, tuple[int, int]]) -> gains_analysis.Records:
    for name, seeds in runs.items():
        for seed, (clean, corrupted) in seeds.items():
            points = [{"update": u, "clean": clean * u / 400, "corrupted": corrupted * u / 400} for u in (2, 4)]
            record = {
                "variant": name.replace("_twice", ", twice as long").replace("_", " + "),
                "seed": seed,
                "setting": {"updates": 4},
                "points": points,
            }
            (folder / f"{name}-{seed}.json").write_text(json.dumps(record))
    return gains_analysis.read_records(folder)


def test_an_interval_of_paired_differences_is_students() -> None:
    """Differences 1, 2, 3: mean 2, standard error 1 / sqrt(3), t of 0.975 with 2 degrees of freedom 4.303."""
    found = gains_analysis.paired({0: 11, 1: 22, 2: 33, 7: 90}, {0: 10, 1: 20, 2: 30, 8: 1})
    assert found[:3] == pytest.approx((2, 2 - 4.302653 / 3**0.5, 2 + 4.302653 / 3**0.5), rel=1e-5)
    assert found.p == pytest.approx(0.0741799, rel=1e-5)
    assert found.pairs == 3


def test_one_pair_decides_nothing() -> None:
    assert gains_analysis.paired({0: 99}, {0: 1}).p == 1


def test_p_values_are_corrected_as_holm_does() -> None:
    assert gains_analysis.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert gains_analysis.holm([0.9, 0.8]) == [1.0, 1.0]


def test_scores_are_those_of_the_last_point_with_mean_and_spread(tmp_path: Path) -> None:
    table = list(gains_analysis.scores(records(tmp_path, FAN=FAN, FAN_STL=STL)))
    assert table[1:] == ["| FAN | 52.0 ± 2.0 | 41.3 ± 1.5 | 3 |", "| FAN + STL | 53.0 ± 2.6 | 43.3 ± 1.2 | 3 |"]


def test_what_seeds_cannot_tell_is_called_not_decided(tmp_path: Path) -> None:
    found = records(tmp_path, FAN=FAN, FAN_STL=STL)
    table = "\n".join(gains_analysis.compared(found))
    assert "| FAN + STL - FAN | +1.0 (-1.5 to +3.5; 3 pairs) | not decided (p 0.23) | +2.0 (-0.5 to +4.5; 3 pairs) |" in table


def test_a_variant_on_the_line_of_fan_has_nothing_beyond_it(tmp_path: Path) -> None:
    """FAN's points lie on corrupted = 0.8 clean, and so does the other, which is better on clean images alone."""
    fan, other = {0: (50, 40), 1: (40, 32)}, {0: (60, 48), 1: (55, 44)}
    found = records(tmp_path, FAN=fan, FAN_STL=other)
    line = gains_analysis.clean_to_corrupted(found, ("FAN",))
    assert line == pytest.approx([0.8, 0], abs=1e-9)
    assert gains_analysis.above(found, "FAN + STL", line) == pytest.approx({0: 0, 1: 0}, abs=1e-9)


def test_every_network_has_a_line_of_its_own(tmp_path: Path) -> None:
    """ViT's points lie on corrupted = 0.5 clean, and ViT + TAP is 3 above that line: how far FAN's is away does not count."""
    vit, tap = {0: (50, 25), 1: (40, 20)}, {0: (60, 33), 1: (44, 25)}
    found = records(tmp_path, FAN=FAN, FAN_twice=STL, ViT=vit, ViT_TAP=tap)
    table = list(gains_analysis.at_equal_clean(found))
    assert any(row.startswith("| ViT + TAP, beyond ViT's line | +3.0 (+3.0 to +3.0; 2 pairs) |") for row in table)
    assert any(row.startswith("| FAN, twice as long, beyond FAN's line |") for row in table)
    assert not any("beyond FAN's line" in row for row in table if row.startswith("| ViT"))


def test_records_of_two_settings_are_not_mixed(tmp_path: Path) -> None:
    records(tmp_path, FAN=FAN)
    record = json.loads((tmp_path / "FAN-0.json").read_text())
    (tmp_path / "other.json").write_text(json.dumps({**record, "seed": 9, "setting": {"updates": 8}}))
    with pytest.raises(SystemExit, match="2 settings"):
        gains_analysis.read_records(tmp_path)
