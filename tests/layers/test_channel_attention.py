"""FAN's channel branches against loops over pictures, heads and channels."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

import robustvit as rv
from robustvit.layers.channel_attention import ChannelSelfAttention, ChannelSqueezeExcite, EfficientChannelAttention
from robustvit.layers.conv_mlp import ConvMlp

GRID, DIM = (3, 4), 12


@pytest.fixture
def x() -> Tensor:
    return 2 * torch.randn(2, 12, DIM)


def mlp() -> ConvMlp:
    return ConvMlp(DIM, hidden_dim=24)


def gated(branch: torch.nn.Module, x: Tensor) -> Tensor:
    """What the branch adds to the stream."""
    value, gate = branch(x, GRID)
    return value if gate is None else gate * value


def values_and_channels(branch: torch.nn.Module, x: Tensor) -> tuple[Tensor, list[list[int]]]:
    """What the branch gates [B, N, C], and the channels of each head."""
    width = DIM // branch.num_heads
    heads = [list(range(h * width, (h + 1) * width)) for h in range(branch.num_heads)]
    return branch.norm(branch.mlp(x, GRID)), heads


@pytest.mark.parametrize("softmax", ["key", "query"])
@pytest.mark.parametrize("num_heads", [1, 3])
def test_channel_self_attention_is_equation_6(x: Tensor, shake, softmax: str, num_heads: int) -> None:
    branch = shake(ChannelSelfAttention(DIM, num_heads=num_heads, mlp=mlp(), softmax=softmax))
    with torch.no_grad():
        out, q, k = gated(branch, x), branch.query(x), branch.key(x)
        v, heads = values_and_channels(branch, x)
        expected = torch.zeros_like(x)
        for b in range(2):
            for channels in heads:
                scores = torch.stack(
                    [torch.stack([(q[b, :, i] * k[b, :, j]).sum() / math.sqrt(12) for j in channels]) for i in channels]
                )
                exponential = scores.exp()
                weights = exponential / exponential.sum(1 if softmax == "key" else 0, keepdim=True)
                for row, i in enumerate(channels):
                    for column, j in enumerate(channels):
                        expected[b, :, i] += weights[row, column] * v[b, :, j]
    torch.testing.assert_close(out, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("num_heads", [1, 3])
def test_efficient_channel_attention_is_the_released_equation_7(x: Tensor, shake, num_heads: int) -> None:
    branch = shake(EfficientChannelAttention(DIM, num_heads=num_heads, mlp=mlp()))
    with torch.no_grad():
        out, q = gated(branch, x), branch.query(x)
        v, heads = values_and_channels(branch, x)
        expected = torch.zeros_like(x)
        for b in range(2):
            for h, channels in enumerate(heads):
                prototype = torch.stack([x[b, :, c].softmax(0) for c in channels]).mean(0)
                for c in channels:
                    agreement = (q[b, :, c].softmax(0) * prototype).sum()
                    expected[b, :, c] = branch.temperature[h, 0, 0] * agreement.sigmoid() * v[b, :, c]
    torch.testing.assert_close(out, expected, rtol=1e-5, atol=1e-5)


def test_the_bias_of_the_query_cannot_change_the_gate(x: Tensor) -> None:
    branch = EfficientChannelAttention(DIM, num_heads=3, mlp=mlp())
    with torch.no_grad():
        before = branch.gate(x)
        branch.query.bias.normal_()
        torch.testing.assert_close(branch.gate(x), before)
        branch.query.weight.normal_()
        assert not torch.allclose(branch.gate(x), before, atol=1e-4)


def test_squeeze_excite_gates_by_the_mean_over_tokens(x: Tensor, shake) -> None:
    branch = shake(ChannelSqueezeExcite(DIM, mlp=mlp()))
    with torch.no_grad():
        y = branch.mlp(x, GRID)
        hidden = (y.mean(1) @ branch.reduce.weight.T + branch.reduce.bias).clamp(min=0)
        gate = 1 / (1 + (-(hidden @ branch.expand.weight.T + branch.expand.bias)).exp())
        torch.testing.assert_close(gated(branch, x), y * gate[:, None])
    assert branch.reduce.out_features == DIM // 4


@pytest.mark.parametrize("residual", [True, False])
def test_the_mlp_has_no_activation_outside_its_convolutions(x: Tensor, shake, residual: bool) -> None:
    layer = shake(ConvMlp(DIM, hidden_dim=24, residual=residual))
    with torch.no_grad():
        t = layer.fc1(x)
        z = t.transpose(1, 2).reshape(2, 24, *GRID)
        y = layer.dwconv.conv2(layer.dwconv.norm(torch.nn.functional.gelu(layer.dwconv.conv1(z)))).flatten(2).transpose(1, 2)
        expected = layer.fc2(layer.gamma * y + t if residual else layer.gamma * y)
        torch.testing.assert_close(layer(x, GRID), expected, rtol=1e-4, atol=1e-5)


def test_an_unknown_axis_or_branch_is_refused() -> None:
    with pytest.raises(ValueError, match="channel_softmax='value'"):
        rv.create_model("fan_vit_nano", channel="ca", channel_softmax="value")
    with pytest.raises(ValueError, match="channel='sa'"):
        rv.create_model("fan_vit_nano", channel="sa")


@pytest.mark.parametrize("channel", ["eca", "ca"])
def test_channel_heads_can_differ_from_the_heads_of_the_block(channel: str) -> None:
    model = rv.create_model("fan_vit_nano", channel=channel, channel_heads=2)
    assert {block.channel.num_heads for block in model.blocks} == {2}
    assert {block.attn.num_heads for block in model.blocks} == {4}
    assert model(torch.randn(2, 3, 32, 32)).isfinite().all()


def test_the_ca_network_has_two_projections_for_eca_s_one() -> None:
    ca, eca = (rv.create_model(f"fan_vit_small{suffix}", device="meta") for suffix in ("_ca", ""))
    difference = sum(p.numel() for p in ca.parameters()) - sum(p.numel() for p in eca.parameters())
    assert difference == 12 * (384 * 384 + 384 - 8)  # a key projection more, the temperatures less
