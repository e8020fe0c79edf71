"""What can be chosen about the analyses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Literal, get_args

from robustvit.runtime.number_checks import check_numbers

__all__ = ["USED_BY", "AnalysisOptions", "NoiseKind", "check_used"]

MOST_GROUPS = 16
"""Of tokens; more could not be told apart by their colours."""
NoiseKind = Literal["perturbation", "input"]
"""Added to the pictures, or seen instead of them."""


@dataclass(frozen=True)
class AnalysisOptions:
    """Settings of all analyses; each uses those that concern it.

    Attributes:
        corruption: what clean pictures are compared with: a name such as gaussian_noise (by default), motion_blur, fog or
            jpeg_compression (`robustvit corrupt --help`), or patches (a tenth covered with noise).
        severity: of the corruption, 1 to 5.
        shown: pictures in the figures that show pictures: the first ones that all networks answer rightly.
        picture: position of the picture whose attention is shown; by default the first one that all networks answer rightly.
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
    picture: int | None = None
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
        from robustvit.runtime.spelling import nearest

        if self.corruption not in (*CORRUPTIONS, "patches"):
            hint = nearest(self.corruption, [*CORRUPTIONS, "patches"])
            raise ValueError(
                f"there is no corruption {self.corruption!r}{hint or '; choose one of ' + ', '.join(CORRUPTIONS)}"
            )
        if self.noise not in get_args(NoiseKind):
            raise ValueError(f"noise={self.noise!r} is not known; choose one of {', '.join(get_args(NoiseKind))}")
        check_numbers(self)
        self._require(1 <= self.severity <= 5, "severity", "1 to 5")
        self._require(all(0 <= share <= 1 for share in self.query), "query", "row and column as shares, 0 to 1")
        self._require(0 < self.epsilon < 1, "epsilon", "more than 0 and less than 1")
        self._require(0 <= self.rho < 1, "rho", "0 or more and less than 1")
        self._require(0 <= self.sure <= 1, "sure", "0 to 1")
        self._require(self.sigma > 0, "sigma", "more than 0")
        self._require(self.picture is None or self.picture >= 0, "picture", "0 or more")
        self._require(self.clusters is None or 2 <= self.clusters <= MOST_GROUPS, "clusters", f"2 to {MOST_GROUPS}")
        for name in ("shown", "masks", "batch_size"):
            self._require(getattr(self, name) >= 1, name, "at least 1")
        self._require(self.seed >= 0, "seed", "0 or more")
        self._require(self.fit_steps is None or self.fit_steps >= 1, "fit_steps", "at least 1")
        if self.fit_steps is not None and self.corruption_model is not None:
            raise ValueError("fit_steps has no effect with a corruption_model, which is trained already; give one of them")

    def _require(self, is_possible: bool, name: str, expected: str) -> None:
        if not is_possible:
            raise ValueError(f"{name}={getattr(self, name)!r} is not possible; give {expected}")


_SPOILED = ("corruption", "severity", "rho")
USED_BY: Mapping[str, tuple[str, ...]] = {
    "attention": (*_SPOILED, "picture", "layers", "query"),
    "stability": _SPOILED,
    "occlusion": ("masks", "rho"),
    "head-diversity": (),
    "overfocus": (),
    "eigenvalues": ("epsilon",),
    "noise-decay": ("noise", "sigma"),
    "clusters": (*_SPOILED, "layers", "clusters", "shown"),
    "token-labels": ("sure", "shown"),
    "patch-corruption": ("rho", "corruption_model", "fit_steps", "shown"),
    "bottleneck": (),
}
"""Analysis -> the options that concern it, besides batch_size and seed."""


def check_used(options: AnalysisOptions, what: Sequence[str]) -> None:
    """Refuses what somebody chose that would change nothing.

    Args:
        options: as given.
        what: the analyses, or "all".

    Raises:
        ValueError: an option other than its default concerns none of them.
    """
    default = AnalysisOptions()
    given = [f.name for f in fields(options) if getattr(options, f.name) != getattr(default, f.name)]
    used = {"batch_size", "seed", *(name for one in what for name in USED_BY.get(one, ()))}
    for name in given:
        owners = [one for one, names in USED_BY.items() if name in names]
        if "all" not in what and name not in used:
            raise ValueError(
                f"--{name.replace('_', '-')} belongs to {', '.join(owners)}, and the analysis is {', '.join(what)}; leave it "
                "out, or add that to --what"
            )
    if "severity" in given and options.corruption == "patches":
        raise ValueError("--severity has no effect with --corruption patches; --rho sets the share of the patches")
    spoils = {"attention", "stability", "clusters"} & set(what)
    if "rho" in given and options.corruption != "patches" and spoils == set(what):
        raise ValueError("--rho belongs to --corruption patches, occlusion and patch-corruption; leave it out")
    if "sigma" in given and options.noise == "input":
        raise ValueError("--sigma has no effect with --noise input, which is N(0, 1)")
