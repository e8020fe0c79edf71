"""A recipe that is damaged, or asks for what cannot be, trains to finite weights or is refused in words."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from damage import damaged_bytes, damaged_tree
from fault_cases import command, draws_of, left_over, numbered
from safetensors.torch import load_file

BASE: dict[str, Any] = {
    "model": {"name": "vit_pico", "tap": 2, "options": {"depth": 1}},
    "data": {"train": "scenes-easy:8", "workers": 0},
    "augment": {"crop": "none", "flip": 0.5, "ratio": [0.75, 1.3], "mean": [0.5, 0.5, 0.5], "std": [0.2, 0.2, 0.2]},
    "loss": {"smoothing": 0.1},
    "optimizer": {"name": "adamw", "lr": 0.001, "weight_decay": 0.05, "clip_grad": 1.0, "options": {"eps": 1e-8}},
    "schedule": {"epochs": 1, "warmup_epochs": 0, "min_lr": 1e-5},
    "methods": {"adl": {"tau": 2.0}, "afat": {}},
    "loop": {"batch_size": 4, "max_updates": 1, "device": "cpu", "seed": 0, "ema_decay": 0.9, "log_every": 1},
}
LAUGHS = "a0: &a0 [x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 12)
)
TEXTS = (
    LAUGHS,
    "a: &a {b: *a}",
    "extends: 5",
    "extends: ./recipe.yaml",
    "extends: /dev/null",
    "extends: ../../../etc/passwd",
    "twin: [1]",
    "!!python/object/apply:os.mkdir [executed]",
    "optimizer: {lr: 1" + "0" * 6000 + "}",
    "loop: {seed: 2001-99-99}",
    "? [a, b]\n: 1",
    "model: {name: hf-hub:nobody/nothing}",
    "model: {checkpoint: nowhere.safetensors}",
    "data: {train: scenes-easy:99999999999999999999}",
    "data: {train: /dev/zero}",
    "data: {workers: 99999}\nloop: {max_updates: 1}",
    "model: {options: {depth: 1000000000000}}",
    "loop: {batch_size: 1000000000000}",
    "\x00",
    "- a\n- b",
    "optimizer: {<<: 5}",
    "model: {name: vit_pico, options: {embed_dim: -3}}",
)


def recipe(number: int, draws: random.Random) -> tuple[str, bytes]:
    """(kind, text) of a recipe."""
    if number % 3 == 0:
        return "odd text", TEXTS[number // 3 % len(TEXTS)].encode()
    tree = damaged_tree(BASE, draws)
    text = yaml.safe_dump(tree, sort_keys=False, allow_unicode=False).encode("utf-8", "replace")
    return ("damaged text", damaged_bytes(text, draws)) if number % 3 == 1 else ("odd value", text)


def test_the_recipe_is_a_good_one_before_it_is_damaged(tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(BASE))
    assert command("train", tmp_path / "recipe.yaml", "--output", tmp_path / "run").kind == "done"


@numbered(80, 5)
def test_odd_recipes_train_or_are_refused_in_words(
    number: int,
    tmp_path: Path,
    record_property: Callable[[str, Any], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    kind, text = recipe(number, draws_of("recipes", number))
    file = tmp_path / "recipe.yaml"
    file.write_bytes(text)
    short = ("--set", "loop.max_updates=1", "--set", "loop.device=cpu", "--set", "data.val=")
    outcome = command("train", file, *short, "--output", tmp_path / "run")
    assert not (tmp_path / "executed").exists()
    weights = tmp_path / "run" / "weights" / "model.safetensors"
    assert weights.exists() == (outcome.kind == "done")
    if weights.exists():
        assert all(math.isfinite(value.double().sum()) for value in load_file(weights).values())
    assert not (tmp_path / "run").exists() or left_over(tmp_path / "run") == []
    record_property("fault", f"recipes, {kind}: {outcome.kind}")
