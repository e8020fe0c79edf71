"""Diagnostics: what is logged beside the loss, that it changes nothing, and how it is drawn."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_runs import VIT, tiny_config
from torch import nn

import robustvit as rv
from robustvit.layers.token_pooling import TokenPooling
from robustvit.report.training_figure import diagnostic_panels, save_training_figure
from robustvit.runtime.weights import read_weights
from robustvit.training.diagnostics import Diagnosis, gradient_ratios
from robustvit.training.distributed import Workers
from robustvit.training.forward import LossTerms
from robustvit.training.metrics_log import read_metrics
from robustvit.training.train import train

pytestmark = pytest.mark.usefixtures("undrawn")
EVERYTHING = (
    "methods.adl={}",
    "methods.stl_labeler={}",
    "model.token_head=true",
    "model.tap=3",
    "model.drop_path=0.1",
    "augment.mixup=0.8",
    "schedule.epochs=1",
    "data.val=",
)


def logged(folder: Path, changes: Sequence[str]) -> list[dict[str, Any]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that attention is flat, which these short runs do not change
        train(tiny_config(changes), folder)
    return [entry["diagnostics"] for entry in read_metrics(folder / "metrics.jsonl") if "loss" in entry]


@pytest.fixture(scope="module")
def every_update(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("every") / "run"


@pytest.fixture(scope="module")
def found(every_update: Path) -> list[dict[str, Any]]:
    return logged(every_update, EVERYTHING)


def test_methods_and_layers_say_whether_they_act(found: list[dict[str, Any]]) -> None:
    assert len(found) == 6
    for numbers in found:
        assert numbers.keys() == {"adl", "stl_labeler", "tap"}
        spread = {"entropy", "max_times_tokens", "column_max_times_tokens", "rows_counted"}
        assert numbers["adl"].keys() == {*spread, "weight_share", "gradient_ratio"}
        assert numbers["stl_labeler"].keys() == {"token_accuracy", "gradient_ratio"}
        assert 0 <= numbers["stl_labeler"]["token_accuracy"] <= 1
        assert numbers["stl_labeler"]["gradient_ratio"] > 0
        assert 0.9 < numbers["adl"]["entropy"] <= 1.00001
        assert sum(numbers["tap"].values()) == pytest.approx(1.0, abs=1e-5)
        assert list(numbers["tap"]) == ["branch_0", "branch_1", "branch_2"]


def test_diagnostics_change_nothing_of_a_training(every_update: Path, found: list[dict[str, Any]], tmp_path: Path) -> None:
    assert len(logged(tmp_path / "last", [*EVERYTHING, "loop.log_every=1000"])) == 1
    one, other = (read_weights(folder / "weights" / "model.safetensors") for folder in (every_update, tmp_path / "last"))
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_numbers_are_of_the_whole_update_however_it_is_split(tmp_path: Path) -> None:
    changes = [*VIT, "methods.adl={}", "methods.stl_labeler={}", "model.token_head=true", "loop.max_updates=1", "data.val="]
    (whole,), (parts,) = (logged(tmp_path / str(n), [*changes, f"loop.accumulate={n}"]) for n in (1, 2))
    for name in ("adl", "stl_labeler"):
        ratios = [numbers[name].pop("gradient_ratio") for numbers in (whole, parts)]  # of the first micro-batch
        assert min(ratios) >= 0
        assert parts[name] == pytest.approx(whole[name], rel=1e-4)


def test_flat_attention_is_told_once(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="ADL hardly acts") as caught:
        result = train(tiny_config(["methods.adl={}", "schedule.epochs=1", "data.val="]), tmp_path / "run")
    assert sum("ADL hardly acts" in str(warning.message) for warning in caught) == 1
    assert sum("ADL hardly acts" in note for note in result.notes) == 1


def test_no_training_without_such_parts_has_diagnostics(tmp_path: Path) -> None:
    train(tiny_config(["schedule.epochs=1", "data.val="]), tmp_path / "run")
    assert all("diagnostics" not in entry for entry in read_metrics(tmp_path / "run" / "metrics.jsonl"))


def test_the_ratio_of_gradients_is_that_of_their_norms() -> None:
    layer = nn.Linear(1, 1, bias=False)
    layer.weight.data.fill_(2.0)
    w = layer.weight.sum()
    terms = LossTerms(own={"ce": w**2, "aux": 0 * w}, added={"half": {"a": 2 * w}, "none": {"b": torch.zeros(())}})
    assert gradient_ratios(terms, layer) == {"half": pytest.approx(2 / 4), "none": 0.0}
    assert gradient_ratios(terms, layer, scale=1024.0)["half"] == pytest.approx(0.5)
    assert gradient_ratios(terms, layer, scale=1e38)["half"] == float("inf"), "not 0, which would say that the method is off"
    assert layer.weight.grad is None
    assert gradient_ratios(LossTerms(own={}, added=terms.added), layer) == {}


def test_branch_weights_are_means_over_images_and_tokens() -> None:
    pooling = TokenPooling(4, 2)
    logits = torch.zeros(1, 2, 1, 2)
    logits[0, 0, 0, 0] = 100.0  # one token takes branch 0 alone, the other both alike
    assert pooling.diagnose(logits) == pytest.approx({"branch_0": 0.75, "branch_1": 0.25})


def test_what_the_layers_of_a_network_say_is_averaged() -> None:
    network = rv.create_model("vit_nano", tap=4, depth=2)
    poolings = [module for module in network.modules() if isinstance(module, TokenPooling)]
    for i, pooling in enumerate(poolings):
        for parameter in pooling.predictor.parameters():
            nn.init.zeros_(parameter)
        pooling.predictor[1].bias.data.fill_(1.0)
        pooling.predictor[2].weight.data[0, 0, 1, 1] = 100.0 * i  # the second layer takes branch 0 alone
    diagnosis = Diagnosis(network, [], can_compare=False)
    with diagnosis.watching(1.0):
        network(torch.randn(2, 3, 32, 32))
    agreed = diagnosis.agreed(Workers(), torch.device("cpu"))
    assert agreed["tap"]["branch_0"] == pytest.approx((0.25 + 1) / 2)
    assert agreed["tap"]["branch_3"] == pytest.approx(0.125)


def test_a_method_without_any_gradient_is_told_in_the_figure(tmp_path: Path) -> None:
    numbers = {"adl": {"gradient_ratio": 0.0}, "afat": {"gradient_ratio": 0.1}}
    terms = {"ce": 1.0, "adl": 0.0, "afat": 0.1}
    lines = [{"epoch": e, "lr": 0.1, "loss": 1.1, "terms": terms, "diagnostics": numbers} for e in (1.0, 2.0)]
    save_training_figure(lines, tmp_path / "training.svg")
    drawn = (tmp_path / "training.svg").read_text()
    assert "<!-- adl: 0 throughout -->" in drawn
    assert "<!-- afat -->" in drawn


def test_shares_multiples_and_ratios_of_gradients_have_panels_of_their_own() -> None:
    adl = {"entropy": 0.5, "max_times_tokens": 8.0, "gradient_ratio": 0.1}
    lines = [{"epoch": 1.0, "diagnostics": {"adl": adl, "tap": {"branch_0": 1.0}}}, {"epoch": 2.0}]
    lines.append({"epoch": 3.0, "diagnostics": {"adl": adl, "afat": {"chosen_over_random": 2.0, "gradient_ratio": 0.3}}})
    panels = {panel.title: panel for panel in diagnostic_panels(lines)}
    assert {title: (set(panel.lines), panel.are_multiples) for title, panel in panels.items()} == {
        "adl, shares": ({"entropy"}, False),
        "adl, multiples": ({"max times tokens"}, True),
        "tap, shares": ({"branch 0"}, False),
        "afat, multiples": ({"chosen over random"}, True),
        "gradient over that of the task's loss": ({"adl", "afat"}, True),
    }
    assert panels["adl, shares"].lines["entropy"] == ([1.0, 3.0], [0.5, 0.5])
    assert diagnostic_panels([{"epoch": 1.0}]) == []
