"""What a user asks of an evaluation, besides the networks. The defaults of all options are here.

Imports torch only where it needs it: the command line reads names and defaults from here before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from robustvit.corruptions.parameters import SEVERITIES
from robustvit.data.protocol_names import INTERPOLATIONS
from robustvit.runtime.precision import PRECISIONS, Precision

if TYPE_CHECKING:
    from robustvit.attacks.attack import Attack
    from robustvit.corruptions.registry import ChannelOrder
    from robustvit.tasks.base import Task

__all__ = ["Options", "Settings"]


class Options(TypedDict, total=False):
    """The options of `evaluate`: what to measure, how images become the input, how corruptions are made, and what to keep.

    What to measure:
        severity: of the corruptions, one or several of 1 to 5. Numbers that need all five, as mCE, are left out with fewer.
        attacks: to make on the clean images, by name or as `build_attack` gives them.
        class_map: class name -> output of the network, or a JSON file of that; needed where they are not in the same order.
        limit: measure only that many samples, drawn by the seed.
        seed: of the corruptions, the attacks, the subset and the intervals.
    How images become the input:
        protocol: of `PROTOCOLS`; by default the suite's own ("model", or what its files were made for). The films of
            "imagenet-p" have a fixed one.
        size: (H, W) of the input, other than the network's own.
        crop_pct, interpolation: of the protocol "model", other than the network's own: the share of the shorter side that the
            centre crop keeps (0.875 resizes to 256 pixels for 224), and "nearest", "bilinear", "bicubic" or "lanczos".
        ignore_orientation: take pixels as they are stored, as published programs do. Otherwise images are set upright by the
            EXIF tag of cameras; but never those of "imagenet-a", "-r", "-sketch", "-v2" and "imagenet-c" on disk.
        batch_size: images at once; by default what the task says.
        precision: in which networks compute: "fp32", "bf16", "fp16", or "auto", which is "bf16" where the device computes in
            it and "fp32" elsewhere. Parameters and images stay as they are. In half precision, the answers to the first
            images are compared with those in fp32, and results say how far they differ.
    How corruptions are made:
        jpeg: "imagenet-c" made in memory passes through JPEG (quality 85), as the files did.
        channel_order, frost_folder: see `corrupt`.
    What to keep:
        examples: images for the report; 6 by default.
        predictions: the answer to every image under every condition: `Results.predictions`, and predictions.csv in the output
            folder. One of this very run that is there already is kept up even if this is False.
    """

    severity: int | Sequence[int]
    attacks: str | Attack | Sequence[str | Attack]
    class_map: str | Path | dict[str, int] | None
    limit: int | None
    seed: int
    protocol: str | None
    size: tuple[int, int] | None
    crop_pct: float | None
    interpolation: str | None
    ignore_orientation: bool
    batch_size: int | None
    precision: Precision
    jpeg: bool
    channel_order: ChannelOrder
    frost_folder: str | Path | None
    examples: int
    predictions: bool


@dataclass(frozen=True)
class Settings:
    """What to measure, and the checked `Options` of a run by the same names.

    Attributes:
        data: as the user gave it.
        task: not yet bound to network and samples.
        suites: their names.
    """

    data: Any = field(repr=False)
    task: Task = field(repr=False)
    suites: tuple[str, ...]
    severities: tuple[int, ...] = SEVERITIES
    attacks: tuple[Attack, ...] = ()
    class_map: Mapping[str, int] | None = None
    limit: int | None = None
    seed: int = 0
    protocol: str | None = None
    size: tuple[int, int] | None = None
    crop_pct: float | None = None
    interpolation: str | None = None
    ignore_orientation: bool = False
    batch_size: int = 32
    precision: Precision = "fp32"
    jpeg: bool = True
    channel_order: ChannelOrder = "rgb"
    frost_folder: Path | None = None
    examples: int = field(default=6, repr=False)
    predictions: bool = field(default=False, repr=False)

    @property
    def is_path(self) -> bool:
        """Whether the data is a place on disk, or a name."""
        return isinstance(self.data, str | Path)

    def __post_init__(self) -> None:
        for what, number in (("limit", self.limit), ("batch_size", self.batch_size)):
            if number is not None and number < 1:
                raise ValueError(f"{what}={number} is not possible; give at least 1")
        if not self.severities or not set(self.severities) <= set(SEVERITIES):
            given = ", ".join(map(str, self.severities)) or "none"
            raise ValueError(f"severity {given} is not possible; give some of {', '.join(map(str, SEVERITIES))}")
        if self.crop_pct is not None and not 0.01 <= self.crop_pct <= 1:
            raise ValueError(f"crop_pct={self.crop_pct!r} is not possible; give a share such as 0.875, at most 1")
        if self.interpolation not in (None, *INTERPOLATIONS):
            raise ValueError(f"interpolation={self.interpolation!r} is not possible; give {', '.join(INTERPOLATIONS)}")
        if self.precision not in PRECISIONS:
            raise ValueError(f"precision={self.precision!r} is not known; choose one of {', '.join(PRECISIONS)}")
        if self.frost_folder is not None:
            from robustvit.corruptions.frost_textures import frost_textures

            frost_textures(self.frost_folder)  # says at once what is wrong with it

    @staticmethod
    def of(data: Any, task: Task, suites: str | Sequence[str], **options: Any) -> Settings:
        """From what a user gives.

        Raises:
            TypeError: there is no such option.
            ValueError: a value is not possible.
        """
        from robustvit.evaluation.attacking import as_attacks
        from robustvit.tasks.class_matching import read_class_map

        known = Options.__annotations__.keys()
        if wrong := [name for name in options if name not in known]:
            raise TypeError(f"evaluate has no option {wrong[0]!r}; it has {', '.join(sorted(known))}")
        given = dict(options)
        if "severity" in given:
            severity = given.pop("severity")
            several = severity if isinstance(severity, Iterable) else (severity,)
            given["severities"] = tuple(sorted({int(one) for one in several}))
        if "attacks" in given:
            given["attacks"] = as_attacks(given["attacks"])
        if isinstance(given.get("class_map"), str | Path):
            given["class_map"] = read_class_map(given["class_map"])
        if given.get("batch_size") is None:
            given["batch_size"] = task.batch_size
        if given.get("frost_folder"):
            given["frost_folder"] = Path(given["frost_folder"])
        return Settings(data, task, (suites,) if isinstance(suites, str) else tuple(dict.fromkeys(suites)), **given)
