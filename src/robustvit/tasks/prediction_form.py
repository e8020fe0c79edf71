"""What predictions of a task look like as files, as rows of a table and as pictures.

One subclass per task, registered in `tasks/options`. Its fields are the options that a user has; torch is imported in methods
only, as the command line makes flags of these fields.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    import numpy as np
    from PIL import Image
    from torch import Tensor, nn

    from robustvit.data.normalisation import Normalisation

__all__ = ["PredictionForm"]


@dataclass(frozen=True)
class PredictionForm(ABC):
    """The form of the predictions of one task, which is bound to a network.

    Attributes:
        counted: what `shares` are shares of: "pixels", "images".
        record_list: name of a JSON file, without suffix, that has `records` of all images; "" for none.
    """

    counted: ClassVar[str]
    record_list: ClassVar[str] = ""

    def check(self, task: Any) -> None:  # noqa: B027 (most forms fit every task of their name)
        """Called before the work starts.

        Raises:
            ValueError: predictions of this task cannot have this form.
        """

    def predict(self, task: Any, network: nn.Module, images: Tensor, normalisation: Normalisation) -> list[Any]:
        """One prediction per image of uint8 [B, 3, H, W]."""
        return task.predict_images(network, images, normalisation)

    def disagreement(self, task: Any, first: Any, second: Any) -> float:
        """The share, 0 to 1, by which two predictions for the same image differ; see `Task.disagreement`."""
        share: float = task.disagreement(first, second)
        return share

    # a row of predictions.csv

    @abstractmethod
    def columns(self, task: Any) -> tuple[str, ...]:
        """Headings of what `row` gives."""

    @abstractmethod
    def row(self, task: Any, prediction: Any) -> Sequence[Any]:
        """One prediction as plain values."""

    # the summary

    @abstractmethod
    def classes(self, task: Any) -> tuple[str, ...]:
        """Names of the K classes."""

    @abstractmethod
    def shares(self, task: Any, prediction: Any) -> np.ndarray:
        """[K]: how much of one image each class has."""

    # a list in JSON, for other programs

    def records(self, task: Any, prediction: Any, image_id: int | str) -> list[dict[str, Any]]:
        """What one image adds to the list.

        Args:
            task: bound to the network.
            prediction: for the image.
            image_id: in the annotation file of the dataset; the id of the sample where there is none.
        """
        return []

    # files and pictures

    @property
    def folders(self) -> Mapping[str, str]:
        """Folder -> suffix of the files that each image has in it: `.png` for data, which corrupted images and frames have,
        too; `.jpg` for what is to be looked at."""
        return {}

    def files(self, task: Any, image: Image.Image, prediction: Any) -> dict[str, Image.Image]:
        """The files of one image, by the names of `folders`.

        Args:
            task: bound to the network.
            image: as the network saw it.
            prediction: for it.
        """
        return {}

    @abstractmethod
    def picture(self, task: Any, image: Image.Image, prediction: Any) -> Image.Image:
        """The image with what was predicted drawn on it: a frame of a film."""

    def panels(self, task: Any, image: Image.Image, prediction: Any) -> list[Image.Image]:
        """What a comparison shows of one image, from top to bottom."""
        return [self.picture(task, image, prediction)]

    def describe(self, task: Any) -> dict[str, Any]:
        """For predictions.json."""
        return {**asdict(self), "classes": list(self.classes(task))}
