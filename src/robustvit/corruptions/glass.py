"""Glass blur: pixels take the place of pixels near by, between two Gaussian blurs.

The published program walks backwards through the image and copies to every pixel one of its neighbours, which may have been
overwritten before. Here nothing is walked: for each pass the map "pixel -> where its value comes from" is solved as a whole by
pointer jumping, the maps of the passes are composed, and the image is read once through the result.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from robustvit.corruptions.filters import blur_bytes
from robustvit.corruptions.pixels import Setting, empty_bytes
from robustvit.runtime.randomness import LegacyDraws

__all__ = ["glass_blur", "source_map"]


def glass_blur(images: Tensor, parameters: tuple[float, int, int], setting: Setting) -> Tensor:
    """Blur (sigma), move pixels by up to `reach` (`passes` times), blur again."""
    sigma, reach, passes = parameters
    H, W = images.shape[-2:]
    dtype = setting.draws.dtype
    result = empty_bytes(images)
    q = torch.empty(3, H, W, dtype=torch.uint8, device=images.device)
    for out, picture, steps in zip(result, images, _steps(setting, reach, passes, H, W), strict=True):
        blur_bytes(picture, sigma, dtype, q)
        sources = source_map(steps, reach, H, W)
        moved = np.take(q.view(3, -1).cpu().numpy(), sources, axis=1)
        blur_bytes(torch.from_numpy(moved).view(3, H, W).to(images.device), sigma, dtype, out)
    return result


def _steps(setting: Setting, reach: int, passes: int, H: int, W: int) -> Iterator[np.ndarray]:
    """For each image int32 [passes, visits]: how far the source is from the pixel visited, in pixels of the raster.

    Columns and rows move by -reach .. reach - 1 each: one way less far than the other, as published.
    """
    visits = (H - 2 * reach) * (W - 2 * reach)
    if isinstance(setting.draws, LegacyDraws):
        moves = setting.draws.integers(-reach, reach, (passes * visits, 2)).cpu().numpy()  # columns first
        yield from (moves[..., 1] * W + moves[..., 0]).astype(np.int32).reshape(-1, passes, visits)
        return
    one_way = np.arange(-reach, reach, dtype=np.int32)
    step_of_choice = (one_way[:, None] * W + one_way).ravel()
    choices = np.arange(2**16) * len(step_of_choice) >> 16  # equally likely to 1 in 65536
    step_of_word = step_of_choice[choices]
    for words in setting.draws.words(passes * visits):
        yield np.take(step_of_word, words).reshape(passes, visits)


def source_map(steps: np.ndarray, reach: int, H: int, W: int) -> np.ndarray:
    """Where the value of each pixel comes from after all passes: intp [H * W], as raster indices.

    Args:
        steps: [passes, visits], from the pixel visited to its source; rows H - reach .. reach + 1 and in each of them columns
            W - reach .. reach + 1 are visited, both descending.
        reach: how far a source lies at most.
    """
    raster = np.arange(H * W, dtype=np.int32).reshape(H, W)
    inner = (slice(reach + 1, H - reach + 1), slice(reach + 1, W - reach + 1))
    targets = raster[inner]
    sources = raster.ravel()
    for one_pass in steps:
        first = raster.copy()
        first[inner] += one_pass[::-1].reshape(targets.shape)
        sources = np.take(sources, _resolved(first.ravel(), targets, inner, H, W) if reach > 1 else first.ravel())
    return sources


def _resolved(first: np.ndarray, targets: np.ndarray, inner: tuple[slice, slice], H: int, W: int) -> np.ndarray:
    """Follow each pixel's source to its own source for as long as that was visited before, that is, lies behind it."""
    visited = np.zeros((H, W), bool)
    visited[inner] = True
    index = np.arange(H * W, dtype=np.int32)
    is_open = (first > index) & np.take(visited.ravel(), first)
    pending = np.flatnonzero(is_open)
    while len(pending):
        through = first[pending]
        still = is_open[through]
        first[pending] = first[through]
        is_open[pending] = still
        pending = pending[still]
    return first
