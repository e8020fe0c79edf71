"""Random patches covered with noise (AFAT, Table 3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from torch import Tensor

from robustvit.attacks.attack import Attack, SampleIds, accuracy_measure
from robustvit.attacks.options import option
from robustvit.attacks.pixel_network import PixelNetwork, check_pixels
from robustvit.corruptions.patches import PatchNoise, keep_highest, paste, patch_grid
from robustvit.data.normalisation import Normalisation
from robustvit.methods.patch_corruption import draw_noise, random_scores
from robustvit.metrics.measures import Measure, register
from robustvit.recording.token_grids import token_stride
from robustvit.runtime.number_checks import check_numbers
from robustvit.runtime.randomness import keyed_seed

__all__ = ["A_TENTH", "PatchSettings", "RandomPatchSettings", "RandomPatches", "cover_random", "covered", "patch_seeds"]


@dataclass(frozen=True)
class PatchSettings:
    """How patches are covered.

    Attributes:
        rho: share of the patches to cover: floor(rho (N - 1)) + 1 of N.
        patch_size: side in pixels; by default that of the network's tokens, 16 for networks without.
        noise: what covers a patch; zero drops it.
    """

    rho: float = option(0.1, metavar="SHARE")
    patch_size: int | None = option(None, metavar="PIXELS")
    noise: PatchNoise = "unit_normalised"

    def side(self, model: PixelNetwork, size: tuple[int, int]) -> int:
        """Of a patch in pixels, for images (H, W) of `size`."""
        if self.patch_size is not None:
            return self.patch_size
        try:
            return token_stride(model.network, size)
        except RuntimeError:  # nothing to record: no tokens
            return 16

    def grid(self, model: PixelNetwork, images: Tensor) -> tuple[int, int]:
        """(rows, columns) of the patches of images [B, 3, H, W]."""
        H, W = images.shape[-2:]
        return patch_grid((H, W), self.side(model, (H, W)))

    def describe(self) -> dict[str, Any]:
        return {**asdict(self), "patch_size": self.patch_size or "the network's tokens"}

    def check_share(self) -> None:
        """Raises ValueError where an attack would cover nothing, or everything."""
        if not 0 < self.rho < 1:
            raise ValueError(f"rho={self.rho:g} is not possible; give a share of the patches between 0 and 1, such as 0.1")

    def check_tiling(self, model: PixelNetwork, size: tuple[int, int]) -> None:
        """Raises ValueError where the patches do not tile images (H, W) of `size`."""
        patch_grid(size, self.side(model, size))


A_TENTH = PatchSettings()


def cover_random(
    model: PixelNetwork,
    images: Tensor,
    labels: Tensor,
    settings: PatchSettings = A_TENTH,
    *,
    seed: int = 0,
    sample_ids: Sequence[int | str] | None = None,
) -> Tensor:
    """Images with random patches covered.

    Args:
        model: gives the normalisation, in whose units the noise is, and the patches.
        images: float [B, 3, H, W] in 0 .. 1.
        labels: int64 [B]; without influence.
        settings: see `PatchSettings`.
        seed, sample_ids: what happens to an image depends on (seed, its id) alone.
    """
    ids = check_pixels(images, labels, sample_ids)
    h, w = settings.grid(model, images)
    seeds = patch_seeds(seed, ids)
    keep = keep_highest(random_scores(seeds, h * w, images), settings.rho)
    return covered(model, images, keep, (h, w), settings, seeds)


def covered(
    model: PixelNetwork, images: Tensor, keep: Tensor, grid: tuple[int, int], settings: PatchSettings, seeds: list[int]
) -> Tensor:
    """Images [B, 3, H, W] in 0 .. 1 with the patches covered that `keep` [B, N] has a 0 for; the rest is untouched."""
    noise = draw_noise(model.normalise(images), settings.noise, model.mean, model.std, seeds)
    return paste(images, keep, Normalisation(model.mean, model.std).inverse(noise).clamp(0, 1), grid)


def patch_seeds(seed: int, ids: Sequence[int | str]) -> list[int]:
    """For each image; those of noise and random choice."""
    return [keyed_seed(seed, i, "patches") for i in ids]


@dataclass(frozen=True)
class RandomPatchSettings(PatchSettings):
    """Of `RandomPatches`.

    Attributes:
        masks: how many choices of patches.
    """

    masks: int = 3

    def __post_init__(self) -> None:
        check_numbers(self)
        self.check_share()
        if self.masks < 1:
            raise ValueError(f"masks={self.masks} is not possible; give at least 1, and 3 or more for a spread")


@dataclass(frozen=True)
class RandomPatches(Attack):
    """Random patches covered with noise, several times: `masks` choices of patches, a row of results each."""

    name = "patches-random"
    label = "Random patches"
    summary = "a random tenth of the patches covered with noise, three times"
    settings_class = RandomPatchSettings
    measures = (
        accuracy_measure(
            "patches-random",
            "Accuracy, random patches covered",
            "Top-1 accuracy with random patches covered by noise, averaged over several choices of patches (masks).",
            under="random patches of noise",
            order=6,
        ),
        register(
            Measure(
                "patches_random_worst",
                "Random patches, worst mask",
                "Share of the images that are right under every one of the masks.",
                family="attack",
                order=6,
            )
        ),
        register(
            Measure(
                "patches_random_spread",
                "Random patches, spread",
                "Standard deviation of the accuracy over the masks. Without an interval: bootstrap samples show larger "
                "spreads than the images themselves.",
                higher_is_better=False,
                family="attack",
                order=6,
            )
        ),
    )

    settings: RandomPatchSettings = field(default_factory=RandomPatchSettings)

    @property
    def rows(self) -> tuple[str, ...]:
        return tuple(f"{self.name} (mask {i + 1})" for i in range(self.settings.masks))

    def describe(self) -> dict[str, Any]:
        return self.settings.describe()

    def check(self, model: PixelNetwork, size: tuple[int, int]) -> None:
        self.settings.check_tiling(model, size)

    def run(self, model: PixelNetwork, images: Tensor, labels: Tensor, seed: int, ids: SampleIds) -> Tensor:
        return cover_random(model, images, labels, self.settings, seed=seed, sample_ids=ids)
