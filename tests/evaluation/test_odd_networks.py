"""Networks that return something else than logits: what is obvious is taken, the rest is refused before the work."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from refusals import refused
from torch import Tensor, nn

import robustvit as rv


class Odd(nn.Module):
    """Returns what `wrap` makes of its logits."""

    def __init__(self, wrap: Callable[[Tensor], Any], num_classes: int | None = None) -> None:
        super().__init__()
        self.inner, self.wrap = rv.create_model("vit_pico", num_classes=10), wrap
        self.pretrained_cfg = self.inner.pretrained_cfg
        if num_classes is not None:
            self.num_classes = num_classes

    def forward(self, x: Tensor) -> Any:
        return self.wrap(self.inner(x))


@pytest.mark.parametrize(
    "wrap",
    [
        lambda y: (y, y),
        lambda y: [y],
        lambda y: {"prediction": y},
        lambda y: {"logits": y[0]},
        lambda y: None,
        lambda y: y[0],
        lambda y: y[:, None],
        lambda y: y[:, :, None, None],
        lambda y: torch.cat([y, y]),
        lambda y: SimpleNamespace(logits=(y,)),
    ],
)
@pytest.mark.parametrize("attacks", [(), ("fgsm",)])
def test_an_output_that_is_no_logits_is_refused_with_what_was_expected(wrap: Callable, attacks: tuple[str, ...]) -> None:
    network = Odd(wrap, 10)
    with pytest.raises(ValueError, match=r"expected logits \[1, K\]"):
        rv.evaluate(network, "scenes-easy:2", "clean", attacks=attacks)
    assert network.training


@pytest.mark.parametrize("wrap", [lambda y: {"logits": y, "loss": 0}, lambda y: SimpleNamespace(logits=y, hidden_states=None)])
def test_logits_are_taken_from_where_hugging_face_has_them(wrap: Callable) -> None:
    torch.manual_seed(0)
    plain = Odd(lambda y: y)
    odd = Odd(wrap)
    odd.inner = plain.inner
    of_plain, of_odd = (rv.evaluate(n, "scenes-easy:4", "clean", attacks="fgsm").models[0].summary for n in (plain, odd))
    assert of_plain == of_odd


@pytest.mark.parametrize("declared", [0, 9, 11, 1000])
def test_another_number_of_outputs_than_declared_is_refused(declared: int) -> None:
    with refused(ValueError, declared, 10):
        rv.evaluate(Odd(lambda y: y, declared), "scenes-easy:2", "clean")


def test_a_size_that_the_network_does_not_take_is_refused() -> None:
    with pytest.raises(ValueError, match="40x40"):
        rv.evaluate(rv.create_model("vit_pico", num_classes=10), "scenes-easy:2", "clean", size=(40, 40))


def test_a_network_without_parameters_is_measured() -> None:
    class Means(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.flatten(1)[:, :10]

    assert 0 <= rv.evaluate(Means(), "scenes-easy:4", "clean", size=(32, 32)).clean <= 1


def test_an_output_that_is_a_view_of_a_parameter_is_taken() -> None:
    class Constant(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.num_classes, self.answer = 10, nn.Parameter(torch.arange(10.0))
            self.pretrained_cfg = {"input_size": (3, 64, 64)}

        def forward(self, x: Tensor) -> Tensor:
            return self.answer.expand(len(x), -1)

    found = rv.evaluate(Constant(), "scenes-easy:4", "clean", output=None)
    assert 0 <= found.models[0].summary["clean_accuracy"].value <= 1
