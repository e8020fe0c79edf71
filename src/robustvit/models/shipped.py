"""Weights that come with the package: the nano networks of `robustvit demo`, so that something trained is there at once, a
tiny labeler of STL, whose tokens have labels to look at, and a small segmenter.

Half precision, trained on `scenes-easy`, the embedded dataset with colours and grounds that hint at the class; on `scenes`
itself, which is shapes alone, they are near chance. `python -m robustvit.demo.shipping runs/demo` makes the files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["SHIPPED", "SHIPPED_FOLDERS", "SHIPPED_TAG", "ShippedWeights", "shipped_cfg", "shipped_file"]

FOLDER = Path(__file__).parent / "weights"


@dataclass(frozen=True)
class ShippedWeights:
    """One weight file of the package.

    Attributes:
        tag: timm's tag.
        num_classes: of its classifier.
        model_args: what the network needs besides its name to fit the file.
    """

    tag: str = "scenes"
    num_classes: int = 10
    model_args: Mapping[str, Any] = field(default_factory=dict)


SHIPPED: Mapping[str, ShippedWeights] = {
    "fan_vit_nano": ShippedWeights(model_args={"tap": 4}),
    "vit_nano": ShippedWeights(),
    "vit_pico": ShippedWeights(),
}
"""Network -> its weights."""
SHIPPED_TAG = "scenes"
"""Of the dense networks among them."""
SHIPPED_FOLDERS: Mapping[str, Path] = {"fan_hybrid_nano/segformer": FOLDER / f"fan_hybrid_nano_segformer.{SHIPPED_TAG}"}
"""Dense network -> the folder with its weights and config.json, as `robustvit train` writes it."""


def shipped_file(name: str) -> Path:
    """Where the weights of a network are."""
    return FOLDER / f"{name}.{SHIPPED[name].tag}.safetensors"


def shipped_cfg(name: str) -> dict[str, Any]:
    """What timm's configuration says about shipped weights."""
    return dict(file=str(shipped_file(name)), num_classes=SHIPPED[name].num_classes)
