"""Weight files: every form that training programs write is read, and nothing in a file is ever executed."""

from __future__ import annotations

import argparse
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file
from torch import Tensor

import robustvit as rv

WEIGHTS = {"stem.weight": torch.arange(6.0).reshape(2, 3), "stem.bias": torch.ones(2), "steps": torch.tensor(7)}
OTHER = {name: torch.zeros_like(value) for name, value in WEIGHTS.items()}


def save_zip(value: Any, path: Path) -> None:
    torch.save(value, path)


def save_legacy(value: Any, path: Path) -> None:
    torch.save(value, path, _use_new_zipfile_serialization=False)


def save_pickle(value: Any, path: Path) -> None:
    path.write_bytes(pickle.dumps(value))


def assert_same(read: dict[str, Tensor], expected: dict[str, Tensor] = WEIGHTS) -> None:
    assert list(read) == list(expected)
    for name, value in expected.items():
        torch.testing.assert_close(read[name], value, rtol=0, atol=0)


def prefixed(prefix: str, weights: dict[str, Tensor] = WEIGHTS) -> dict[str, Tensor]:
    return {prefix + name: value for name, value in weights.items()}


@pytest.mark.parametrize("save", [save_zip, save_legacy])
@pytest.mark.parametrize("name", ["model.pth", "model.pth.tar", "model.bin", "no_suffix"])
def test_files_of_torch_save_are_read_in_both_forms(tmp_path: Path, save: Callable, name: str) -> None:
    save(WEIGHTS, tmp_path / name)
    assert_same(rv.read_weights(tmp_path / name))
    assert_same(rv.read_weights(str(tmp_path / name)))


@pytest.mark.parametrize("name", ["model.safetensors", "model.bin"])
def test_safetensors_are_read_whatever_the_file_is_called(tmp_path: Path, name: str) -> None:
    save_file(WEIGHTS, tmp_path / name)
    read = rv.read_weights(tmp_path / name)
    assert_same(dict(sorted(read.items())), dict(sorted(WEIGHTS.items())))


@pytest.mark.parametrize(
    "checkpoint",
    [
        {"state_dict": WEIGHTS, "epoch": 3, "arch": "fan", "metric": 0.5},
        {"model": WEIGHTS, "optimizer": {"state": {}, "param_groups": []}},
        {"module": WEIGHTS},
        {"state_dict_ema": WEIGHTS, "state_dict": OTHER},
        {"model_ema": WEIGHTS, "model": OTHER},
        {"state_dict_ema": None, "state_dict": WEIGHTS},
        {"model": {"state_dict": WEIGHTS}},
        {"state_dict": {"module": WEIGHTS}, "epoch": 1},
        prefixed("module."),
        {"state_dict": prefixed("module.")},
        prefixed("_orig_mod."),
        prefixed("module._orig_mod."),
        prefixed("_orig_mod.module."),
    ],
    ids=lambda checkpoint: "+".join(list(checkpoint)[:2]),
)
def test_weights_are_found_inside_what_training_programs_wrap_around_them(tmp_path: Path, checkpoint: dict) -> None:
    torch.save(checkpoint, tmp_path / "c.pth")
    assert_same(rv.read_weights(tmp_path / "c.pth"))


@pytest.mark.parametrize(("plain", "averaged"), [("state_dict", "state_dict_ema"), ("model", "model_ema")])
def test_averaged_weights_are_left_alone_on_request(tmp_path: Path, plain: str, averaged: str) -> None:
    torch.save({plain: OTHER, averaged: WEIGHTS}, tmp_path / "c.pth")
    assert_same(rv.read_weights(tmp_path / "c.pth", use_ema=False), OTHER)


@pytest.mark.parametrize("save", [save_zip, save_legacy])
def test_a_namespace_beside_the_weights_is_tolerated(tmp_path: Path, save: Callable) -> None:
    options = argparse.Namespace(lr=1e-3, model="fan", betas=(0.9, 0.999), nested=argparse.Namespace(seed=0))
    save({"state_dict": WEIGHTS, "args": options}, tmp_path / "c.pth")
    assert_same(rv.read_weights(tmp_path / "c.pth"))


class Trap:
    """Unpickling this creates a file."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple:
        return open, (str(self.marker), "w")


@pytest.mark.parametrize("save", [save_zip, save_legacy, save_pickle])
@pytest.mark.parametrize(
    "wrap",
    [
        lambda trap: trap,
        lambda trap: {"state_dict": WEIGHTS, "args": trap},
        lambda trap: {**WEIGHTS, "evil": trap},
        lambda trap: {"state_dict": WEIGHTS, "args": argparse.Namespace(evil=trap)},
    ],
    ids=["alone", "beside", "among", "in a namespace"],
)
def test_code_in_a_pickle_is_never_executed(tmp_path: Path, save: Callable, wrap: Callable) -> None:
    marker = tmp_path / "executed"
    save(wrap(Trap(marker)), tmp_path / "c.pth")
    with pytest.raises(rv.CheckpointError, match=r"c\.pth"):
        rv.read_weights(tmp_path / "c.pth")
    assert not marker.exists()


def test_the_trap_would_have_worked(tmp_path: Path) -> None:
    save_pickle(Trap(tmp_path / "executed"), tmp_path / "c.pth")
    pickle.loads((tmp_path / "c.pth").read_bytes()).close()
    assert (tmp_path / "executed").exists()


def test_a_foreign_object_is_named(tmp_path: Path) -> None:
    torch.save({"state_dict": WEIGHTS, "where": Path("here")}, tmp_path / "c.pth")
    with pytest.raises(rv.CheckpointError, match=r"pathlib.*Nothing of it was executed"):
        rv.read_weights(tmp_path / "c.pth")


def test_nothing_stays_allowed_after_reading(tmp_path: Path) -> None:
    torch.save({"state_dict": WEIGHTS, "args": argparse.Namespace()}, tmp_path / "c.pth")
    allowed = set(torch.serialization.get_safe_globals())
    rv.read_weights(tmp_path / "c.pth")
    assert set(torch.serialization.get_safe_globals()) == allowed


def test_a_missing_file_is_a_file_not_found_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"absent\.pth"):
        rv.read_weights(tmp_path / "absent.pth")


def test_a_folder_is_said_to_be_one(tmp_path: Path) -> None:
    with pytest.raises(rv.CheckpointError, match="is a folder"):
        rv.read_weights(tmp_path)


@pytest.mark.parametrize("name", ["c.pth", "c.safetensors"])
def test_an_empty_file_is_said_to_be_empty(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    with pytest.raises(rv.CheckpointError, match="empty"):
        rv.read_weights(tmp_path / name)


@pytest.mark.parametrize("name", ["c.pth", "c.safetensors"])
@pytest.mark.parametrize(
    "content",
    [
        b"hello, world\n",
        b"<!DOCTYPE html><html>Too many requests</html>",
        b'{"weights": [1, 2]}',
        b"12345678{ not quite",
        b"PK\x03\x04 not a zip",
        b"\x80\x04.",
        b"\x89PNG\r\n\x1a\n\x00\x00",
        b"\x00",
    ],
)
def test_a_file_of_another_kind_is_a_checkpoint_error(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(rv.CheckpointError, match=name):
        rv.read_weights(tmp_path / name)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(min_size=1, max_size=40))
def test_no_bytes_whatsoever_give_another_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "c.pth"
    path.write_bytes(content)
    with pytest.raises(rv.CheckpointError):
        rv.read_weights(path)


@pytest.mark.parametrize("save", [save_zip, save_legacy, save_file])
def test_a_truncated_file_is_a_checkpoint_error_wherever_it_ends(tmp_path: Path, save: Callable) -> None:
    path = tmp_path / "c.bin"
    save(WEIGHTS, path)
    whole = path.read_bytes()
    for length in sorted({*range(1, len(whole), max(1, len(whole) // 60)), len(whole) - 1}):
        path.write_bytes(whole[:length])
        with pytest.raises(rv.CheckpointError, match=r"c\.bin"):
            rv.read_weights(path)


@pytest.mark.parametrize("save", [save_zip, save_legacy])
@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        (torch.ones(3), "got Tensor"),
        ([torch.ones(3)], "got list"),
        ({}, "no weights"),
        ({"state_dict": {}}, "no weights"),
        ({"epoch": 3}, "found 'epoch': int"),
        ({"net": WEIGHTS, "epoch": 3}, "found 'net': dict"),
        ({0: torch.ones(3)}, "found 0"),
    ],
    ids=["tensor", "list", "empty", "empty inside", "no tensors", "unknown wrapper", "number for a name"],
)
def test_a_checkpoint_without_a_state_dict_says_what_it_found(
    tmp_path: Path, save: Callable, value: Any, complaint: str
) -> None:
    save(value, tmp_path / "c.pth")
    with pytest.raises(rv.CheckpointError, match=complaint):
        rv.read_weights(tmp_path / "c.pth")
