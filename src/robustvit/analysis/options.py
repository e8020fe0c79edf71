"""What can be chosen about the analyses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

__all__ = ["AnalysisOptions", "NoiseKind"]

MOST_GROUPS = 16
"""Of tokens; more could not be told apart by their colours."""
NoiseKind = Literal["perturbation", "input"]
"""Added to the pictures, or seen instead of them."""


@dataclass(frozen=True)
class AnalysisOptions:
    """Settings of all analyses; each uses those that concern it.

    Attributes:
        corruption: what clean pictures are compared with: one of `CORRUPTIONS`, or "patches" (a tenth covered with noise).
        severity: of the corruption, 1 to 5.
        shown: pictures in the figures that show pictures, the first ones.
        picture: position of the picture whose attention is shown.
        layers: blocks for attention and clusters, from either end; None: some of all, and the second-last.
        query: (row, column) of the pixel whose attention is shown, as a share of the picture.
        clusters: groups of tokens; None chooses by the eigengap.
        epsilon: eigenvalues above this share of the largest are significant.
        noise: "perturbation" or "input", see `noise_decay`.
        sigma: of the noise of "perturbation", in normalised units.
        masks: random masks of a picture in the occlusion study.
        rho: share of the patches that a mask covers.
        sure: confidence from which a token counts as sure.
        corruption_model: folder of an AFAT run whose patch corruption network is used; None fits one to each network.
        fit_steps: of that fitting; 200 by default.
        batch_size: pictures at once.
        seed: of everything random.
    """

    corruption: str = "gaussian_noise"
    severity: int = 3
    shown: int = 4
    picture: int = 0
    layers: tuple[int, ...] | None = None
    query: tuple[float, float] = (0.5, 0.5)
    clusters: int | None = None
    epsilon: float = 0.01
    noise: NoiseKind = "perturbation"
    sigma: float = 1.0
    masks: int = 100
    rho: float = 0.1
    sure: float = 0.5
    corruption_model: str | None = None
    fit_steps: int | None = None
    batch_size: int = 32
    seed: int = 0

    def __post_init__(self) -> None:
        from robustvit.corruptions.registry import CORRUPTIONS  # not before arguments are understood: it needs torch
        from robustvit.models.names import nearest

        if self.corruption not in (*CORRUPTIONS, "patches"):
            hint = nearest(self.corruption, [*CORRUPTIONS, "patches"])
            raise ValueError(
                f"there is no corruption {self.corruption!r}{hint or '; choose one of ' + ', '.join(CORRUPTIONS)}"
            )
        if self.noise not in get_args(NoiseKind):
            raise ValueError(f"noise={self.noise!r} is not known; choose one of {', '.join(get_args(NoiseKind))}")
        self._require(1 <= self.severity <= 5, "severity", "1 to 5")
        self._require(all(0 <= share <= 1 for share in self.query), "query", "row and column as shares, 0 to 1")
        self._require(0 < self.epsilon < 1, "epsilon", "more than 0 and less than 1")
        self._require(0 <= self.rho < 1, "rho", "0 or more and less than 1")
        self._require(0 <= self.sure <= 1, "sure", "0 to 1")
        self._require(self.sigma > 0, "sigma", "more than 0")
        self._require(self.picture >= 0, "picture", "0 or more")
        self._require(self.clusters is None or 2 <= self.clusters <= MOST_GROUPS, "clusters", f"2 to {MOST_GROUPS}")
        for name in ("shown", "masks", "batch_size"):
            self._require(getattr(self, name) >= 1, name, "at least 1")
        self._require(self.fit_steps is None or self.fit_steps >= 1, "fit_steps", "at least 1")
        if self.fit_steps is not None and self.corruption_model is not None:
            raise ValueError("fit_steps has no effect with a corruption_model, which is trained already; give one of them")

    def _require(self, is_possible: bool, name: str, expected: str) -> None:
        if not is_possible:
            raise ValueError(f"{name}={getattr(self, name)!r} is not possible; give {expected}")
