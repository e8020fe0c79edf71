"""A corruption network from a run that was tampered with is refused in words."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from robustvit.cli import main
from robustvit.methods.patch_corruption import PatchScorer, load_scorer
from robustvit.runtime.checkpoints import Checkpoints
from robustvit.runtime.weights import CheckpointError


def run_with(folder: Path, change: Callable[[dict[str, Any]], Any]) -> Path:
    """The folder of a run with AFAT whose checkpoint was changed."""
    learned = {"scorer": PatchScorer((32, 32), 4).state_dict(), "img_size": (32, 32)}
    state = {"update": 1, "methods": {"afat": copy.deepcopy(learned)}}
    change(state)
    folder.mkdir()
    Checkpoints(folder / "checkpoints", 1).save(state)
    return folder


def in_scorer(key: str, value: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda state: state["methods"]["afat"]["scorer"].update({key: value})


def in_learned(key: str, value: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda state: state["methods"]["afat"].update({key: value})


@pytest.mark.parametrize(
    "change",
    [
        lambda state: state.pop("methods"),
        lambda state: state.update(methods=[]),
        lambda state: state.update(methods={"afat": 5}),
        lambda state: state["methods"]["afat"].pop("img_size"),
        lambda state: state["methods"]["afat"].pop("scorer"),
        lambda state: state["methods"]["afat"]["scorer"].pop("conv.weight"),
        in_learned("img_size", "ab"),
        in_learned("img_size", (32,)),
        in_learned("img_size", (10**9, 10**9)),
        in_learned("img_size", (float("nan"), 32)),
        in_learned("scorer", []),
        in_scorer("fc.weight", torch.full((64, 64), float("nan"))),
        in_scorer("fc.weight", torch.zeros(3, 3)),
        in_scorer("fc.weight", "text"),
        in_scorer("conv.weight", torch.zeros(())),
        in_scorer("conv.weight", torch.zeros(1, 3, 4, 0)),
        in_scorer("more", torch.zeros(1)),
    ],
)
def test_a_tampered_run_is_a_checkpoint_error(change: Callable, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"cannot be used|lacks the state"):
        load_scorer(run_with(tmp_path / "run", change))


def test_the_command_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = run_with(tmp_path / "run", in_learned("img_size", None))
    command = [
        "attack",
        "vit_pico",
        "--untrained",
        "--num-classes",
        "10",
        "--data",
        "scenes-easy:2",
        "--output",
        f"{tmp_path}/o",
    ]
    assert main([*command, "--attack", "patches-adversarial", "--corruption-model", f"{run}"]) == 2
    assert "cannot be used" in capsys.readouterr().err
    assert load_scorer(run_with(tmp_path / "good", lambda state: state)).img_size == (32, 32)
