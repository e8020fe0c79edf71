"""Runs that take a second: a tiny network on a few generated images."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from robustvit.training.config import TrainConfig
from robustvit.training.config_io import load_config

TINY = (
    "model.options={embed_dims: [32], depths: [2], num_heads: [2]}",
    "data.train=scenes:48",
    "data.val=scenes:16",
    "loop.batch_size=8",
    "loop.log_every=1",
    "loop.device=cpu",
    "schedule.epochs=2",
    "schedule.warmup_epochs=0",
)


def tiny_config(changes: Sequence[str] = (), recipe: Path | None = None) -> TrainConfig:
    return load_config(recipe, [*TINY, *changes])


VIT = ("model.options=null", "model.name=vit_nano", "model.options={embed_dim: 32, depth: 2, num_heads: 2}")
"""Changes that make it a plain ViT, which has no batch norm."""
