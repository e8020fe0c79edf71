"""Options that more than one study has. The options of a study are a dataclass of these groups and of its own fields.

An option means the same in every study that has it: one flag of the command line sets it for all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from robustvit.runtime.number_checks import check_numbers
from robustvit.runtime.precision import PRECISIONS, Precision

__all__ = ["SHOWN", "Covering", "Layered", "NoiseKind", "Options", "Showing", "Spoiling"]

SHOWN = 4
"""Images in figures, unless options say otherwise."""
NoiseKind = Literal["perturbation", "input"]
"""Of the decay of noise: added to the images, or seen instead of them."""


@dataclass(frozen=True)
class Options:
    """What every study has.

    Attributes:
        batch_size: images at once.
        seed: of everything random.
        precision: in which networks compute: fp32, bf16, fp16, or auto: bf16 where the device is faster in it, else fp32.
    """

    batch_size: int = 32
    seed: int = 0
    precision: Precision = "fp32"

    def __post_init__(self) -> None:
        check_numbers(self)
        self.require(self.batch_size >= 1, "batch_size", "at least 1")
        self.require(self.seed >= 0, "seed", "0 or more")
        self.require(self.precision in PRECISIONS, "precision", f"one of {', '.join(PRECISIONS)}")

    def require(self, is_possible: bool, name: str, expected: str) -> None:
        """Refuses the value of an option.

        Raises:
            ValueError: it is not possible.
        """
        if not is_possible:
            raise ValueError(f"{name}={getattr(self, name)!r} is not possible; give {expected}")

    def without_effect(self) -> Mapping[str, str]:
        """Option -> why it changes nothing beside the others: what follows its flag in the message."""
        return {}

    def facts(self) -> dict[str, Any]:
        """What the page says about the options; those that were left open are left out."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True)
class Covering(Options):
    """Of studies that cover patches.

    Attributes:
        rho: share of the patches that a mask covers.
    """

    rho: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require(0 <= self.rho < 1, "rho", "0 or more and less than 1")


@dataclass(frozen=True)
class Spoiling(Covering):
    """Of studies that compare clean images with corrupted ones.

    Attributes:
        corruption: what clean images are compared with: a name such as gaussian_noise (by default), motion_blur, fog or
            jpeg_compression (`robustvit corrupt --help`), or patches (a tenth covered with noise).
        severity: of the corruption, 1 to 5.
    """

    corruption: str = "gaussian_noise"
    severity: int = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        from robustvit.corruptions.registry import CORRUPTIONS  # not before arguments are understood: it needs torch
        from robustvit.runtime.spelling import nearest

        if self.corruption not in (*CORRUPTIONS, "patches"):
            hint = nearest(self.corruption, [*CORRUPTIONS, "patches"])
            raise ValueError(
                f"there is no corruption {self.corruption!r}{hint or '; choose one of ' + ', '.join(CORRUPTIONS)}"
            )
        self.require(1 <= self.severity <= 5, "severity", "1 to 5")

    @property
    def covers_patches(self) -> bool:
        return self.corruption == "patches"

    @property
    def spoiled_by(self) -> str:
        """The corruption in words."""
        if self.covers_patches:
            return "patches of noise"
        return f"{self.corruption.replace('_', ' ').replace('jpeg', 'JPEG')} {self.severity}"

    def without_effect(self) -> Mapping[str, str]:
        if self.covers_patches:
            reason = "has no effect with --corruption patches; --rho sets the share of the patches"
            return {**super().without_effect(), "severity": reason}
        return {**super().without_effect(), "rho": "belongs to --corruption patches; leave it out"}


@dataclass(frozen=True)
class Layered(Options):
    """Of studies that look at some blocks only.

    Attributes:
        layers: blocks to look at, from either end; by default each study chooses its own.
    """

    layers: tuple[int, ...] | None = None

    def facts(self) -> dict[str, Any]:
        """Blocks as figures count them."""
        facts = super().facts()
        places = facts.pop("layers", None)
        return facts if places is None else {**facts, "blocks": [_block(place) for place in places]}


def _block(place: int) -> str:
    if place >= 0:
        return str(place + 1)
    return "last" if place == -1 else f"{-place} from the end"


@dataclass(frozen=True)
class Showing(Options):
    """Of studies whose figures show several images.

    Attributes:
        shown: images in the figures that show images: the first ones that all networks answer rightly.
    """

    shown: int = SHOWN

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require(self.shown >= 1, "shown", "at least 1")
