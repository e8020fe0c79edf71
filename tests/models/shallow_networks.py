"""Every registered network, made small enough to run: shallow, and in the fast run narrow.

Full widths and depths are run by the slow tests; parity and counts of the full networks are tested elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import timm
import torch
from torch import Tensor

import robustvit as rv

NAMES = rv.list_models()
NANO = [name for name in NAMES if name.endswith("nano")]
NARROW: dict[str, dict[str, Any]] = {
    "narrow fan_vit_small_se": dict(embed_dims=(48,), num_heads=(4,)),
    "narrow fan_vit_small_ca": dict(embed_dims=(48,), num_heads=(4,)),
    "narrow fan_hybrid_xlarge": dict(embed_dims=(48, 64), num_heads=(4, 4), stem_widths=(16, 24)),
    "narrow rvt_tiny_plus": dict(embed_dims=(24, 48), num_heads=(2, 4)),
}
"""What the nano networks do not have: other channel attentions, two widths, masks."""
LARGE = [pytest.param(name, marks=pytest.mark.slow) for name in NAMES if name not in NANO]
EVERY_NETWORK = [*NANO, *NARROW, *LARGE]
"""One of each structure in the fast run; the others differ from one of these by their widths only."""


def quick(*names: str, of: Sequence[str] = (*NANO, *NARROW, *NAMES)) -> list[Any]:
    """For what takes seconds with each network: these in the fast run, the others in the slow one."""
    others = [name for name in dict.fromkeys(of) if name not in names]
    return [*names, *(pytest.param(name, marks=pytest.mark.slow) for name in others)]


def quick_of(*kinds: str) -> list[Any]:
    """The networks whose names begin so; small ones in the fast run, the others in the slow one."""
    every = [name for name in dict.fromkeys((*NANO, *NARROW, *NAMES)) if name.removeprefix("narrow ").startswith(kinds)]
    return quick(*(name for name in every if name in NANO or name in NARROW), of=every)


EVERY_PYRAMID = quick_of("fan_hybrid", "fan_swin")


def shallow(name: str, **options: Any) -> Any:
    """The network with few blocks, for images of 64 px (32 px for nano)."""
    narrow, name = NARROW.get(name, {}), name.removeprefix("narrow ")
    size: dict[str, Any] = dict(img_size=side(name), **narrow)
    if "swin" in name:
        size |= dict(depths=(1, 2, 1, 1))
    elif name.startswith("rvt"):
        stages = 2 if "tiny" in name else 1
        size |= dict(depths=(2, 1)[:stages], masked_blocks=1 if "plus" in name else 0)
    else:
        size |= dict(depths=(2, 1) if "xlarge" in name else (2,))
        if "hybrid" in name:
            size |= dict(stem_depths=(1, 1), feature_block=1)
    return timm.create_model(name, **{**size, **options})


def shallowest(name: str, **options: Any) -> Any:
    """With as few blocks as have all its parts, for what takes long with each block."""
    if "swin" in name:
        heads = timm.create_model(name, device="meta").layers[0].blocks[0].attn.num_heads
        return shallow(name, depths=(2, 1), num_heads=(heads, 2 * heads), **options)
    stages = 2 if "xlarge" in name or "rvt_tiny" in name else 1
    feature_block = dict(feature_block=0) if "hybrid" in name else {}
    return shallow(name, depths=(1,) * stages, **feature_block, **options)


def backbone(name: str, **options: Any) -> Any:
    """The same as a feature extractor, with all its levels."""
    is_pyramid = "hybrid" in name or "swin" in name
    levels = {} if is_pyramid else dict(out_indices=range(3 if "rvt_tiny" in name else 2))
    return shallow(name, features_only=True, **{**levels, **options})


def side(name: str) -> int:
    return 32 if name.endswith("nano") else 64


def images(name: str, batch: int = 2, channels: int = 3) -> Tensor:
    return torch.randn(batch, channels, side(name), side(name))
