"""The demo over several seeds: what is kept of each, and the table."""

from __future__ import annotations

import argparse
from pathlib import Path
from types import SimpleNamespace

import pytest

import demo_seeds


def test_a_row_has_both_networks_and_their_paired_difference() -> None:
    found = {seed: {"plain": {"clean": 50.0 + seed}, "robust": {"clean": 51.0 + 2 * seed}} for seed in range(3)}
    row = list(demo_seeds.table(found, ["clean"]))[1]
    assert row.startswith("| clean | 51.0 ± 1.0 | 53.0 ± 2.0 | +2.0 (-0.5 to +4.5; 3 pairs) | not decided")


def test_a_seed_that_has_its_record_is_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = demo_seeds.CONTESTS["classification"].compared
    seeds = []

    def demonstrate(output: Path, task: str, *, seed: int) -> SimpleNamespace:
        seeds.append(seed)
        models = [SimpleNamespace(name=n, summary=dict.fromkeys(keys, SimpleNamespace(value=0.5))) for n in ("vit", "fan")]
        return SimpleNamespace(models=models, versions={})

    monkeypatch.setattr(demo_seeds, "demonstrate", demonstrate)
    options = argparse.Namespace(output=tmp_path / "runs", records=tmp_path / "records")
    first = demo_seeds.measured("classification", 7, options)
    assert first == demo_seeds.measured("classification", 7, options) == {n: dict.fromkeys(keys, 50.0) for n in ("vit", "fan")}
    assert seeds == [7]
