"""What predictions of a classifier look like: the best answers with their probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from robustvit.tasks.prediction_form import PredictionForm

if TYPE_CHECKING:
    import numpy as np
    from PIL import Image
    from torch import Tensor, nn

    from robustvit.data.normalisation import Normalisation

__all__ = ["ClassForm", "RankedClass"]


class RankedClass(NamedTuple):
    """A class as a position among the outputs that compete, and its softmax."""

    position: int
    probability: float


@dataclass(frozen=True)
class ClassForm(PredictionForm):
    """The best answers to each image.

    Attributes:
        top: how many answers are written for an image.
    """

    counted = "images"
    top: int = field(default=5, metadata={"metavar": "N"})

    def __post_init__(self) -> None:
        if self.top < 1:
            raise ValueError(f"top={self.top} is not possible; give at least 1")

    def predict(
        self, task: Any, network: nn.Module, images: Tensor, normalisation: Normalisation
    ) -> list[tuple[RankedClass, ...]]:
        """The answers to each image, the best first; none where the logits are not finite."""
        logits = task.logits_of_images(network, images, normalisation)
        found = logits.softmax(-1).topk(self._count(task))
        ranked = zip(found.indices.tolist(), found.values.tolist(), logits.isfinite().all(-1).tolist(), strict=True)
        return [
            tuple(RankedClass(*pair) for pair in zip(*answers, strict=True)) if is_finite else ()
            for *answers, is_finite in ranked
        ]

    def disagreement(self, task: Any, first: Sequence[RankedClass], second: Sequence[RankedClass]) -> float:
        """Whether the best answer is another one."""
        one, other = ([answer.position for answer in ranked[:1]] for ranked in (first, second))
        return float(one != other)

    def columns(self, task: Any) -> tuple[str, ...]:
        return tuple(f"{what}_{rank}" for rank in range(1, self._count(task) + 1) for what in ("class", "probability"))

    def row(self, task: Any, prediction: Sequence[RankedClass]) -> list[Any]:
        """Class and probability of each answer; "no answer" where there is none."""
        from robustvit.tasks.class_matching import NO_ANSWER

        given = [value for one in prediction for value in (task.class_name(one.position), round(one.probability, 6))]
        missing = 2 * self._count(task) - len(given)
        return given + ([task.class_name(NO_ANSWER), *[None] * (missing - 1)] if missing else [])

    def classes(self, task: Any) -> tuple[str, ...]:
        return tuple(task.class_name(position) for position in range(task.competing))

    def shares(self, task: Any, prediction: Sequence[RankedClass]) -> np.ndarray:
        """1 for the best answer."""
        import numpy as np

        shares = np.zeros(task.competing)
        if prediction:
            shares[prediction[0].position] = 1
        return shares

    def picture(self, task: Any, image: Image.Image, prediction: Sequence[RankedClass]) -> Image.Image:
        """The image, and its best answers below."""
        from robustvit.tasks.captions import captioned

        best = [f"{task.class_name(one.position)}  {one.probability:.0%}" for one in prediction[:3]]
        return captioned(image, best or ["no answer"], lines=min(3, self._count(task)))

    def describe(self, task: Any) -> dict[str, Any]:
        return {**super().describe(task), **task.rule_told}

    def _count(self, task: Any) -> int:
        return min(self.top, task.competing)
