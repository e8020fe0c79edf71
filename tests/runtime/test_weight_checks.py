"""Damaged weights are noticed, bombs are not unpacked, and no message advises to run what is in a file."""

from __future__ import annotations

import io
import pickle
import random
import zipfile
from pathlib import Path

import pytest
import timm
import torch
from safetensors import safe_open
from torch import nn

import robustvit as rv
from robustvit.models.fetching import fetching
from robustvit.models.saved_folder import save_weights
from robustvit.models.shipped import SHIPPED, shipped_file
from robustvit.runtime.checkpoints import Checkpoints
from robustvit.runtime.weights import CheckpointError, save_weight_file, weights_checksum, weights_metadata
from robustvit.runtime.zip_files import DamagedZipError, check_zip

WEIGHTS = {"stem.weight": torch.arange(600.0).reshape(20, 30), "steps": torch.tensor(7), "empty": torch.zeros(0, 3)}


def flipped(content: bytes, seed: int) -> bytes:
    """One bit is another."""
    draws, changed = random.Random(seed), bytearray(content)
    changed[draws.randrange(len(changed))] ^= 1 << draws.randrange(8)
    return bytes(changed)


@pytest.mark.parametrize("name", ["a.safetensors", "a.pth"])
def test_a_flipped_bit_never_gives_other_weights(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    save_weight_file(WEIGHTS, path) if path.suffix == ".safetensors" else torch.save({"state_dict": WEIGHTS}, path)
    content, refused = path.read_bytes(), 0
    for seed in range(150):
        path.write_bytes(flipped(content, seed))
        try:
            assert weights_checksum(rv.read_weights(path)) == weights_checksum(WEIGHTS)
        except CheckpointError:
            refused += 1
    assert refused > 75


def test_the_checksum_depends_on_names_shapes_types_and_bytes() -> None:
    a = torch.arange(6, dtype=torch.int32)
    others = [{"b": a}, {"a": a.reshape(2, 3)}, {"a": a.view(torch.float32)}, {"a": a + 1}, {"a": a, "b": a[:0]}]
    assert len({weights_checksum(weights) for weights in ({"a": a}, *others)}) == 6
    assert weights_checksum({"a": a.reshape(2, 3).t()}) == weights_checksum({"a": a.reshape(2, 3).t().contiguous()})


def test_our_file_is_read_by_safetensors_and_timm_alike(tmp_path: Path) -> None:
    network = rv.create_model("vit_pico", num_classes=3)
    save_weights(network, network.state_dict(), tmp_path / "best", {"num_classes": 3}, {})
    with safe_open(tmp_path / "best" / "model.safetensors", "pt") as file:
        assert "robustvit_blake2b" in file.metadata()
    same = timm.create_model(f"local-dir:{tmp_path / 'best'}", pretrained=True)
    assert weights_checksum(same.state_dict()) == weights_checksum(network.state_dict())


def test_the_weights_of_the_package_carry_their_checksum() -> None:
    for name in SHIPPED:
        assert weights_metadata(shipped_file(name))["robustvit_blake2b"] == weights_checksum(
            rv.read_weights(shipped_file(name))
        )


@pytest.mark.parametrize("name", sorted(SHIPPED))
def test_damaged_weights_of_the_package_are_refused(name: str, tmp_path: Path) -> None:
    content = bytearray(shipped_file(name).read_bytes())
    content[-7] ^= 4
    file = tmp_path / "a.safetensors"
    file.write_bytes(content)
    with pytest.raises(CheckpointError, match="checksum"):
        rv.create_model(name, pretrained=True, pretrained_cfg_overlay={"file": str(file)})


def test_what_was_fetched_and_holds_more_than_weights_is_refused_without_advice() -> None:
    with pytest.raises(CheckpointError) as caught, fetching("vit_nano"):
        raise pickle.UnpicklingError("Weights only load failed. Run `torch.load` with `weights_only=False`")
    assert "weights_only" not in str(caught.value)


def test_a_checkpoint_that_was_saved_without_sums_is_read(tmp_path: Path) -> None:
    torch.serialization.set_crc32_options(False)
    try:
        torch.save(WEIGHTS, tmp_path / "a.pth")
    finally:
        torch.serialization.set_crc32_options(True)
    assert weights_checksum(rv.read_weights(tmp_path / "a.pth")) == weights_checksum(WEIGHTS)


def test_a_zip_bomb_is_refused_unopened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("robustvit.runtime.zip_files.ALWAYS_ALLOWED", 2**20)
    with zipfile.ZipFile(tmp_path / "a.pth", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/data.pkl", pickle.dumps({}, 2))
        with archive.open("a/data/0", "w", force_zip64=True) as part:
            for _ in range(4):
                part.write(bytes(2**20))
    monkeypatch.setattr(torch, "load", lambda *_, **__: pytest.fail("it was opened"))
    monkeypatch.setattr(zipfile.ZipFile, "open", lambda *_, **__: pytest.fail("it was unpacked"))
    with pytest.raises(CheckpointError, match="would unpack to"):
        rv.read_weights(tmp_path / "a.pth")
    with pytest.raises(DamagedZipError):
        check_zip(tmp_path / "a.pth", contents=False)


@pytest.mark.parametrize("is_zipped", [True, False])
def test_a_pickle_that_only_asks_for_memory_is_refused(is_zipped: bool, tmp_path: Path) -> None:
    bomb = b"\x80\x02cbuiltins\nbytearray\n\x8a\x05\x00\xf2\x05*\x01\x85R."  # bytearray(5,000,000,000)
    if is_zipped:
        content = io.BytesIO()
        torch.save({}, content)
        with zipfile.ZipFile(content) as archive, zipfile.ZipFile(tmp_path / "a.pth", "w") as other:
            for name in archive.namelist():
                other.writestr(name, bomb if name.endswith("data.pkl") else archive.read(name))
    else:
        (tmp_path / "a.pth").write_bytes(bomb)
    with pytest.raises(CheckpointError):
        rv.read_weights(tmp_path / "a.pth")


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")  # of TorchScript
def test_no_message_advises_to_run_what_is_in_a_file(tmp_path: Path) -> None:
    torch.jit.script(nn.Linear(2, 2)).save(str(tmp_path / "script.pt"))
    torch.save(nn.Linear(2, 2), tmp_path / "whole.pth")
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    torch.save(nn.Linear(2, 2), tmp_path / "run" / "checkpoints" / "checkpoint-00000001.pt")
    told = []
    for path in (tmp_path / "script.pt", tmp_path / "whole.pth"):
        with pytest.raises(CheckpointError) as caught:
            rv.read_weights(path)
        told.append(str(caught.value))
    with pytest.raises(CheckpointError) as caught:
        Checkpoints(tmp_path / "run" / "checkpoints", 1).newest()
    assert not any("weights_only" in text for text in (*told, str(caught.value)))
