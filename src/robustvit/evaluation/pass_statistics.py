"""The numbers that a pass has: those of its suites, its attacks and its task."""

from __future__ import annotations

from robustvit.evaluation.passes import Pass, worst_cell
from robustvit.evaluation.statistics import Scores, further_statistics
from robustvit.metrics.bootstrap import Statistic
from robustvit.metrics.mean_accuracy import mean_accuracy_of

__all__ = ["statistics_of"]


def statistics_of(planned: Pass, scores: Scores) -> dict[str, Statistic]:
    """The numbers of the summary of a pass, of its suites and its attacks."""
    tallied, found = scores.tallied, dict[str, Statistic]()
    for suite in planned.suites:
        found |= suite.statistics(planned.task, tallied)
    for attack in planned.attacks:
        found[attack.score_measure(planned.task.primary).key] = mean_accuracy_of(tallied.cells, attack.rows)
        if worst_cell(attack) in tallied.cells:
            found[attack.worst_key] = mean_accuracy_of(tallied.cells, [worst_cell(attack).name])
    return {key: number for key, number in {**found, **further_statistics(scores)}.items() if scores.has(number)}
