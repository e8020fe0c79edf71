"""How a segmenter sees an image that is larger than what it was trained on: whole, or by windows that slide over it.

fit     resize into a rectangle, ratio kept          (dense predictions are published at 2048x1024)
window  logits of each window, summed and divided by how often each pixel was seen; the last ones are shifted back to the edge
flip    mean with the mirrored image
scales  mean over the image at several sizes

Imports torch only where it needs it: the command line reads its flags from `Inference` before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from robustvit.data.resizing import fitted_size, resize_image

if TYPE_CHECKING:
    from torch import Tensor, nn

    from robustvit.data.normalisation import Normalisation

__all__ = ["Inference", "window_starts"]

Size = tuple[int, int]


@dataclass(frozen=True)
class Inference:
    """How images become logits.

    Attributes:
        window: (H, W) of the windows; None for the whole image at once.
        stride: (down, right) from window to window; None for three quarters of the window.
        fit: (long, short) sides of a rectangle that images are resized into, ratio kept; None leaves them as they are.
        flip: mean with the mirrored image.
        scales: factors on the size; the logits are their mean.
        batch: windows at once.
    """

    window: Size | None = field(default=None, metadata={"metavar": "H W"})
    stride: Size | None = field(default=None, metadata={"metavar": "DOWN RIGHT"})
    fit: Size | None = field(default=None, metadata={"metavar": "LONG SHORT"})
    flip: bool = False
    scales: tuple[float, ...] = field(default=(1.0,), metadata={"metavar": "X [X ...]"})
    batch: int = field(default=2, metadata={"metavar": "N", "flag": "window_batch"})  # --batch-size counts images

    def __post_init__(self) -> None:
        for name in ("window", "stride", "fit"):
            size = getattr(self, name)
            if size is not None and (len(size) != 2 or min(size) < 1):
                raise ValueError(f"{name}={size} is not possible; give two numbers of pixels, both at least 1")
        if self.window is None and self.stride is not None:
            raise ValueError(f"stride={self.stride} is from window to window, and there are none; give a window too")
        if self.window is not None and any(step > side for step, side in zip(self.steps, self.window, strict=True)):
            raise ValueError(f"stride={self.stride} leaves gaps between windows of {self.window}; give at most the window")
        if not self.scales or min(self.scales) <= 0 or self.batch < 1:
            raise ValueError(f"scales={self.scales}, batch={self.batch} are not possible; give positive numbers")

    @property
    def steps(self) -> Size:
        """(down, right) from window to window."""
        H, W = self.window or (1, 1)
        return self.stride or (max(1, H * 3 // 4), max(1, W * 3 // 4))

    def describe(self) -> dict[str, Any]:
        return {**asdict(self), "stride": None if self.window is None else self.steps}

    def logits(self, network: nn.Module, images: Tensor, normalisation: Normalisation) -> Tensor:
        """uint8 [B, 3, H, W], or floating point in 0 .. 1 -> float32 logits [B, K, H, W], at the size of the images.

        Args:
            network: a segmenter in evaluation mode.
            images: of one size.
            normalisation: of the network's input.
        """
        import torch

        with torch.inference_mode():
            return self._mean(network, images, normalisation)

    def logit_strips(self, network: nn.Module, images: Tensor, normalisation: Normalisation) -> Iterator[Tensor]:
        """`logits`, from top to bottom: [B, K, some rows, W]. To be called without gradients."""
        import torch

        if not self.is_plain:
            yield self.logits(network, images, normalisation)
            return
        parameter = next(network.parameters(), torch.zeros(()))
        yield from self.strips(network, normalisation(images.to(parameter.device)).to(parameter.dtype))

    def _mean(self, network: nn.Module, images: Tensor, normalisation: Normalisation) -> Tensor:
        import torch

        H, W = images.shape[2:]
        parameter = next(network.parameters(), torch.zeros(()))
        total: Tensor | None = None
        for size in self._sizes((H, W)):
            inputs = normalisation(_resized(images, size).to(parameter.device)).to(parameter.dtype)
            for mirrored in (False, True) if self.flip else (False,):
                seen = self.stitched(network, inputs.flip(-1) if mirrored else inputs)
                logits = _interpolated(seen.flip(-1) if mirrored else seen, (H, W))
                total = logits if total is None else total.add_(logits)
        assert total is not None
        count = len(self.scales) * (2 if self.flip else 1)
        return total if count == 1 else total.div_(count)

    def stitched(self, network: nn.Module, inputs: Tensor) -> Tensor:
        """Normalised [B, 3, H, W] -> float32 logits [B, K, H, W] of the windows, averaged where they overlap."""
        total, top = None, 0
        for strip in self.strips(network, inputs):
            if strip.shape[2:] == inputs.shape[2:]:
                return strip
            if total is None:
                total = strip.new_empty(*strip.shape[:2], *inputs.shape[2:])
            total[:, :, top : top + strip.shape[2]] = strip
            top += strip.shape[2]
            del strip  # before the next one is made
        assert total is not None
        return total

    def strips(self, network: nn.Module, inputs: Tensor) -> Iterator[Tensor]:
        """The logits of `stitched`, from top to bottom, as soon as no further window adds to them: [B, K, some rows, W].

        Who needs no more of them than the class of every pixel never holds those of the whole image.
        """
        H, W = inputs.shape[2:]
        if self.window is None or (self.window[0] >= H and self.window[1] >= W):
            yield network(inputs).float()
            return
        height, width = min(self.window[0], H), min(self.window[1], W)
        ys, xs = (window_starts(*axis) for axis in zip((H, W), self.window, self.steps, strict=True))
        down, right = _hits(H, height, ys).to(inputs.device), _hits(W, width, xs).to(inputs.device)
        above: list[Tensor] = []  # what the windows above have added to the rows of the next ones, until these take it
        for y, below in zip(ys, [*ys[1:], H], strict=True):
            total = self._row(network, inputs[:, :, y : y + height], xs, width, above)
            done = below - y
            above.append(total[:, :, done:].clone())
            yield total[:, :, :done].div_(down[y:below, None] * right)
            del total  # before the next row makes its own

    def _row(self, network: nn.Module, inputs: Tensor, xs: Sequence[int], width: int, above: list[Tensor]) -> Tensor:
        """[B, 3, height, W] -> [B, K, height, W]: the logits of the windows that begin at `xs`, added to those `above`."""
        import torch

        B, _, height, W = inputs.shape
        places = [(image, x) for image in range(B) for x in xs]
        total: Tensor | None = None
        for first in range(0, len(places), self.batch):
            chosen = places[first : first + self.batch]
            logits = network(torch.stack([inputs[image, :, :, x : x + width] for image, x in chosen])).float()
            if total is None:
                total = logits.new_zeros(B, logits.shape[1], height, W)
                for rest in (above.pop() for _ in range(len(above))):
                    total[:, :, : rest.shape[2]] = rest
                    del rest
            for i, (image, x) in enumerate(chosen):
                total[image, :, :, x : x + width] += logits[i]
            del logits  # before the next windows make theirs
        assert total is not None
        return total

    @property
    def is_plain(self) -> bool:
        """Whether images are seen once, at their own size: nothing is done to the logits of `strips` any more."""
        return self.fit is None and not self.flip and self.scales == (1.0,)

    def _sizes(self, size: Size) -> Iterator[Size]:
        """What the image is resized to, for each scale."""
        for scale in self.scales:
            fitted = size if self.fit is None else fitted_size(size, self.fit)
            yield fitted if scale == 1 else (_rounded(fitted[0] * scale), _rounded(fitted[1] * scale))


def window_starts(length: int, window: int, step: int) -> list[int]:
    """Where windows begin along an axis: every `step` pixels; the last one ends with the image."""
    count = max(length - window + step - 1, 0) // step + 1
    return [min(i * step, max(length - window, 0)) for i in range(count)]


def _resized(images: Tensor, size: Size) -> Tensor:
    """[B, 3, H, W] -> [B, 3, *size], uint8 as uint8, without anti-aliasing, as the published numbers were made."""
    import torch

    if tuple(images.shape[2:]) == size or images.is_floating_point():
        return _interpolated(images, size)
    return torch.stack([torch.from_numpy(resize_image(image.numpy(), size)) for image in images.cpu()])


def _interpolated(x: Tensor, size: Size) -> Tensor:
    import torch.nn.functional as F

    return x if tuple(x.shape[2:]) == size else F.interpolate(x, size, mode="bilinear", align_corners=False)


def _hits(length: int, window: int, starts: Sequence[int]) -> Tensor:
    """[length]: in how many windows each position lies."""
    import torch

    hits = torch.zeros(length)
    for start in starts:
        hits[start : start + window] += 1
    return hits


def _rounded(length: float) -> int:
    return max(1, int(length + 0.5))
