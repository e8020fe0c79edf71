"""What analyses will cost, from a short trial of each: one picture, then three, and the line through both."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from robustvit.analysis.options import AnalysisOptions
from robustvit.analysis.patch_corruption import chosen_patches
from robustvit.analysis.studies import CONFIDENCES_OF, STUDIES
from robustvit.analysis.subject import Subject
from robustvit.attacks.attack import FIT_BATCH
from robustvit.data.samples import SomeSamples

__all__ = ["estimated_seconds", "picture_passes"]

TRIALS = (1, 3)
"""Pictures, masks and steps of fitting of the two trials."""


def estimated_seconds(
    subjects: Sequence[Subject],
    chosen: Sequence[str],
    left_out: Mapping[str, Mapping[str, str]],
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Analysis -> seconds that it will take for all networks, on this machine, as busy as it is now.

    Args:
        subjects: networks with their pictures.
        chosen: of `STUDIES`.
        left_out: analysis -> networks that it is not made of.
        clock: seconds.
    """
    found = {}
    for what in chosen:
        made_of = [subject for subject in subjects if subject.name not in left_out.get(what, {})]
        if STUDIES[what].needs != "nothing" and made_of:
            found[what] = sum(_seconds(what, subject, clock) for subject in made_of)
    return found


def _seconds(what: str, subject: Subject, clock: Callable[[], float]) -> float:
    times, passes = [], []
    for size in TRIALS:
        trial = _smaller(subject, size)
        begin = clock()
        STUDIES[what].run(trial)
        times.append(clock() - begin)
        passes.append(picture_passes(what, trial.options, len(trial.pictures)))
    wanted = picture_passes(what, subject.options, len(subject.pictures))
    rate = (times[1] - times[0]) / (passes[1] - passes[0]) if passes[1] > passes[0] else 0.0
    return times[1] + max(rate, 0.0) * max(wanted - passes[1], 0)


def _smaller(subject: Subject, size: int) -> Subject:
    """The same network with few pictures, masks and steps; what it learns about its pictures is forgotten."""
    is_fitted = subject.options.corruption_model is None
    options = replace(subject.options, masks=size, fit_steps=size if is_fitted else None, picture=None, shown=1)
    pictures = SomeSamples(subject.pictures, range(min(size, len(subject.pictures))))
    return replace(subject, pictures=pictures, options=options, progress=None, skipped={}, enlarged=set(), shown=None)


def picture_passes(what: str, options: AnalysisOptions, pictures: int) -> int:
    """How many pictures the network sees in an analysis; learning from one counts as three."""
    if what == "attention":
        return 2
    if what == "occlusion":
        return pictures * (options.masks + 1)
    if what == "token-labels":
        return 2 * min(pictures, max(options.shown, CONFIDENCES_OF))
    if what == "patch-corruption":
        steps = 0 if options.corruption_model else chosen_patches(options).settings.fit_steps
        return 3 * pictures + 3 * FIT_BATCH * steps
    return pictures * (2 if what in ("stability", "clusters", "noise-decay") else 1)
