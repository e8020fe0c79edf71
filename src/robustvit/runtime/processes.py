"""The processes of a `torchrun`, or the only one.

A process may wait for the others for days, where their shares of the work differ; but not for one that is gone. Those of a
machine end with their torchrun. Between machines, each process lets the next one hear that it lives.
"""

from __future__ import annotations

import gc
import itertools
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch.distributed as dist
from torch.distributed.rendezvous import rendezvous

from robustvit.runtime.interruption import end_with_torchrun, stop_this_process
from robustvit.runtime.ranks import process_count

__all__ = ["Processes", "join_processes"]

PATIENCE = timedelta(days=7)
"""How long a process that has finished its share waits for others that live."""
MEETING = timedelta(minutes=30)
"""How long processes wait for each other at the start."""
SILENCE_SECONDS = 600.0
"""A process that has not been heard for so long is gone: its machine was switched off, or the network is down."""
BEAT_SECONDS = 5.0


@dataclass(frozen=True)
class Processes:
    """This process (`rank`) among `world`."""

    rank: int = 0
    world: int = 1

    def gather(self, value: Any) -> list[Any]:
        """The values of all processes, for all of them."""
        if self.world == 1:
            return [value]
        values: list[Any] = [None] * self.world
        dist.all_gather_object(values, value)
        return values


@contextmanager
def join_processes(backend: str = "gloo") -> Iterator[Processes]:
    """Joins the processes that torchrun started, if it did, and leaves them at the end, when all of them have come there.

    Args:
        backend: of PyTorch's: "gloo" for tensors on the CPU, "nccl" for CUDA.
    """
    world = process_count()
    if world == 1:
        yield Processes()
        return
    if dist.is_initialized():
        yield Processes(dist.get_rank(), dist.get_world_size())
        return
    end_with_torchrun()
    meeting, rank, world = next(iter(rendezvous("env://", timeout=MEETING)))
    store = dist.PrefixStore(f"robustvit/{next(_groups)}", meeting)  # a second group must not find what the first has left
    _wait_for_all(store, world)
    with _heard(rank, world):
        dist.init_process_group(backend, store=store, rank=rank, world_size=world, timeout=PATIENCE)
        store.set_timeout(PATIENCE)
        try:
            processes = Processes(rank, world)
            yield processes
            processes.gather(None)  # who leaves first takes what the others talk through away
        finally:
            gc.collect()  # sharded networks hold the group, and would end it in the last moments of the process
            dist.destroy_process_group()


_groups = itertools.count()
"""Of this process, which joins as many as every other."""


def _wait_for_all(store: dist.Store, world: int) -> None:
    """Here rather than inside of PyTorch, where no signal would reach this process when another one has failed."""
    deadline = time.monotonic() + MEETING.total_seconds()
    store.add("arrived", 1)
    while (arrived := store.add("arrived", 0)) < world:
        if time.monotonic() > deadline:
            minutes = MEETING.total_seconds() / 60
            raise RuntimeError(
                f"only {arrived} of {world} processes have come in {minutes:.0f} minutes; look for those missing"
            )
        time.sleep(0.05)


@contextmanager
def _heard(rank: int, world: int) -> Iterator[None]:
    """While the body runs, the others hear that this process lives, and it listens to the next one."""
    stop = threading.Event()
    thread = threading.Thread(target=_beat_and_listen, args=(rank, world, stop), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(timeout=5)


def _beat_and_listen(rank: int, world: int, stop: threading.Event) -> None:
    address, port, following = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), (rank + 1) % world
    heard, when, limit = 0, time.monotonic(), MEETING.total_seconds()
    try:
        # a connection of its own: that of the group is taken while somebody waits
        store = dist.TCPStore(address, port, is_master=False, wait_for_workers=False, timeout=MEETING)
        while not stop.wait(BEAT_SECONDS):
            store.add(f"robustvit/beats/{rank}", 1)
            if (now := store.add(f"robustvit/beats/{following}", 0)) != heard:
                heard, when, limit = now, time.monotonic(), SILENCE_SECONDS
            elif time.monotonic() - when > limit:
                stop_this_process(f"process {following} of {world} has not been heard for {limit / 60:.0f} minutes")
    except RuntimeError as error:  # torch's errors of connections
        if not stop.is_set():
            reason = str(error).partition("\n")[0]
            stop_this_process(f"the processes of this run cannot reach {address}, where they meet, any more ({reason})")
