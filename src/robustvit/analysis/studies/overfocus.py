"""Do a few tokens get all the attention, whoever asks? (TAP 3.1)"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from robustvit.analysis.drawing import WIDEST, Plate, colour, from_zero, legend, lines, new_figure
from robustvit.analysis.finding import Finding
from robustvit.analysis.shared_options import Options
from robustvit.analysis.study import ATTENTION, Findings, Study

if TYPE_CHECKING:
    from robustvit.analysis.subject import Subject

__all__ = ["Overfocus"]

EVEN = (
    " The dotted line is what they would get if attention were spread evenly; networks with other numbers of tokens, or with "
    "windows, have another even share, so compare each curve with its own dotted line."
)


class Overfocus(Study[Options]):
    """How unevenly attention is spread over the tokens."""

    name = "overfocus"
    summary = "whether few tokens get all the attention"
    needs = (ATTENTION,)
    options = Options

    def run(self, subject: Subject, options: Options) -> Finding:
        from robustvit.analysis.overfocus import DEFINITION, overfocus

        found = vars(overfocus(subject.network, subject.clean()))
        numbers = {name: value.tolist() for name, value in found.items()}
        return Finding(DEFINITION, numbers, {name: value.numpy() for name, value in found.items()})

    def plates(self, findings: Findings, options: Options) -> list[Plate]:
        panels = (
            ("top_share", "attention on the 5 most attended", "share of all attention", 1.0),
            ("crowded", "more than twice an even share", "tokens", math.inf),
            ("row_similarity", "likeness of rows to the mean row", "cosine", 1.0),
        )
        figure = new_figure(WIDEST, 3.4)
        for axis, (key, title, y, most) in zip(figure.subplots(1, len(panels)), panels, strict=True):
            lines(axis, {name: one.numbers[key] for name, one in findings.items()}, title, y)
            if key == "top_share":
                _even_shares(axis, findings)
            from_zero(axis, most)
        legend(figure, findings)
        reading = (
            "Overfocusing is when a few tokens get the attention of all others. Left, what the five most attended tokens get "
            f"of it.{EVEN if any('even_share' in one.numbers for one in findings.values()) else ''} Middle, how many tokens "
            "get more than twice an even share. Right, how alike the rows of the map are: at 1, every token looks at the same "
            "places. Swin's windows are shifted in every other block, so that its curves may alternate."
        )
        return [Plate("overfocus", "Whether few tokens get all the attention", reading, figure)]


def _even_shares(axis: Any, findings: Findings) -> None:
    """What the five tokens would get of attention that is spread evenly, dotted, where it is known."""
    for place, one in enumerate(findings.values()):
        even = one.numbers.get("even_share") or ()
        if even:
            axis.plot(range(1, len(even) + 1), even, color=colour(place), linestyle=":", linewidth=1.6)
