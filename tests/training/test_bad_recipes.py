"""A recipe that cannot be is named, not traced back."""

from __future__ import annotations

from pathlib import Path

import pytest
from refusals import refused

from robustvit.attacks.registry import build_attack
from robustvit.cli import main
from robustvit.runtime.bounded_yaml import YamlTextError, read_yaml
from robustvit.training.config import OptimizerConfig, TrainConfig
from robustvit.training.config_io import ConfigError, load_config

LAUGHS = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 10)
)
MERGED = "a0: &a0 {x: 1}\n" + "".join(f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 10)}]}}\n" for i in range(1, 10))


@pytest.mark.parametrize(
    "text", [LAUGHS, MERGED, "a: &a [*a]", "[" * 1100, "9" * 5000, "2001-99-99", "a: [", "!!python/name:os"]
)
def test_yaml_that_stands_for_too_much_or_nothing_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(YamlTextError):
        read_yaml(text)
    (tmp_path / "a.yaml").write_text(text)
    with refused(ConfigError, "a.yaml"):
        load_config(tmp_path / "a.yaml")


def test_aliases_of_ordinary_size_are_read() -> None:
    assert read_yaml("a: &a {lr: 1.0}\nb: *a\nc: {<<: *a, x: 2}") == {
        "a": {"lr": 1.0},
        "b": {"lr": 1.0},
        "c": {"lr": 1.0, "x": 2},
    }
    assert read_yaml("") is None


@pytest.mark.parametrize("text", ["extends: 5", "extends: [a]", "twin: 5", "twin: [1]"])
def test_what_a_recipe_extends_and_its_twin_have_to_be_what_they_are(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(text)
    with refused(ConfigError, text.partition(":")[0]):
        load_config(tmp_path / "a.yaml", twin=True)


@pytest.mark.parametrize(
    "change",
    [
        "augment.ratio=[0.5, .inf]",
        "augment.mean=[0, .inf, 0]",
        "augment.std=[1, 1, .inf]",
        "augment.std=[1, 0, 1]",
        "optimizer.lr=.inf",
        "optimizer.lr=1e999",
        "optimizer.lr=1" + "0" * 400,
        "optimizer.options={eps: .inf}",
        "schedule.min_lr=.inf",
        "loss.weight=.inf",
        "methods.adl={tau: .inf}",
        "methods.afat={lr: .inf}",
        "model.options={init_values: .nan}",
        "loop.batch_size=99999999999999999999",
        "loop.seed=99999999999999999999",
        "loop.batch_size=0x" + "f" * 5000,
    ],
)
def test_numbers_that_are_infinite_or_oversized_are_refused(change: str) -> None:
    with pytest.raises(ValueError, match=change.partition("=")[0].replace(".", r"\.")) as caught:
        load_config(None, [change])
    assert len(str(caught.value)) < 300


def test_infinite_rates_are_refused_from_python_too() -> None:
    with refused(ValueError, "optimizer.lr"):
        TrainConfig(optimizer=OptimizerConfig(lr=float("inf")))
    with refused(ValueError, "step"):
        build_attack("pgd", {"step": float("inf")})
    with refused(ValueError, "lr"):
        build_attack("patch-fool", {"lr": float("inf")})


@pytest.mark.parametrize("option", ["bogus: 1", "depth: x", "embed_dim: 0", "num_heads: [1]"])
def test_wrong_options_of_a_network_are_named(option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    changes = ["model.name=vit_pico", "data.train=scenes-easy:8", "data.val=", f"model.options={{{option}}}"]
    assert main(["train", *(part for change in changes for part in ("--set", change)), "--output", f"{tmp_path}/run"]) == 2
    told = capsys.readouterr().err
    assert "vit_pico cannot be built" in told
    assert option.partition(":")[0] in told
