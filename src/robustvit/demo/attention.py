"""Attention maps of the contestants on one image, clean and corrupted."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn

from robustvit.corruptions.registry import corrupt
from robustvit.data.normalisation import Normalisation
from robustvit.data.scenes.dataset import Hints, Scenes
from robustvit.recording.tape import Tape, record
from robustvit.report.attention_maps import AttentionRow, attention_figure
from robustvit.report.page import Chapter

__all__ = ["attention_chapter", "attention_received"]

IMAGE = 3
SPOILED = (("clean", 0), ("gaussian_noise", 3), ("motion_blur", 3), ("fog", 3), ("contrast", 3))
"""(corruption, severity) of the columns."""


def attention_received(tape: Tape) -> list[np.ndarray]:
    """For each image [Hp, Wp]: how much attention each token of the last block gets from all others, 1 for uniform.

    The mean over heads and queries of the map, without prefix tokens, times the number of tokens.
    """
    p = tape.prefix_tokens
    received = tape.attention[-1].mean(1)[:, p:, p:].mean(1)  # B N
    shares = received / received.mean(1, keepdim=True)
    return [share.reshape(tape.grids[-1]).numpy() for share in shares]


def attention_chapter(networks: Mapping[str, nn.Module]) -> Chapter:
    """The chapter of the report that shows what changes inside the networks when the image does."""
    image = Scenes("test", IMAGE + 1, 32, hints=Hints(0.9, 0.9)).scene(IMAGE).image
    spoiled = [image if name == "clean" else corrupt(image, name, severity, seed=0) for name, severity in SPOILED]
    pictures = torch.stack(spoiled)
    rows = [_row(name, network, pictures) for name, network in networks.items()]
    titles = [name.replace("_", " ") + (f" {severity}" if severity else "") for name, severity in SPOILED]
    shown = list(zip(titles, pictures.permute(0, 2, 3, 1).numpy(), strict=True))
    text = (
        "Each map shows one image's tokens: how much attention each gets from all others in the last block, heads averaged. "
        "Black is none; the brightest is the largest value in the row, which stands beside it, where 1 is what every token "
        "gets if attention is spread evenly. Cosine is the likeness of the whole token-to-token attention to that of the "
        "clean image, the mean over the columns: 1 is the same. Attention that is even does not change with the image."
    )
    light, dark = attention_figure(shown, rows)
    return Chapter("What the networks look at", (text,), light, dark, "Attention on a clean and a corrupted image")


def _row(name: str, network: nn.Module, pictures: Tensor) -> AttentionRow:
    with torch.no_grad(), record(network) as tape:
        network(Normalisation.of(network)(pictures))
    p = tape.prefix_tokens
    whole = tape.attention[-1].mean(1)[:, p:, p:].flatten(1)  # B N*N
    cosine = torch.nn.functional.cosine_similarity(whole[1:], whole[:1], dim=1).mean()
    maps = tuple(attention_received(tape))
    return AttentionRow(name, maps, f"largest {max(float(m.max()) for m in maps):.1f}\ncosine {cosine:.2f}")
