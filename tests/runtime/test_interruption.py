"""Signals end work in order, only where somebody asked for that."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from robustvit.runtime.interruption import (
    catching_signals,
    check_interrupted,
    finishing_steps,
    interruptible,
    starting_workers,
)


def send(number: int) -> None:
    os.kill(os.getpid(), number)


def run(script: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """In a process of its own, which does not import torch."""
    line = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.run(line, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_is_an_interruption_with_the_exit_code_of_a_shell(number: int, code: int) -> None:
    before = signal.getsignal(number)
    with catching_signals() as interruption, pytest.raises(KeyboardInterrupt), interruptible():
        send(number)
    assert interruption.exit_code == code
    assert signal.getsignal(number) is before


def test_a_step_is_finished_before_the_work_stops() -> None:
    with catching_signals():
        with finishing_steps() as interruption:
            send(signal.SIGTERM)
            assert interruption.received == signal.SIGTERM
            check_interrupted()
        with pytest.raises(KeyboardInterrupt):
            check_interrupted()


def test_a_signal_while_workers_start_is_seen_afterwards() -> None:
    started = []
    with catching_signals(), interruptible(), pytest.raises(KeyboardInterrupt), starting_workers():
        started.append(send(signal.SIGTERM))
    assert started == [None]


def test_the_same_signal_sent_twice_by_a_scheduler_is_one() -> None:
    with catching_signals(), finishing_steps() as interruption:
        send(signal.SIGTERM)
        send(signal.SIGTERM)
        assert interruption.received == signal.SIGTERM


def test_a_signal_after_another_process_was_told_to_stop_is_the_same_wish() -> None:
    with catching_signals(), finishing_steps() as interruption:
        assert not interruption.agree([None, None])
        assert interruption.agree([None, signal.SIGTERM])
        send(signal.SIGTERM)  # which would end this process at once if it was the second
    assert interruption.exit_code == 143


def test_processes_agree_on_what_all_of_them_have_seen() -> None:
    with catching_signals(), finishing_steps() as interruption:
        seen = interruption.received
        send(signal.SIGTERM)  # since then
        assert not interruption.agree([seen, None])
        assert interruption.agree([interruption.received, None])


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as by nohup
    try:
        with catching_signals() as interruption, interruptible():
            send(signal.SIGHUP)
        assert interruption.received is None
    finally:
        signal.signal(signal.SIGHUP, before)


def test_another_thread_can_run_a_command() -> None:
    codes: list[object] = []

    def work() -> None:
        with catching_signals() as interruption, interruptible(), finishing_steps():
            codes.append(interruption.received)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert codes == [None]


def test_a_second_signal_ends_at_once_and_leaves_nothing_half_written(tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text("before")
    script = """
import os, signal, sys
from pathlib import Path
from robustvit.runtime import interruption
from robustvit.runtime.files import write_whole
interruption.ONE_SIGNAL_SECONDS = 0
with interruption.catching_signals(), interruption.finishing_steps(), write_whole(Path(sys.argv[1])) as file:
    file.write_text("ha")
    os.kill(os.getpid(), signal.SIGINT)
    print("goes on", flush=True)
    os.kill(os.getpid(), signal.SIGTERM)
    print("never said", flush=True)
"""
    done = run(script, tmp_path / "result.json")
    assert (done.returncode, done.stdout) == (143, "goes on\n")
    assert "Traceback" not in done.stderr
    assert [file.read_text() for file in tmp_path.iterdir()] == ["before"]


WORKER = """
import os, signal, subprocess, sys, time
from robustvit.runtime import interruption

def send(number, worker):
    subprocess.run(["/bin/sh", "-c", f"kill -{int(number)} {worker}"], check=True)

def wait_until_seen(number, worker):
    is_pending = True
    while is_pending:
        pending = next(line for line in open(f"/proc/{worker}/status") if line.startswith("ShdPnd:")).split()[1]
        is_pending = int(pending, 16) >> (number - 1) & 1
        assert os.waitpid(worker, os.WNOHANG) == (0, 0)
        time.sleep(0.01)

end, (wait, start) = interruption.WorkersEnd(), os.pipe()
with interruption.starting_workers():
    worker = os.fork()
    if not worker:
        os.read(wait, 1)
        interruption.leave_signals_to_parent(end)
        time.sleep(30)
        os._exit(0)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="tells by /proc which signals wait")
def test_a_worker_is_ended_by_its_parent_only() -> None:
    script = """
os.write(start, b".")
for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
    send(number, worker)
wait_until_seen(signal.SIGTERM, worker)
os.kill(worker, signal.SIGTERM)
print(os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1]))
"""
    done = run(WORKER + script)
    assert (done.stdout, done.stderr) == ("143\n", "")


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="tells by /proc which signals wait")
def test_a_worker_ends_although_the_signal_of_its_parent_was_lost_in_that_of_the_group() -> None:
    script = """
send(signal.SIGTERM, worker)
os.kill(worker, signal.SIGTERM)  # while the first one waits
os.write(start, b".")
wait_until_seen(signal.SIGTERM, worker)
end.tell()
print(os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1]))
"""
    done = run(WORKER + script)
    assert (done.stdout, done.stderr) == ("143\n", "")


def test_a_process_of_torchrun_ends_with_it() -> None:
    child = """
import time
from robustvit.runtime import interruption
with interruption.catching_signals(), interruption.finishing_steps() as asked:
    interruption.end_with_torchrun()
    print("ready", flush=True)
    deadline = time.monotonic() + 60
    while asked.received is None and time.monotonic() < deadline:
        time.sleep(0.05)
assert asked.received is not None
print("saved", flush=True)
"""
    launcher = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]])"
    environment = {**os.environ, "TORCHELASTIC_RUN_ID": "1"}
    line = [sys.executable, "-c", launcher, child]
    process = subprocess.Popen(line, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "ready\n"
        process.kill()
        told, _ = process.communicate(timeout=60)  # reads until the child has ended
    finally:
        process.kill()
    assert told == "saved\n"
