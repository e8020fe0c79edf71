"""Memory that stays with the process when a tensor is freed, so that the next tensor need not ask the system for it again.

glibc gives every block above a threshold, 32 MB at most, back to the system when it is freed, and gets the next one page by
page, zeroed. The maps of a batch at 224 px are such blocks: a network whose products are quick can spend a third of its time
in these page faults.
"""

from __future__ import annotations

import ctypes
import os
import sys

__all__ = ["keep_memory"]

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_MMAP_MAX, M_ARENA_MAX = -1, -3, -4, -8  # malloc.h
LARGEST_KEPT = 1 << 30  # bytes; larger blocks are rare, and would leave holes
NEVER = -1
SWITCH = "ROBUSTVIT_KEEP_MEMORY"


def keep_memory() -> bool:
    """Makes this process keep the memory that it frees, which speeds up evaluation and training on the CPU.

    Three options of glibc's malloc: blocks of up to 1 GiB come from the heap, the heap does not shrink, and all threads share
    one. Nothing that is computed changes. Others get the memory back when the process ends. The peak may grow: where small
    blocks that stay lie between large ones of ever new sizes, what was freed does not fit what comes next.
    Every command of robustvit calls it at its start. In a program of your own, call it first, before torch is imported:
    threads with a heap of their own stay as they are, and so may later threads that reuse one. A second call is harmless. With
    another C library (macOS, Windows, musl) nothing happens, nor with ROBUSTVIT_KEEP_MEMORY=0 in the environment.

    Returns:
        whether glibc has taken the options; where another allocator is preloaded, they have no effect.
    """
    if not sys.platform.startswith("linux") or os.environ.get(SWITCH) == "0":
        return False
    library = ctypes.CDLL(None)
    if not hasattr(library, "gnu_get_libc_version"):  # musl has a mallopt that does nothing
        return False

    def accepted(option: int, value: int) -> bool:
        return library.mallopt(ctypes.c_int(option), ctypes.c_int(value)) == 1

    is_kept = accepted(M_MMAP_THRESHOLD, LARGEST_KEPT) or accepted(M_MMAP_MAX, 0)  # old versions refuse so large a threshold
    return accepted(M_TRIM_THRESHOLD, NEVER) and accepted(M_ARENA_MAX, 1) and is_kept
