"""How networks are asked when a sweep measures them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tiny_sweeps import tiny_sweep

from robustvit.cli import main
from robustvit.evaluation.results import Results
from robustvit.sweeping.plan import SweepSettingsError

FUSED = {"token_fusion": True}
PICO = (
    "model.name=vit_pico",
    "model.token_head=true",
    "methods.stl_labeler={}",
    "data.train=scenes-easy:16",
    "data.val=",
    "loop.batch_size=8",
    "loop.max_updates=1",
    "loop.device=cpu",
    "schedule.epochs=1",
    "schedule.warmup_epochs=0",
)
RATE = ["optimizer.lr=0.001"]

pytestmark = pytest.mark.usefixtures("undrawn")


def test_runs_are_measured_by_the_published_rule_of_stl_and_say_so(tmp_path: Path) -> None:
    result = tiny_sweep(tmp_path, RATE, (0,), changes=PICO, task_options=FUSED)
    assert result.is_finished
    stored = Results.load(tmp_path / result.cells[0].folder / "evaluation").models[0]
    assert stored.measurements[0].data["answer"].startswith("class logits + 0.5")
    assert json.loads((tmp_path / "sweep.json").read_text())["evaluation"]["options"] == FUSED
    with pytest.raises(SweepSettingsError, match=r"options was .*token_fusion.* and is None"):
        tiny_sweep(tmp_path, RATE, (0,), changes=PICO, resume=True)


def test_runs_are_measured_as_they_are_validated_unless_the_sweep_says_otherwise(tmp_path: Path) -> None:
    def answer(folder: Path, options: dict[str, bool]) -> str:
        result = tiny_sweep(folder, RATE, (0,), changes=[*PICO, "validation={token_fusion: true}"], task_options=options)
        stored = Results.load(folder / result.cells[0].folder / "evaluation").models[0]
        return str(stored.measurements[0].data.get("answer", ""))

    assert answer(tmp_path / "own", {}).startswith("class logits + 0.5")
    assert not answer(tmp_path / "other", {"token_fusion": False}).startswith("class logits + 0.5")


def test_a_network_without_a_token_head_is_refused_before_it_is_trained(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has no token head"):
        tiny_sweep(tmp_path, RATE, (0,), task_options=FUSED)
    assert not list(tmp_path.glob("runs/*/metrics.jsonl"))


def test_the_command_takes_the_options_of_the_task_of_its_recipe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--vary", "optimizer.lr=0.001,0.002", "--plan", "--output", str(tmp_path / "out")]
    assert main(["sweep", "stl/student_small", "--twin", *given, "--token-fusion", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["evaluation"]["options"] == FUSED
    assert main(["sweep", "fan/segformer_small", "--twin", *given, "--token-fusion"]) == 2
    assert "--token-fusion is an option of classification, and the task is segmentation" in capsys.readouterr().err
