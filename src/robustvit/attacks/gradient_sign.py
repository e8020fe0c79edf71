"""FGSM and PGD: small steps that raise the loss, within eps of the image.

PGD as Madry et al. define it ("Towards deep learning models resistant to adversarial attacks", ICLR 2018); AFAT, Table 3, and
TAP and ADL, Table I, report PGD-5 with RVT's step.

x_0     = clip(x + u),  u ~ U(-eps, eps)
x_{t+1} = clip_[0, 1]( clip_[x - eps, x + eps]( x_t + step sign grad CE(f(x_t), y) ) )
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from robustvit.attacks.pixel_network import check_pixels, frozen
from robustvit.runtime.interruption import check_interrupted
from robustvit.runtime.number_checks import check_numbers
from robustvit.runtime.randomness import KeyedDraws

__all__ = ["PGD_PRESETS", "PgdSettings", "fgsm", "pgd"]


@dataclass(frozen=True)
class PgdSettings:
    """How PGD goes; lengths in pixel units, 1 being white.

    Attributes:
        eps: largest change of a value.
        step: of one iteration.
        steps: iterations; the last iterate is the result.
        random_start: begin somewhere within eps, else at the picture.
    """

    eps: float = 1 / 255
    step: float = 0.5 / 255
    steps: int = 5
    random_start: bool = True

    def __post_init__(self) -> None:
        check_numbers(self)
        if not 0 <= self.eps <= 1:
            raise ValueError(
                f"eps={self.eps:g} is not possible; give a share of the pixel range, 0 to 1: "
                f"{f'{self.eps:g}/255 for {self.eps:g} steps of grey' if 1 < self.eps <= 255 else 'such as 8/255'}"
            )
        if not self.step > 0:
            raise ValueError(f"step={self.step!r} is not possible; give more than 0, in the units of eps")
        if self.steps < 1:
            raise ValueError(f"steps={self.steps!r} is not possible; give at least 1")


PGD_PRESETS: dict[str, PgdSettings] = {
    "rvt": PgdSettings(1 / 255, 0.5 / 255, 5),
    "rspc": PgdSettings(8 / 255, 2 / 255, 5),
    "rvt-adversarial": PgdSettings(4 / 255, 8 / 255 / 3, 3),
}
"""rvt: "PGD-5" of the AFAT and TAP papers; rspc: what AFAT's repository has; rvt-adversarial: of RVT's adversarially trained
networks."""


def pgd(
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    settings: PgdSettings = PGD_PRESETS["rvt"],
    *,
    seed: int = 0,
    sample_ids: Sequence[int | str] | None = None,
) -> Tensor:
    """Pictures within eps on which the network errs more: untargeted, L_inf, the last iterate.

    Args:
        model: pixels in 0 .. 1 -> logits, see `PixelNetwork`; attacked in evaluation mode and left as it was.
        images: float [B, 3, H, W] in 0 .. 1.
        labels: int64 [B], the truth.
        settings: of `PGD_PRESETS`, or your own.
        seed, sample_ids: the random start of a picture depends on (seed, its id) alone; ids are 0, 1, ... by default.
    """
    ids = check_pixels(images, labels, sample_ids)
    low, high = (images - settings.eps).clamp(min=0), (images + settings.eps).clamp(max=1)
    x = images.clone()
    if settings.random_start:
        start = KeyedDraws(seed, ids, "pgd", device=images.device).uniform(
            -settings.eps, settings.eps, tuple(images.shape[1:])
        )
        x = torch.clamp(x + start.to(x.dtype), low, high)
    with frozen(model):
        for _ in range(settings.steps):
            check_interrupted()
            x = torch.clamp(x + settings.step * loss_gradient(model, x, labels).sign(), low, high)
    return x


def fgsm(model: nn.Module, images: Tensor, labels: Tensor, eps: float = 1 / 255) -> Tensor:
    """One step of eps along the sign of the gradient: `pgd` with one step, no random start and step = eps.

    Args:
        model, images, labels: see `pgd`.
        eps: the step.
    """
    return pgd(model, images, labels, PgdSettings(eps, eps, 1, random_start=False)) if eps else images.clone()


def loss_gradient(model: nn.Module, x: Tensor, labels: Tensor) -> Tensor:
    """Of the sum of the cross-entropies, so that a picture's gradient does not depend on its batch."""
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        losses = F.cross_entropy(model(x).float(), labels, reduction="none")
        gradient = torch.autograd.grad(losses.sum(), x)[0]
    check_gradient(gradient, losses)
    return gradient


def check_gradient(gradient: Tensor, losses: Tensor) -> None:
    """Refuses to follow a gradient that says nothing: the picture would stay as it is, and count as robust.

    Args:
        gradient: [B, ...].
        losses: [B]; a picture without a finite loss has no answer to attack.

    Raises:
        ValueError: a gradient is not finite where the loss is.
    """
    is_lost = losses.isfinite() & ~gradient.flatten(1).isfinite().all(1)
    if is_lost.any():
        raise ValueError(
            f"the gradient of the loss is not finite (NaN or infinity) for {int(is_lost.sum())} of {len(losses)} pictures, "
            "although the loss is; an attack that follows it would find nothing. Attack the network in float32, or without "
            "the part that has no gradient"
        )
