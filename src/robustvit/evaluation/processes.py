"""The processes of a `torchrun`, or the only one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch.distributed as dist

__all__ = ["Processes", "join_processes"]

PATIENCE = timedelta(days=7)
"""How long a process that has finished its share waits for the others."""


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
    """Joins the processes that torchrun started, if it did, and leaves them at the end.

    Args:
        backend: of PyTorch's: "gloo" for tensors on the CPU, "nccl" for CUDA.
    """
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world == 1:
        yield Processes()
        return
    started_here = not dist.is_initialized()
    if started_here:
        dist.init_process_group(backend, timeout=PATIENCE)
    try:
        yield Processes(dist.get_rank(), dist.get_world_size())
    finally:
        if started_here:
            dist.destroy_process_group()
