"""`robustvit train`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from robustvit.cli import main

TINY = [
    part
    for change in (
        "model.options={embed_dims: [32], depths: [1], num_heads: [2]}",
        "data.train=scenes:16",
        "data.val=scenes:8",
        "loop.batch_size=8",
        "schedule.epochs=1",
        "loop.device=cpu",
    )
    for part in ("--set", change)
]


def test_it_trains_says_what_it_made_and_resumes_a_finished_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", *TINY, "--output", str(tmp_path / "run")]) == 0
    told = capsys.readouterr().out
    assert "2 of 2" in told
    assert "training.png" in told
    assert main(["train", "--resume", "--output", str(tmp_path / "run"), "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["finished"] is True
    assert again["updates_done"] == 2


def test_a_resumed_run_keeps_its_settings_but_for_those_that_may_change(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = ["--output", str(tmp_path / "run")]
    assert main(["train", *TINY, "--set", "loop.max_updates=1", *folder]) == 0
    assert main(["train", "--resume", "--set", "loop.max_updates=0", *folder]) == 0
    assert "2 of 2" in capsys.readouterr().out
    assert main(["train", "--resume", "--set", "optimizer.lr=1", *folder]) == 2
    assert "optimizer.lr was 0.001 and is 1.0" in capsys.readouterr().err


def test_a_recipe_with_its_twin_runs(tmp_path: Path) -> None:
    (tmp_path / "r.yaml").write_text("loop: {batch_size: 512}\ntwin: {loop: {batch_size: 8, max_updates: 1}}")
    assert main(["train", str(tmp_path / "r.yaml"), *TINY[:-4], "--twin", "--output", str(tmp_path / "run")]) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nope.yaml"], "there is no recipe nope.yaml"),
        (["--set", "optimizer.lrr=1"], "did you mean lr?"),
        (["--set", "data.train=/nowhere"], "there is no /nowhere"),
        (["--resume", "--output", "no-run"], "there is no run in no-run to resume"),
        (["--set", "model.name=resnet18", "--set", "methods.adl={}", "--set", "data.train=scenes:128"], "no attention"),
        (["--set", "augment.mixup=0.8", "--set", "loop.batch_size=7", "--set", "data.train=scenes:16"], "in pairs"),
    ],
)
def test_mistakes_get_one_clear_message_and_leave_nothing(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["train", *arguments]) == 2
    assert message in capsys.readouterr().err
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
