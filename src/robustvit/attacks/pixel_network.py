"""What every attack works on: a network of pixels in 0 .. 1 with what it is to be wrong about, frozen while it is attacked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from robustvit.data.normalisation import Normalisation
from robustvit.metrics.class_subset import keep_classes
from robustvit.runtime.memory import is_out_of_memory
from robustvit.runtime.nested import tensors_of
from robustvit.tasks.base import Task
from robustvit.tasks.classification import Classification

__all__ = ["PixelNetwork", "Targets", "check_network", "check_pixels", "device_of", "frozen"]

Targets = Tensor | Sequence[Mapping[str, Tensor]]
"""The truth: int64 [B], the classes of images; [B, H, W], those of pixels, 255 where nobody knows; or of every image
{"boxes": [m, 4], "labels": int64 [m]}, maybe with "masks": [m, H, W]."""


class PixelNetwork(nn.Module):
    """`f(x) = network((x - mean) / std)`: pixels [B, 3, H, W] in 0 .. 1 -> what the task answers, in float32.

    That is logits [B, K] of a classifier, [B, K, H, W] of a segmenter, maps of features and of anchors of a detector.

    Args:
        network: of normalised images.
        mean, std: of its normalisation; None takes the network's own (timm's `pretrained_cfg`).
        columns: outputs that compete; None for all.
        task: says what the network answers and what it loses by; None for classification.
    """

    def __init__(
        self,
        network: nn.Module,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
        columns: Sequence[int] | None = None,
        *,
        task: Task | None = None,
    ) -> None:
        super().__init__()
        own = Normalisation.of(network)
        self.network = network
        self.mean, self.std = tuple(mean or own.mean), tuple(std or own.std)
        self.columns = None if columns is None else list(columns)
        self.task = Classification() if task is None else task

    def normalise(self, pixels: Tensor) -> Tensor:
        return Normalisation(self.mean, self.std)(pixels)

    def forward(self, pixels: Tensor) -> Any:
        x = self.normalise(pixels)
        answer = self.task.attacked_answer(self.network, x.to(next(self.network.parameters(), x).dtype))
        return answer if self.columns is None else keep_classes(answer, self.columns)

    def losses(self, pixels: Tensor, targets: Targets) -> Tensor:
        """[B]: what an attack makes large."""
        return self.task.attack_losses(self(pixels), targets)


def channels(values: Sequence[float], like: Tensor) -> Tensor:
    """One value per channel as [3, 1, 1]."""
    return torch.tensor(values, dtype=like.dtype, device=like.device)[:, None, None]


def device_of(model: nn.Module) -> torch.device:
    """The device of its parameters; the CPU for a network without any."""
    return next(model.parameters(), torch.zeros(())).device


@contextmanager
def frozen(model: nn.Module) -> Iterator[None]:
    """Evaluation mode and parameters without gradients inside; every mode and flag is back afterwards."""
    modes = [(module, module.training) for module in model.modules()]
    flags = [(parameter, parameter.requires_grad) for parameter in model.parameters()]
    model.eval().requires_grad_(False)
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training
        for parameter, flag in flags:
            parameter.requires_grad_(flag)


def check_network(model: PixelNetwork, size: tuple[int, int]) -> None:
    """Tries a grey image of `size`: whether the network takes it, and has gradients.

    Raises:
        ValueError: it does not.
        NotImplementedError: its task says that networks of this kind cannot be attacked.
    """
    device, (H, W) = device_of(model), size
    with frozen(model), torch.enable_grad():
        x = torch.full((1, 3, H, W), 0.5, device=device, requires_grad=True)
        try:
            answer = list(tensors_of(model(x)))
        except NotImplementedError:
            raise
        except (RuntimeError, AssertionError, ValueError) as error:
            if is_out_of_memory(error):
                raise
            kind = type(model.network).__name__
            told = str(error).strip().partition("\n")[0]
            raise ValueError(f"{kind} does not take images of {H}x{W} pixels ({told}); give a size that it takes") from error
    if not any(part.requires_grad for part in answer):
        raise ValueError(
            f"the outputs of {type(model.network).__name__} have no gradient with respect to the image, which attacks follow"
        )
    if not all(part.isfinite().all() for part in answer):
        raise ValueError(
            f"{type(model.network).__name__} answers a grey image with numbers that are not finite (NaN or infinity); are "
            "these the weights that you mean?"
        )


def check_pixels(images: Tensor, labels: Targets, seeds: Sequence[int | str] | None) -> list[int | str]:
    """The seeds of the samples, 0, 1, ... where none are given.

    Raises:
        ValueError: the images are not pixels in 0 .. 1, or there is not a label (or a label map, or objects) and a seed for
            each.
    """
    if images.ndim != 4 or images.shape[1] != 3 or not images.is_floating_point():
        raise ValueError(f"attacks take float pixels [B, 3, H, W] in 0 .. 1, got {images.dtype} {list(images.shape)}")
    if images.numel() and not (images.min() >= 0 and images.max() <= 1):
        raise ValueError(
            f"attacks take pixels in 0 .. 1, got values from {images.min():.3g} to {images.max():.3g}; do not normalise them: "
            "the network does (`PixelNetwork`)"
        )
    _check_labels(labels, *images.shape)
    chosen: list[int | str] = list(range(len(images))) if seeds is None else list(seeds)
    if len(chosen) != len(images):
        raise ValueError(f"{len(images)} images need as many seeds, got {len(chosen)}")
    return chosen


def _check_labels(labels: Targets, B: int, _: int, H: int, W: int) -> None:
    if isinstance(labels, Tensor):
        if tuple(labels.shape) not in ((B,), (B, H, W)):
            raise ValueError(f"{B} images need as many labels [{B}], or label maps [{B}, {H}, {W}], got {list(labels.shape)}")
    elif len(labels) != B:
        raise ValueError(f"{B} images need as many targets, got those of {len(labels)}")
