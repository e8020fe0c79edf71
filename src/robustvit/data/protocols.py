"""How an image becomes the network's input: evaluation transforms with names, recorded in every result.

Corruptions work on the 8-bit image at the size that the network sees, so a protocol ends there; normalising comes after.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from robustvit.data.protocol_names import INTERPOLATIONS, PROTOCOLS

__all__ = ["PROTOCOLS", "Protocol", "protocol_of"]

_FILTERS = {name: Image.Resampling[name.upper()] for name in INTERPOLATIONS}


@dataclass(frozen=True)
class Protocol:
    """One evaluation transform.

    Attributes:
        name: of `PROTOCOLS`.
        size: (H, W) of the result; of "native", what the network was made for.
        short_side: resize the shorter side to this first; None for no resizing.
        interpolation: of the resizing.
        ignore_orientation: images were opened without regard to their EXIF tag, see `read_image`.
    """

    name: str
    size: tuple[int, int]
    short_side: int | None = None
    interpolation: str = "bilinear"
    ignore_orientation: bool = False

    @property
    def keeps_size(self) -> bool:
        """Whether images keep their own size."""
        return self.name == "native"

    def apply(self, image: Image.Image) -> Tensor:
        """RGB image -> uint8 [3, H, W].

        Raises:
            ValueError: the image is smaller than the crop, or not of the exact size where nothing resizes it.
        """
        H, W = self.size
        if self.keeps_size:
            H, W = image.height, image.width
        if self.name == "squash":
            image = image.resize((W, H), _FILTERS[self.interpolation])
        elif self.short_side is not None:
            image = image.resize(_scaled(image.size, self.short_side), _FILTERS[self.interpolation])
        width, height = image.size
        if (height, width) != (H, W):
            if self.name == "none" or height < H or width < W:
                raise ValueError(f"it has {height}x{width} pixels and the network takes {H}x{W}")
            left, top = round((width - W) / 2), round((height - H) / 2)
            image = image.crop((left, top, left + W, top + H))
        return torch.from_numpy(np.array(image)).permute(2, 0, 1)

    def describe(self) -> dict[str, Any]:
        return {**asdict(self), "meaning": PROTOCOLS[self.name]}


def _scaled(size: tuple[int, int], short_side: int) -> tuple[int, int]:
    """(width, height) whose shorter side is `short_side`; the other truncated, as torchvision does."""
    width, height = size
    if width <= height:
        return short_side, int(short_side * height / width)
    return int(short_side * width / height), short_side


def protocol_of(
    name: str,
    model: nn.Module,
    size: tuple[int, int] | None = None,
    *,
    crop_pct: float | None = None,
    interpolation: str | None = None,
) -> Protocol:
    """The protocol `name` for this network.

    Args:
        name: of `PROTOCOLS`.
        model: a timm network, whose `pretrained_cfg` says what it was published with.
        size: (H, W) other than the network's own.
        crop_pct: of "model", other than the network's own: the share of the shorter side that the centre crop keeps. 0.875
            resizes to 256 pixels for an input of 224.
        interpolation: of "model" and "squash", other than their own.

    Raises:
        ValueError: there is no such protocol, the network says what cannot be, or the crop has no meaning for this size.
    """
    if name not in PROTOCOLS:
        raise ValueError(f"there is no protocol {name!r}; choose one of {', '.join(PROTOCOLS)}")
    cfg = getattr(model, "pretrained_cfg", None) or {}
    H, W = size or _input_size(cfg, type(model).__name__)
    if name == "imagenet-c":
        return Protocol(name, (H, W), short_side=round(max(H, W) * 256 / 224))
    if name == "squash":
        return Protocol(name, (H, W), interpolation=interpolation or Protocol.interpolation)
    if name != "model":
        return Protocol(name, (H, W))
    interpolation = interpolation or cfg.get("interpolation") or "bicubic"
    if interpolation not in _FILTERS:
        raise ValueError(f"pretrained_cfg says interpolation={interpolation!r}; expected one of {', '.join(_FILTERS)}")
    if crop_pct is not None and H != W:
        raise ValueError(f"crop_pct={crop_pct:g} is for square inputs, and this network takes {H}x{W}; leave it out")
    if H != W or (cfg.get("crop_mode") == "squash" and crop_pct is None):
        return Protocol("squash", (H, W), interpolation=interpolation)
    crop_pct = crop_pct or cfg.get("test_crop_pct") or cfg.get("crop_pct") or 0.875
    if not _are_numbers([crop_pct], 1) or not 0.01 <= crop_pct <= 100:
        raise ValueError(f"pretrained_cfg says crop_pct={crop_pct!r}; expected a share such as 0.9")
    return Protocol(name, (H, W), short_side=math.floor(H / crop_pct), interpolation=interpolation)


def _input_size(cfg: Any, network: str) -> tuple[int, int]:
    size = cfg.get("test_input_size") or cfg.get("input_size") or (3, 224, 224)
    if not isinstance(size, list | tuple) or len(size) != 3 or not all(isinstance(n, int) and 0 < n < 2**15 for n in size):
        raise ValueError(f"{network} says input_size={size!r} in its pretrained_cfg; expected channels, height and width")
    return size[1], size[2]


def _are_numbers(values: Any, count: int) -> bool:
    is_list = isinstance(values, list | tuple) and len(values) == count
    return is_list and all(isinstance(v, int | float) and not isinstance(v, bool) and math.isfinite(v) for v in values)
