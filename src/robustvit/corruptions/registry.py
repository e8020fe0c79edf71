"""The 19 corruptions and those of plug-ins by name, and `corrupt`, which applies one to images of any kind."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from robustvit.corruptions import blur, digital, noise, weather
from robustvit.corruptions.parameters import FAMILIES, SIZES, SMALLEST, Family, family_of_size, parameters
from robustvit.corruptions.pixels import Setting
from robustvit.runtime.image_files import to_rgb, upright
from robustvit.runtime.plugins import Registry
from robustvit.runtime.randomness import Draws, KeyedDraws, LegacyDraws
from robustvit.runtime.spelling import nearest

__all__ = ["CORRUPTIONS", "GROUPS", "ChannelOrder", "Corruption", "corrupt", "corruption_names"]

ChannelOrder = Literal["rgb", "bgr"]
Group = Literal["noise", "blur", "weather", "digital"]
GROUPS: tuple[Group, ...] = get_args(Group)
"""Of the published corruptions."""
Images = TypeVar("Images", Tensor, np.ndarray, Image.Image)


@dataclass(frozen=True)
class Corruption:
    """One kind of damage.

    Attributes:
        name: as published.
        group: as in ImageNet-C; the extra ones in the group they extend.
        apply: (uint8 [B, 3, H, W], parameters, setting) -> uint8 [B, 3, H, W], in new memory.
        common: one of the 15 that count in mCE; the other 4 were for validation. Without effect for a plug-in.
        random: whether the result depends on draws.
        severities: parameters of severities 1 to 5, for all sizes; None takes the published tables of `parameters`.
    """

    name: str
    group: Group
    apply: Callable[[Tensor, Any, Setting], Tensor]
    common: bool = True
    random: bool = True
    severities: Sequence[Any] | None = None

    def parameters(self, severity: int, family: Family) -> Any:
        """What `apply` gets at a severity of 1 to 5."""
        return parameters(self.name, severity, family) if self.severities is None else self.severities[severity - 1]


PUBLISHED: dict[str, Corruption] = {
    corruption.name: corruption
    for corruption in (
        Corruption("gaussian_noise", "noise", noise.gaussian_noise),
        Corruption("shot_noise", "noise", noise.shot_noise),
        Corruption("impulse_noise", "noise", noise.impulse_noise),
        Corruption("defocus_blur", "blur", blur.defocus_blur, random=False),
        Corruption("glass_blur", "blur", blur.glass_blur),
        Corruption("motion_blur", "blur", blur.motion_blur),
        Corruption("zoom_blur", "blur", blur.zoom_blur, random=False),
        Corruption("snow", "weather", weather.snow),
        Corruption("frost", "weather", weather.frost),
        Corruption("fog", "weather", weather.fog),
        Corruption("brightness", "weather", digital.brightness, random=False),
        Corruption("contrast", "digital", digital.contrast, random=False),
        Corruption("elastic_transform", "digital", digital.elastic_transform),
        Corruption("pixelate", "digital", digital.pixelate, random=False),
        Corruption("jpeg_compression", "digital", digital.jpeg_compression, random=False),
        Corruption("speckle_noise", "noise", noise.speckle_noise, common=False),
        Corruption("gaussian_blur", "blur", blur.gaussian_blur, common=False, random=False),
        Corruption("spatter", "weather", weather.spatter, common=False),
        Corruption("saturate", "digital", digital.saturate, common=False, random=False),
    )
}
"""In the canonical order: the 15 common ones, then the 4 extra ones."""

CORRUPTIONS: Registry[Corruption] = Registry("robustvit.corruptions", PUBLISHED)
"""The published ones, then those of plug-ins."""


def corruption_names(group: str = "common15") -> tuple[str, ...]:
    """The names in "common15", "extra4", "all19", or of the common ones in "noise", "blur", "weather" or "digital".

    "fan17" are those behind the ImageNet-C accuracy of FAN and STL: all but zoom_blur and elastic_transform. "noiseless12" are
    those behind AFAT's mCE without noise: the common ones without the three noises. These are the published sets, whatever is
    installed; "all" has the corruptions of plug-ins besides.
    """
    common = tuple(c.name for c in PUBLISHED.values() if c.common)
    groups = {"common15": common, "extra4": tuple(n for n in PUBLISHED if n not in common), "all19": tuple(PUBLISHED)}
    groups |= {g: tuple(n for n in common if PUBLISHED[n].group == g) for g in GROUPS}
    groups["fan17"] = tuple(n for n in PUBLISHED if n not in ("zoom_blur", "elastic_transform"))
    groups["noiseless12"] = tuple(n for n in common if n not in groups["noise"])
    groups["all"] = tuple(CORRUPTIONS)
    if group not in groups:
        raise ValueError(f"there is no group of corruptions {group!r}; choose one of {', '.join(groups)}")
    return groups[group]


def corrupt(
    images: Images,
    name: str,
    severity: int,
    *,
    seed: int = 0,
    family: Family | None = None,
    sample_ids: Sequence[int | str] | int | str | None = None,
    channel_order: ChannelOrder = "rgb",
    frost_folder: str | Path | None = None,
    legacy_rng: bool = False,
    ignore_orientation: bool = False,
) -> Images:
    """Images as they would look through noise, blur, weather or a bad encoder.

    What happens to an image depends on (seed, sample id, name, severity) alone. The same kind comes back, in new memory.

    Args:
        images: uint8 [B, 3, H, W] or [3, H, W] tensor (on any device), uint8 H x W x 3 array, or PIL image (made RGB). Grey
            tensors and arrays (1 channel, or H x W) become three equal channels.
        name: one of `CORRUPTIONS`.
        severity: 1 to 5.
        seed: of the randomness.
        family: whose parameters and rules; None takes the family made for this size, `arbitrary` where there is none.
        sample_ids: one per image; None takes 0, 1, ... in the order of the batch.
        channel_order: "bgr" treats the first channel as blue: the slip in the published Cityscapes-C and COCO-C.
        frost_folder: photographs for "frost" (frost1.png ... frost5.jpg, or any images) instead of the generated ones.
        legacy_rng: repeat the stream of the published programs, `numpy.random.seed(seed)`, in double precision: slow.
        ignore_orientation: take a PIL image as it is stored. Otherwise it is set upright by its EXIF tag, if it has one; the
            result has no tag in either case.
    """
    severity = _checked_severity(severity)
    _check(name, family, channel_order)
    batch, restore = _to_batch(images, ignore_orientation)
    H, W = batch.shape[-2:]
    chosen = family or family_of_size(H, W)
    _check_size(H, W, chosen)
    if channel_order == "bgr":
        batch = batch.flip(1)
    spoiled = _apply(batch, name, severity, chosen, seed, _ids(sample_ids, len(batch)), frost_folder, legacy_rng)
    return restore(spoiled.flip(1) if channel_order == "bgr" else spoiled)


def _apply(
    batch: Tensor,
    name: str,
    severity: int,
    family: Family,
    seed: int,
    ids: Sequence[int | str],
    frost_folder: str | Path | None,
    legacy_rng: bool,
) -> Tensor:
    corruption = CORRUPTIONS[name]
    values = corruption.parameters(severity, family)
    folder = Path(frost_folder) if frost_folder is not None else None

    def run(pictures: Tensor, draws: Draws) -> Tensor:
        return corruption.apply(pictures, values, Setting(family, draws, folder))

    if not len(batch):
        return batch.clone()
    if legacy_rng:
        draws = LegacyDraws(np.random.RandomState(seed), device=batch.device)
        return torch.cat([run(picture, draws) for picture in batch.split(1)])
    return run(batch, KeyedDraws(seed, ids, name, severity, device=batch.device))


def _checked_severity(severity: int) -> int:
    """1 .. 5 as a plain integer: those of NumPy and torch mean the same."""
    try:
        number = 0 if isinstance(severity, bool) else operator.index(severity)
    except TypeError:
        number = 0
    if number not in (1, 2, 3, 4, 5):
        raise ValueError(f"severity={severity!r} is not possible; give 1, 2, 3, 4 or 5 as an integer")
    return number


def _check(name: str, family: Family | None, channel_order: ChannelOrder) -> None:
    if name not in CORRUPTIONS:
        raise ValueError(f"there is no corruption {name!r}{nearest(name, [*CORRUPTIONS])}")
    if family is not None and family not in FAMILIES:
        raise ValueError(f"family={family!r} is not known; choose one of {', '.join(FAMILIES)}, or None to go by size")
    if channel_order not in ("rgb", "bgr"):
        raise ValueError(f"channel_order={channel_order!r} is not known; choose 'rgb' or 'bgr'")


def _check_size(H: int, W: int, family: Family) -> None:
    side = SIZES.get(family)
    if side is not None and not H == W == side:
        raise ValueError(
            f"the family {family!r} is for {side}x{side} pixels and the images have {H}x{W}; resize them, or take 'arbitrary'"
        )
    if min(H, W) < SMALLEST:
        raise ValueError(f"images of {H}x{W} pixels are too small: corruptions need at least {SMALLEST}x{SMALLEST}")


def _ids(sample_ids: Sequence[int | str] | int | str | None, count: int) -> Sequence[int | str]:
    if sample_ids is None:
        return range(count)
    ids = list(sample_ids) if isinstance(sample_ids, Iterable) and not isinstance(sample_ids, str) else [sample_ids]
    if len(ids) != count:
        raise ValueError(f"{len(ids)} sample_ids for {count} images; give one for each")
    return ids


def _to_batch(images: Any, ignore_orientation: bool) -> tuple[Tensor, Callable[[Tensor], Any]]:
    """uint8 [B, 3, H, W], and how to make of such a batch what was given."""
    if isinstance(images, Image.Image):
        array = np.array(to_rgb(images if ignore_orientation else upright(images)))
        return _array_to_batch(array), lambda batch: Image.fromarray(_batch_to_array(batch))
    if isinstance(images, np.ndarray):
        _check_bytes(images.dtype == np.uint8, images.dtype, images.shape)
        if images.ndim == 2 or (images.ndim == 3 and images.shape[2] == 1):
            images = np.repeat(images.reshape(*images.shape[:2], 1), 3, axis=2)
        if images.ndim != 3 or images.shape[2] != 3:
            raise ValueError(f"arrays must be H x W x 3, got {images.shape}; give batches as tensors [B, 3, H, W]")
        return _array_to_batch(images), _batch_to_array
    if isinstance(images, Tensor):
        _check_bytes(images.dtype == torch.uint8, images.dtype, tuple(images.shape))
        if images.ndim not in (3, 4) or images.shape[-3] not in (1, 3):
            raise ValueError(f"tensors must be [B, 3, H, W] or [3, H, W], got {list(images.shape)}")
        batch = images if images.ndim == 4 else images[None]
        batch = batch.expand(-1, 3, -1, -1)
        return batch, (lambda batch: batch) if images.ndim == 4 else (lambda batch: batch[0])
    raise TypeError(f"cannot corrupt a {type(images).__name__}; give a uint8 tensor, a uint8 array or a PIL image")


def _check_bytes(is_bytes: bool, dtype: object, shape: tuple[int, ...]) -> None:
    if not is_bytes:
        raise TypeError(f"images must be uint8 (0 to 255), got {dtype} of shape {shape}; corrupt before normalising")


def _array_to_batch(array: np.ndarray) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array.transpose(2, 0, 1)))[None]


def _batch_to_array(batch: Tensor) -> np.ndarray:
    return np.ascontiguousarray(batch[0].permute(1, 2, 0).cpu().numpy())
