"""The tasks by name: ours, and those of outside packages (entry points `robustvit.tasks`)."""

from __future__ import annotations

from collections.abc import Iterable

from torch import nn

from robustvit.metrics.measures import SHARE
from robustvit.runtime.plugins import Registry
from robustvit.runtime.spelling import nearest
from robustvit.tasks.base import Task

__all__ = ["TASKS", "task_for", "task_named"]

TASKS: Registry[type[Task]] = Registry(
    "robustvit.tasks",
    {
        "classification": "robustvit.tasks.classification:Classification",
        "segmentation": "robustvit.tasks.segmentation:Segmentation",
        "detection": "robustvit.tasks.detection:Detection",
    },
)


def task_named(name: str) -> Task:
    """The task of this name, bound to nothing.

    Raises:
        ValueError: there is none, or its primary measure cannot be charted.
    """
    if name not in TASKS:
        raise ValueError(f"there is no task {name!r}{nearest(name, TASKS)} (choose among {', '.join(TASKS)})")
    task = TASKS[name]()
    if task.primary.unit is not SHARE or not task.primary.higher_is_better:
        raise ValueError(
            f"the task {name} has the primary measure {task.primary.key}, which is no share of which more is better; charts, "
            "retention and the best checkpoint need one"
        )
    return task


def task_for(task: str | Task | None, networks: Iterable[nn.Module]) -> Task:
    """The task that was asked for, or that of the networks: classification, where they do not say.

    Raises:
        ValueError: they are for several, or there is no such task.
    """
    if isinstance(task, Task):
        return task
    names = {task} if task is not None else {getattr(network, "task", None) or "classification" for network in networks}
    if len(names) > 1:
        raise ValueError(f"the networks are for {' and '.join(sorted(names))}; take those of one task at a time")
    return task_named(names.pop())
