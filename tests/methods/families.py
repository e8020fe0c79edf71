"""A small network of every family, at 32 pixels, and what methods are built with in tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

import robustvit as rv
from robustvit.methods.base import MethodContext

SMALL_VIT = dict(img_size=32, patch_size=4, embed_dim=32, depth=2, num_heads=2)
NETWORKS: dict[str, tuple[str, dict[str, Any]]] = {
    "fan_vit": ("fan_vit_nano", {}),
    "fan_hybrid": ("fan_hybrid_nano", {}),
    "fan_swin": ("fan_swin_nano", {}),
    "rvt": ("rvt_nano", {}),
    "vit": ("vit_tiny_patch16_224", SMALL_VIT),
    "deit": ("deit_tiny_distilled_patch16_224", SMALL_VIT),
    "swin": (
        "swin_tiny_patch4_window7_224",
        dict(img_size=32, patch_size=2, window_size=4, embed_dim=16, depths=(1, 1, 2), num_heads=(2, 2, 4)),
    ),
}
FAMILIES = tuple(NETWORKS)


def small_network(family: str, **options: Any) -> Any:
    """In training mode, with 10 classes."""
    name, sizes = NETWORKS[family]
    return rv.create_model(name, **{"num_classes": 10, **sizes, **options}).train()


def build_by_name(name: str, checkpoint: str, options: Mapping[str, Any]) -> nn.Module:
    return rv.create_model(name, **options).eval()


def context_of(
    network: nn.Module,
    *,
    img_size: tuple[int, int] = (32, 32),
    seed: int = 0,
    load_network: Callable[[str, str, Mapping[str, Any]], nn.Module] = build_by_name,
) -> MethodContext:
    return MethodContext(network, 10, img_size, torch.device("cpu"), seed, load_network)


def pictures(batch: int = 4, seed: int = 0) -> Tensor:
    """Normalised noise within the range of pixels of `steps.MEAN` and `steps.STD`."""
    return torch.rand(batch, 3, 32, 32, generator=torch.Generator().manual_seed(seed)) * 4 - 2
