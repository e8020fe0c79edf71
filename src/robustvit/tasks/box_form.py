"""What predictions of a detector look like: objects drawn on the image, how many of each class, and COCO's result format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from robustvit.tasks.prediction_form import PredictionForm

if TYPE_CHECKING:
    import numpy as np
    from PIL import Image

    from robustvit.metrics.box_matching import Found

__all__ = ["OVERLAYS", "BoxForm"]

OVERLAYS = "overlays"
"""Folder."""


@dataclass(frozen=True)
class BoxForm(PredictionForm):
    """Objects drawn as JPEG files, and all detections as one JSON file.

    Attributes:
        least_score: of objects that are drawn and counted; detections.json has those with lower scores, too.
    """

    counted = "images"
    record_list = "detections"
    least_score: float = field(default=0.3, metadata={"metavar": "SCORE"})

    def __post_init__(self) -> None:
        if not 0 <= self.least_score <= 1:
            raise ValueError(f"least_score={self.least_score:g} is not possible; give 0 to 1")

    def columns(self, task: Any) -> tuple[str, ...]:
        return task.classes

    def row(self, task: Any, prediction: Found) -> list[int]:
        """How many objects of each class there are."""
        return self._counts(task, prediction).tolist()

    def classes(self, task: Any) -> tuple[str, ...]:
        return task.classes

    def shares(self, task: Any, prediction: Found) -> np.ndarray:
        """1 for the classes that the image has an object of."""
        return (self._counts(task, prediction) > 0).astype(float)

    def _counts(self, task: Any, prediction: Found) -> np.ndarray:
        import numpy as np

        found = prediction.classes[prediction.scores >= self.least_score]
        return np.bincount(found, minlength=len(task.classes))

    @property
    def folders(self) -> Mapping[str, str]:
        return {OVERLAYS: ".jpg"}

    def files(self, task: Any, image: Image.Image, prediction: Found) -> dict[str, Image.Image]:
        return {OVERLAYS: self.picture(task, image, prediction)}

    def picture(self, task: Any, image: Image.Image, prediction: Found) -> Image.Image:
        from robustvit.tasks.object_drawing import draw_found

        return draw_found(image, prediction, None, task.classes, task.palette, least_score=self.least_score)

    def records(self, task: Any, prediction: Found, image_id: int | str) -> list[dict[str, Any]]:
        """All detections in COCO's result format."""
        from robustvit.tasks.coco_results import coco_results

        return coco_results(prediction, image_id, task.category_ids)

    def describe(self, task: Any) -> dict[str, Any]:
        ids = task.category_ids or range(1, 1 + len(task.classes))
        about = {"palette": [list(colour) for colour in task.palette], "category_ids": list(ids)}
        return {**super().describe(task), **about, "inference": task.inputs.describe()}
