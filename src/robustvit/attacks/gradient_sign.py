"""FGSM and PGD: small steps that raise the loss, within eps of the image.

PGD as Madry et al. define it ("Towards deep learning models resistant to adversarial attacks", ICLR 2018); AFAT, Table 3, and
TAP and ADL, Table I, report PGD-5 with RVT's step.

x_0     = clip(x + u),  u ~ U(-eps, eps)
x_{t+1} = clip_[0, 1]( clip_[x - eps, x + eps]( x_t + step sign grad CE(f(x_t), y) ) )

CE is what the task says (`Task.attack_losses`): of a segmenter, the mean over the labelled pixels of an image; of a detector,
the sum of the losses that it was trained with, over all anchors and regions instead of some that are drawn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from robustvit.attacks.attack import Attack, SampleIds, accuracy_measure
from robustvit.attacks.options import grey, option
from robustvit.attacks.pixel_network import PixelNetwork, Targets, check_pixels, frozen
from robustvit.runtime.interruption import check_interrupted
from robustvit.runtime.number_checks import check_numbers
from robustvit.runtime.randomness import KeyedDraws
from robustvit.tasks.classification import Classification

__all__ = ["PGD_PRESETS", "Fgsm", "FgsmSettings", "Pgd", "PgdSettings", "fgsm", "pgd"]


@dataclass(frozen=True)
class FgsmSettings:
    """How far FGSM goes.

    Attributes:
        eps: largest change of a value.
    """

    eps: float = option(1 / 255, is_length=True)

    def __post_init__(self) -> None:
        check_numbers(self)
        _check_eps(self.eps)


@dataclass(frozen=True)
class PgdSettings:
    """How PGD goes; lengths in pixel units, 1 being white.

    Attributes:
        eps: largest change of a value.
        step: of one iteration.
        steps: iterations; the last iterate is the result.
        random_start: begin somewhere within eps, else at the image.
    """

    eps: float = option(1 / 255, is_length=True)
    step: float = option(0.5 / 255, is_length=True)
    steps: int = 5
    random_start: bool = option(True, text="begin at the image")

    def __post_init__(self) -> None:
        check_numbers(self)
        _check_eps(self.eps)
        if not self.step > 0:
            raise ValueError(f"step={self.step!r} is not possible; give more than 0, in the units of eps")
        if self.steps < 1:
            raise ValueError(f"steps={self.steps!r} is not possible; give at least 1")


def _check_eps(eps: float) -> None:
    if not 0 <= eps <= 1:
        raise ValueError(
            f"eps={eps:g} is not possible; give a share of the pixel range, 0 to 1: "
            f"{f'{eps:g}/255 for {eps:g} steps of grey' if 1 < eps <= 255 else 'such as 8/255'}"
        )


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
    labels: Targets,
    settings: PgdSettings = PGD_PRESETS["rvt"],
    *,
    seed: int = 0,
    sample_ids: Sequence[int | str] | None = None,
) -> Tensor:
    """Images within eps on which the network errs more: untargeted, L_inf, the last iterate.

    Args:
        model: pixels in 0 .. 1 -> logits, see `PixelNetwork`; attacked in evaluation mode and left as it was.
        images: float [B, 3, H, W] in 0 .. 1.
        labels: the truth, see `Targets`.
        settings: of `PGD_PRESETS`, or your own.
        seed, sample_ids: the random start of an image depends on (seed, its id) alone; ids are 0, 1, ... by default.
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


def fgsm(model: nn.Module, images: Tensor, labels: Targets, eps: float = 1 / 255) -> Tensor:
    """One step of eps along the sign of the gradient: `pgd` with one step, no random start and step = eps.

    Args:
        model, images, labels: see `pgd`.
        eps: the step.
    """
    return pgd(model, images, labels, PgdSettings(eps, eps, 1, random_start=False)) if eps else images.clone()


def loss_gradient(model: nn.Module, x: Tensor, labels: Targets) -> Tensor:
    """Of the sum of the losses of the images, so that an image's gradient does not depend on its batch."""
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        losses = losses_of(model, x, labels)
        gradient = torch.autograd.grad(losses.sum(), x)[0]
    check_gradient(gradient, losses)
    return gradient


def losses_of(model: nn.Module, x: Tensor, labels: Any) -> Tensor:
    """[B]: what the task of a `PixelNetwork` says; of any other module, the cross-entropy of its logits."""
    if isinstance(model, PixelNetwork):
        return model.losses(x, labels)
    return Classification().attack_losses(model(x), labels)


def check_gradient(gradient: Tensor, losses: Tensor) -> None:
    """Refuses to follow a gradient that says nothing: the image would stay as it is, and count as robust.

    Args:
        gradient: [B, ...].
        losses: [B]; an image without a finite loss has no answer to attack.

    Raises:
        ValueError: a gradient is not finite where the loss is.
    """
    is_lost = losses.isfinite() & ~gradient.flatten(1).isfinite().all(1)
    if is_lost.any():
        raise ValueError(
            f"the gradient of the loss is not finite (NaN or infinity) for {int(is_lost.sum())} of {len(losses)} images, "
            "although the loss is; an attack that follows it would find nothing. Attack the network in float32, or without "
            "the part that has no gradient"
        )


@dataclass(frozen=True)
class Fgsm(Attack):
    """One step along the sign of the gradient."""

    name = "fgsm"
    label = "FGSM"
    summary = "one step of eps along the sign of the gradient"
    needs = "gradients"
    tasks = ()
    settings_class = FgsmSettings
    presets = {name: FgsmSettings(preset.eps) for name, preset in PGD_PRESETS.items()}
    measures = (
        accuracy_measure(
            "fgsm",
            "Accuracy under FGSM",
            "Top-1 accuracy under FGSM: one step along the sign of the gradient, against the true class. Every image counts, "
            "also those that were wrong before.",
            under="FGSM",
            order=3,
        ),
    )

    settings: FgsmSettings = presets["rvt"]

    def run(self, model: PixelNetwork, images: Tensor, labels: Targets, seed: int, ids: SampleIds) -> Tensor:
        return fgsm(model, images, labels, self.settings.eps)


@dataclass(frozen=True)
class Pgd(Attack):
    """Several steps, from a random start."""

    name = "pgd"
    label = "PGD"
    summary = "several steps within eps, from a random start; the last iterate counts"
    needs = "gradients"
    tasks = ()
    settings_class = PgdSettings
    presets = PGD_PRESETS
    measures = (
        accuracy_measure(
            "pgd",
            "Accuracy under PGD",
            "Top-1 accuracy under PGD: several steps along the sign of the gradient within eps of the image; the last one "
            "counts.",
            under="PGD",
            order=2,
        ),
    )

    settings: PgdSettings = PGD_PRESETS["rvt"]

    def remarks(self) -> Iterator[str]:
        settings = self.settings
        if settings.step * settings.steps < settings.eps * (1 - 1e-6):
            reach = f"{grey(settings.step * settings.steps)} of {grey(settings.eps)}"
            yield f"{settings.steps} steps of PGD reach {reach} from the start; --steps and --step change that"

    def run(self, model: PixelNetwork, images: Tensor, labels: Targets, seed: int, ids: SampleIds) -> Tensor:
        return pgd(model, images, labels, self.settings, seed=seed, sample_ids=ids)
