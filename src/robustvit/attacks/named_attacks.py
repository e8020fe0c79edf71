"""The attacks with their settings, as objects; the functions they call are in the other files of this folder."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from robustvit.attacks.attack import FIT_BATCH, Attack, Batches, SampleIds
from robustvit.attacks.auto_attack import AutoAttackSettings, auto_attack, check_auto_attack
from robustvit.attacks.gradient_sign import PGD_PRESETS, PgdSettings, fgsm, pgd
from robustvit.attacks.patch_fool import LAYER, PatchFoolSettings, patch_fool
from robustvit.attacks.patches import PatchSettings, cover_adversarial, cover_random, fit_scorer
from robustvit.attacks.pixel_network import PixelNetwork, check_pixels
from robustvit.methods.patch_corruption import PatchScorer, load_scorer
from robustvit.recording.block_outputs import blocks_of
from robustvit.recording.tape import NothingRecordedError, attention_blocks
from robustvit.runtime.number_checks import check_numbers

__all__ = ["AdversarialPatches", "AutoAttack", "Fgsm", "PatchFool", "Pgd", "RandomPatches"]


@dataclass(frozen=True)
class Fgsm(Attack):
    """One step along the sign of the gradient."""

    name = "fgsm"
    eps: float = 1 / 255

    def __post_init__(self) -> None:
        check_numbers(self)
        PgdSettings(self.eps, max(self.eps, 1e-9), 1)  # says what is wrong with it

    def describe(self) -> dict[str, Any]:
        return asdict(self)

    def __call__(
        self,
        model: PixelNetwork,
        images: Tensor,
        labels: Tensor,
        *,
        seed: int = 0,
        sample_ids: SampleIds = None,
    ) -> Tensor:
        check_pixels(images, labels, sample_ids)
        return fgsm(model, images, labels, self.eps)


@dataclass(frozen=True)
class Pgd(Attack):
    """Several steps, from a random start."""

    name = "pgd"
    settings: PgdSettings = PGD_PRESETS["rvt"]

    def describe(self) -> dict[str, Any]:
        return asdict(self.settings)

    def __call__(
        self,
        model: PixelNetwork,
        images: Tensor,
        labels: Tensor,
        *,
        seed: int = 0,
        sample_ids: SampleIds = None,
    ) -> Tensor:
        return pgd(model, images, labels, self.settings, seed=seed, sample_ids=sample_ids)


@dataclass(frozen=True)
class PatchFool(Attack):
    """A patch that misleads and draws attention."""

    name = "patch-fool"
    settings: PatchFoolSettings = field(default_factory=PatchFoolSettings)

    def describe(self) -> dict[str, Any]:
        layer = f"{LAYER}, or the last block" if self.settings.layer is None else self.settings.layer
        return {**asdict(self.settings), "layer": layer}

    def check(self, model: PixelNetwork, size: tuple[int, int]) -> None:
        """The network has attention, patches and pixels enough: one iteration on a grey picture."""
        try:
            attention_blocks(model.network)
        except NothingRecordedError as error:
            raise ValueError(f"patch-fool reads the attention of a network, and {error}") from error
        grey = torch.full((1, 3, *size), 0.5, device=_device(model))
        label = torch.zeros(1, dtype=torch.long, device=grey.device)
        patch_fool(model, grey, label, replace(self.settings, iterations=1))

    def __call__(
        self,
        model: PixelNetwork,
        images: Tensor,
        labels: Tensor,
        *,
        seed: int = 0,
        sample_ids: SampleIds = None,
    ) -> Tensor:
        return patch_fool(model, images, labels, self.settings, seed=seed, sample_ids=sample_ids)


@dataclass(frozen=True)
class RandomPatches(Attack):
    """Random patches covered with noise, several times: `masks` choices of patches, a row of results each."""

    name = "patches-random"
    settings: PatchSettings = field(default_factory=PatchSettings)
    masks: int = 3

    def __post_init__(self) -> None:
        check_numbers(self)
        _check_share(self.settings)
        if self.masks < 1:
            raise ValueError(f"masks={self.masks} is not possible; give at least 1, and 3 or more for a spread")

    @property
    def rows(self) -> tuple[str, ...]:
        return tuple(f"{self.name} (mask {i + 1})" for i in range(self.masks))

    def describe(self) -> dict[str, Any]:
        return {**_covering(self.settings), "masks": self.masks}

    def check(self, model: PixelNetwork, size: tuple[int, int]) -> None:
        _check_tiling(self.settings.side(model, size), size)

    def __call__(
        self,
        model: PixelNetwork,
        images: Tensor,
        labels: Tensor,
        *,
        seed: int = 0,
        sample_ids: SampleIds = None,
    ) -> Tensor:
        return cover_random(model, images, labels, self.settings, seed=seed, sample_ids=sample_ids)


@dataclass(frozen=True)
class AdversarialPatches(Attack):
    """The patches covered that a corruption network chooses.

    Attributes:
        settings: of the covering.
        corruption_model: folder of a run with AFAT, or one of its checkpoints: the network that was trained there. None fits
            one against the network that is attacked, on the pictures of the evaluation.
        fit_steps: of that fitting.
        scorer: the network, once it is there (`ready`).
    """

    name = "patches-adversarial"
    settings: PatchSettings = field(default_factory=PatchSettings)
    corruption_model: str | None = None
    fit_steps: int = 200
    scorer: PatchScorer | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_numbers(self)
        _check_share(self.settings)
        if self.corruption_model is not None and self.settings.patch_size is not None:
            raise ValueError(
                f"patch_size={self.settings.patch_size} has no effect with a corruption_model, which has its own; leave it out"
            )
        if self.corruption_model is None and self.fit_steps < 1:
            raise ValueError(f"fit_steps={self.fit_steps} is not possible; give at least 1, or a corruption_model")

    @property
    def learns_from(self) -> int:
        return self.fit_steps * FIT_BATCH if self.corruption_model is None else 0

    def describe(self) -> dict[str, Any]:
        about = _covering(self.settings)
        if self.corruption_model is None:
            return {**about, "corruption_network": "fitted to this network on these pictures", "fit_steps": self.fit_steps}
        scorer = load_scorer(self.corruption_model)
        weights = b"".join(tensor.numpy().tobytes() for tensor in scorer.state_dict().values())
        digest = hashlib.blake2b(weights, digest_size=6).hexdigest()
        trained = f"trained with AFAT: {Path(self.corruption_model).name} (weights {digest})"
        return {**about, "patch_size": scorer.patch_size, "corruption_network": trained}

    def check(self, model: PixelNetwork, size: tuple[int, int]) -> None:
        if self.corruption_model is not None:
            trained = load_scorer(self.corruption_model).img_size
            if trained != size:
                raise ValueError(
                    f"the corruption network of {self.corruption_model} takes {trained[0]}x{trained[1]} pixels and this "
                    f"evaluation has {size[0]}x{size[1]}; give one trained at that size, or fit one (fit_steps)"
                )
            return
        try:
            blocks_of(model.network)
        except NothingRecordedError as error:
            raise ValueError(
                f"patches-adversarial fits its corruption network to the features of blocks, and {error}; give a trained one "
                "(corruption_model)"
            ) from error
        _check_tiling(self.settings.side(model, size), size)

    def ready(self, model: PixelNetwork, batches: Batches, seed: int) -> AdversarialPatches:
        if self.corruption_model is not None:
            return replace(self, scorer=load_scorer(self.corruption_model).to(_device(model)))
        return replace(self, scorer=fit_scorer(model, batches, self.settings, steps=self.fit_steps, seed=seed))

    def __call__(
        self,
        model: PixelNetwork,
        images: Tensor,
        labels: Tensor,
        *,
        seed: int = 0,
        sample_ids: SampleIds = None,
    ) -> Tensor:
        if self.scorer is None:
            raise RuntimeError("patches-adversarial has no corruption network yet; call the attack that `ready` gives")
        return cover_adversarial(model, images, labels, self.scorer, self.settings, seed=seed, sample_ids=sample_ids)


@dataclass(frozen=True)
class AutoAttack(Attack):
    """The ensemble of the package `pyautoattack`."""

    name = "autoattack"
    settings: AutoAttackSettings = field(default_factory=AutoAttackSettings)

    def describe(self) -> dict[str, Any]:
        settings = self.settings
        return {"eps": settings.eps, "norm": settings.norm, "parts": list(settings.ensemble), "group": settings.group}

    def check(self, model: PixelNetwork, size: tuple[int, int]) -> None:
        device = _device(model)
        with torch.no_grad():
            check_auto_attack(self.settings, model(torch.full((1, 3, *size), 0.5, device=device)).shape[1])

    def __call__(
        self,
        model: PixelNetwork,
        images: Tensor,
        labels: Tensor,
        *,
        seed: int = 0,
        sample_ids: SampleIds = None,
    ) -> Tensor:
        return auto_attack(model, images, labels, self.settings, seed=seed, sample_ids=sample_ids)


def _device(model: PixelNetwork) -> torch.device:
    return next(model.parameters(), torch.zeros(())).device


def _covering(settings: PatchSettings) -> dict[str, Any]:
    return {**asdict(settings), "patch_size": settings.patch_size or "the network's tokens"}


def _check_share(settings: PatchSettings) -> None:
    if not 0 < settings.rho < 1:
        raise ValueError(f"rho={settings.rho:g} is not possible; give a share of the patches between 0 and 1, such as 0.1")


def _check_tiling(side: int, size: tuple[int, int]) -> None:
    H, W = size
    if not 0 < side <= min(size) or H % side or W % side:
        raise ValueError(f"patches of {side} pixels do not tile {H}x{W} pixels; give another patch_size")
