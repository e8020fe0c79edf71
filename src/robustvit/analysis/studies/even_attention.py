"""How much attention matters: accuracy when image tokens attend evenly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from robustvit.analysis.drawing import Plate, from_zero, legend, lines, new_figure, number_rows
from robustvit.analysis.finding import Finding
from robustvit.analysis.shared_options import Options
from robustvit.analysis.study import ATTENTION, Findings, Study, quoted

if TYPE_CHECKING:
    from robustvit.analysis.subject import Subject

__all__ = ["EvenAttention"]


class EvenAttention(Study[Options]):
    """Accuracy with the rows of the image tokens made uniform."""

    name = "even-attention"
    summary = "accuracy when image tokens attend evenly, in all blocks and in each alone: how much attention matters"
    tasks = ("classification",)
    needs = (ATTENTION,)
    options = Options

    def run(self, subject: Subject, options: Options) -> Finding:
        import torch

        from robustvit.analysis.even_attention import DEFINITION, even_answers

        labels: list[Any] = []

        def images() -> Any:
            for batch in subject.batches():
                labels.append(batch.labels.cpu())
                yield subject.normalised(batch.pixels)

        found = even_answers(subject.network, images())
        truth = torch.cat(labels)
        usual, even = ((answers == truth).float().mean().item() for answers in (found.usual, found.even))
        of_blocks = (found.of_blocks == truth).float().mean(1)
        numbers: dict[str, Any] = {"accuracy": usual, "even_accuracy": even, "lost_points": 100 * (usual - even)}
        numbers |= {"same_answer": (found.even == found.usual).float().mean().item(), "pictures": len(truth)}
        numbers |= {"of_blocks": of_blocks.tolist(), "truth": subject.truth}
        return Finding(DEFINITION, numbers, {"of_blocks": of_blocks.numpy()})

    def plates(self, findings: Findings, options: Options) -> list[Plate]:
        figure = new_figure(5.4, 3.4)
        axis = figure.subplots()
        curves: dict[str, Sequence[float | None]]
        curves = {name: [100 * value for value in one.numbers["of_blocks"]] for name, one in findings.items()}
        lines(axis, curves, "even attention in one block", "accuracy, %")
        from_zero(axis, 100)
        legend(figure, findings)
        reading = (
            "Accuracy when the image tokens of one block attend evenly, whatever they show; the table has that with even "
            "attention in all blocks. A network that loses nothing does not use its attention, and its maps say little about "
            "its answers. Class attention, and the rows of class tokens, stay as they are."
        )
        columns = (
            ("accuracy", "accuracy"),
            ("even_accuracy", "accuracy, even attention"),
            ("same_answer", "same answer"),
            ("pictures", "images"),
        )
        return [Plate("even-attention", "How much attention matters", reading, figure, number_rows(findings, columns))]

    def lead(self, findings: Findings, options: Options) -> str | None:
        return quoted("With even attention in all blocks, accuracy is", findings, "even_accuracy", ".1%")

    def passes(self, images: int, options: Options) -> int:
        return 8 * images  # with six blocks
