"""What predictions of a segmenter look like: label maps, colours over the image, and how much of it each class covers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from robustvit.tasks.prediction_form import PredictionForm

if TYPE_CHECKING:
    import numpy as np
    from PIL import Image

__all__ = ["LABELS", "LABEL_IDS", "OVERLAYS", "MapForm"]

LABELS, OVERLAYS, LABEL_IDS = "labels", "overlays", "label_ids"
"""Folders."""


@dataclass(frozen=True)
class MapForm(PredictionForm):
    """Label maps of train ids as PNG files with a palette, and overlays as JPEG files.

    Attributes:
        label_ids: also write label maps with the ids that the servers of Cityscapes and ACDC want, into label_ids/.
    """

    counted = "pixels"
    label_ids: bool = False

    def check(self, task: Any) -> None:
        if self.label_ids and task.label_ids is None:
            shown = ", ".join(task.classes[:4])
            raise ValueError(
                f"nobody knows the label ids of these {len(task.classes)} classes ({shown}, ...); they are known of "
                "Cityscapes and ACDC, and of images with a classes.json that has an id for each class. Leave --label-ids out"
            )
        if self.label_ids:
            from robustvit.data.label_maps import check_label_ids

            check_label_ids(task.label_ids)

    def columns(self, task: Any) -> tuple[str, ...]:
        return task.classes

    def row(self, task: Any, prediction: np.ndarray) -> list[float]:
        """The share of pixels of each class."""
        return [round(float(share), 6) for share in self.shares(task, prediction)]

    def classes(self, task: Any) -> tuple[str, ...]:
        return task.classes

    def shares(self, task: Any, prediction: np.ndarray) -> np.ndarray:
        import numpy as np

        count = len(task.classes)
        return np.bincount(prediction.ravel(), minlength=count)[:count] / max(prediction.size, 1)

    @property
    def folders(self) -> Mapping[str, str]:
        return {LABELS: ".png", OVERLAYS: ".jpg", **({LABEL_IDS: ".png"} if self.label_ids else {})}

    def files(self, task: Any, image: Image.Image, prediction: np.ndarray) -> dict[str, Image.Image]:
        from PIL import Image as Images

        from robustvit.data.label_maps import with_label_ids
        from robustvit.tasks.overlays import label_image

        found = {LABELS: label_image(prediction, task.palette), OVERLAYS: self.picture(task, image, prediction)}
        if self.label_ids:
            found[LABEL_IDS] = Images.fromarray(with_label_ids(prediction, task.label_ids, LABEL_IDS))
        return found

    def picture(self, task: Any, image: Image.Image, prediction: np.ndarray) -> Image.Image:
        return task.draw(image, prediction, None)

    def panels(self, task: Any, image: Image.Image, prediction: np.ndarray) -> list[Image.Image]:
        return [image, self.picture(task, image, prediction)]

    def describe(self, task: Any) -> dict[str, Any]:
        ids = list(task.label_ids) if task.label_ids is not None else None
        about = {"palette": [list(colour) for colour in task.palette], "ids": ids}
        return {**super().describe(task), **about, "inference": task.inference.describe()}
