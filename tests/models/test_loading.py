"""Networks from what a user types: which weights they get, and what is refused."""

from __future__ import annotations

import json
import shutil
import socket
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

import robustvit as rv
from robustvit.models.image_sizes import takes_option
from robustvit.models.loading import load_model
from robustvit.models.saved_folder import save_weights
from robustvit.runtime.weights import CheckpointError


def saved(folder: Path, name: str, **options: Any) -> tuple[Any, Path]:
    """A network as a run leaves it behind: its weights and config.json in `folder`."""
    network = rv.create_model(name, num_classes=7, **options).eval()
    network.pretrained_cfg["mean"] = (0.1, 0.2, 0.3)
    save_weights(network, network.state_dict(), folder, options, {})
    return network, folder / "model.safetensors"


@pytest.fixture(params=[("fan_vit_nano", {"tap": 4}), ("vit_tiny_patch16_224", {"tap": "multi_kernel3", "img_size": 32})])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Any, Path]:
    """(name, network, file) of a network of ours and one of timm's, both with TAP."""
    name, options = request.param
    return name, *saved(tmp_path / "lr=0.1" / "best", name, **options)


def test_the_file_of_a_run_is_the_network_that_its_config_describes(run: tuple[str, Any, Path]) -> None:
    name, network, file = run
    x = torch.randn(1, 3, 32, 32)
    for typed in (str(file), f"{name}={file}", f"local-dir:{file.parent}"):
        loaded = load_model(typed).eval()
        torch.testing.assert_close(loaded(x), network(x), rtol=0, atol=0)
        assert tuple(loaded.pretrained_cfg["mean"]) == (0.1, 0.2, 0.3)
        assert tuple(loaded.pretrained_cfg["input_size"]) == (3, 32, 32)
        assert loaded.is_untrained is False


def test_create_model_takes_what_the_commands_take(run: tuple[str, Any, Path]) -> None:
    name, network, file = run
    for typed, options in [(str(file), {}), (f"{name}={file}", {}), (name, {"checkpoint_path": str(file)})]:
        loaded = rv.create_model(typed, **options)
        assert loaded.num_classes == 7
        assert all(torch.equal(value, loaded.state_dict()[key]) for key, value in network.state_dict().items())


def test_a_folder_or_file_called_like_a_network_does_not_hide_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rvt_nano").mkdir()
    (tmp_path / "vit_nano").write_text("no weights")
    monkeypatch.chdir(tmp_path)
    with torch.device("meta"):
        assert [rv.create_model(name).num_classes for name in ("rvt_nano", "vit_nano")] == [10, 10]


def test_a_network_saved_under_a_published_name_keeps_what_the_name_means(tmp_path: Path) -> None:
    """tap_rvt_base means TAP and the convolutional FFN; its architecture, rvt_base, has neither."""
    small = dict(embed_dims=(24,), depths=(1,), num_heads=(2,), img_size=32)
    network, file = saved(tmp_path, "tap_rvt_base", **small)
    loaded = load_model(str(file))
    assert loaded.state_dict().keys() == network.state_dict().keys()
    assert any(".tap." in key for key in network.state_dict())


def test_untrained_means_names_alone_and_is_the_same_every_time(tmp_path: Path) -> None:
    _, file = saved(tmp_path, "fan_vit_nano")
    assert not load_model(str(file), untrained=True).is_untrained
    assert not load_model(f"local-dir:{tmp_path}", untrained=True).is_untrained
    torch.manual_seed(1)
    first, second = (load_model("rvt_nano", untrained=True) for _ in range(2))
    assert first.is_untrained
    torch.testing.assert_close(first.state_dict(), second.state_dict(), rtol=0, atol=0)


def test_a_file_with_tap_and_without_its_config_is_not_guessed(run: tuple[str, Any, Path], tmp_path: Path) -> None:
    name, _, file = run
    shutil.copy(file, tmp_path / "moved.safetensors")
    with pytest.raises(CheckpointError, match=r"config\.json"):
        load_model(f"{name}={tmp_path / 'moved.safetensors'}")


def test_a_foreign_config_beside_a_file_is_no_obstacle_and_explains_a_misfit(tmp_path: Path) -> None:
    _, file = saved(tmp_path, "fan_vit_nano")
    save_file(rv.create_model("rvt_nano", num_classes=10).state_dict(), tmp_path / "other.safetensors")
    other = f"rvt_nano={tmp_path / 'other.safetensors'}"
    assert load_model(other).num_classes == 10
    with pytest.raises(CheckpointError) as refused:
        load_model(f"rvt_nano={file}")
    assert "fan_vit_nano" in " ".join(refused.value.__notes__)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert"}))  # of another package
    assert load_model(other).num_classes == 10


@pytest.mark.parametrize("name", ["hf-hub:somebody/network", "local-dir:/tmp"])
def test_a_file_cannot_decide_what_is_fetched(name: str, tmp_path: Path) -> None:
    torch.save({"arch": name, "state_dict": {"weight": torch.zeros(1)}}, tmp_path / "a.pth")
    with pytest.raises(CheckpointError, match="no name of a network"):
        load_model(str(tmp_path / "a.pth"))
    save_file({"weight": torch.zeros(1)}, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps({"architecture": name}))
    with pytest.raises(CheckpointError, match="no network"):
        load_model(str(tmp_path / "model.safetensors"))


def test_folders_without_weights_or_description_are_explained(tmp_path: Path) -> None:
    _, file = saved(tmp_path / "run" / "best", "fan_vit_nano")
    with pytest.raises(FileNotFoundError, match=r"give local-dir:.*best"):
        load_model(f"local-dir:{tmp_path / 'run'}")
    file.unlink()
    with pytest.raises(FileNotFoundError, match="has no weights"):
        load_model(f"local-dir:{file.parent}")
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        load_model(f"local-dir:{tmp_path / 'nowhere'}")


def test_published_weights_never_leave_a_random_part(tmp_path: Path) -> None:
    for options in ({"num_classes": 5}, {"token_head": True}):
        with pytest.raises(ValueError, match="--untrained"):
            load_model("fan_vit_nano", **options)
    with pytest.raises(ValueError, match=r"rvt_nano=FILE.*--untrained"):
        load_model("rvt_nano")


@pytest.mark.parametrize("name", ["resnet10t", "fan_vit_tiny", "hf-hub:timm/resnet10t.c3_in1k"])
def test_without_a_connection_a_download_fails_at_once_with_advice(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    def no_host(host: object, *rest: object, **options: object) -> None:
        asked.append(host)
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", no_host)
    monkeypatch.setattr("time.sleep", lambda seconds: pytest.fail("waits for a host that is not there"))
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(RuntimeError, match="local-dir:FOLDER" if ":" in name else "=FILE"):
        load_model(name)
    assert len(asked) <= 1


@pytest.mark.parametrize(("name", "takes"), [("resnet10t", False), ("vit_tiny_patch16_224", True), ("fan_swin_nano", True)])
def test_every_network_takes_img_size(name: str, takes: bool) -> None:
    with torch.device("meta"):
        network = rv.create_model(name, img_size=64)
        assert takes_option(network, "img_size") == takes
        assert network.pretrained_cfg["input_size"] == (3, 64, 64)
        assert network.eval()(torch.empty(1, 3, 64, 64)).shape[0] == 1
        assert len(rv.create_model("resnet10t", img_size=(64, 96), features_only=True)(torch.empty(2, 3, 64, 96))) == 5


def test_a_size_that_a_network_cannot_take_is_refused_before_it_is_built() -> None:
    with pytest.raises(ValueError, match="224x224"):
        rv.create_model("efficientformer_l1", img_size=64)
