"""The networks that a user names on the command line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from robustvit.cli.console import working
from robustvit.runtime.ranks import local_rank

__all__ = ["load_networks"]


def load_networks(
    models: Sequence[str], untrained: bool, options: dict[str, Any], device: str, names: Sequence[str] = ()
) -> dict[str, Any]:
    """Display name -> the network with its weights, in evaluation mode, on its device.

    Args:
        models: NAME, NAME=FILE, FILE, hf-hub:ID or local-dir:FOLDER, each once.
        untrained: a NAME alone means random weights, always the same; otherwise published ones are downloaded.
        options: of `create_model`.
        device: as PyTorch names it; "cuda" is that of the process under torchrun.
        names: display names, in order; by default as given.
    """
    if not models:
        raise ValueError("no network was given; give at least one, such as fan_vit_nano")
    if twice := [m for i, m in enumerate(models) if m in models[:i]]:
        raise ValueError(f"{twice[0]} is given twice; give each network once")
    called = _called(models, names)
    place = f"cuda:{local_rank()}" if device == "cuda" and local_rank() is not None else device
    with working(f"Loading {', '.join(models)}"):
        from robustvit.models.loading import load_model

        return {
            name: load_model(model, untrained=untrained, **options).to(place).eval()
            for name, model in zip(called, models, strict=True)
        }


def _called(models: Sequence[str], names: Sequence[str]) -> Sequence[str]:
    if not names:
        return models
    if len(names) != len(models):
        raise ValueError(f"--name has {len(names)} names for {len(models)} networks; give one for each, in the same order")
    if twice := [name for i, name in enumerate(names) if name in names[:i]]:
        raise ValueError(f"--name gives {twice[0]!r} to two networks; names must differ")
    if any(not name.strip() or not name.isprintable() for name in names):
        raise ValueError("--name has an empty name or unprintable characters")
    return names
