"""How many groups the tokens of a block fall into (FAN 2.2, Fig. 3 a, b)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from robustvit.analysis.drawing import Plate, from_zero, legend, lines, new_figure
from robustvit.analysis.finding import Finding
from robustvit.analysis.shared_options import Options
from robustvit.analysis.study import BLOCKS, Findings, Study

if TYPE_CHECKING:
    from robustvit.analysis.subject import Subject

__all__ = ["EigenvalueOptions", "Eigenvalues"]


@dataclass(frozen=True)
class EigenvalueOptions(Options):
    """Which eigenvalues count.

    Attributes:
        epsilon: eigenvalues above this share of the largest are significant.
    """

    epsilon: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require(0 < self.epsilon < 1, "epsilon", "more than 0 and less than 1")


class Eigenvalues(Study[EigenvalueOptions]):
    """Significant eigenvalues of the affinity of the tokens."""

    name = "eigenvalues"
    summary = "significant eigenvalues of the tokens' affinity, by block"
    needs = (BLOCKS,)
    options = EigenvalueOptions

    def run(self, subject: Subject, options: EigenvalueOptions) -> Finding:
        from robustvit.analysis.eigenvalues import eigenvalue_counts

        found = eigenvalue_counts(subject.network, subject.clean(), options.epsilon)
        numbers = {"significant": found.significant.tolist(), "zero": found.zero.tolist(), "epsilon": found.epsilon}
        arrays = {"significant": found.significant.numpy(), "zero": found.zero.float().numpy()}
        return Finding(found.definition, numbers, arrays)

    def plates(self, findings: Findings, options: EigenvalueOptions) -> list[Plate]:
        figure = new_figure(10, 3.4)
        for axis, key in zip(figure.subplots(1, 2), ("significant", "zero"), strict=True):
            of_blocks = {name: one.numbers[key] for name, one in findings.items()}
            lines(axis, of_blocks, f"{key} eigenvalues", "mean over images")
            from_zero(axis)
        legend(figure, findings)
        reading = (
            f"Eigenvalues of the affinity of tokens, S = Z Z^T, after each block. Left, the significant ones, above "
            f"{options.epsilon:g} of the largest: about as many as there are groups of tokens, so they become fewer when "
            'tokens gather into groups. Right, the others, called "zero": not above that threshold. Both together are as many '
            "as there are tokens."
        )
        return [Plate("eigenvalues", "How many groups the tokens form", reading, figure)]
