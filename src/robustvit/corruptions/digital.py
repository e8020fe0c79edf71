"""What cameras, displays and encoders do: brightness, contrast, saturation, large pixels, JPEG; and elastic distortion.

Maps from bytes to bytes are computed in float64 once and kept as tables; pictures are looked up channel by channel, to stay in
the cache.
"""

from __future__ import annotations

from functools import lru_cache
from io import BytesIO

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from robustvit.corruptions.elastic import elastic_transform
from robustvit.corruptions.pixels import Setting, to_bytes

__all__ = ["brightness", "contrast", "elastic_transform", "jpeg_compression", "pixelate", "saturate"]

BOX, NEAREST = Image.Resampling.BOX, Image.Resampling.NEAREST


def brightness(images: Tensor, parameters: float, setting: Setting) -> Tensor:
    """Adds to the value V = max(R, G, B) of hue, saturation and value.

    Args:
        images: uint8 [B, 3, H, W].
        parameters: what is added, on the scale 0 .. 1.
        setting: without influence.
    """
    table = _brightness_table(parameters, images.device)
    result, index = _result(images), _index(images)
    for picture, out in zip(images, result, strict=True):
        row = picture.amax(0).int().mul_(256)  # 256 V
        for x, plane in zip(picture, out, strict=True):
            _look_up(table, torch.add(row, x, out=index), plane)
    return result


@lru_cache(maxsize=64)
def _brightness_table(c: float, device: torch.device) -> Tensor:
    """uint8 [65536]: what becomes of a channel, at 256 V + channel."""
    V, x = _ramp()[:, None], _ramp()
    raised = (V + c).clamp_(0, 1)
    # V' (1 - (V - x) / V); black becomes grey. The order of the operations decides on which side of an integer results fall.
    values = torch.where(V > 0, raised * (1 - (V - x) / V), raised)
    return to_bytes(values).flatten().to(device)


def contrast(images: Tensor, parameters: float, setting: Setting) -> Tensor:
    """Draws every channel towards its mean over the picture.

    Args:
        images: uint8 [B, 3, H, W].
        parameters: the share of the contrast that is left.
        setting: without influence.
    """
    H, W = images.shape[-2:]
    result, index = _result(images), _index(images)
    totals = torch.stack([picture.float().sum(-1).double().sum(-1) for picture in images])  # whole numbers: exact in any order
    mean = totals[..., None] / (255 * H * W)  # B 3 1
    tables = to_bytes((_ramp().to(images.device) - mean) * parameters + mean)  # B 3 256
    for x, table, plane in zip(images.flatten(0, 1), tables.flatten(0, 1), result.flatten(0, 1), strict=True):
        _look_up(table, index.copy_(x), plane)
    return result


def saturate(images: Tensor, parameters: tuple[float, float], setting: Setting) -> Tensor:
    """Scales and shifts the saturation S = (V - min) / V of hue, saturation and value. Grey has the hue of red.

    Args:
        images: uint8 [B, 3, H, W].
        parameters: (m, b): S becomes m S + b, cut to 0 .. 1.
        setting: without influence.
    """
    table, starts = _saturation_table(*parameters, images.device)
    result, index = _result(images), _index(images)
    for picture, out in zip(images, result, strict=True):
        V, lowest = picture.amax(0), picture.amin(0)
        pair = V.int().mul_(256).add_(lowest)
        start = starts.index_select(0, pair.view(-1)).view(pair.shape)
        for x, plane in zip(picture, out, strict=True):
            _look_up(table, torch.add(start, x, out=index), plane)
        if parameters[1] > 0:
            torch.where(lowest == V, V, out[0], out=out[0])
    return result


@lru_cache(maxsize=16)
def _saturation_table(m: float, b: float, device: torch.device) -> tuple[Tensor, Tensor]:
    """What becomes of a channel x, at starts[256 V + min] + x: only the 2.9 million triples with min <= x <= V are there."""
    rows, starts, count = [], torch.zeros(256, 256, dtype=torch.int32), 0
    for level, V in enumerate(_ramp()):
        x = _ramp()[: level + 1]
        D = (V - x)[:, None]  # a row for each min
        S = (D / V if level else D) * m + b
        values = V * (1 - S.clamp_(0, 1) * torch.where(D > 0, (V - x) / D, 1))  # V (1 - S' (V - x) / D)
        possible = torch.ones_like(values, dtype=torch.bool).triu_()
        lengths = torch.arange(level + 1, 0, -1)
        starts[level, : level + 1] = count + lengths.cumsum(0) - lengths - torch.arange(level + 1)
        rows.append(to_bytes(values)[possible])
        count += len(rows[-1])
    return torch.cat(rows).to(device), starts.flatten().to(device)


def pixelate(images: Tensor, parameters: float, setting: Setting) -> Tensor:
    """Shrinks pictures by averaging and enlarges them without. The result has the channels last in memory.

    Args:
        images: uint8 [B, 3, H, W].
        parameters: the share of the sides that is left.
        setting: whose family decides how boxes are enlarged that are no whole number of pixels.
    """
    B, _, H, W = images.shape
    small = (int(W * parameters), int(H * parameters))
    # At 224 pixels both filters give the same, and taking the nearest is faster.
    enlarging = BOX if setting.family in ("cifar", "tiny") else NEAREST
    result = np.empty((B, H, W, 3), np.uint8)
    for picture, out in zip(images.cpu().numpy(), result, strict=True):
        out[:] = np.asarray(_to_pil(picture).resize(small, BOX).resize((W, H), enlarging))
    return torch.from_numpy(result).permute(0, 3, 1, 2).to(images.device)


def _to_pil(picture: np.ndarray) -> Image.Image:
    """3 H W -> RGB."""
    _, H, W = picture.shape
    channels = (np.ascontiguousarray(channel) for channel in picture)
    return Image.merge("RGB", [Image.frombuffer("L", (W, H), channel, "raw", "L", 0, 1) for channel in channels])


def jpeg_compression(images: Tensor, parameters: int, setting: Setting) -> Tensor:
    """Encodes as baseline JPEG with halved chroma, and decodes. The result has the channels last in memory.

    Args:
        images: uint8 [B, 3, H, W].
        parameters: the quality, 1 to 100.
        setting: without influence.
    """
    B, _, H, W = images.shape
    result = np.empty((B, H, W, 3), np.uint8)
    for picture, out in zip(images.cpu().numpy(), result, strict=True):
        file = BytesIO()
        _to_pil(picture).save(file, "JPEG", quality=parameters)
        out[:] = np.asarray(Image.open(file, formats=("JPEG",)))
    return torch.from_numpy(result).permute(0, 3, 1, 2).to(images.device)


def _ramp() -> Tensor:
    """The 256 levels as float64 in 0 .. 1."""
    return torch.arange(256, dtype=torch.float64) / 255


def _result(images: Tensor) -> Tensor:
    return torch.empty(images.shape, dtype=torch.uint8, device=images.device)


def _index(images: Tensor) -> Tensor:
    """Room for the places in a table of one channel: small enough for the cache."""
    return torch.empty(images.shape[2:], dtype=torch.int32, device=images.device)


def _look_up(table: Tensor, index: Tensor, out: Tensor) -> None:
    """out = table[index], with indices of 32 bits."""
    torch.index_select(table, 0, index.view(-1), out=out.view(-1))
