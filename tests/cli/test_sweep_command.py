"""`robustvit sweep` as a user types it, and the sweeps that the docs name."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from robustvit.cli import main
from robustvit.sweeping.grid import cells_of, parse_vary
from robustvit.tasks.registry import task_named
from robustvit.training.config_io import load_config
from robustvit.training.networks import network_of

ROOT = Path(__file__).parents[2]
TINY = [
    part
    for change in (
        "model.options={embed_dims: [32], depths: [1], num_heads: [2]}",
        "data.train=scenes-easy:16",
        "data.val=",
        "loop.batch_size=8",
        "loop.max_updates=2",
        "schedule.epochs=1",
        "schedule.warmup_epochs=0",
        "loop.device=cpu",
    )
    for part in ("--set", change)
]
MEASURED = ["--data", "scenes-easy:6", "--suite", "clean"]


def planned(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert main(["sweep", *arguments, "--plan", "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_sweep_prints_its_table_writes_its_files_and_can_be_shown_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    command = ["sweep", "--vary", "optimizer.lr=0.001,0.02", "--seeds", "0,1", *TINY, "--output", str(tmp_path)]
    command += ["--data", "scenes-easy:6", "--suite", "clean", "noise", "--limit", "4"]
    assert main(command) == 0
    told = capsys.readouterr()
    for text in ("optimizer.lr", "0.001", "0.02", "Clean accuracy, %", "Accuracy under corruption, %", "±", "2"):
        assert text in told.out
    assert "run 4 of 4, lr-0.02_seed-1: evaluating" in told.err
    assert "sweep.png" in told.err
    assert main([*command, "--resume", "--json"]) == 0
    again = capsys.readouterr()
    assert json.loads(again.out) == json.loads((tmp_path / "sweep.json").read_text())
    assert "training" not in again.err
    assert main(command) == 2
    assert "--resume" in capsys.readouterr().err


def test_seeds_may_be_separated_by_blanks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = planned(["--vary", "model.tap=1,2", "--seeds", "0", "3", "--output", str(tmp_path)], capsys)
    assert [cell["seed"] for cell in found["cells"]] == [0, 3, 0, 3]


def test_a_failed_run_is_listed_and_the_exit_code_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["sweep", "--vary", "model.tap=nonsense,null", *TINY, *MEASURED, "--output", str(tmp_path)]
    assert main(command) == 2
    told = capsys.readouterr()
    assert "0 of 1, 1 failed" in told.out
    assert "1 of 2 runs failed" in told.err
    assert "tap-nonsense_seed-0: tap='nonsense' is not known" in told.err
    assert main(["sweep", *command[1:], "--plan"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["failed", "done"]


def test_a_plan_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", "--vary", "model.tap=1,2", "--plan", "--output", str(tmp_path / "sweep")]) == 0
    told = capsys.readouterr()
    assert told.out.split() == ["waiting", "tap-1_seed-0", "waiting", "tap-2_seed-0"]
    assert "2 runs, 0 of them done" in told.err
    assert not list(tmp_path.iterdir())


def test_a_recipe_with_its_twin_is_swept(tmp_path: Path) -> None:
    recipe = tmp_path / "r.yaml"
    recipe.write_text("loop: {batch_size: 512}\ntwin: {loop: {batch_size: 4, max_updates: 1}}")
    command = [
        "sweep",
        str(recipe),
        "--vary",
        "methods.adl=null,{}",
        "--twin",
        *TINY[:6],
        *MEASURED,
        "--set",
        "loop.device=cpu",
    ]
    assert main([*command, "--output", str(tmp_path / "sweep")]) == 0
    configs = [load_config(path) for path in sorted((tmp_path / "sweep").glob("runs/*/config.yaml"))]
    assert [config.loop.batch_size for config in configs] == [4, 4]
    assert {tuple(config.methods) for config in configs} == {(), ("adl",)}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nope.yaml", "--vary", "model.tap=1"], "there is no recipe nope.yaml"),
        (["--vary", "methods.adl.tua=1"], "did you mean tau?"),
        (["--vary", "loop.seed=0,1"], "give --seeds 0,1"),
        (["--vary", "model.tap=1", "--seeds", "a"], "'a'"),
        (["--vary", "model.tap=1", "--set", "data.val="], "give --data PATH"),
        (["--vary", "model.tap=1", "--twin"], "--twin needs a recipe"),
        (["--vary", "model.tap=1", "--data", "/nowhere"], "there is no /nowhere"),
    ],
)
def test_mistakes_get_one_clear_message_and_leave_nothing(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["sweep", *arguments]) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_ctrl_c_keeps_what_is_done_and_says_how_to_go_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "runs" / "lr-0.001_seed-0" / "metrics.jsonl"

    def interrupt() -> None:
        while not (log.is_file() and log.read_text()):
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGINT)

    endless = ["--set", "loop.max_updates=0", "--set", "schedule.epochs=2000", "--set", "loop.log_every=1"]
    somebody = threading.Thread(target=interrupt, daemon=True)
    somebody.start()
    command = ["sweep", "--vary", "optimizer.lr=0.001,0.02", *TINY, *endless, *MEASURED, "--output", str(tmp_path)]
    assert main(command) == 130
    assert "the same command with --resume" in capsys.readouterr().err
    assert list((log.parent / "checkpoints").iterdir())
    assert main([*command, "--plan"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["waiting", "waiting"]


@pytest.mark.slow
def test_two_processes_give_the_numbers_of_one_and_go_on_after_a_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a ViT, which has no batch statistics, with plain SGD."""
    vit = ["model.options=null", "model.name=vit_nano", "model.options={embed_dim: 32, depth: 1, num_heads: 2}"]
    sets = [part for change in (*vit, "optimizer.name=sgd") for part in ("--set", change)]
    arguments = ["sweep", "--vary", "optimizer.lr=1e30,0.1", "--vary", "model.tap=null,wrong", *TINY, *sets, *MEASURED]
    start = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m", "robustvit"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*start, *arguments, "--output", str(tmp_path / "two")], env=environment, capture_output=True, text=True, timeout=300
    )
    assert "3 of 4 runs failed" in done.stderr, done.stderr[-2000:]
    assert main([*arguments, "--output", str(tmp_path / "one")]) == 2
    capsys.readouterr()
    one, two = (json.loads((tmp_path / name / "sweep.json").read_text())["cells"] for name in ("one", "two"))
    assert [cell["state"] for cell in two] == [cell["state"] for cell in one] == ["failed", "failed", "done", "failed"]
    assert two[2]["numbers"] == pytest.approx(one[2]["numbers"], abs=1e-4)


def commands_of(page: str) -> list[str]:
    return re.findall(r"`(robustvit sweep \w+/[^`]+)`", (ROOT / "docs" / page).read_text())


COMMANDS = sorted({command for page in ("papers.md", "sweeping.md") for command in commands_of(page)})


def test_both_pages_name_the_same_ablations() -> None:
    assert set(commands_of("papers.md")) == set(commands_of("sweeping.md"))
    assert len(COMMANDS) == 21


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.removeprefix("robustvit sweep "))
def test_a_sweep_named_in_the_docs_can_be_planned_and_its_networks_built(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)  # recipes are found by name from any folder
    _, verb, recipe, *options = shlex.split(command)
    assert verb == "sweep"
    plans = [planned([recipe, *options, *twin, "--output", str(tmp_path)], capsys) for twin in ([], ["--twin"])]
    assert len(plans[0]["cells"]) > 1
    for cell in plans[1]["cells"]:
        changes = [f"{name}={json.dumps(value)}" for name, value in cell["settings"].items()]
        config = load_config(recipe, changes, twin=True)
        with torch.device("meta"):
            network_of(task_named(config.task), config.model, 10, config.augment)


def test_the_sweep_of_tau_gives_the_rows_of_the_paper() -> None:
    command = next(command for command in COMMANDS if "{tau: 1}" in command)
    recipe, _, vary = shlex.split(command)[2:]
    configs = [load_config(recipe, cell.changes) for cell in cells_of([parse_vary(vary)], [0])]
    assert "adl" not in configs[0].methods  # the paper's tau 0 is the baseline
    assert [config.methods["adl"].tau for config in configs[1:]] == [1, 2, 3, 5]
    assert {config.methods["adl"].weight for config in configs[1:]} == {1}
