"""Does a network look at the same things when the image is corrupted? (TAP Fig. 1 and 5, AFAT Fig. 4)"""

from __future__ import annotations

from typing import TYPE_CHECKING

from robustvit.analysis.drawing import WIDEST, Plate, histograms, legend, lines, new_figure, no_cosine_above_1, number_rows
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
        centred = [float(values.mean()) for values in found.centred_of_layers]
        numbers = {"pictures": len(found.of_pictures), "mean": found.mean, "worst_5_percent": found.worst, "layers": layers}
        numbers |= {"centred_mean": found.centred, "centred_layers": centred}
        heads = {f"layer {i}": values.numpy() for i, values in enumerate(found.of_layers)}
        pictures = {"pictures": found.of_pictures.numpy(), "centred_pictures": found.centred_of_pictures.numpy()}
        return Finding(DEFINITION, numbers, {**pictures, **heads})

    def plates(self, findings: Findings, options: Spoiling) -> list[Plate]:
        figure = new_figure(WIDEST, 3.4)
        left, middle, right = figure.subplots(1, 3)
        of_images = {name: one.arrays["pictures"] for name, one in findings.items()}
        histograms(left, of_images, "clean and corrupted, by image")
        of_blocks = {name: one.numbers["layers"] for name, one in findings.items()}
        lines(middle, of_blocks, "by block", "cosine")
        no_cosine_above_1(middle)
        centred = {name: one.numbers["centred_layers"] for name, one in findings.items() if "centred_layers" in one.numbers}
        lines(right, centred, "by block, centred", "cosine")
        no_cosine_above_1(right)
        legend(figure, findings)
        reading = (
            f"Likeness of the attention on a clean image to that on the same image with {options.spoiled_by}: 1 is the "
            "same map. Left, how the images are distributed, with a line at the mean; middle, in which blocks attention "
            "changes. Attention that is spread evenly is always alike; right, only what differs from the mean of its row "
            "counts, and even maps have 0."
        )
        columns = (
            ("mean", "mean"),
            ("centred_mean", "mean, centred"),
            ("worst_5_percent", "mean of the worst 5 %"),
            ("pictures", "images"),
        )
        return [Plate("stability", "How stable attention is", reading, figure, number_rows(findings, columns))]

    def lead(self, findings: Findings, options: Spoiling) -> str | None:
        return quoted(f"Under {options.spoiled_by}, attention stays alike to a cosine of", findings, "mean", ".2f")
