"""What cameras, displays and encoders do: brightness, contrast, saturation, large pixels, JPEG; and elastic distortion.

Maps from bytes to bytes are computed in float64 once and kept as tables; images are looked up channel by channel, to stay in
the cache.
"""

from __future__ import annotations

from functools import lru_cache
from io import BytesIO
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from robustvit.corruptions.elastic import elastic_transform
from robustvit.corruptions.pixels import Setting, empty_bytes, store_bytes

__all__ = ["brightness", "contrast", "elastic_transform", "jpeg_compression", "pixelate", "saturate"]

BOX, NEAREST = Image.Resampling.BOX, Image.Resampling.NEAREST
MARGIN = 1e-3
"""Grey levels: from here on results are so far from an integer that float32 truncates them as float64 does."""


def brightness(images: Tensor, parameters: float, setting: Setting) -> Tensor:
    """Adds to the value V = max(R, G, B) of hue, saturation and value.

    Args:
        images: uint8 [B, 3, H, W].
        parameters: what is added, on the scale 0 .. 1.
        setting: without influence.
    """
    table = _brightness_table(parameters, images.device)
    result, index = empty_bytes(images), _index(images)
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
    return _levels(values).flatten().to(device)


def contrast(images: Tensor, parameters: float, setting: Setting) -> Tensor:
    """Draws every channel towards its mean over the image.

    Args:
        images: uint8 [B, 3, H, W].
        parameters: the share of the contrast that is left.
        setting: without influence.
    """
    H, W = images.shape[-2:]
    ramp = _ramp().to(images.device)
    rows = images.cpu().numpy().sum(-1, dtype=np.uint32)  # the fastest way to whole numbers, which are exact in any order
    totals = torch.from_numpy(rows.sum(-1, dtype=np.int64)).to(images.device)
    mean = totals.double().view(-1, 1) / (255 * H * W)  # 3B 1
    tables = _levels((ramp - mean) * parameters + mean)  # 3B 256
    shifts = mean * (255 * (1 - parameters))
    lines = ramp * (255 * parameters) + shifts
    is_safe = (lines.sub(MARGIN).to(torch.uint8) == tables) & (lines.add(MARGIN).to(torch.uint8) == tables)
    result = empty_bytes(images)
    pictures = zip(
        images,
        result,
        tables.view(-1, 3, 256),
        shifts.float().view(-1, 3, 1, 1),
        is_safe.view(-1, 768).all(1).tolist(),
        strict=True,
    )
    for x, out, of_channels, shift, safe in pictures:
        if safe:
            store_bytes(x.float().mul_(parameters).add_(shift), out, cut=False)  # between the mean and a level: in 0 .. 255
            continue
        for plane, table, out_plane in zip(x, of_channels, out, strict=True):
            _look_up(table, plane.int(), out_plane)
    return result


def saturate(images: Tensor, parameters: tuple[float, float], setting: Setting) -> Tensor:
    """Scales and shifts the saturation S = (V - min) / V of hue, saturation and value. Grey has the hue of red.

    Args:
        images: uint8 [B, 3, H, W].
        parameters: (m, b): S becomes m S + b, cut to 0 .. 1.
        setting: without influence.
    """
    table, starts = _saturation_table(*parameters, images.device)
    result, index = empty_bytes(images), _index(images)
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
        rows.append(_levels(values)[possible])
        count += len(rows[-1])
    return torch.cat(rows).to(device), starts.flatten().to(device)


def pixelate(images: Tensor, parameters: float, setting: Setting) -> Tensor:
    """Shrinks images by averaging and enlarges them without.

    Args:
        images: uint8 [B, 3, H, W].
        parameters: the share of the sides that is left.
        setting: whose family decides how boxes are enlarged that are no whole number of pixels.
    """
    H, W = images.shape[-2:]
    small = (int(W * parameters), int(H * parameters))
    # At 224 pixels both filters give the same, and taking the nearest is faster.
    enlarging = BOX if setting.family in ("cifar", "tiny") else NEAREST
    rows = _rows_of_enlarged(small[1], H, enlarging)
    result = empty_bytes(images)
    on_cpu = result.cpu()
    for picture, out in zip(images.cpu().numpy(), on_cpu.numpy(), strict=True):
        wide = _shrunk(_to_pil(picture), small).resize((W, small[1]), enlarging)
        for plane, channel in zip(out, "RGB", strict=True):
            pixels = np.frombuffer(wide.tobytes("raw", channel), np.uint8).reshape(small[1], W)
            np.take(pixels, rows, axis=0, out=plane, mode="clip")  # not clipped: "raise" would only be slower
    return result if on_cpu is result else result.copy_(on_cpu)


def _shrunk(image: Image.Image, size: tuple[int, int]) -> Image.Image:
    """As `resize(size, BOX)`, and faster where that makes the mean of a whole number of pixels."""
    return _reduced(image, size) if _may_reduce(image.size, size) else image.resize(size, BOX)


def _reduced(image: Image.Image, size: tuple[int, int]) -> Image.Image:
    """Means along rows, rounded, then along columns, rounded again."""
    return image.reduce((image.width // size[0], 1)).reduce((1, image.height // size[1]))


@lru_cache(maxsize=1024)
def _may_reduce(size: tuple[int, int], small: tuple[int, int]) -> bool:
    """Whether `_reduced` does what `resize` does, tried on noise: for tall images Pillow may take columns before rows."""
    (W, H), (w, h) = size, small
    if W % w or H % h:
        return False
    few = np.random.RandomState(0).randint(0, 256, 4099, np.uint8)  # a prime number: they repeat in no line
    noise = Image.fromarray(np.resize(few, (H, W, 3)))
    return _reduced(noise, small).tobytes() == noise.resize(small, BOX).tobytes()


@lru_cache(maxsize=32)
def _rows_of_enlarged(h: int, H: int, filter_: Image.Resampling) -> np.ndarray:
    """Which of h rows each of H is, as Pillow decides: intp [H]."""
    ramp = Image.fromarray(np.arange(h, dtype=np.int32)[:, None])
    return np.asarray(ramp.resize((1, H), filter_)).ravel().astype(np.intp)


def jpeg_compression(images: Tensor, parameters: int, setting: Setting) -> Tensor:
    """Encodes as baseline JPEG with halved chroma, and decodes.

    Args:
        images: uint8 [B, 3, H, W].
        parameters: the quality, 1 to 100.
        setting: without influence.
    """
    H, W = images.shape[-2:]
    result = empty_bytes(images)
    on_cpu = result.cpu()
    decoded = Image.new("RGB", (W, H))
    encoding = _jpeg_encoding(parameters)
    for picture, out in zip(images.cpu().numpy(), on_cpu.flatten(2).numpy(), strict=True):
        file = _to_pil(picture).tobytes("jpeg", encoding)
        decoded.frombytes(file, "jpeg", ("RGB", ""))  # without reading the header, which is known
        _from_pil(decoded, out)
    return result if on_cpu is result else result.copy_(on_cpu)


@lru_cache(maxsize=16)
def _jpeg_encoding(quality: int) -> tuple[Any, ...]:
    """What `Image.save` tells Pillow's encoder: to find it out anew for every image takes as long as a tenth of the work."""
    example = Image.new("RGB", (16, 16))
    example.save(BytesIO(), "JPEG", quality=quality)
    return ("RGB", *example.encoderconfig)


def _to_pil(picture: np.ndarray) -> Image.Image:
    """3 H W -> RGB."""
    _, H, W = picture.shape
    channels = (np.ascontiguousarray(channel) for channel in picture)
    return Image.merge("RGB", [Image.frombuffer("L", (W, H), channel, "raw", "L", 0, 1) for channel in channels])


def _from_pil(image: Image.Image, out: np.ndarray) -> None:
    """RGB -> 3 HW."""
    for plane, channel in zip(out, "RGB", strict=True):
        plane[:] = np.frombuffer(image.tobytes("raw", channel), np.uint8)


def _ramp() -> Tensor:
    """The 256 levels as float64 in 0 .. 1."""
    return torch.arange(256, dtype=torch.float64) / 255


def _levels(values: Tensor) -> Tensor:
    """0 .. 1 -> uint8, for tables: as published, cut, then scaled, then truncated."""
    return (values.clamp(0, 1) * 255).to(torch.uint8)


def _index(images: Tensor) -> Tensor:
    """Room for the places in a table of one channel: small enough for the cache."""
    return torch.empty(images.shape[2:], dtype=torch.int32, device=images.device)


def _look_up(table: Tensor, index: Tensor, out: Tensor) -> None:
    """out = table[index], with indices of 32 bits."""
    torch.index_select(table, 0, index.view(-1), out=out.view(-1))
