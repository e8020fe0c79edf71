"""The results of the demo in words, whichever network is ahead, and how far to trust them."""

from __future__ import annotations

from collections.abc import Mapping

from robustvit.evaluation.results import ModelResults, Results, Value
from robustvit.metrics.bootstrap import SAME
from robustvit.report.numbers import duration, percent
from robustvit.report.page import Chapter

__all__ = ["findings_chapter"]

MOST_ALIKE = 0.1
"""Share of the parameters that one network may have more than another of about the same size."""
CAUTION = (
    "What minutes of training can show: that both networks learn, that corruptions cost a part of their score, and how "
    "much this cost differs between them on these images. It cannot show that the difference holds for other seeds, longer "
    "training, larger networks or photographs; the intervals only cover the choice of test images."
)


def findings_chapter(results: Results, compared: Mapping[str, str], kinds: tuple[str, str], differs: str = "") -> Chapter:
    """The first chapter of the report: the two networks (the second is the robust one) against each other.

    Args:
        results: of both.
        compared: key of a measure -> how a sentence about it begins.
        kinds: what the robust network is, and the plain one.
        differs: what is not the same for both besides their size, in a sentence.
    """
    plain, robust = results.models
    difference = results.between(robust.name, plain.name)[0].summary
    what = (
        f"{robust.name} ({kinds[0]}) and {plain.name} ({kinds[1]}) were trained on the same generated images, for the same "
        f"number of updates, with the same settings. {_sizes(plain.parameters, robust.parameters)}"
    )
    times = f"Measuring took {duration(robust.seconds)} for {robust.name} and {duration(plain.seconds)} for {plain.name}."
    verdicts = (_verdict(plain, robust, n, where, difference[n]) for n, where in compared.items() if n in difference)
    return Chapter("Results in words", (f"{what} {differs} {times}" if differs else what, *verdicts, CAUTION))


def _sizes(plain: int, robust: int) -> str:
    """How many parameters the networks have; whether that is about the same, or which has how many more."""
    numbers = f"{robust:,} and {plain:,} parameters"
    less, more = sorted((plain, robust))
    if more <= (1 + MOST_ALIKE) * less:
        return f"They have about the same size: {numbers}."
    return f"They have {numbers}: the {'plain' if plain > robust else 'robust'} one has {percent(more / less - 1, 0)} more."


def _verdict(plain: ModelResults, robust: ModelResults, name: str, where: str, difference: Value) -> str:
    """One comparison as a sentence; the interval of the difference decides what it claims."""
    verb = "keep" if name == "retention" else "reach"
    shown = f"{percent(robust.summary[name].value)} and {percent(plain.summary[name].value)}"
    numbers = f"{where}, {robust.name} and {plain.name} {verb} {shown}"
    points = f"{100 * difference.value:+.1f} points"
    if difference.low is None or difference.high is None:
        return f"{numbers}: {points}; there are too few images to say more."
    bounds = f"{100 * difference.low:+.1f} to {100 * difference.high:+.1f}"
    if difference.low > 0:
        return f"{numbers}: {points} ({bounds}) for the robust network."
    if difference.high < 0:
        return f"{numbers}: {points} ({bounds}); here the plain network is ahead."
    if abs(difference.value) < SAME:
        return f"{numbers}: no difference on average ({bounds})."
    return f"{numbers}: {points} ({bounds}), which may be chance."
