"""Perturbation sequences: short films of one image that changes little by little, as in ImageNet-P and CIFAR-P.

A steady network gives the same answer for all frames. The published films of ImageNet-P are compressed video; these are not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Literal

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional as F

from robustvit.corruptions.blur import motion_blur_at
from robustvit.corruptions.digital import brightness
from robustvit.corruptions.filters import gaussian_filter
from robustvit.corruptions.noise import gaussian_noise, shot_noise, speckle_noise
from robustvit.corruptions.parameters import Family
from robustvit.corruptions.pixels import Setting
from robustvit.corruptions.sampling import read_between
from robustvit.corruptions.weather import snow, spatter
from robustvit.runtime.portable_math import sine_and_cosine
from robustvit.runtime.randomness import KeyedDraws

__all__ = ["SEQUENCES", "Benchmark", "PerturbationSequence", "perturbation_sequence", "source_frame"]

Benchmark = Literal["imagenet", "cifar"]
SOURCE_SIDE: dict[Benchmark, int] = {"imagenet": 256, "cifar": 32}
FRAME_SIDE: dict[Benchmark, int] = {"imagenet": 224, "cifar": 32}
UNIT = 2**8


@dataclass(frozen=True)
class PerturbationSequence:
    """One kind of film.

    Attributes:
        name: as published.
        imagenet: its numbers in ImageNet-P, see `_FILMS`.
        cifar: its numbers in CIFAR-P.
        imagenet_frames: how many frames it has in ImageNet-P.
        cifar_frames: how many in CIFAR-P.
        is_noise: frames are not ordered in time: all are compared with the first one, which is clean.
        is_extra: not one of the 10 that count in ImageNet-P. (CIFAR-P counts spatter instead of snow.)
    """

    name: str
    imagenet: Any
    cifar: Any
    imagenet_frames: int = 31
    cifar_frames: int = 31
    is_noise: bool = False
    is_extra: bool = False

    def frames(self, benchmark: Benchmark) -> int:
        return self.imagenet_frames if benchmark == "imagenet" else self.cifar_frames


SEQUENCES: dict[str, PerturbationSequence] = {
    sequence.name: sequence
    for sequence in (
        # standard deviation, or photons of white, at levels 1 to 3
        PerturbationSequence("gaussian_noise", (0.03, 0.05, 0.08), (0.02, 0.04, 0.06), is_noise=True),
        PerturbationSequence("shot_noise", (300, 120, 60), (700, 400, 200), is_noise=True),
        # radius, sigma, first angle, step
        PerturbationSequence("motion_blur", (10, 3, -120, 4), (6, 1.8, -180, 9), cifar_frames=21),
        # step of the zoom
        PerturbationSequence("zoom_blur", 0.004, 0.004),
        # mean, sd, zoom, threshold, radius, sigma, keep
        PerturbationSequence("snow", (0.05, 0.3, 3, 0.5, 14, 4, 0.85), (0.05, 0.3, 2, 0.5, 10, 2, 0.85)),
        # first value, step: of brightness, pixels, degrees or percent
        PerturbationSequence("brightness", (-0.3, 0.02), (-0.225, 0.015)),
        PerturbationSequence("translate", (-20, 1), (-7, 1), imagenet_frames=41, cifar_frames=16),
        PerturbationSequence("rotate", (-15, 1), (-15, 1)),
        PerturbationSequence("tilt", (-15, 1), (-11.25, 0.75)),
        PerturbationSequence("scale", (40, 2.5), (70, 2)),
        PerturbationSequence("speckle_noise", (0.05, 0.10, 0.15), (0.05, 0.07, 0.10), is_noise=True, is_extra=True),
        # first sigma, step, radius over sigma
        PerturbationSequence("gaussian_blur", (0.25, 0.035, 6), (0.3, 0.015, 7), is_extra=True),
        # mean, sd, blur, threshold, amount, how the water runs down
        PerturbationSequence(
            "spatter",
            (0.65, 0.27, 3.7, 0.69, 0.6, (0.05, 0.1, 0.15, 0.7)),
            (0.6, 0.265, 1.75, 0.7, 0.6, (0.2, 0.8)),
            is_extra=True,
        ),
        PerturbationSequence("shear", (-15, 1), (-15, 1), is_extra=True),
    )
}
"""The 10 kinds of ImageNet-P, then the 4 extra ones."""


def source_frame(image: Image.Image, benchmark: Benchmark = "imagenet") -> Tensor:
    """The image that a film starts from: RGB, shorter side 256 (32 for "cifar"), uint8 [3, h, w]."""
    side = SOURCE_SIDE[benchmark]
    image = image.convert("RGB")
    shorter = min(image.size)
    W, H = (side if n == shorter else int(side * n / shorter) for n in image.size)
    array = np.array(image.resize((W, H), Image.Resampling.BILINEAR))
    return torch.from_numpy(array).permute(2, 0, 1).contiguous()


def perturbation_sequence(
    image: Tensor, kind: str, *, seed: int = 0, sample_id: int | str = 0, benchmark: Benchmark = "imagenet", level: int = 1
) -> Tensor:
    """The film of an image: uint8 [frames, 3, h, w], 224 x 224 for ImageNet-P and 32 x 32 for CIFAR-P.

    Randomness depends on (seed, sample id, kind, level) alone.

    Args:
        image: uint8 [3, H, W], see `source_frame`; frames are made from all of it and then cut to their centre.
        kind: one of `SEQUENCES`.
        seed: of the randomness.
        sample_id: of the image.
        benchmark: whose parameters.
        level: 1 to 3: strength of the noise types; the others have level 1 only.
    """
    _check(image, kind, benchmark, level)
    sequence = SEQUENCES[kind]
    film = _Film(image, benchmark, sequence.frames(benchmark), seed, sample_id, kind, level)
    numbers = sequence.imagenet if benchmark == "imagenet" else sequence.cifar
    if sequence.is_noise:
        return _noise_film(film, kind, numbers[level - 1])
    return _FILMS[kind](film, numbers)


def _check(image: Tensor, kind: str, benchmark: Benchmark, level: int) -> None:
    if kind not in SEQUENCES:
        from robustvit.runtime.spelling import nearest  # imports timm, which takes seconds

        raise ValueError(f"there is no perturbation sequence {kind!r}{nearest(kind, [*SEQUENCES])}")
    if benchmark not in SOURCE_SIDE:
        raise ValueError(f"benchmark={benchmark!r} is not known; choose 'imagenet' or 'cifar'")
    levels = (1, 2, 3) if SEQUENCES[kind].is_noise else (1,)
    if level not in levels:
        raise ValueError(f"level={level!r} is not possible for {kind}; give one of {levels}")
    side = SOURCE_SIDE[benchmark]
    if image.dtype != torch.uint8 or image.ndim != 3 or image.shape[0] != 3 or min(image.shape[1:]) != side:
        raise ValueError(
            f"films start from uint8 [3, H, W] with a shorter side of {side}, got {image.dtype} {list(image.shape)}; "
            "make it with source_frame"
        )


@dataclass(frozen=True)
class _Film:
    """What a film is made from."""

    image: Tensor
    benchmark: Benchmark
    frames: int
    seed: int
    sample_id: int | str
    kind: str
    level: int

    @property
    def family(self) -> Family:
        return self.benchmark

    @property
    def corner(self) -> tuple[int, int]:
        """Top and left of the centre crop."""
        side = FRAME_SIDE[self.benchmark]
        top, left = (round((n - side) / 2) for n in self.image.shape[1:])
        return top, left

    @property
    def still(self) -> Tensor:
        """The clean crop as every frame."""
        (top, left), side = self.corner, FRAME_SIDE[self.benchmark]
        crop = self.image[:, top : top + side, left : left + side]
        return crop.expand(self.frames, -1, -1, -1)

    def steps(self, first: float, step: float) -> list[float]:
        return [round(first + step * i, 6) for i in range(self.frames)]


class _OneLayer(KeyedDraws):
    """The same normal field for all frames, and angles that follow each other."""

    def __init__(self, film: _Film, angles: list[float]) -> None:
        super().__init__(film.seed, [film.sample_id], "sequence", film.kind, device=film.image.device)
        self.angles = angles

    def normal(self, mean: float, sd: float, size: tuple[int, ...]) -> Tensor:
        return super().normal(mean, sd, size).repeat(len(self.angles), *[1] * len(size))

    def uniform(self, low: float, high: float, size: tuple[int, ...]) -> Tensor:
        return torch.tensor(self.angles, dtype=self.dtype, device=self.device)


def _noise_film(film: _Film, kind: str, strength: float) -> Tensor:
    """The clean image, then fresh noise on it in each frame."""
    add = {"gaussian_noise": gaussian_noise, "shot_noise": shot_noise, "speckle_noise": speckle_noise}[kind]
    purpose = ("sequence", film.sample_id, film.kind, film.level)
    draws = KeyedDraws(film.seed, range(1, film.frames), *purpose, device=film.image.device)
    still = film.still
    return torch.cat([still[:1], add(still[1:], strength, Setting(film.family, draws))])


def _motion_film(film: _Film, numbers: tuple[int, float, float, float]) -> Tensor:
    radius, sigma, first, step = numbers
    return motion_blur_at(film.still, radius, sigma, film.steps(first, step), film.family)


def _zoom_film(film: _Film, step: float) -> Tensor:
    """Frame i is the mean of the zooms 1, 1 + step, ... 1 + i * step."""
    zooms = (1 + step * i for i in range(film.frames))
    zoomed = _moved(film, [_about_centre(film, [[zoom, 0], [0, zoom]]) for zoom in zooms])
    counts = torch.arange(1, film.frames + 1, device=zoomed.device)[:, None, None, None]
    return (zoomed.int().cumsum(0) // counts).to(torch.uint8)


def _snow_film(film: _Film, parameters: tuple[float, float, float, float, int, float, float]) -> Tensor:
    """The flakes stay where they are and fall in another direction in each frame."""
    draws = _OneLayer(film, film.steps(-150, 4))
    return snow(film.still, parameters, Setting(film.family, draws))


def _brightness_film(film: _Film, numbers: tuple[float, float]) -> Tensor:
    setting = Setting(film.family, KeyedDraws(0, []))
    pairs = zip(film.still.split(1), film.steps(*numbers), strict=True)
    return torch.cat([brightness(frame, c, setting) if c else frame for frame, c in pairs])


def _blur_film(film: _Film, numbers: tuple[float, float, float]) -> Tensor:
    first, step, truncate = numbers
    x = film.still[0].double()
    blurred = [gaussian_filter(x, sigma, truncate=truncate) for sigma in film.steps(first, step)]
    return torch.stack(blurred).add_(1e-9).clamp_(0, 255).to(torch.uint8)  # weights may sum to a little under 1


def _spatter_film(film: _Film, numbers: tuple[float, float, float, float, float, tuple[float, ...]]) -> Tensor:
    """Drops of water that run down, a little in each frame."""
    mean, sd, blur, threshold, amount, running = numbers
    draws = _OneLayer(film, [0.0])
    layer = gaussian_filter(draws.normal(mean, sd, tuple(film.still.shape[2:])), blur)
    layers = [F.threshold(layer, threshold, 0)]
    above = len(running) // 2  # rows that a drop falls at most: the filter is centred, but for its first, upward part
    for _ in range(film.frames - 1):
        padded = F.pad(layers[-1], (0, 0, above, len(running) - 1 - above))
        shares = (padded[:, k : k + layer.shape[-2]] * share for k, share in enumerate(reversed(running)))
        layers.append(reduce(torch.add, shares))
    setting = Setting(film.family, _GivenField(torch.cat(layers)))
    return spatter(film.still, (0, 1, 0, 0, amount, 0), setting)


class _GivenField(KeyedDraws):
    """A given field, one per frame, instead of normal numbers."""

    def __init__(self, fields: Tensor) -> None:
        super().__init__(0, [], device=fields.device)
        self.fields = fields

    def normal(self, mean: float, sd: float, size: tuple[int, ...]) -> Tensor:
        return self.fields


def _translate_film(film: _Film, numbers: tuple[float, float]) -> Tensor:
    """To the right."""
    return _moved(film, [[[1, 0, x], [0, 1, 0], [0, 0, 1]] for x in film.steps(*numbers)])


def _rotate_film(film: _Film, numbers: tuple[float, float]) -> Tensor:
    """Clockwise."""
    turns = [sine_and_cosine(math.radians(angle)) for angle in film.steps(*numbers)]
    return _moved(film, [_about_centre(film, [[c, -s], [s, c]]) for s, c in turns])


def _scale_film(film: _Film, numbers: tuple[float, float]) -> Tensor:
    scales = (percent / 100 for percent in film.steps(*numbers))
    return _moved(film, [_about_centre(film, [[scale, 0], [0, scale]]) for scale in scales])


def _shear_film(film: _Film, numbers: tuple[float, float]) -> Tensor:
    """Rows move sideways, the lower the further to the right."""
    turns = [sine_and_cosine(math.radians(angle)) for angle in film.steps(*numbers)]
    return _moved(film, [_about_centre(film, [[1, s / c], [0, 1]]) for s, c in turns])


def _tilt_film(film: _Film, numbers: tuple[float, float]) -> Tensor:
    """The image turns about its horizontal and its vertical axis, seen from as far away as its diagonal is long."""
    H, W = film.image.shape[1:]
    f = math.hypot(H, W)
    lift: Matrix = [[1, 0, -W / 2], [0, 1, -H / 2], [0, 0, 0], [0, 0, 1]]  # P1: the centre to the origin
    away: Matrix = [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, f], [0, 0, 0, 1]]  # T
    project: Matrix = [[f, 0, W / 2, 0], [0, f, H / 2, 0], [0, 0, 1, 0]]  # P2
    maps: list[Matrix] = []
    for angle in film.steps(*numbers):
        s, c = sine_and_cosine(math.radians(angle))
        RX: Matrix = [[1, 0, 0, 0], [0, c, -s, 0], [0, s, c, 0], [0, 0, 0, 1]]
        RY: Matrix = [[c, 0, s, 0], [0, 1, 0, 0], [-s, 0, c, 0], [0, 0, 0, 1]]
        maps.append(reduce(_product, [project, away, RX, RY, lift]))
    return _moved(film, maps)


Matrix = Sequence[Sequence[float]]
"""Small ones, multiplied one by one: libraries may round otherwise on another processor."""


def _product(a: Matrix, b: Matrix) -> Matrix:
    return [[sum(x * y for x, y in zip(row, column, strict=True)) for column in zip(*b, strict=True)] for row in a]


def _inverse(matrix: Matrix) -> Matrix:
    """Of [3, 3], but for a factor, which does not matter to points (x, y, 1): its adjugate."""
    (a, b, c), (d, e, f), (g, h, i) = matrix
    return [
        [e * i - f * h, c * h - b * i, b * f - c * e],
        [f * g - d * i, a * i - c * g, c * d - a * f],
        [d * h - e * g, b * g - a * h, a * e - b * d],
    ]


def _about_centre(film: _Film, linear: Matrix) -> Matrix:
    """A linear map [2, 2] whose origin is the centre of the image, as a matrix [3, 3] of pixels (x, y, 1)."""
    H, W = film.image.shape[1:]
    x, y = (W - 1) / 2, (H - 1) / 2
    return [*([p, q, origin - (p * x + q * y)] for (p, q), origin in zip(linear, (x, y), strict=True)), [0, 0, 1]]


def _moved(film: _Film, maps: list[Matrix]) -> Tensor:
    """The crop of the image as each of `maps` [3, 3] moves pixels (x, y, 1): bilinear, rounded, black where nothing is.

    Read at multiples of 1 / UNIT pixels.
    """
    (top, left), side = film.corner, FRAME_SIDE[film.benchmark]
    device = film.image.device
    y, x = (torch.arange(start, start + side, dtype=torch.float64, device=device) for start in (top, left))
    H, W = film.image.shape[1:]
    values, frames = film.image.float(), []
    for matrix in maps:
        across, down, depth = ((x * a) + (y * b + c)[:, None] for a, b, c in _inverse(matrix))
        places = [(p / depth).mul_(UNIT).round_().clamp_(-UNIT, n * UNIT) for p, n in ((across, W), (down, H))]
        frames.append(read_between(values, torch.stack(places).float(), UNIT, border="black"))
    return torch.stack(frames).round_().to(torch.uint8)


_FILMS: dict[str, Callable[[_Film, Any], Tensor]] = {
    "motion_blur": _motion_film,
    "zoom_blur": _zoom_film,
    "snow": _snow_film,
    "brightness": _brightness_film,
    "translate": _translate_film,
    "rotate": _rotate_film,
    "tilt": _tilt_film,
    "scale": _scale_film,
    "gaussian_blur": _blur_film,
    "spatter": _spatter_film,
    "shear": _shear_film,
}
