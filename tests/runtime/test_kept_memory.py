"""Memory that is freed stays with the process, in all of its threads, and nothing that is computed changes."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

from robustvit.runtime.kept_memory import keep_memory

HAS_GLIBC = "glibc" in platform.libc_ver()
needs_glibc = pytest.mark.skipif(not HAS_GLIBC, reason="only glibc's malloc can be told to keep memory")

FAULTS = """
import resource, sys, threading
import robustvit as rv

if sys.argv[1] == "keep":
    assert rv.keep_memory() and rv.keep_memory()
import torch

def work():
    for _ in range(20):
        torch.ones(50 << 20, dtype=torch.uint8)
    before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
    for _ in range(10):
        torch.ones(50 << 20, dtype=torch.uint8)
    print(resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before)

if sys.argv[2] == "main":
    work()
else:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
"""
"""Page faults of ten tensors of 50 MB after twenty others: the heap grows at first, since a free block must be a little larger
than the next one."""


def page_faults(*arguments: str) -> int:
    done = subprocess.run([sys.executable, "-c", FAULTS, *arguments], capture_output=True, text=True, check=True)
    return int(done.stdout)


@needs_glibc
@pytest.mark.parametrize("thread", ["main", "another"])
def test_tensors_after_the_first_ones_cost_hardly_a_page_fault(thread: str) -> None:
    assert page_faults("keep", thread) < page_faults("free", thread) / 4


COMPUTED = """
import sys
import robustvit as rv

if sys.argv[1] == "keep":
    rv.keep_memory()
import torch

torch.set_num_threads(1)
torch.manual_seed(0)
model = rv.create_model("fan_vit_nano", num_classes=10)
images = rv.corrupt(torch.randint(0, 256, (4, 3, 32, 32), dtype=torch.uint8), "fog", severity=3) / 255
model(images).logsumexp(1).sum().backward()
found = torch.cat([model.eval()(images).flatten(), *(p.grad.flatten() for p in model.parameters())])
print(found.double().sum().item(), found.abs().max().item(), found[::997].tolist())
"""


@needs_glibc
def test_what_is_computed_stays_the_same_to_the_last_bit() -> None:
    def computed(kept: str) -> str:
        return subprocess.run([sys.executable, "-c", COMPUTED, kept], capture_output=True, text=True, check=True).stdout

    assert computed("keep") == computed("free") != ""


def test_it_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROBUSTVIT_KEEP_MEMORY", "0")
    assert not keep_memory()


def test_without_glibc_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    class Musl:
        mallopt = None

    monkeypatch.setattr("robustvit.runtime.kept_memory.ctypes.CDLL", lambda name: Musl())
    assert not keep_memory()
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not keep_memory()


@needs_glibc
def test_a_version_that_refuses_a_large_threshold_is_told_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    told = []

    class Old:
        gnu_get_libc_version = None

        @staticmethod
        def mallopt(option, value) -> int:  # type: ignore[no-untyped-def]
            told.append((option.value, value.value))
            return int(option.value != -3)

    monkeypatch.setattr("robustvit.runtime.kept_memory.ctypes.CDLL", lambda name: Old())
    assert keep_memory()
    assert (-4, 0) in told
