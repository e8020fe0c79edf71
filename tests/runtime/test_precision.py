"""Half precision: where it is chosen, what it changes, and that nothing of it stays."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn

import robustvit as rv
from robustvit.runtime import precision
from robustvit.runtime.precision import agreed_precision, answering_in, chosen_precision, half_precision_gain
from robustvit.runtime.processes import Processes

FAMILIES = ("fan_vit_nano", "fan_hybrid_nano", "fan_swin_nano", "rvt_nano", "vit_nano")
TOLERANCE = 0.03
"""Of the largest logit: bfloat16 has 8 bits, and roundings of some blocks add up."""


def test_auto_is_half_only_where_that_is_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    for gain, chosen in ((1.9, "bf16"), (1.05, "fp32"), (0.0, "fp32")):
        monkeypatch.setattr(precision, "half_precision_gain", lambda device, gain=gain: gain)
        assert chosen_precision("auto", "cpu") == chosen
        assert chosen_precision("fp32", "cpu") == "fp32"
        assert chosen_precision("fp16", "cpu") == "fp16"


def test_a_device_that_cannot_is_not_chosen() -> None:
    assert half_precision_gain("meta") == 0  # multiplies nothing
    assert half_precision_gain("cpu") > 0


@dataclass(frozen=True)
class Others(Processes):
    """Processes of which the first says what it has found."""

    found: str = "bf16"

    def gather(self, value: Any) -> list[Any]:
        return [self.found, value]


def test_all_processes_take_what_the_first_has_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "half_precision_gain", lambda device: 1.0)
    network = nn.Linear(2, 2)
    assert agreed_precision("auto", [network], Processes()) == "fp32"
    assert agreed_precision("auto", [network], Others(1, 2)) == "bf16"


def test_a_measurement_that_cannot_be_worth_it_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, products = [0.0], list[torch.dtype]()

    class Slow(torch.Tensor):
        def __matmul__(self, other: torch.Tensor) -> torch.Tensor:
            products.append(self.dtype)
            clock[0] += 1.0 if self.dtype == torch.bfloat16 else 0.01
            return torch.zeros(1, 1)

    monkeypatch.setattr(torch, "ones", lambda *shape, dtype, device: torch.zeros(*shape, dtype=dtype).as_subclass(Slow))
    monkeypatch.setattr(precision.time, "perf_counter", lambda: clock[0])
    assert half_precision_gain.__wrapped__("cpu") == pytest.approx(0.01)
    assert products.count(torch.bfloat16) == 2


def test_a_traced_network_is_refused_and_auto_leaves_it_alone() -> None:
    traced = torch.jit.trace(nn.Linear(2, 2), torch.zeros(1, 2))
    with pytest.raises(ValueError, match="TopLevelTracedModule"):
        agreed_precision("fp16", [traced], Processes())
    assert agreed_precision("auto", [traced], Processes()) == "fp32"


def test_methods_that_call_each_other_change_nothing_between_them() -> None:
    network = rv.create_model("fan_vit_nano").eval()
    images = torch.randn(2, 3, 32, 32)
    with torch.no_grad(), answering_in("bf16", network):
        whole, features = network(images), network.forward_features(images)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(whole, network(images).float())
        assert torch.equal(features, network.forward_features(images).float())


def test_answers_of_any_form_come_as_float32() -> None:
    @dataclass
    class Answer(OrderedDict[str, torch.Tensor]):  # as those of Hugging Face's networks
        logits: torch.Tensor

        def __post_init__(self) -> None:
            self["logits"] = self.logits

    @dataclass(frozen=True)
    class Pair:
        logits: torch.Tensor
        name: str

    class Network(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[Answer, Pair]:
            return Answer(x @ x), Pair(x @ x, "b")

    network = Network()
    with answering_in("bf16", network):
        answer, pair = network(torch.randn(2, 2))
    assert (type(answer), answer.logits.dtype, answer["logits"].dtype) == (Answer, torch.float32, torch.float32)
    assert (pair.logits.dtype, pair.name) == (torch.float32, "b")


def test_an_unknown_precision_is_refused() -> None:
    with pytest.raises(ValueError, match="bf8"):
        chosen_precision("bf8", "cpu")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        *((name, {}) for name in FAMILIES),
        *((name, {"tap": 4}) for name in FAMILIES),
        *((name, {"token_head": True, "token_fusion": True}) for name in ("fan_vit_nano", "fan_hybrid_nano", "rvt_nano")),
        ("fan_vit_nano", {"channel": "ca"}),
        ("fan_vit_nano", {"channel": "se"}),
        ("fan_hybrid_nano/segformer", {}),
        ("rvt_nano/setr_pup", {}),
    ],
)
def test_answers_in_half_precision_are_close_and_the_network_stays_as_it_was(name: str, options: dict[str, Any]) -> None:
    torch.manual_seed(0)
    network = rv.create_model(name, **options).eval()
    images = torch.randn(4, 3, *network.pretrained_cfg["input_size"][1:])
    attributes, weights = set(vars(network)), {key: value.clone() for key, value in network.state_dict().items()}
    with torch.no_grad():
        full = network(images)
        with answering_in("bf16", network):
            half = network(images)
        again = network(images)
    assert half.dtype == torch.float32
    assert 0 < (half - full).abs().max() < TOLERANCE * full.abs().max()
    assert torch.equal(again, full)
    assert set(vars(network)) == attributes
    assert all(torch.equal(value, weights[key]) for key, value in network.state_dict().items())


def test_detectors_find_the_same_features_in_half_precision() -> None:
    torch.manual_seed(0)
    network = rv.create_model("fan_hybrid_nano/mask_rcnn", num_classes=3).eval()
    images = torch.randn(2, 3, 64, 64)
    with torch.no_grad():
        full = network.forward_pyramid(network.forward_features(images))
        with answering_in("bf16", network):
            half = network.forward_pyramid(network.forward_features(images))
    for ours, theirs in zip(half, full, strict=True):
        assert ours.dtype == torch.float32
        assert 0 < (ours - theirs).abs().max() < TOLERANCE * theirs.abs().max()


def test_only_the_network_computes_in_half_precision() -> None:
    seen = {}

    class Probe(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            seen["inside"] = (x @ x.mT).dtype
            return x

        def forward_tokens(self, x: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
            return x @ x.mT, [x @ x.mT]

    network, x = Probe(), torch.randn(2, 4, 4)
    with answering_in("bf16", network):
        network(x)
        seen["outside"] = (x @ x.mT).dtype
        first, (second,) = network.forward_tokens(x)
    assert seen == {"inside": torch.bfloat16, "outside": torch.float32}
    assert first.dtype == second.dtype == torch.float32


def test_gradients_reach_the_images_through_half_precision() -> None:
    network = rv.create_model("fan_vit_nano").eval()
    images = torch.randn(2, 3, 32, 32, requires_grad=True)
    with answering_in("bf16", network):
        network(images).sum().backward()
    assert images.grad is not None
    assert images.grad.abs().max() > 0


def test_an_error_inside_leaves_nothing_behind() -> None:
    network = nn.Linear(2, 2)
    with pytest.raises(RuntimeError), answering_in("bf16", network):
        network(torch.zeros(1, 3))
    assert "forward" not in vars(network)
    assert network(torch.zeros(1, 2)).dtype == torch.float32
