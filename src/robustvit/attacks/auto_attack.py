"""AutoAttack: an ensemble of attacks without settings of their own, by the package `pyautoattack` (extra `attack`).

Each attack of the ensemble works on the images that withstood those before it. An image that withstands all of them, or
that was wrong from the start, comes back as it is.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import logging
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self, get_args

import torch
from torch import Tensor

from robustvit.attacks.attack import Attack, SampleIds, accuracy_measure
from robustvit.attacks.options import option
from robustvit.attacks.pixel_network import PixelNetwork, check_pixels, device_of, frozen
from robustvit.runtime.interruption import check_interrupted
from robustvit.runtime.number_checks import check_numbers
from robustvit.runtime.randomness import keyed_seed

__all__ = ["AutoAttack", "AutoAttackPart", "AutoAttackSettings", "Norm", "auto_attack", "check_auto_attack"]

Norm = Literal["Linf", "L2", "L1"]

AutoAttackPart = Literal["apgd-ce", "apgd-dlr", "apgd-t", "fab", "fab-t", "square"]

LEAST_CLASSES = {"apgd-dlr": 3, "apgd-t": 4}
"""The DLR loss divides by a difference of the first and the third logit, its targeted form by one with the fourth."""
TARGETS = 9
"""Other classes that the targeted attacks try, where there are as many."""
VERSIONS: dict[str, tuple[AutoAttackPart, ...]] = {
    "standard": ("apgd-ce", "apgd-t", "fab-t", "square"),
    "plus": ("apgd-ce", "apgd-dlr", "fab", "square", "apgd-t", "fab-t"),
}


@dataclass(frozen=True)
class AutoAttackSettings:
    """Which ensemble, and how far it may go.

    Attributes:
        eps: largest norm of the change, in pixel units, 1 being white.
        norm: of the change, over all values of an image.
        version: which ensemble of the package.
        parts: its attacks themselves, instead of those of the ensemble: apgd-ce, apgd-dlr, apgd-t, fab, fab-t, square; each
            with the settings it has there.
        group: images attacked at once. The package draws for all of them together, so that only alone what happens to an
            image depends on (seed, its id). More are faster on a GPU, and depend on each other.
    """

    eps: float = option(1 / 255, is_length=True)
    norm: Norm = "Linf"
    version: Literal["standard", "plus"] = option("standard", flag="ensemble")
    parts: tuple[AutoAttackPart, ...] = ()
    group: int = 1

    def __post_init__(self) -> None:
        check_numbers(self)
        if self.norm not in get_args(Norm):
            raise ValueError(f"norm={self.norm!r} is not known; choose one of {', '.join(get_args(Norm))}")
        if self.version not in VERSIONS:
            raise ValueError(f"version={self.version!r} is not known; choose one of {', '.join(VERSIONS)}")
        if wrong := [part for part in self.parts if part not in get_args(AutoAttackPart)]:
            raise ValueError(f"AutoAttack has no part {wrong[0]!r}; choose among {', '.join(get_args(AutoAttackPart))}")
        if self.group < 1:
            raise ValueError(f"group={self.group} is not possible; give at least 1")
        if not self.eps > 0 or (self.norm == "Linf" and self.eps > 1):
            raise ValueError(
                f"eps={self.eps:g} is not possible for {self.norm}; give more than 0, in pixel units, 1 being white: "
                f"{f'{self.eps:g}/255 for {self.eps:g} steps of grey' if 1 < self.eps <= 255 else 'such as 8/255'}"
            )

    @property
    def ensemble(self) -> tuple[AutoAttackPart, ...]:
        """The attacks, in the order in which they run."""
        return self.parts or VERSIONS[self.version]


ONE_STEP_OF_GREY = AutoAttackSettings()


def auto_attack(
    model: PixelNetwork,
    images: Tensor,
    labels: Tensor,
    settings: AutoAttackSettings = ONE_STEP_OF_GREY,
    *,
    seed: int = 0,
    sample_ids: Sequence[int | str] | None = None,
) -> Tensor:
    """Images [B, 3, H, W] within eps that the network gets wrong, where the ensemble found any.

    Args:
        model: left as it was.
        images: float [B, 3, H, W] in 0 .. 1.
        labels: int64 [B], the truth.
        settings: see `AutoAttackSettings`.
        seed, sample_ids: what happens to an image depends on (seed, its id) alone, or with `settings.group` on (seed, ids of
            its group); ids are 0, 1, ... by default.

    Raises:
        ValueError: the network has too few classes for a part of the ensemble.
        RuntimeError: the package is not installed.
    """
    ids = check_pixels(images, labels, sample_ids)
    if not len(images):
        return images.clone()
    with frozen(model), _quiet(images.device):
        with torch.no_grad():
            classes = model(images[:1]).shape[1]
        check_auto_attack(settings, classes)
        attacked = []
        for start in range(0, len(images), settings.group):
            check_interrupted()
            group = slice(start, start + settings.group)
            group_seed = keyed_seed(seed, repr(ids[group]), "autoattack") >> 1  # a signed 64-bit number
            ensemble = _ensemble(model, settings, classes, group_seed, images.device)
            found, _ = ensemble.run_standard_evaluation(images[group], labels[group], batch_size=settings.group)
            attacked.append(found.detach().clamp(0, 1))
    return torch.cat(attacked)


def check_auto_attack(settings: AutoAttackSettings, classes: int) -> None:
    """Raises RuntimeError without the package, and ValueError where there are too few classes for a part."""
    _package()
    for part in settings.ensemble:
        if classes < LEAST_CLASSES.get(part, 2):
            possible = [name for name in VERSIONS["plus"] if classes >= LEAST_CLASSES.get(name, 2)]
            raise ValueError(
                f"AutoAttack's {part} needs the DLR loss, which does not exist for {classes} classes (it takes "
                f"{LEAST_CLASSES.get(part, 2)}); choose other parts: {', '.join(possible) or 'none is possible'}"
            )


def _ensemble(model: PixelNetwork, settings: AutoAttackSettings, classes: int, seed: int, device: torch.device) -> Any:
    ensemble = _package().AutoAttack(
        model, norm=settings.norm, eps=settings.eps, seed=seed, version=settings.version, device=device
    )
    ensemble.attacks_to_run = list(settings.ensemble)
    for targeted in (ensemble.apgd_targeted, ensemble.fab):  # there may be fewer other classes than it wants to try
        targeted.n_target_classes = min(targeted.n_target_classes, TARGETS, classes - 1)
    return ensemble


def _package() -> Any:
    try:
        return importlib.import_module("pyautoattack")
    except ImportError as error:
        raise RuntimeError("AutoAttack needs a package of its own: pip install 'robustvit[attack]'") from error


@contextlib.contextmanager
def _quiet(device: torch.device) -> Iterator[None]:
    """The package prints, logs, seeds the global generators and ends tracing (debuggers, coverage); none of it stays."""
    logger, tracing = logging.getLogger("auto-attack"), sys.gettrace()
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    devices = [device] if device.type == "cuda" else []
    try:
        with contextlib.redirect_stdout(io.StringIO()), torch.random.fork_rng(devices=devices):
            yield
    finally:
        logger.setLevel(level)
        sys.settrace(tracing)


@dataclass(frozen=True)
class AutoAttack(Attack):
    """The ensemble of the package `pyautoattack`."""

    name = "autoattack"
    label = "AutoAttack"
    summary = "the ensemble of `pyautoattack` (`pip install 'robustvit[attack]'`)"
    needs = "gradients; 4 classes, or other parts"
    settings_class = AutoAttackSettings
    measures = (
        accuracy_measure(
            "autoattack",
            "Accuracy under AutoAttack",
            "Top-1 accuracy under AutoAttack: an image counts as wrong when one attack of its ensemble succeeds.",
            under="AutoAttack",
            order=1,
        ),
    )

    settings: AutoAttackSettings = field(default_factory=AutoAttackSettings)

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Self:
        if options.get("norm", "Linf") != "Linf" and "eps" not in options:
            told = "needs an eps of its own, in pixel units over the whole image, such as 0.5"
            raise ValueError(f"norm={options['norm']!r} {told}")
        return super().from_options(options)

    def describe(self) -> dict[str, Any]:
        settings = self.settings
        return {"eps": settings.eps, "norm": settings.norm, "parts": list(settings.ensemble), "group": settings.group}

    def check(self, model: PixelNetwork, size: tuple[int, int]) -> None:
        with torch.no_grad():
            check_auto_attack(self.settings, model(torch.full((1, 3, *size), 0.5, device=device_of(model))).shape[1])

    def run(self, model: PixelNetwork, images: Tensor, labels: Tensor, seed: int, ids: SampleIds) -> Tensor:
        return auto_attack(model, images, labels, self.settings, seed=seed, sample_ids=ids)
