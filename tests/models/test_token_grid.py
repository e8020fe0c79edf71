"""A network with a token head says where in the image its tokens are: nobody has to guess it from their number."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import robustvit as rv
from robustvit.models.heads.token_head import has_token_head
from robustvit.recording.tape import record

NETWORKS: dict[str, dict[str, Any]] = {
    "fan_vit_nano": {},
    "fan_hybrid_nano": {},
    "fan_hybrid_xlarge": dict(embed_dims=(32, 48), depths=(1, 1), num_heads=(2, 2), stem_depths=(1, 1), stem_widths=(16, 24)),
    "fan_swin_nano": {},
    "rvt_nano": {},
    "rvt_tiny": dict(embed_dims=(24, 48), depths=(1, 1), num_heads=(2, 2)),
    "vit_nano": {},
    "vit_pico": {},
    "deit_tiny_distilled_patch16_224": dict(embed_dim=24, depth=1, num_heads=2),
    "swin_tiny_patch4_window7_224": dict(embed_dim=8, depths=(1, 1, 1), num_heads=(1, 1, 1), window_size=4),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_the_grid_is_that_of_the_last_block(name: str) -> None:
    size = (96, 160)  # neither square nor a power of two, and odd after merging
    network = rv.create_model(name, img_size=size, num_classes=3, token_head=True, **NETWORKS[name]).eval()
    with torch.no_grad(), record(network, attention=False) as tape:
        _, token_logits = network.forward_tokens(torch.randn(1, 3, *size))
    rows, columns = network.token_grid(*size)
    assert token_logits.shape == (1, rows * columns, 3)
    assert (rows, columns) == tape.grids[-1]


def test_networks_say_whether_they_have_a_token_head() -> None:
    with torch.device("meta"):
        assert has_token_head(rv.create_model("fan_vit_nano", token_head=True))
        assert has_token_head(rv.create_model("vit_nano", token_fusion=True))
        assert not any(has_token_head(rv.create_model(name)) for name in ("fan_vit_nano", "rvt_nano", "vit_nano", "resnet10t"))
