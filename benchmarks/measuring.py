"""How the benchmarks measure: medians of steps that take turns, and the growth of memory over one step."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

__all__ = ["Step", "median_ratio", "medians", "memory_in_process", "print_memory_of"]

Step = Callable[[], object]


def medians(candidates: dict[str, Step], repeats: int) -> dict[str, float]:
    """Median seconds of each candidate. They take turns, so that noise meets all alike."""
    return {name: median(values) for name, values in _turns(candidates, repeats).items()}


def median_ratio(step: Step, other: Step, repeats: int) -> float:
    """The median, over turns, of the time of `step` over that of `other` right before it: for differences below the noise."""
    times = _turns({"other": other, "step": step}, repeats)
    return median(a / b for a, b in zip(times["step"], times["other"], strict=True))


def _turns(candidates: dict[str, Step], repeats: int) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in candidates}
    for step in candidates.values():
        step()
    for _ in range(repeats):
        for name, step in candidates.items():
            start = time.perf_counter()
            step()
            times[name].append(time.perf_counter() - start)
    return times


def memory_in_process(program: str, arguments: Sequence[str]) -> float:
    """The megabytes that `program --measure-memory ...` prints, in a process whose freed memory goes back at once."""
    give_back = dict(os.environ, MALLOC_MMAP_THRESHOLD_="65536", MALLOC_TRIM_THRESHOLD_="65536")
    command = [sys.executable, program, "--measure-memory", *arguments]
    return float(subprocess.run(command, capture_output=True, text=True, check=True, env=give_back).stdout)


def print_memory_of(step: Step) -> None:
    """Prints how much the resident set of this process grows at most during one step, in megabytes (Linux only)."""
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak of building
    before = _status_mb("VmRSS")
    step()
    print(_status_mb("VmHWM") - before)


def _status_mb(field: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(field))
