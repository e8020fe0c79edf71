"""No file of weights runs code, crashes a command or fills the memory, and damaged ones of ours never give other weights."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from fault_cases import Outcome, command, draws_of, left_over, numbered, observed
from fuzzed_checkpoints import change_folder, change_weights

import robustvit as rv
from robustvit.methods.patch_corruption import PatchScorer, load_scorer
from robustvit.models.loading import load_model
from robustvit.models.saved_folder import save_weights
from robustvit.runtime.checkpoints import Checkpoints
from robustvit.runtime.weights import weights_checksum

KINDS = ("ours.safetensors", "ours.pth", "older.pth", "foreign.pth", "folder", "run")
EVALUATING = ("--data", "scenes-easy:2", "--suite", "clean", "--batch-size", 2)


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network of ours in every form that it may come in, and a run whose corruption network attacks can use."""
    root = tmp_path_factory.mktemp("bases")
    torch.manual_seed(1)
    network = rv.create_model("vit_pico", num_classes=10)
    weights = network.state_dict()
    save_weights(network, weights, root / "folder", {"num_classes": 10}, {"label_names": [str(i) for i in range(10)]})
    shutil.copy(root / "folder" / "model.safetensors", root / "ours.safetensors")
    torch.save({"state_dict": weights, "arch": "vit_pico"}, root / "ours.pth")
    torch.save({"state_dict": weights}, root / "older.pth", _use_new_zipfile_serialization=False)
    options = argparse.Namespace(model="vit_pico", lr=1.0)
    torch.save({"model": {f"module.{name}": value for name, value in weights.items()}, "args": options}, root / "foreign.pth")
    learned = {"scorer": PatchScorer((32, 32), 4).state_dict(), "img_size": (32, 32)}
    kept = Checkpoints(root / "run" / "checkpoints", 2)
    (root / "run").mkdir()
    for update in (1, 2):
        kept.save({"update": update, "methods": {"afat": learned}})
    return root


@numbered(150, 10)
def test_changed_checkpoints_are_read_or_refused_and_never_run(
    number: int, bases: Path, tmp_path: Path, record_property: Callable[[str, Any], None]
) -> None:
    draws, kind = draws_of("checkpoints", number), KINDS[number % len(KINDS)]
    place = tmp_path / kind
    if kind in ("folder", "run"):
        how = change_folder(bases / kind, place, draws)
    else:
        shutil.copy(bases / kind, place)
        how = change_weights(place, number, draws)
    found = _used(kind, place, number, tmp_path)
    assert not list(tmp_path.rglob("executed")), "code of the file was run"
    if how.startswith("damaged") and found.kind == "done" and kind != "older.pth":
        whole = _used(kind, bases / kind, 2, tmp_path).value
        assert found.value in (None, whole), "other weights than those that were saved"
    record_property("fault", f"checkpoints, {kind}, {how}: {found.kind}")


def _used(kind: str, place: Path, number: int, folder: Path) -> Outcome:
    """What comes of a checkpoint: the checksum of its weights, None where a command was asked."""
    if kind == "run":
        return observed(lambda: weights_checksum(load_scorer(place).state_dict()))
    name = f"local-dir:{place}" if kind == "folder" else str(place) if number % 2 else f"vit_pico={place}"
    if number % 5:
        return observed(lambda: weights_checksum(load_model(name).state_dict()))
    outcome = command("eval", name, *EVALUATING, "--output", folder / "out")
    assert (folder / "out" / "results.json").exists() == (outcome.kind == "done")
    assert not (folder / "out").exists() or left_over(folder / "out") == []
    return outcome._replace(value=None)
