"""Do the heads of a block look at different things? (TAP 4.1.2)"""

from __future__ import annotations

from typing import TYPE_CHECKING

from robustvit.analysis.drawing import Plate, legend, lines, new_figure, no_cosine_above_1, number_rows
from robustvit.analysis.finding import Finding
from robustvit.analysis.shared_options import Options
from robustvit.analysis.study import ATTENTION, Findings, Study, quoted

if TYPE_CHECKING:
    from robustvit.analysis.subject import Subject

__all__ = ["HeadDiversity"]


class HeadDiversity(Study[Options]):
    """Cosine between the attention maps of different heads."""

    name = "head-diversity"
    summary = "likeness of the heads of a block"
    needs = (ATTENTION,)
    options = Options

    def run(self, subject: Subject, options: Options) -> Finding:
        from robustvit.analysis.head_diversity import DEFINITION, head_diversity

        values = head_diversity(subject.network, subject.clean())
        return Finding(DEFINITION, {"mean": float(values.nanmean()), "layers": values.tolist()}, {"layers": values.numpy()})

    def plates(self, findings: Findings, options: Options) -> list[Plate]:
        figure = new_figure(6.4, 3.4)
        axis = figure.subplots()
        lines(axis, {name: one.numbers["layers"] for name, one in findings.items()}, "likeness of heads", "cosine")
        no_cosine_above_1(axis)
        legend(figure, findings)
        reading = (
            "Mean cosine between the attention of two heads of the same block: at 1 all heads look at the same, lower is "
            "better."
        )
        rows = number_rows(findings, (("mean", "mean cosine"),))
        return [Plate("head-diversity", "How different the heads are", reading, figure, rows)]

    def lead(self, findings: Findings, options: Options) -> str | None:
        return quoted("Heads of a block are alike to a cosine of", findings, "mean", ".2f")
