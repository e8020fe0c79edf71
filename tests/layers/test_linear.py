"""Linear layers as convolutions: the same numbers, gradients and names; nobody who reads networks can tell."""

from __future__ import annotations

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

import robustvit as rv
from robustvit.layers.linear import Linear, linear, quicken, quickened


@settings(deadline=None, max_examples=60)
@given(
    shape=st.lists(st.integers(0, 40), min_size=1, max_size=4),
    wide=st.integers(1, 24),
    out=st.integers(1, 24),
    bias=st.booleans(),
)
def test_it_is_a_linear_layer_for_every_shape(shape: list[int], wide: int, out: int, bias: bool) -> None:
    x, weight = torch.randn(*shape, wide), torch.randn(out, wide)
    b = torch.randn(out) if bias else None
    torch.testing.assert_close(linear(x, weight, b), F.linear(x, weight, b), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("shape", [(16, 49), (1, 3136), (3136,), (8, 7, 7), (5, 100)])
def test_gradients_are_those_of_a_linear_layer(shape: tuple[int, ...], threads: int) -> None:
    x, layer = torch.randn(*shape, 12), nn.Linear(12, 20)
    quick = Linear(12, 20)
    quick.load_state_dict(layer.state_dict())
    found = []
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    for module in (layer, quick):
        given_x = x.clone().requires_grad_()
        y = module(given_x)
        (y * torch.linspace(0, 1, y.numel()).view_as(y)).sum().backward()
        assert given_x.grad is not None
        found.append((y.detach(), given_x.grad, *(p.grad for p in module.parameters())))
    torch.set_num_threads(before)
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def test_it_is_given_to_onednn_where_the_product_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(F, "conv2d", lambda x, *rest: asked.append(x.shape) or torch.conv2d(x, *rest))
    weight = torch.randn(8, 4)
    for shape in ((16, 64, 4), (16, 8, 4), (2, 64, 4)):  # large; too few rows; too few images for one thread, but rows enough
        linear(torch.randn(*shape), weight, None)
    with torch.autocast("cpu", torch.bfloat16):
        linear(torch.randn(16, 64, 4), weight, None)
    linear(torch.randn(16, 64, 4, dtype=torch.float64), weight.double(), None)
    assert asked == [(16, 4, 1, 64)]


def test_a_quick_network_has_the_same_names_and_parameters() -> None:
    network = nn.Sequential(nn.Linear(4, 8), nn.Sequential(nn.GELU(), nn.Linear(8, 2)))
    before, names = list(network.parameters()), list(network.state_dict())
    quicken(network)
    assert all(a is b for a, b in zip(before, network.parameters(), strict=True))
    assert list(network.state_dict()) == names
    assert sum(isinstance(module, Linear) for module in network.modules()) == 2
    assert isinstance(copy.deepcopy(network)[0], nn.Linear)


def test_another_network_is_quick_for_a_while_and_then_as_it_was() -> None:
    class Halved(nn.Linear):
        def forward(self, input: torch.Tensor) -> torch.Tensor:  # noqa: A002
            return super().forward(input) / 2

    network = nn.Sequential(nn.Linear(4, 8), Halved(8, 2))
    layers, x = list(network), torch.randn(16, 64, 4)
    expected = network(x)
    with quickened(network):
        assert type(network[0]) is Linear
        assert type(network[1]) is Halved
        torch.testing.assert_close(network(x), expected)
    assert all(now is before for now, before in zip(network, layers, strict=True))


@pytest.mark.parametrize("name", ["fan_vit_nano", "fan_swin_nano", "rvt_nano", "vit_nano", "fan_hybrid_nano/segformer"])
def test_networks_are_built_with_quick_layers(name: str) -> None:
    layers = [type(module) for module in rv.create_model(name).modules() if isinstance(module, nn.Linear)]
    assert layers
    assert nn.Linear not in layers


def test_traces_and_scripts_have_linear_layers() -> None:
    network, x = nn.Sequential(Linear(4, 8)), torch.randn(16, 64, 4)
    for made in (torch.jit.script(network), torch.jit.trace(network, x)):
        assert "conv" not in str(made.inlined_graph)
        torch.testing.assert_close(made(x), network(x))
    traced = torch.fx.symbolic_trace(network)
    torch.testing.assert_close(traced(x), network(x))
