"""The result in words: which network, how much of its accuracy survives, how sure that is."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from robustvit.corruptions.parameters import SEVERITIES
from robustvit.corruptions.registry import GROUPS, corruption_names
from robustvit.evaluation.results import ModelResults, Results, Value
from robustvit.metrics.measures import ACCURACY, corrupted_accuracies, in_ranking_order, measure_of
from robustvit.report.grids import grids_of
from robustvit.report.numbers import change, change_interval, interval, is_clear, percent, quantity, words

__all__ = ["Headline", "headline", "rank", "ranking_measure", "short_name"]

MOST_NAMED = 3
"""Networks with the same number, or corruptions, that are named in the large type."""
CHECKPOINTS = (".safetensors", ".pth", ".pt", ".tar", ".bin", ".ckpt")


@dataclass(frozen=True)
class Headline:
    """What stands at the top of the page.

    Attributes:
        subject: the network it speaks of; empty where there is none.
        claim: the rest of the sentence.
        lines: sentences below it.
    """

    subject: str
    claim: str
    lines: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Lead:
    """How far the best network is from the next, and whether that may be chance."""

    text: str = ""
    may_be_chance: bool = False


def headline(results: Results) -> Headline:
    """The main finding. For several networks, the one that is best by `ranking_measure`, or those that are equal."""
    measure = ranking_measure(results.models)
    if measure is None:
        return Headline("", "Nothing could be measured", ("No image gave a result; see below what was skipped.",))
    order = rank(results.models, measure)
    best = order[0]
    about = _under(best)
    if len(order) == 1:
        return _of_one(best, measure, about)
    equal = [model for model in order if math.isclose(_number(model, measure), _number(best, measure), abs_tol=1e-12)]
    if len(equal) > 1:
        return _of_equals(order, equal, measure, about)
    return _of_several(results, order, measure, about)


def ranking_measure(models: Sequence[ModelResults]) -> str | None:
    """The name in the summaries by which networks are ranked; None where nothing is a number.

    The first of `in_ranking_order` that was measured; of several attacks, the strongest: the one that leaves the least
    accuracy.
    """
    measured = [measure.key for measure in in_ranking_order() if _is_measured(models, measure.key)]
    if measured and _is_attack(measured[0]):
        return min(filter(_is_attack, measured), key=lambda name: _average(models, name))
    return measured[0] if measured else None


def _is_measured(models: Sequence[ModelResults], name: str) -> bool:
    return any(math.isfinite(_number(model, name)) for model in models)


def _is_mean(name: str) -> bool:
    """Whether it is an accuracy averaged over corruptions."""
    return name in corrupted_accuracies()


def _is_attack(name: str) -> bool:
    return measure_of(name).family == "attack"


def _attacks_made(models: Sequence[ModelResults]) -> list[str]:
    """Accuracies under attacks that were measured."""
    return [m.key for m in in_ranking_order() if m.family == "attack" and _is_measured(models, m.key)]


def _average(models: Sequence[ModelResults], name: str) -> float:
    numbers = [number for model in models if math.isfinite(number := _number(model, name))]
    return sum(numbers) / len(numbers)


def rank(models: Sequence[ModelResults], measure: str) -> list[ModelResults]:
    """Best first; those without the number last, in the order given."""
    sign = -1 if measure_of(measure).higher_is_better else 1

    def place(model: ModelResults) -> float:
        number = _number(model, measure)
        return sign * number if math.isfinite(number) else math.inf

    return sorted(models, key=place)


def short_name(model: ModelResults) -> str:
    """The name; of a checkpoint, the file without its folders."""
    is_file = model.name.endswith(CHECKPOINTS)
    return model.name.rsplit("/", 1)[-1] if is_file else model.name


def _of_one(model: ModelResults, measure: str, about: str) -> Headline:
    value = model.summary[measure]
    kept = _finite(model, "retention")
    if _is_mean(measure) and kept is not None:
        lines = [f"{_clean_and_spoiled(model, value)}: {_with_interval(kept)} of its {_noun(model)} is left (retention)."]
        lines += [*_under_the_strongest([model]), *_brackets(kept)]
        return Headline(short_name(model), f"keeps {percent(kept.value, 0)} of its {_noun(model)} under {about}", tuple(lines))
    if _is_attack(measure):
        told = (_clean_and_attacked(model, measure), *_among_attacks([model]), *_brackets(value))
        return Headline(short_name(model), _claim(model, measure, value, about), told)
    return Headline(short_name(model), _claim(model, measure, value, about), _interval_line(value))


def _of_equals(order: Sequence[ModelResults], equal: Sequence[ModelResults], measure: str, about: str) -> Headline:
    """Of the best networks where they have the same number: none of them is named alone."""
    value, names = equal[0].summary[measure], _listed([short_name(model) for model in equal])
    claim = "are equal" if len(equal) == len(order) else f"are the best of {len(order)} networks, and equal"
    lines = _interval_line(value)
    if _is_mean(measure):
        claim += f" under {about}: {percent(value.value)}"
    else:
        claim += f": each {_claim(equal[0], measure, value, about)}"
    if len(equal) < len(order):
        other = _finite(order[len(equal)], measure)
        lines += (f"Next is {short_name(order[len(equal)])} with {_with_interval(other)}.",) if other else ()
    if len(equal) > MOST_NAMED:
        return Headline("", f"{len(equal)} networks {claim}", (f"They are {names}.", *lines))
    return Headline(names, claim, lines)


def _of_several(results: Results, order: Sequence[ModelResults], measure: str, about: str) -> Headline:
    best, second = order[0], order[1]
    value = best.summary[measure]
    lead = _lead(results, best, second, measure)
    lines = [lead.text]
    kept = _finite(best, "retention")
    if _is_mean(measure):
        leads = "is the most accurate" if best.primary == ACCURACY.key else f"has the best {_noun(best)}"
        claim = f"{leads} of {len(order)} networks under {about}: {percent(value.value)}"
        if kept is not None:
            lines.append(f"It keeps {_with_interval(kept)} of its clean {_noun(best)}.{_keeps_more(order, kept)}")
    else:
        claim = f"is the best of {len(order)} networks: it {_claim(best, measure, value, about)}"
    lines += _among_attacks(order) if _is_attack(measure) else _under_the_strongest(order)
    if lead.may_be_chance:
        claim += f", but its lead over {short_name(second)} may be chance"
    return Headline(short_name(best), claim, tuple(filter(None, (*_interval_line(value), *lines))))


def _noun(model: ModelResults) -> str:
    """What the primary measure is called in a sentence."""
    return measure_of(model.primary).words


def _claim(model: ModelResults, measure: str, value: Value, about: str) -> str:
    if _is_mean(measure):
        is_share_right = model.primary == ACCURACY.key
        told = f"gets {percent(value.value)} right" if is_share_right else f"has a {_noun(model)} of {percent(value.value)}"
        return f"{told} under {about}"
    if measure_of(measure).family == "retention":
        return f"keeps {percent(value.value, 0)} of its {_noun(model)} under {about}"
    claim = measure_of(measure).claim.format(quantity(measure, value.value))
    return f"{claim}{_which(measure_of(measure).label, claim)}"


def _which(label: str, claim: str) -> str:
    """What a label says in brackets and a claim does not, such as which split: "ACDC mIoU (val)" -> " (val)"."""
    found = re.search(r"\((.+?)\)", label)
    return f" ({found[1]})" if found and found[1] not in claim else ""


def _lead(results: Results, best: ModelResults, second: ModelResults, measure: str) -> _Lead:
    """How far the best network is from the next: by their paired difference, else by their intervals."""
    value, other = best.summary[measure], second.summary.get(measure)
    if other is None or not math.isfinite(other.value):
        return _Lead()
    text = f"Next is {short_name(second)} with {_with_interval(other)}"
    compared = (d.summary[measure] for d in results.between(best.name, second.name) if measure in d.summary)
    if (difference := next(compared, None)) is not None and is_clear(difference) is not None:
        if is_clear(difference):
            apart = f"{change(measure, difference.value)} points ({change_interval(measure, difference)})"
            return _Lead(f"{text}; the difference on the same images is {apart}.")
        low, high = change(measure, difference.low), change(measure, difference.high)
        return _Lead(f"{text}; on the same images the difference is between {low} and {high} points.", may_be_chance=True)
    if None in (value.low, value.high, other.low, other.high):
        return _Lead(f"{text}.")
    overlap = value.low <= other.high and other.low <= value.high  # type: ignore[operator]
    return _Lead(f"{text}; the intervals {'overlap' if overlap else 'do not overlap'}.", overlap)


def _among_attacks(models: Sequence[ModelResults]) -> tuple[str, ...]:
    """That the headline speaks of the strongest of several attacks."""
    made = _attacks_made(models)
    if len(made) < 2:
        return ()
    strongest = measure_of(min(made, key=lambda name: _average(models, name))).under
    return (f"Of the {len(made)} attacks that were made, the strongest is {strongest}.",)


def _under_the_strongest(models: Sequence[ModelResults]) -> tuple[str, ...]:
    """What is left under the strongest attack, where the headline speaks of corruptions."""
    made = _attacks_made(models)
    if not made:
        return ()
    strongest = min(made, key=lambda name: _average(models, name))
    best = rank(models, strongest)[0]
    who = "it" if len(models) == 1 else short_name(best)
    which = f", the strongest of {len(made)} attacks" if len(made) > 1 else ""
    left = _with_interval(best.summary[strongest])
    told = f"gets {left} right" if best.primary == ACCURACY.key else f"has a {_noun(best)} of {left}"
    return (f"Under {measure_of(strongest).under}{which}, {who} {told}.",)


def _listed(names: Sequence[str]) -> str:
    """ "a, b and c"."""
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _keeps_more(order: Sequence[ModelResults], kept: Value) -> str:
    most = rank(order, "retention")[0]
    share = most.summary["retention"].value
    return "" if share <= kept.value else f" {short_name(most)} keeps the largest share, {percent(share)}."


def _clean_and_spoiled(model: ModelResults, spoiled: Value) -> str:
    clean = _clean(model)
    if model.primary != ACCURACY.key:
        before = f"{_with_interval(clean)} on clean images and " if clean else ""
        return f"Its {_noun(model)} is {before}{_with_interval(spoiled)} on corrupted ones"
    if clean is None:
        return f"It gets {_with_interval(spoiled)} of the corrupted images right"
    return f"It gets {_with_interval(clean)} of the clean images right and {_with_interval(spoiled)} of the corrupted ones"


def _clean(model: ModelResults) -> Value | None:
    return model.clean if model.clean is not None and math.isfinite(model.clean.value) else None


def _clean_and_attacked(model: ModelResults, measure: str) -> str:
    clean, attacked = _clean(model), model.summary[measure]
    if model.primary != ACCURACY.key:
        before = f"{_with_interval(clean)} on clean images and " if clean else ""
        return f"Its {_noun(model)} is {before}{_with_interval(attacked)} under {measure_of(measure).under}."
    before = f"It gets {_with_interval(clean)} of the images right as they are, and " if clean else "It gets "
    return f"{before}{_with_interval(attacked)} of them under {measure_of(measure).under}."


def _with_interval(value: Value) -> str:
    reach = interval(value)
    return f"{percent(value.value)} ({reach})" if reach else percent(value.value)


def _brackets(value: Value) -> tuple[str, ...]:
    return ("Brackets hold 95 % intervals.",) if interval(value) else ()


def _interval_line(value: Value) -> tuple[str, ...]:
    reach = interval(value)
    return (f"95 % interval: {reach}.",) if reach else ()


def _under(model: ModelResults) -> str:
    """ "common corruptions", "noise", "fog", or how many were measured; with the severities, if not all of them were."""
    measured = {name for grid in grids_of(model) for name in grid.corruptions}
    severities = sorted({severity for grid in grids_of(model) for severity in grid.severities})
    return _corruptions(measured) + _at(severities)


def _at(severities: Sequence[int]) -> str:
    if not severities or tuple(severities) == SEVERITIES:
        return ""
    if len(severities) == 1:
        return f" at severity {severities[0]}"
    return f" at severities {_listed([str(severity) for severity in severities])}"


def _corruptions(measured: set[str]) -> str:
    if set(corruption_names("common15")) <= measured:
        return "common corruptions"
    for group in GROUPS:
        if measured == set(corruption_names(group)):
            return {"digital": "digital damage"}.get(group, group)
    if len(measured) > MOST_NAMED:
        return f"{len(measured)} corruptions"
    return _listed(sorted(map(words, measured))) if len(measured) > 1 else words(next(iter(measured), "corruption"))


def _number(model: ModelResults, name: str) -> float:
    value = model.summary.get(name)
    return math.nan if value is None else value.value


def _finite(model: ModelResults, name: str) -> Value | None:
    return model.summary[name] if math.isfinite(_number(model, name)) else None
