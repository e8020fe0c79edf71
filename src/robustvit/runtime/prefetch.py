"""Making the next inputs in a thread while the network works on the last one."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import Any, Generic, TypeVar

import torch

__all__ = ["Prefetch"]

Item = TypeVar("Item")
_END = object()


class Prefetch(Generic[Item]):
    """Iterates over `source` in a thread of its own, at most `ahead` items before whoever reads.

    An error in `source` is raised where the item would have been read. Leaving the `with` block stops the thread.

    The thread computes on one core: two teams of threads on the same cores would wait for each other more than they work.
    """

    def __init__(self, source: Iterator[Item], *, ahead: int = 2) -> None:
        self.source = source
        self.queue: queue.Queue[Any] = queue.Queue(maxsize=ahead)
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Prefetch[Item]:
        self.threads = torch.get_num_threads()
        torch.set_num_threads(self.threads)  # settles it for this thread, whatever others set
        self.thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop.set()
        self.thread.join()
        torch.set_num_threads(self.threads)

    def __iter__(self) -> Prefetch[Item]:
        return self

    def __next__(self) -> Item:
        item = self.queue.get()
        if item is _END:
            raise StopIteration
        if isinstance(item, _Failure):
            raise item.error
        return item

    def _put(self, item: object) -> bool:
        while not self.stop.is_set():
            try:
                self.queue.put(item, timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    def _run(self) -> None:
        torch.set_num_threads(1)
        try:
            for item in self.source:
                if not self._put(item):
                    return
            self._put(_END)
        except BaseException as error:
            self._put(_Failure(error))


class _Failure:
    def __init__(self, error: BaseException) -> None:
        self.error = error
