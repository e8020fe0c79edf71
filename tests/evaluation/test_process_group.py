"""No process of a torchrun waits for one that is gone."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from robustvit.training.metrics_log import read_metrics

pytestmark = pytest.mark.slow

TRAIN = ["train", "--set", "model.options={embed_dims: [32], depths: [2], num_heads: [2]}", "--set", "data.train=scenes:48"]
TRAIN += ["--set", "data.val=", "--set", "loop.batch_size=8", "--set", "loop.log_every=1", "--set", "loop.device=cpu"]
TRAIN += ["--set", "schedule.epochs=5000", "--set", "data.workers=1"]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


def children_of(process: int) -> list[int]:
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(process)], capture_output=True, text=True).stdout
    return [int(number) for number in found.split()]


def wait_for_the_end_of(processes: Sequence[int]) -> None:
    """Of the processes and all of their sessions; zombies do not count."""
    deadline = time.monotonic() + 300  # of a machine that does much else
    while time.monotonic() < deadline:
        line = ["ps", "-o", "stat=", "--sid", ",".join(map(str, processes))]
        states = subprocess.run(line, capture_output=True, text=True).stdout.split()
        if all(state.startswith("Z") for state in states):
            return
        time.sleep(0.2)
    raise AssertionError("processes are left behind")


@pytest.mark.parametrize(
    ("victim", "number"), [("torchrun", signal.SIGKILL), ("torchrun", signal.SIGTERM), ("rank", signal.SIGKILL)]
)
def test_a_killed_torchrun_leaves_no_process_behind(victim: str, number: int, tmp_path: Path) -> None:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m", "robustvit"]
    process = subprocess.Popen(
        [*launcher, *TRAIN, "--output", str(tmp_path / "run")], env=ENVIRONMENT, stderr=subprocess.PIPE, text=True
    )
    metrics, deadline = tmp_path / "run" / "metrics.jsonl", time.monotonic() + 300
    while len(read_metrics(metrics)) < 3 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    ranks = children_of(process.pid)
    assert len(ranks) == 2
    os.kill(process.pid if victim == "torchrun" else ranks[1], number)
    wait_for_the_end_of(ranks)
    _, told = process.communicate(timeout=60)
    if victim == "torchrun":
        assert "stopped; " in told
        last = read_metrics(metrics)[-1]["update"]
        assert (tmp_path / "run" / "checkpoints" / f"checkpoint-{last:08d}.pt").exists()


SCRIPT = """
import sys, time
from robustvit.runtime import processes
processes.BEAT_SECONDS, processes.SILENCE_SECONDS = 0.2, 2.0
with processes.join_processes() as group:
    print("joined", flush=True)
    time.sleep(600 if group.rank else 4)  # longer than the silence that is allowed
    print("waits", flush=True)
    group.gather(None)
"""


def test_a_process_waits_for_one_that_lives_and_not_for_one_whose_machine_is_gone() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    meeting = {**ENVIRONMENT, "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    line, pipe = [sys.executable, "-c", SCRIPT], subprocess.PIPE
    ranks = [
        subprocess.Popen(line, env={**meeting, "RANK": str(rank)}, stdout=pipe, stderr=pipe, text=True) for rank in range(2)
    ]
    try:
        for rank in ranks:
            assert rank.stdout is not None
            assert rank.stdout.readline() == "joined\n"
        assert ranks[0].stdout is not None
        assert ranks[0].stdout.readline() == "waits\n"
        ranks[1].send_signal(signal.SIGSTOP)  # its connections stay open, as those of a machine without power
        _, told = ranks[0].communicate(timeout=300)
        assert ranks[0].returncode == -signal.SIGTERM
        assert "process 1 of 2 has not been heard" in told
    finally:
        for rank in ranks:
            rank.kill()
            rank.communicate(timeout=60)
