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
from robustvit.layers import linear as linear_layers
from robustvit.layers.linear import Linear, linear, plain_linear, quicken, quickened


@pytest.fixture
def _pays(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a processor where oneDNN is faster."""
    monkeypatch.setattr(linear_layers, "onednn_is_faster", lambda: True)


@settings(deadline=None, max_examples=60)
@given(
    shape=st.lists(st.integers(0, 40), min_size=1, max_size=4),
    wide=st.integers(1, 24),
    out=st.integers(0, 24),
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


@pytest.mark.usefixtures("_pays")
def test_a_quick_network_has_the_same_names_and_parameters() -> None:
    network = nn.Sequential(nn.Linear(4, 8), nn.Sequential(nn.GELU(), nn.Linear(8, 2)))
    before, names = list(network.parameters()), list(network.state_dict())
    quicken(network)
    assert all(a is b for a, b in zip(before, network.parameters(), strict=True))
    assert list(network.state_dict()) == names
    assert sum(isinstance(module, Linear) for module in network.modules()) == 2
    assert isinstance(copy.deepcopy(network)[0], nn.Linear)


@pytest.mark.usefixtures("_pays")
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


@pytest.mark.usefixtures("_pays")
@pytest.mark.parametrize("name", ["fan_vit_nano", "fan_swin_nano", "rvt_nano", "vit_nano", "fan_hybrid_nano/segformer"])
def test_networks_are_built_with_quick_layers(name: str) -> None:
    layers = [type(module) for module in rv.create_model(name).modules() if isinstance(module, nn.Linear)]
    assert layers
    assert nn.Linear not in layers


def test_networks_stay_as_they_are_where_it_does_not_pay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear_layers, "onednn_is_faster", lambda: False)
    network = rv.create_model("fan_vit_nano")
    with quickened(network):
        assert Linear not in {type(layer) for layer in network.modules()}


@pytest.mark.parametrize("capability", ["AVX2", "DEFAULT", "SVE256"])
def test_it_does_not_pay_without_wide_vectors(capability: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    assert not linear_layers.onednn_is_faster.__wrapped__()


@pytest.mark.usefixtures("_pays")
def test_a_layer_in_two_places_stays_one() -> None:
    network = nn.ModuleDict({"a": nn.Linear(4, 8)})
    network["b"] = network["a"]
    quicken(network)
    assert type(network["a"]) is Linear
    assert network["a"] is network["b"]


@pytest.mark.usefixtures("_pays")
def test_programs_that_look_for_linear_layers_find_them_again() -> None:
    network, x = rv.create_model("vit_nano", num_classes=3).eval(), torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        expected = network(x)
        plain_linear(network)
        assert Linear not in {type(layer) for layer in network.modules()}
        torch.testing.assert_close(network(x), expected, rtol=1e-4, atol=1e-5)


class Packed(torch.Tensor):
    """Weights that know linear layers and nothing else, as quantised ones."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        if func is F.linear:
            return F.linear(*(a.as_subclass(torch.Tensor) if isinstance(a, Packed) else a for a in args), **(kwargs or {}))
        if func in (torch.Tensor.as_subclass, torch.Tensor.is_nested.__get__):
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **(kwargs or {}))
        raise NotImplementedError(func)


def test_weights_of_another_kind_go_to_linear_layers() -> None:
    x, weight = torch.randn(16, 64, 4), torch.randn(8, 4)
    expected = F.linear(x, weight)
    torch.testing.assert_close(linear(x, weight.as_subclass(Packed), None), expected)
    nested = torch.nested.nested_tensor([torch.randn(5, 4), torch.randn(7, 4)])
    assert linear(nested, weight, None).is_nested


def test_without_onednn_layers_are_linear(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(F, "conv2d", lambda *arguments: pytest.fail("no convolution was expected"))
    with torch.backends.mkldnn.flags(enabled=False):
        assert linear(torch.randn(16, 64, 4), torch.randn(8, 4), None).shape == (16, 64, 8)


def test_traces_and_scripts_have_linear_layers() -> None:
    network, x = nn.Sequential(Linear(4, 8)), torch.randn(16, 64, 4)
    for made in (torch.jit.script(network), torch.jit.trace(network, x)):
        assert "conv" not in str(made.inlined_graph)
        torch.testing.assert_close(made(x), network(x))
    traced = torch.fx.symbolic_trace(network)
    torch.testing.assert_close(traced(x), network(x))
