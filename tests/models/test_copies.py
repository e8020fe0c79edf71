"""Copies of every network, in memory, in files and as programs, compute what it computes."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from shallow_networks import EVERY_NETWORK, NANO, backbone, images, quick, shallow, shallowest

from robustvit.layers import image_groups


@pytest.mark.parametrize("name", EVERY_NETWORK)
def test_state_dict_survives_safetensors(name: str, tmp_path: Path) -> None:
    model = shallow(name, tap=4, token_head=True).eval()
    save_file(model.state_dict(), tmp_path / "weights.safetensors")
    other = shallow(name, tap=4, token_head=True).eval()
    other.load_state_dict(load_file(tmp_path / "weights.safetensors"))
    x = images(name)
    with torch.no_grad():
        torch.testing.assert_close(other(x), model(x))


@pytest.mark.parametrize("name", EVERY_NETWORK)
def test_own_weight_file_loads_through_timm(name: str, tmp_path: Path) -> None:
    model = shallow(name, num_classes=6).eval()
    file = tmp_path / "weights.pth"
    torch.save({"state_dict": model.state_dict()}, file)
    x = images(name)
    by_path = shallow(name, num_classes=6, checkpoint_path=str(file)).eval()
    by_overlay = shallow(name, num_classes=6, pretrained=True, pretrained_cfg_overlay=dict(file=str(file))).eval()
    with torch.no_grad():
        torch.testing.assert_close(by_path(x), model(x))
        torch.testing.assert_close(by_overlay(x), model(x))
    features = backbone(name, pretrained=True, pretrained_cfg_overlay=dict(file=str(file))).eval()
    with torch.no_grad():
        torch.testing.assert_close(features(x), model.forward_intermediates(x, intermediates_only=True))


@pytest.mark.parametrize("name", EVERY_NETWORK)
def test_copies_and_pickles_are_independent_networks(name: str) -> None:
    model = shallow(name, tap=4, token_head=True).eval()
    x = images(name)
    with torch.no_grad():
        expected = model(x)
        torch.testing.assert_close(copy.deepcopy(model)(x), expected)
        torch.testing.assert_close(pickle.loads(pickle.dumps(model))(x), expected)


@pytest.mark.parametrize("name", quick("fan_swin_nano", "narrow fan_hybrid_xlarge", "narrow rvt_tiny_plus"))
def test_traced_program_agrees_with_the_network(name: str) -> None:
    model = shallowest(name, tap=4).eval()
    x = images(name)
    with torch.no_grad():
        program = torch.export.export(model, (x,))
        torch.testing.assert_close(program.module()(x), model(x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", quick("fan_vit_nano", "rvt_nano"))
def test_compiler_follows_the_network_without_a_break(name: str) -> None:
    model = shallowest(name, tap=4).eval()
    x = images(name)
    with torch.no_grad():
        expected = model(x)
        torch._dynamo.reset()
        torch.testing.assert_close(
            torch.compile(model, backend="aot_eager", fullgraph=True)(x), expected, rtol=1e-4, atol=1e-4
        )


@pytest.mark.slow
@pytest.mark.parametrize("name", NANO)
def test_compiled_image_groups_agree_at_any_batch_without_a_break(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = shallowest(name, tap=4).eval()
    batches = [images(name, batch=n) for n in (2, 3)]
    torch._dynamo.reset()
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    with torch.no_grad():
        expected = [model(x) for x in batches]
        monkeypatch.setattr(image_groups, "GROUP_BYTES", 1)
        for x, logits in zip(batches, expected, strict=True):
            torch.testing.assert_close(compiled(x), logits, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("name", NANO)
def test_compiled_network_agrees(name: str) -> None:
    model = shallow(name, tap=4).eval()
    x = images(name)
    with torch.no_grad():
        expected = model(x)
        torch._dynamo.reset()
        torch.testing.assert_close(torch.compile(model)(x), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", quick())  # a small one is exported in test_exporting.py
def test_onnx_file_agrees_with_the_network(name: str, tmp_path: Path) -> None:
    from robustvit.models.exporting import export_onnx

    model = shallowest(name, tap=4).eval()
    export_onnx(model, tmp_path / "network.onnx", images(name))  # raises where the two differ by more than 1e-4
    assert (tmp_path / "network.onnx").stat().st_size > 0
