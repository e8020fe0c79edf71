"""Which of the processes that torchrun started this one is. It needs no torch, which commands import late."""

from __future__ import annotations

import os

__all__ = ["is_first_process", "local_rank", "process_count", "process_rank"]


def process_rank() -> int:
    """From 0; 0 in the only process."""
    return int(os.environ.get("RANK", "0"))


def process_count() -> int:
    """Processes on all machines together."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def is_first_process() -> bool:
    """Whether this is the process that writes and prints for all."""
    return process_rank() == 0


def local_rank() -> int | None:
    """Among the processes of this machine, from 0; None where torchrun started none."""
    told = os.environ.get("LOCAL_RANK")
    return None if told is None else int(told)
