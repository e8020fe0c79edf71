"""Does a network look at the same things when the image is corrupted? (TAP Fig. 1 and 5, AFAT Fig. 4)"""

from __future__ import annotations

from typing import TYPE_CHECKING

from robustvit.analysis.drawing import Plate, histograms, legend, lines, new_figure, no_cosine_above_1, number_rows
from robustvit.analysis.finding import Finding
from robustvit.analysis.shared_options import Spoiling
from robustvit.analysis.spoiling import SpoilingStudy, spoiled_pairs
from robustvit.analysis.study import ATTENTION, Findings, quoted

if TYPE_CHECKING:
    from robustvit.analysis.subject import Subject

__all__ = ["Stability"]


class Stability(SpoilingStudy[Spoiling]):
    """Cosine between the attention on clean and on corrupted images."""

    name = "stability"
    summary = "how alike attention stays under a corruption: by image, by block, the worst 5 %"
    needs = (ATTENTION,)
    options = Spoiling

    def run(self, subject: Subject, options: Spoiling) -> Finding:
        from robustvit.analysis.attention_stability import DEFINITION, attention_stability

        found = attention_stability(subject.network, spoiled_pairs(subject, options))
        layers = [float(values.mean()) for values in found.of_layers]
        numbers = {"pictures": len(found.of_pictures), "mean": found.mean, "worst_5_percent": found.worst, "layers": layers}
        heads = {f"layer {i}": values.numpy() for i, values in enumerate(found.of_layers)}
        return Finding(DEFINITION, numbers, {"pictures": found.of_pictures.numpy(), **heads})

    def plates(self, findings: Findings, options: Spoiling) -> list[Plate]:
        figure = new_figure(10, 3.4)
        left, right = figure.subplots(1, 2)
        of_images = {name: one.arrays["pictures"] for name, one in findings.items()}
        histograms(left, of_images, "attention on clean and corrupted, one value per image")
        of_blocks = {name: one.numbers["layers"] for name, one in findings.items()}
        lines(right, of_blocks, "mean over images and heads", "cosine")
        no_cosine_above_1(right)
        legend(figure, findings)
        reading = (
            f"Likeness of the attention on a clean image to that on the same image with {options.spoiled_by}: 1 is the "
            "same map. Left, how the images are distributed, with a line at the mean; right, in which blocks attention "
            "changes. Attention that is spread evenly is always alike, so look at overfocusing and the maps too."
        )
        columns = (("mean", "mean"), ("worst_5_percent", "mean of the worst 5 %"), ("pictures", "images"))
        return [Plate("stability", "How stable attention is", reading, figure, number_rows(findings, columns))]

    def lead(self, findings: Findings, options: Spoiling) -> str | None:
        return quoted(f"Under {options.spoiled_by}, attention stays alike to a cosine of", findings, "mean", ".2f")
