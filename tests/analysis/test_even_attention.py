"""Even attention: by hand, on every kind of network, and without a trace."""

from __future__ import annotations

import pytest
import torch

import robustvit as rv
from robustvit.analysis.analyze import analyze
from robustvit.analysis.even_attention import even_answers, evenly, spread_evenly
from robustvit.recording.tape import record

NETWORKS = ["fan_vit_nano", "fan_hybrid_nano", "rvt_nano", "vit_nano", "fan_swin_nano"]


def test_rows_of_image_tokens_become_even_and_class_tokens_keep_theirs() -> None:
    A = torch.tensor([[0.2, 0.2, 0.6], [0.5, 0.4, 0.1], [0.2, 0.0, 0.8]])[None, None]
    expected = torch.tensor([[0.2, 0.2, 0.6], [0.5, 0.25, 0.25], [0.2, 0.4, 0.4]])[None, None]
    torch.testing.assert_close(spread_evenly(A, 1), expected)
    torch.testing.assert_close(spread_evenly(A, 0), torch.full((1, 1, 3, 3), 1 / 3))


def test_windows_stay_within_what_their_tokens_see() -> None:
    A = torch.rand(4, 2, 3, 3).softmax(-1)  # two images of two windows
    visible = torch.ones(2, 3, 3, dtype=torch.bool)
    visible[1] = torch.eye(3, dtype=torch.bool)
    A[1::2] = torch.eye(3)
    spread = spread_evenly(A, 0, visible)
    torch.testing.assert_close(spread[0::2], torch.full((2, 2, 3, 3), 1 / 3))
    torch.testing.assert_close(spread[1::2], torch.eye(3).expand(2, 2, 3, 3))


@pytest.mark.parametrize("name", NETWORKS)
def test_every_network_attends_evenly_inside_and_as_before_after(name: str) -> None:
    network, images = rv.create_model(name, img_size=64).eval(), torch.randn(2, 3, 64, 64)
    with torch.no_grad():
        for key, parameter in network.named_parameters():
            if key.endswith("qkv.weight"):
                parameter.mul_(8)
        usual = network(images)
        with evenly(network), record(network) as tape:
            even = network(images)
        assert torch.equal(network(images), usual)
    assert not torch.allclose(even, usual, atol=1e-4)
    p = tape.prefix_tokens
    for A, regions in zip(tape.attention, tape.regions, strict=True):
        rows = A[:, :, p:, p:]
        if regions is None:
            torch.testing.assert_close(rows, rows.mean(-1, keepdim=True).expand_as(rows))
        else:
            assert torch.allclose(rows.sum(-1), torch.ones(()))


def test_one_block_changes_alone() -> None:
    network, images = rv.create_model("vit_nano", depth=3).eval(), torch.randn(2, 3, 32, 32)
    with torch.no_grad(), record(network) as before:
        network(images)
    with torch.no_grad(), evenly(network, [1]), record(network) as after:
        network(images)
    assert torch.equal(before.attention[0], after.attention[0])
    assert not torch.equal(before.attention[1], after.attention[1])


def test_a_network_whose_attention_is_even_already_loses_nothing() -> None:
    network = rv.create_model("vit_nano", depth=2)
    with torch.no_grad():
        for key, parameter in network.named_parameters():
            if ".attn.qkv." in key:
                parameter[: 2 * 96] = 0  # queries and keys
    found = even_answers(network, torch.randn(8, 3, 32, 32))
    assert torch.equal(found.even, found.usual)
    assert torch.equal(found.of_blocks, found.usual.expand(2, 8))


def test_the_study_reports_accuracy_with_and_without() -> None:
    network = rv.create_model("vit_nano", pretrained=True)
    one = analyze({"vit": network}, "scenes-easy:24", ["even-attention"], size=(32, 32)).findings["even-attention"]["vit"]
    numbers = one.numbers
    assert numbers["pictures"] == 24
    assert numbers["lost_points"] == pytest.approx(100 * (numbers["accuracy"] - numbers["even_accuracy"]))
    assert numbers["accuracy"] > 0.6
    assert len(numbers["of_blocks"]) == 6
