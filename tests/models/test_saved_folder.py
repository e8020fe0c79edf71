"""A folder of a saved network that was damaged says so; nothing is fetched because a file says so."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

import robustvit as rv
from robustvit.cli import main
from robustvit.models.saved_folder import WEIGHT_FILES, save_weights

ODD: list[Any] = [None, 5, -1, "x", [], {}, [1], {"a": 1}, 1e400, True, 10**30, "hf-hub:timm/resnet18.a1_in1k"]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """vit_pico with TAP and a token head."""
    folder = tmp_path_factory.mktemp("saved") / "best"
    options = dict(num_classes=10, tap=4, token_head=True)
    network = rv.create_model("vit_pico", **options)
    save_weights(network, network.state_dict(), folder, options, {"label_names": list("abcdefghij")})
    return folder


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        pytest.fail("something was fetched")

    monkeypatch.setattr("timm.models._factory.load_model_config_from_hf", refuse)
    monkeypatch.setattr("timm.models._builder.load_state_dict_from_hf", refuse)


def places(tree: dict[str, Any], above: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found = []
    for key, value in tree.items():
        found.append((*above, key))
        found += places(value, (*above, key)) if isinstance(value, dict) else []
    return found


def test_a_damaged_folder_is_an_error_in_words(saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    draws = random.Random(0)
    config = json.loads((saved / "config.json").read_text())
    refused = 0
    for case in range(21):
        folder = shutil.copytree(saved, tmp_path / f"{case}")
        file = folder / ("model.safetensors" if case % 3 == 0 else "config.json")
        content = bytearray(file.read_bytes())
        if case % 3 == 2:
            changed = json.loads(json.dumps(config))
            *above, last = draws.choice(places(changed))
            inside = changed
            for key in above:
                inside = inside[key]
            inside[last] = draws.choice(ODD)
            content = bytearray(json.dumps(changed).encode())
        elif draws.random() < 0.5:
            content[draws.randrange(len(content))] ^= 1 << draws.randrange(8)
        else:
            del content[draws.randrange(len(content)) :]
        file.write_bytes(content)
        code = main(
            ["eval", f"local-dir:{folder}", "--data", "scenes-easy:2", "--suite", "clean", "--output", f"{folder}/out"]
        )
        told = capsys.readouterr().err
        assert code in (0, 2)
        assert code == 0 or "error: " in told
        assert "weights_only" not in told
        refused += code == 2
    assert refused > 10


@pytest.mark.parametrize("name", ["hf-hub:timm/resnet18.a1_in1k", "local-dir:/tmp/elsewhere", "no_such_network"])
def test_a_file_does_not_decide_what_is_fetched(name: str, saved: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(saved, tmp_path / "best")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "architecture": name}))
    torch.save({"arch": name, "state_dict": rv.read_weights(folder / "model.safetensors")}, tmp_path / "a.pth")
    for model in (f"local-dir:{folder}", f"{folder}/model.safetensors", f"{tmp_path}/a.pth"):
        assert main(["eval", model, "--data", "scenes-easy:2", "--suite", "clean", "--output", f"{tmp_path}/out"]) == 2


@pytest.mark.parametrize(
    ("key", "value"),
    [("mean", [0.5, float("inf"), 0.5]), ("std", [0, 1, 1]), ("crop_pct", float("nan")), ("input_size", [3, -1, 9])],
)
def test_a_normalisation_that_is_none_is_refused(key: str, value: list[float]) -> None:
    network = rv.create_model("vit_pico", num_classes=10)
    network.pretrained_cfg[key] = value
    with pytest.raises(ValueError, match=key):
        rv.evaluate(network, "scenes-easy:2", "clean")


@pytest.mark.parametrize("name", WEIGHT_FILES)
def test_a_timm_network_with_tap_is_read_whatever_its_weights_are_called(name: str, tmp_path: Path) -> None:
    options = dict(num_classes=10, tap=4, img_size=32, patch_size=16, embed_dim=24, depth=1, num_heads=2)
    network = rv.create_model("vit_tiny_patch16_224", **options)
    save_weights(network, network.state_dict(), tmp_path, options, {"label_names": list("abcdefghij")})
    if name != "model.safetensors":
        (tmp_path / "model.safetensors").unlink()
        torch.save(network.state_dict(), tmp_path / name)
    read = rv.create_model(f"local-dir:{tmp_path}", pretrained=True)
    assert all(torch.equal(tensor, read.state_dict()[key]) for key, tensor in network.state_dict().items())
