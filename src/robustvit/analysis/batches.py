"""What analyses take as images: one batch, a loader, or any iterable of batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from torch import Tensor

__all__ = ["Ids", "Images", "image_batches", "image_pairs", "keyed_batches"]

Images = Tensor | Iterable[Any]
"""A batch of normalised images [B, 3, H, W], or batches of them; of (images, labels), as loaders give them, the labels
are left out."""
Ids = Sequence[int | str]


def image_batches(images: Images) -> Iterator[Tensor]:
    """Batches [B, 3, H, W] that have images.

    Raises:
        ValueError: there are none.
        TypeError: something else was given.
    """
    found = False
    given: Iterable[Any] = [images] if isinstance(images, Tensor) else images
    for batch in given:
        pixels: Any = batch[0] if isinstance(batch, Sequence) and batch else batch
        _check(pixels)
        if len(pixels):
            found = True
            yield pixels
    if not found:
        raise ValueError("there are no images to look at; give at least one batch")


def image_pairs(pairs: Iterable[Any]) -> Iterator[tuple[Tensor, Tensor]]:
    """Batches of (clean, spoiled), of as many images of one size; one such pair of batches is taken as well.

    Raises:
        ValueError: there are none, or the two do not fit each other.
        TypeError: something else was given.
    """
    found = False
    is_one = isinstance(pairs, tuple) and len(pairs) == 2 and all(isinstance(one, Tensor) for one in pairs)
    for pair in [pairs] if is_one else pairs:
        if not isinstance(pair, Sequence) or len(pair) != 2:
            raise TypeError(f"pairs of a clean and a spoiled batch are compared, not {_kind(pair)}; give (clean, spoiled)")
        clean, spoiled = pair
        _check(clean)
        _check(spoiled)
        if clean.shape != spoiled.shape:
            raise ValueError(
                f"clean images {list(clean.shape)} cannot be compared with spoiled ones {list(spoiled.shape)}; give the "
                "same images, at the same size"
            )
        if len(clean):
            found = True
            yield clean, spoiled
    if not found:
        raise ValueError("there are no images to compare; give at least one pair of a clean and a spoiled batch")


def keyed_batches(images: Images) -> Iterator[tuple[Ids, Tensor]]:
    """Batches with the ids of their images: those given, as in (ids, images), else their places in the whole.

    Raises: as `image_batches`.
    """
    count = 0
    given: Iterable[Any] = [images] if isinstance(images, Tensor) else images
    for batch in given:
        has_ids = isinstance(batch, Sequence) and len(batch) == 2 and not isinstance(batch[0], Tensor)
        for pixels in image_batches([batch[1] if has_ids else batch]):
            yield (batch[0] if has_ids else range(count, count + len(pixels))), pixels
            count += len(pixels)
    if not count:
        raise ValueError("there are no images to look at; give at least one batch")


def _check(pixels: Any) -> None:
    if not isinstance(pixels, Tensor) or pixels.ndim != 4 or not pixels.is_floating_point():
        raise TypeError(
            f"analyses take normalised images, float [B, 3, H, W], or a loader of them, not {_kind(pixels)}; normalise them "
            "as the network wants it (`PixelNetwork(model).normalise` does from pixels in 0 .. 1)"
        )


def _kind(value: Any) -> str:
    return f"{value.dtype} {list(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
