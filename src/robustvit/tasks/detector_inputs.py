"""How a detector sees an image: resized into a rectangle, and how its labels are read.

Imports torch only where it needs it: the command line reads its flags from `DetectorInputs` before.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from robustvit.data.resizing import fitted_size, resize_image

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["DetectorInputs"]

Size = tuple[int, int]
MULTIPLE = 32
"""Of pixels, which inputs are padded to."""


@dataclass(frozen=True)
class DetectorInputs:
    """What happens to images on their way into a detector, and to labels on their way out.

    Attributes:
        fit: (long, short) sides of a rectangle that images are resized into, ratio kept; None takes what the network was made
            with, and leaves images as they are where it says nothing.
        labels: what labels of a model that robustvit did not build are: "classes" (from 0, in the order of the dataset's
            classes), "from_one" (the same from 1, as 0 is the background), or "categories" (the ids of the annotation file).
    """

    fit: Size | None = field(default=None, metadata={"metavar": "LONG SHORT"})
    labels: Literal["classes", "from_one", "categories"] = "classes"

    def __post_init__(self) -> None:
        if self.fit is not None and (len(self.fit) != 2 or min(self.fit) < 1):
            raise ValueError(f"fit={self.fit} is not possible; give two numbers of pixels, both at least 1")
        if self.labels not in ("classes", "from_one", "categories"):
            raise ValueError(f"labels={self.labels!r} is not known; choose classes, from_one or categories")

    def describe(self) -> dict[str, Any]:
        return asdict(self)

    def resized(self, images: Tensor) -> Tensor:
        """[B, 3, H, W] -> as the network sees them, [B, 3, h, w]: bytes without anti-aliasing, as published; others alike."""
        import torch
        import torch.nn.functional as F

        H, W = images.shape[2:]
        size = (H, W) if self.fit is None else fitted_size((H, W), self.fit)
        if size == (H, W):
            return images
        if images.dtype == torch.uint8:
            return torch.stack([torch.from_numpy(resize_image(image.cpu().numpy(), size)) for image in images])
        return F.interpolate(images, size, mode="bilinear", align_corners=False)


def padded(inputs: Tensor) -> Tensor:
    """Normalised [B, 3, h, w] -> with zeros below and on the right, to multiples of `MULTIPLE`."""
    import torch.nn.functional as F

    below, right = (-side % MULTIPLE for side in inputs.shape[2:])
    return F.pad(inputs, (0, right, 0, below)) if below or right else inputs
