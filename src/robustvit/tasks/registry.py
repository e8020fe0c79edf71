"""The tasks by name: ours, and those of outside packages (entry points `robustvit.tasks`)."""

from __future__ import annotations

from robustvit.runtime.plugins import Registry
from robustvit.runtime.spelling import nearest
from robustvit.tasks.base import Task

__all__ = ["TASKS", "task_named"]

TASKS: Registry[type[Task]] = Registry("robustvit.tasks", {"classification": "robustvit.tasks.classification:Classification"})


def task_named(name: str) -> Task:
    """The task of this name, bound to nothing.

    Raises:
        ValueError: there is none.
    """
    if name not in TASKS:
        raise ValueError(f"there is no task {name!r}{nearest(name, TASKS)} (choose among {', '.join(TASKS)})")
    return TASKS[name]()
