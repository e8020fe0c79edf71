"""Runs that were interrupted, whose folder was damaged meanwhile, or whose last update went wrong."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from refusals import refused
from tiny_runs import tiny_config

from robustvit.runtime.checkpoints import Checkpoints
from robustvit.runtime.cores import available_cores
from robustvit.runtime.interruption import catching_signals
from robustvit.runtime.weights import CheckpointError
from robustvit.training.config_io import ConfigError
from robustvit.training.metrics_log import read_metrics
from robustvit.training.not_finite import NotFiniteError
from robustvit.training.train import Progress, train

pytestmark = pytest.mark.usefixtures("undrawn")
EPOCH = 6
"""Updates of an epoch."""
CHANGES = ("loop.checkpoint_every=2", "loop.keep=9", "loop.ema_decay=0.9", "methods.afat={}")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole") / "run"
    train(tiny_config(CHANGES), folder)
    return folder


@pytest.fixture
def half(whole: Path, tmp_path: Path) -> Path:
    """A copy that stopped after update 8."""
    shutil.copytree(whole, tmp_path / "run")
    for file in checkpoints(tmp_path / "run")[:2]:
        file.unlink()
    return tmp_path / "run"


def checkpoints(folder: Path) -> list[Path]:
    return Checkpoints(folder / "checkpoints", 9).files()


def test_a_signal_during_validation_stops_at_once_and_the_resumed_run_validates_first(whole: Path, tmp_path: Path) -> None:
    def stop(progress: Progress) -> None:
        if progress.update == EPOCH:
            os.kill(os.getpid(), signal.SIGTERM)

    with catching_signals():
        result = train(tiny_config(CHANGES), tmp_path / "run", report=stop)
    assert (result.updates_done, result.is_validation_due, result.is_finished) == (EPOCH, True, False)
    assert train(None, tmp_path / "run", resume=True).is_finished
    assert read_metrics(tmp_path / "run" / "metrics.jsonl") == read_metrics(whole / "metrics.jsonl")


def test_an_interrupted_last_validation_leaves_the_run_unfinished(tmp_path: Path) -> None:
    config = tiny_config(["schedule.epochs=1"])
    with catching_signals():
        result = train(config, tmp_path / "run", report=lambda progress: os.kill(os.getpid(), signal.SIGTERM))
        assert not result.is_finished
    resumed = train(None, tmp_path / "run", resume=True)
    assert resumed.is_finished
    assert resumed.accuracy is not None


def test_used_from_python_training_leaves_signals_alone(tmp_path: Path) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    seen = []

    def look(progress: Progress) -> None:
        seen.append([signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)])
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(tiny_config(["data.val="]), tmp_path / "run", report=look)
    assert seen == [before]


def without(*names: str | int) -> Callable[[dict[Any, Any]], None]:
    def remove(state: dict[Any, Any]) -> None:
        for name in names[:-1]:
            state = state[name]
        del state[names[-1]]

    return remove


MISSING = {
    "update": without("update"),
    "network": without("network"),
    "tensor": lambda state: state["network"].popitem(),
    "optimizer": without("optimizer"),
    "moments of a parameter": without("optimizer", "state", 3),
    "one moment": without("optimizer", "state", 3, "exp_avg"),
    "method": without("methods", "afat"),
    "keeper": without("keeper"),
    "best": without("keeper", "best"),
    "digest": without("parts"),
}


def test_a_checkpoint_that_lacks_parts_is_named_and_the_one_before_it_used(half: Path, whole: Path) -> None:
    newest, older, *_ = checkpoints(half)
    intact = newest.read_bytes()
    for what, remove in MISSING.items():
        newest.write_bytes(intact)
        state = torch.load(newest, weights_only=True)
        remove(state)
        torch.save(state, newest)
        found = Checkpoints(half / "checkpoints", 9).newest()
        assert found is not None, what
        assert (found.path, [path for path, _ in found.passed_over]) == (older, [newest]), what
    result = train(None, half, resume=True)
    assert [note.split()[0] for note in result.notes] == [newest.name]
    assert read_metrics(half / "metrics.jsonl") == read_metrics(whole / "metrics.jsonl")


def test_a_checkpoint_that_does_not_fit_the_network_is_passed_over(half: Path) -> None:
    newest, *_ = checkpoints(half)
    folder = Checkpoints(half / "checkpoints", 9)

    def refuse(state: dict[str, Any]) -> None:
        if state["update"] == 8:
            raise CheckpointError("not this one")

    found = folder.newest(refuse)
    assert found is not None
    assert [(path, reason) for path, reason in found.passed_over] == [(newest, "not this one")]


@pytest.mark.parametrize("content", [b"", b"model: {name: fan_vit_nano}\n", b"model: [", b"\x00\xff\xfe", b"[]", b"cut"])
def test_a_damaged_configuration_is_named_and_the_recipe_mends_it(content: bytes, half: Path) -> None:
    stored = half / "config.yaml"
    intact = stored.read_bytes()
    stored.write_bytes(intact[:-100] if content == b"cut" else content)
    with refused(ConfigError, stored, "--resume"):
        train(None, half, resume=True)
    if content:  # mended in the same way, whatever the damage
        return
    result = train(tiny_config(CHANGES), half, resume=True)
    assert result.is_finished
    assert any(str(stored) in note for note in result.notes)
    assert stored.read_bytes() == intact


def test_damaged_lines_of_the_log_are_named_and_the_others_kept(half: Path, whole: Path) -> None:
    log = half / "metrics.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    wrong = [
        b"[]\n",
        b"\xff\xfe\n",
        b'{"loss": 3}\n',
        b'{"update": "x", "epoch": 1}\n',
        b'{"update": 1, "epoch": 1, "loss": 1}\n',
    ]
    log.write_bytes(b"".join([*lines[:2], *wrong, *lines[2:]]) + b'{"update": 9, "epo')
    result = train(None, half, resume=True)
    assert [note for note in result.notes if "metrics.jsonl" in note and "3, 4, 5, 6, 7" in note] == list(result.notes)
    assert read_metrics(log) == read_metrics(whole / "metrics.jsonl")


@pytest.mark.parametrize("validation", ["data.val=", "data.val=scenes:16"])
def test_a_last_update_that_leaves_no_numbers_is_a_failure(validation: str, tmp_path: Path) -> None:
    changes = ["optimizer.name=sgd", "optimizer.lr=1e20", "optimizer.weight_decay=1e30", "loop.max_updates=1", validation]
    with refused(NotFiniteError, "update 1", "optimizer.lr"):
        train(tiny_config(changes), tmp_path / "run")
    assert not (tmp_path / "run" / "best").exists()
    assert json.loads((tmp_path / "run" / "failure.json").read_text())["update"] == 1
    assert not (tmp_path / "run" / "checkpoints").exists()
    assert not (tmp_path / "run" / "weights").exists()


def test_worker_processes_are_no_more_than_the_cores(tmp_path: Path) -> None:
    result = train(tiny_config(["data.workers=1000000", "loop.max_updates=1", "data.val="]), tmp_path / "run")
    assert result.is_finished
    (note,) = result.notes
    assert "data.workers=1000000" in note
    assert str(available_cores()) in note
