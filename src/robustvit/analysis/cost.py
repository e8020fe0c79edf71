"""What studies will cost, from a short trial of each: one image, then three, and the line through both."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from robustvit.analysis.plan import Plan, PlannedStudy
from robustvit.analysis.subject import Subject
from robustvit.data.samples import SomeSamples

__all__ = ["estimated_seconds", "smaller"]

TRIALS = (1, 3)
"""Images, masks and steps of fitting of the two trials."""


def estimated_seconds(plan: Plan, clock: Callable[[], float] = time.perf_counter) -> dict[str, float]:
    """Study -> seconds that it will take for all networks, on this machine, as busy as it is now.

    Args:
        plan: what there is to do.
        clock: seconds.
    """
    found = {}
    for name, planned in plan.studies.items():
        subjects = plan.subjects_of(name)
        if planned.study.needs and subjects:
            found[name] = sum(_seconds(planned, subject, clock) for subject in subjects.values())
    return found


def _seconds(planned: PlannedStudy, subject: Subject, clock: Callable[[], float]) -> float:
    study, options = planned.study, planned.options
    times, passes = [], []
    for size in TRIALS:
        trial, trial_options = smaller(subject, size), study.for_trial(size, options)
        begin = clock()
        study.run(trial, trial_options)
        times.append(clock() - begin)
        passes.append(study.passes(len(trial.pictures), trial_options))
    wanted = study.passes(len(subject.pictures), options)
    rate = (times[1] - times[0]) / (passes[1] - passes[0]) if passes[1] > passes[0] else 0.0
    return times[1] + max(rate, 0.0) * max(wanted - passes[1], 0)


def smaller(subject: Subject, size: int) -> Subject:
    """The same network with few images; what it learns about them is forgotten."""
    samples = SomeSamples(subject.pictures, range(min(size, len(subject.pictures))))
    return replace(subject, pictures=samples, progress=None, skipped={}, enlarged=set(), shown=None)
