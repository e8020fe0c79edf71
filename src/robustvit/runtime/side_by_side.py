"""Calls that run beside each other on the cores of the machine, with results in the order of the calls."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import torch

from robustvit.runtime.cores import available_cores

__all__ = ["MOST_AT_ONCE", "free_cores", "side_by_side"]

Result = TypeVar("Result")
MOST_AT_ONCE = 8
"""Results of so many calls are in memory at once, at most."""


def free_cores(device: torch.device | str) -> int:
    """Cores for work beside a network on `device`: all of them, `MOST_AT_ONCE` at most, if it computes elsewhere; 1 if it
    computes on them itself, with a team of threads of its own."""
    return 1 if torch.device(device).type == "cpu" else min(MOST_AT_ONCE, available_cores())


def side_by_side(calls: Iterable[Callable[[], Result]], cores: int) -> Iterator[Result]:
    """The results of `calls`, in their order; `cores` of them run at a time, each with one thread of PyTorch.

    With one core, a call runs when its result is asked for. An error is raised in the place of the result; calls that have
    begun by then end first, and no others are begun, as is so where the iterator is closed.
    """
    if cores <= 1:
        for call in calls:
            yield call()
        return
    threads = torch.get_num_threads()
    torch.set_num_threads(threads)  # settles it for this thread, whatever others set
    begun: deque[Future[Result]] = deque()
    try:
        with ThreadPoolExecutor(cores, "side-by-side", initializer=torch.set_num_threads, initargs=(1,)) as pool:
            try:
                for call in calls:
                    begun.append(pool.submit(call))
                    if len(begun) == cores:
                        yield begun.popleft().result()
                while begun:
                    yield begun.popleft().result()
            finally:
                for future in begun:
                    future.cancel()
    finally:
        torch.set_num_threads(threads)  # which also is what threads begin with that nobody told another number
