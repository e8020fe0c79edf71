"""Multiply-adds and shapes: counted by hand, and beside what the papers print."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import timm
import torch
from timm.layers import Attention
from torch import nn

import robustvit as rv
from robustvit.layers.tap_complexity import attention_complexity, tap_attention_complexity, tap_complexity
from robustvit.layers.token_pooling import TokenPooling
from robustvit.models.cost import multiply_adds
from robustvit.models.published_costs import PUBLISHED_COSTS, PublishedCost, published_costs
from robustvit.models.registry import list_models
from robustvit.recording.block_shapes import BlockShape, block_shapes

ROOT = Path(__file__).parents[2]
TOLERANCE = 0.05
"""Of FLOPs, as docs/papers.md says; beside half of the last digit that is printed."""
OTHER_PARAMETERS = {("fan_vit_base", 54.0), ("rvt_base_plus", 91.8), ("rvt_base_plus", 92.1)}
"""Rows whose parameters differ by more than 0.1 M and half a digit: the table in docs/papers.md."""
WHOLE_MILLIONS = ("FAN, Table 8", "STL, Table 2")
"""Tables whose parameters are printed without decimals."""


def named(cost: PublishedCost) -> str:
    return "-".join([cost.network, *map(str, cost.options.values())])


def test_products_are_counted_once_each() -> None:
    network = nn.Sequential(nn.Conv2d(3, 5, 3, padding=1), nn.Flatten(), nn.Linear(5 * 8 * 8, 7))
    assert multiply_adds(network, (3, 8, 8)) == 9 * 3 * 5 * 8 * 8 + 5 * 8 * 8 * 7


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("is_fused", [True, False])
def test_attention_costs_the_same_fused_and_explicit_on_every_device(device: str, is_fused: bool) -> None:
    network = rv.create_model("vit_nano", device=device)
    for block in network.blocks:
        block.attn.fused_attn = is_fused
    N, C, width = 65, 96, 96  # 8 x 8 patches of 4 pixels and the class token
    block_cost = 4 * N * C**2 + 2 * N**2 * C + 8 * N * C**2
    assert multiply_adds(network, (3, 32, 32)) == 64 * 48 * C + 6 * block_cost + width * 10


def test_the_token_head_is_counted_and_the_network_left_as_it_was() -> None:
    plain, headed = (rv.create_model("vit_nano", token_head=head).train() for head in (False, True))
    assert multiply_adds(headed, (3, 32, 32)) - multiply_adds(plain, (3, 32, 32)) == 64 * 96 * 10
    assert headed.training


@pytest.mark.parametrize("cost", PUBLISHED_COSTS, ids=named)
def test_what_papers_print_is_what_we_count(cost: PublishedCost) -> None:
    network = rv.create_model(cost.network, device="meta", **cost.options)
    flops = multiply_adds(network, (3, 224, 224)) / 1e9
    assert abs(flops - cost.flops) <= TOLERANCE * cost.flops + 0.05
    digit = 0.5 if cost.source in WHOLE_MILLIONS else 0.05
    differs = abs(sum(p.numel() for p in network.parameters()) / 1e6 - cost.parameters) > 0.1 + digit
    assert differs == ((cost.network, cost.parameters) in OTHER_PARAMETERS)


def test_a_network_has_the_rows_that_are_about_itself_alone() -> None:
    assert [(one.flops, one.source) for one in published_costs("fan_hybrid_base")] == [
        (11.3, "FAN, Table 8"),
        (11.7, "TAP and ADL, Table 2"),
    ]
    assert published_costs("vit_nano") == ()


def test_shapes_are_those_of_the_papers() -> None:
    def shapes(name: str) -> tuple[BlockShape, ...]:
        return block_shapes(rv.create_model(name, device="meta"))

    assert shapes("fan_vit_large") == (BlockShape(24, 480, 10),)  # FAN, Table 1
    assert shapes("rvt_tiny_plus") == (BlockShape(10, 192, 6), BlockShape(2, 384, 12))
    assert block_shapes(timm.create_model("resnet10t")) == ()


def test_the_page_of_networks_has_the_blocks_width_and_heads_that_networks_have() -> None:
    page = (ROOT / "docs" / "networks.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| ([\d, +]+) \| ([\d, ]+) \| ([\d, ]+) \|", page, re.MULTILINE)
    assert {name for name, *_ in rows} >= set(list_models())
    for name, *cells in rows:
        shapes = block_shapes(rv.create_model(name, device="meta"))
        blocks, widths, heads = ([int(number) for number in re.findall(r"\d+", cell)] for cell in cells)
        assert (blocks, heads) == ([one.blocks for one in shapes], [one.heads for one in shapes]), name
        assert widths == [one.width for one in shapes][: len(widths)], name  # of FAN-Swin, the first


def test_complexity_of_attention_is_what_attention_costs() -> None:
    H, W, C = 7, 5, 24
    attention = Attention(C, num_heads=4, qkv_bias=True, device="meta")
    tokens = torch.zeros(1, H * W, C, device="meta")
    assert _cost(attention, tokens) == attention_complexity(H, W, C)


def test_complexity_of_tap_is_its_predictor_and_two_passes_over_the_branches() -> None:
    H, W, C, K = 14, 14, 448, 4
    predictor = TokenPooling(C, K).to("meta").eval().predictor
    counted = _cost(predictor, torch.zeros(1, C, H, W, device="meta"))
    assert tap_complexity(H, W, C, K) == counted + 2 * H * W * C * K


def test_tap_adds_what_the_supplement_says_to_fan_b_hybrid() -> None:
    """Section B: around 2 % of each self-attention layer, less than 1 % of the network."""
    own, whole = tap_complexity(14, 14, 448, 4), attention_complexity(14, 14, 448)
    assert (own, whole) == (3_891_776, 191_772_672)
    assert tap_attention_complexity(14, 14, 448, 4) == 195_664_448
    assert own / whole == pytest.approx(0.0203, abs=5e-5)
    network = multiply_adds(rv.create_model("fan_hybrid_base", device="meta"), (3, 224, 224))
    assert 16 * own / network == pytest.approx(0.0053, abs=5e-5)


def _cost(module: nn.Module, x: torch.Tensor) -> int:
    from torch.utils.flop_counter import FlopCounterMode

    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        module(x)
    return counter.get_total_flops() // 2
