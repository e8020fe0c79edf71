"""What every number of an evaluation means, as results.json and the report say it: the measures, and what else they show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from robustvit.metrics.measures import ACCURACY, Measure, base_key, measures
from robustvit.tasks.scoring import Scoring

if TYPE_CHECKING:
    from robustvit.evaluation.model_results import ModelResults

__all__ = ["definitions"]

_TABLES = {
    "class_accuracies": "Class by class: share of its images that is right as they are (clean), averaged over corruptions "
    "and severities (corrupted), and under each attack.",
    "mean_perturbation": "How far an attack goes, averaged over the images: the largest change of a value (1 is white), "
    "the L2 norm of the change over all values, and the share of the pixels that changed.",
    "corruption_errors": "CE of each corruption: summed error over the 5 severities divided by AlexNet's on ImageNet-C. "
    "Extra corruptions do not count in mCE.",
    "corruption_accuracies": "The primary measure (of a classifier: accuracy) under each corruption, averaged over its "
    "severities.",
    "group_accuracies": "The primary measure (of a classifier: accuracy), averaged over the corruptions of a group (noise, "
    "blur, weather, digital) that were "
    "measured and their severities. With all 19 corruptions, the extra ones count in their groups.",
    "interval": "95 % interval. Of a single accuracy of a classifier (clean, one corruption at one severity, one attack) "
    "Wilson's: all "
    "accuracies under which so many right answers would be no surprise. Of means over several cells, retention and mCE from "
    "{resamples} bootstrap samples of the images, the same ones in every cell; where all samples agree, a mean gets Wilson's, "
    "and other numbers get none.",
    "differences": "A number of one network minus that of another, on the images that both saw. Its 95 % interval is from "
    "{resamples} bootstrap samples that are the same images for both (paired), so it says more than two separate intervals. "
    "Where it includes 0, the difference may be chance. Without an interval, the images do not tell: no image is right "
    "for one network and wrong for the other, or too few are.",
}
"""What results hold besides measures."""


_OTHER_TABLES = {
    "class_accuracies": "Class by class: as they are (clean), averaged over corruptions and severities (corrupted), and under "
    "each corruption, attack or condition, as far as these were measured.",
    "interval": "95 % interval, from {resamples} bootstrap samples of the images, the same ones in every cell.",
    "differences": "A number of one network minus that of another, on the images that both saw. Its 95 % interval is from "
    "{resamples} bootstrap samples that are the same images for both (paired), so it says more than two separate intervals. "
    "Where it includes 0, the difference may be chance.",
}
"""The same where the primary measure is not the share of right answers."""
_OF_ANY_TASK = "The primary measure (of a classifier: accuracy)"


def definitions(
    primary: Measure = ACCURACY, networks: Sequence[ModelResults] | None = None, resamples: int = Scoring.resamples
) -> dict[str, str]:
    """Key -> meaning: measures, then tables, intervals and differences.

    Args:
        primary: measure of the task, by whose name texts call it.
        networks: whose results are explained: what none of them has is left out. None explains everything.
        resamples: draws of the bootstrap.
    """
    texts = {**{measure.key: measure.meaning for measure in measures()}, **_TABLES}
    if primary != ACCURACY:
        texts = {key: text.replace(_OF_ANY_TASK, primary.label) for key, text in {**texts, **_OTHER_TABLES}.items()}
    texts |= {key: texts[key].format(resamples=resamples) for key in ("interval", "differences")}
    if networks is None:
        return texts
    used = {primary.key, *_measures_of(networks), *_tables_of(networks)}
    return {key: text for key, text in texts.items() if key in used}


def _measures_of(networks: Sequence[ModelResults]) -> Iterator[str]:
    """Keys of the measures that have a number."""
    for network in networks:
        yield from map(base_key, network.summary)
        yield from (key for cell in network.cells for key in cell.values)
        yield from (key for one in network.measurements for each in one.class_accuracies for key in each.measures)


def _tables_of(networks: Sequence[ModelResults]) -> Iterator[str]:
    """Which of the tables have a row."""
    found = [measurement for network in networks for measurement in network.measurements]
    tables = ("class_accuracies", "corruption_errors", "corruption_accuracies", "group_accuracies")
    yield from (name for name in tables if any(getattr(measurement, name) for measurement in found))
    if any(measurement.attacks for measurement in found):
        yield "mean_perturbation"
    values = [value for network in networks for value in network.summary.values()]
    values += [value for network in networks for cell in network.cells for value in cell.values.values()]
    if any(value.low is not None for value in values):
        yield "interval"
    if len(networks) > 1:
        yield "differences"
