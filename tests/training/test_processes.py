"""Killed processes and several processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from tiny_runs import TINY, VIT

from robustvit.cli import main
from robustvit.runtime.weights import read_weights
from robustvit.training.metrics_log import read_metrics


def command(output: Path, changes: list[str], *, processes: int = 1, resume: bool = False) -> list[str]:
    start = [sys.executable, "-m"]
    if processes > 1:
        start += ["torch.distributed.run", "--standalone", f"--nproc-per-node={processes}", "-m"]
    return [*start, "robustvit", *arguments(output, changes, resume=resume)]


def arguments(output: Path, changes: list[str], *, resume: bool = False) -> list[str]:
    sets = [part for change in (*TINY, *changes) for part in ("--set", change)]
    return ["train", "--output", str(output), *sets, *(["--resume"] if resume else [])]


def run(*arguments: object, **options: object) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    line = command(*arguments, **options)  # type: ignore[arg-type]
    done = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]


def run_here(output: Path, changes: list[str], *, resume: bool = False) -> None:
    """The same command in this process, which need not import torch again."""
    assert main(arguments(output, changes, resume=resume)) == 0


def weights_of(folder: Path) -> dict[str, torch.Tensor]:
    return read_weights(folder / "weights" / "model.safetensors")


def test_a_run_killed_at_any_moment_and_resumed_is_bit_identical(tmp_path: Path) -> None:
    changes = ["loop.checkpoint_every=3", "methods.adl={}", "methods.afat={}", "loop.ema_decay=0.9", "model.drop_path=0.1"]
    changes += [
        "augment.mixup=0.8",
        "augment.erasing=0.5",
        "augment.crop=resized",
        "augment.rand_augment=rand-m9-mstd0.5-inc1",
    ]
    run_here(tmp_path / "whole", changes)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command(tmp_path / "killed", changes), env=environment, stderr=subprocess.DEVNULL)
    metrics = tmp_path / "killed" / "metrics.jsonl"
    deadline = time.monotonic() + 120
    while len(read_metrics(metrics)) < 5 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=60)
    run_here(tmp_path / "killed", changes, resume=True)
    one, other = weights_of(tmp_path / "whole"), weights_of(tmp_path / "killed")
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert read_metrics(tmp_path / "whole" / "metrics.jsonl") == read_metrics(metrics)


@pytest.mark.parametrize(
    ("number", "code", "workers"),
    [
        (signal.SIGTERM, 143, 2),
        pytest.param(signal.SIGINT, 130, 2, marks=pytest.mark.slow),
        pytest.param(signal.SIGINT, 130, 0, marks=pytest.mark.slow),
        pytest.param(signal.SIGHUP, 129, 0, marks=pytest.mark.slow),
    ],
)
def test_a_signal_to_all_processes_ends_the_update_saves_and_says_how_to_go_on(
    number: int, code: int, workers: int, tmp_path: Path
) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    line = command(tmp_path / "run", ["schedule.epochs=500", "data.val=", f"data.workers={workers}"])
    process = subprocess.Popen(line, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True)
    metrics, deadline = tmp_path / "run" / "metrics.jsonl", time.monotonic() + 120
    while len(read_metrics(metrics)) < 2 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    os.killpg(process.pid, number)
    _, told = process.communicate(timeout=120)
    assert process.returncode == code
    assert told.startswith("stopped; ")
    assert "--resume" in told
    assert told.count("\n") == 1  # no traceback, of no process
    saved = list((tmp_path / "run" / "checkpoints").iterdir())
    last = read_metrics(metrics)[-1]["update"]
    assert f"checkpoint-{last:08d}.pt" in {file.name for file in saved}
    assert not list((tmp_path / "run").rglob(".*"))


@pytest.mark.parametrize("parallel", ["ddp", pytest.param("fsdp", marks=pytest.mark.slow)])
def test_two_processes_give_the_weights_of_one(tmp_path: Path, parallel: str) -> None:
    # plain SGD: Adam and clipping would hide a gradient of the wrong length
    changes = [
        *VIT,
        "augment.mixup=0.8",
        "augment.cutmix=1.0",
        "augment.mix_group=4",
        "augment.erasing=0.5",
        "optimizer.name=sgd",
        "optimizer.lr=0.1",
    ]
    changes += ["methods.adl={}", "methods.afat={}", "methods.stl_labeler={}", "model.token_head=true"]
    changes += ["schedule.epochs=1", f"loop.parallel={parallel}", "loop.ema_decay=0.9", "data.val=scenes:12"]
    run_here(tmp_path / "one", changes)
    run(tmp_path / "two", changes, processes=2)
    one, two = weights_of(tmp_path / "one"), weights_of(tmp_path / "two")
    worst = max(float((one[name] - two[name]).abs().max()) for name in one)
    assert worst < 1e-4
    first, second = (read_metrics(tmp_path / name / "metrics.jsonl") for name in ("one", "two"))
    assert [entry["update"] for entry in first] == [entry["update"] for entry in second]
    assert all(abs(a.get("loss", 0) - b.get("loss", 0)) < 1e-3 for a, b in zip(first, second, strict=True))
    norms = [[entry["grad_norm"] for entry in entries if "loss" in entry] for entries in (first, second)]
    assert norms[0] == pytest.approx(norms[1], rel=1e-3)
    said = [[entry["diagnostics"] for entry in entries if "loss" in entry] for entries in (first, second)]
    for one, other in zip(*said, strict=True):
        assert one.keys() == other.keys() == {"adl", "afat", "stl_labeler"}
        for name in one:
            assert one[name].keys() - other[name].keys() <= {"gradient_ratio"}  # which sharded networks have not
        assert one["adl"]["entropy"] == pytest.approx(other["adl"]["entropy"], abs=1e-4)
        assert one["stl_labeler"]["token_accuracy"] == pytest.approx(other["stl_labeler"]["token_accuracy"], abs=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
@pytest.mark.parametrize("name", ["fan_hybrid_nano/segformer", "rvt_nano/setr_pup"])
def test_two_processes_give_a_segmenter_the_weights_of_one(tmp_path: Path, name: str, parallel: str) -> None:
    """Of a head with dropout, and of one with auxiliary heads; statistics and channels that are drawn would differ."""
    options = "{head_drop_rate: 0}" if name.endswith("segformer") else "{embed_dim: 32}"
    changes = ["task=segmentation", f"model={{name: {name}, img_size: 32, tap: 4}}", "model.options=null"]
    changes += [f"model.options={options}", "loss.smoothing=0", "data.train=scenes-easy:24", "data.val=scenes-easy:6"]
    changes += ["loop.freeze_batchnorm=true", "loop.ema_decay=0.9", "optimizer.name=sgd", "optimizer.lr=0.1"]
    changes += ["methods.adl={}", "schedule.epochs=1", f"loop.parallel={parallel}"]
    run_here(tmp_path / "one", changes)
    run(tmp_path / "two", changes, processes=2)
    one, two = weights_of(tmp_path / "one"), weights_of(tmp_path / "two")
    assert max(float((one[name] - two[name]).abs().max()) for name in one) < 1e-4
    first, second = (read_metrics(tmp_path / name / "metrics.jsonl") for name in ("one", "two"))
    for key, tolerance in (("loss", 1e-3), ("val_miou", 1e-2)):
        values = [[entry[key] for entry in entries if key in entry] for entries in (first, second)]
        assert values[0]
        assert values[0] == pytest.approx(values[1], abs=tolerance)


@pytest.mark.slow
@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_two_processes_that_stop_and_resume_are_bit_identical_to_two_that_do_not(tmp_path: Path, parallel: str) -> None:
    """On a network with batch norm, whose statistics the processes share after every update."""
    changes = ["methods.afat={}", "loop.ema_decay=0.9", "model.drop_path=0.1", "data.val=", f"loop.parallel={parallel}"]
    run(tmp_path / "whole", changes, processes=2)
    run(tmp_path / "parts", [*changes, "loop.max_updates=7"], processes=2)
    run(tmp_path / "parts", [*changes, "loop.max_updates=0"], processes=2, resume=True)
    whole, parts = weights_of(tmp_path / "whole"), weights_of(tmp_path / "parts")
    assert any("running_mean" in name for name in whole)
    assert all(torch.equal(whole[name], parts[name]) for name in whole)
