"""The losses and labels of STL equal the reference, and Gumbel labels are draws from the labeler's distribution."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

from robustvit.methods.token_labels import (
    draw_exponential,
    mix_labels,
    pooled_loss,
    resize_labels,
    soft_cross_entropy,
    token_loss,
    token_targets,
)
from robustvit.tasks.mixing import Mix

CASE = json.loads((Path(__file__).parents[1] / "reference" / "stl_loss.json").read_text())
INPUTS = {name: torch.tensor(value) for name, value in CASE["inputs"].items()}
TARGET = torch.tensor(CASE["class_target"])


@pytest.mark.parametrize(("alpha", "key"), [(1.0, "total_alpha1"), (0.5, "total_alpha0p5")])
def test_the_loss_of_the_labeler_equals_the_reference(alpha: float, key: str) -> None:
    cls, tokens = INPUTS["cls_logits"].clone().requires_grad_(), INPUTS["token_logits"].clone().requires_grad_()
    class_term, pooled_term = soft_cross_entropy(cls, TARGET), pooled_loss(tokens, TARGET)
    (class_term + pooled_term).backward()
    expected = CASE["stage1"]
    assert float(class_term) == pytest.approx(expected["cls_term"], abs=1e-6)
    assert float(pooled_term) == pytest.approx(expected["pooled_term"], abs=1e-6)
    assert float(class_term + alpha * pooled_term) == pytest.approx(expected[key], abs=1e-6)
    torch.testing.assert_close(tokens.grad, torch.tensor(expected["grad_token_logits"]), rtol=0, atol=1e-6)
    torch.testing.assert_close(cls.grad, torch.tensor(expected["grad_cls_logits"]), rtol=0, atol=1e-6)


@pytest.mark.parametrize(("kind", "case"), [("gumbel", "gumbel_K5"), ("argmax", "argmax_K5"), ("soft", "softmax")])
def test_the_loss_of_the_student_equals_the_reference(kind: Any, case: str) -> None:
    labels = token_targets(INPUTS["teacher_token_logits"], kind, exponential=INPUTS["exponential"])
    tokens = INPUTS["token_logits"].clone().requires_grad_()
    class_term, token_term = soft_cross_entropy(INPUTS["cls_logits"], TARGET), token_loss(tokens, labels)
    token_term.backward()
    expected = CASE["stage2"][case]
    assert float(token_term) == pytest.approx(expected["token_term"], abs=1e-6)
    assert float(class_term + token_term) == pytest.approx(expected["total_beta1"], abs=1e-6)
    assert float(class_term + 0.5 * token_term) == pytest.approx(expected["total_beta0p5"], abs=1e-6)
    if "grad_token_logits" in expected:
        torch.testing.assert_close(tokens.grad, torch.tensor(expected["grad_token_logits"]), rtol=0, atol=1e-6)


def test_token_labels_equal_the_reference() -> None:
    logits, expected = INPUTS["teacher_token_logits"], CASE["stage2"]
    drawn = token_targets(logits, exponential=INPUTS["exponential"])
    torch.testing.assert_close(drawn, torch.tensor(expected["token_target_gumbel_K5"]), rtol=0, atol=1e-6)
    assert drawn.argmax(-1).tolist() == expected["gumbel_classes"]
    assert token_targets(logits, "argmax").argmax(-1).tolist() == expected["argmax_classes"]
    torch.testing.assert_close(
        token_targets(logits, "soft"), torch.tensor(expected["token_target_softmax"]), rtol=0, atol=1e-6
    )


def test_gumbel_labels_keep_the_labelers_distribution() -> None:
    logits = torch.tensor([2.0, 0.0, -1.0]).expand(4, 5000, 3)
    drawn = token_targets(logits, smoothing=0.1, exponential=draw_exponential(range(4), logits))
    expected = 0.9 * torch.tensor([2.0, 0.0, -1.0]).softmax(-1) + 0.1 / 3
    torch.testing.assert_close(drawn.mean((0, 1)), expected, rtol=0, atol=0.01)


def test_draws_depend_on_the_seed_of_the_sample_alone() -> None:
    logits = torch.zeros(3, 4, 5)
    drawn = draw_exponential([3, 4, 5], logits)
    assert torch.equal(draw_exponential([5, 3], logits[:2]), drawn[[2, 0]])
    assert not torch.equal(drawn[0], drawn[1])
    assert drawn.min() > 0
    assert draw_exponential([1], torch.zeros(1, 2, 2, dtype=torch.float16)).dtype == torch.float32


def test_label_maps_follow_the_grid_of_the_student() -> None:
    labels = torch.eye(4)[torch.tensor([[0, 0, 1, 1], [0, 0, 1, 1], [2, 2, 3, 3], [2, 2, 3, 3]])].reshape(1, 16, 4)
    assert torch.equal(resize_labels(labels, (4, 4), (2, 2)), torch.eye(4)[None])
    assert torch.equal(resize_labels(resize_labels(labels, (4, 4), (2, 2)), (2, 2), (4, 4)), labels)
    with pytest.raises(ValueError, match="resize the labels"):
        token_loss(torch.zeros(1, 4, 4), labels)


def test_mixup_blends_label_maps_and_cutmix_takes_what_a_cell_shows() -> None:
    labels = torch.stack([torch.tensor([[1.0, 0.0]]).expand(4, 2), torch.tensor([[0.0, 1.0]]).expand(4, 2)])  # 2 images
    blended = mix_labels(labels, Mix(0.75), (2, 2), (8, 8))
    torch.testing.assert_close(blended[0], torch.tensor([[0.75, 0.25]]).expand(4, 2))
    pasted = mix_labels(labels, Mix(0.75, (0, 4, 2, 6)), (2, 2), (8, 8))  # upper half, two pixels of each column
    torch.testing.assert_close(pasted[0], torch.tensor([[0.5, 0.5], [0.5, 0.5], [1.0, 0.0], [1.0, 0.0]]))
    torch.testing.assert_close(pasted[1], pasted[0].flip(-1))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 20), st.integers(0, 20), st.integers(0, 28), st.integers(0, 28), st.sampled_from([1, 2, 3, 5, 7]))
def test_cutmix_labels_hold_as_much_of_the_partner_as_the_image_does(
    top: int, height: int, left: int, width: int, cells: int
) -> None:
    H, W = 20, 28
    bottom, right = min(H, top + height), min(W, left + width)
    labels = torch.stack([torch.eye(2)[[0] * cells * cells], torch.eye(2)[[1] * cells * cells]])
    mixed = mix_labels(labels, Mix(0.5, (top, bottom, left, right)), (cells, cells), (H, W))
    share = (bottom - top) * (right - left) / (H * W)
    assert mixed[0, :, 1].mean().item() == pytest.approx(share, abs=1e-5)
    torch.testing.assert_close(mixed.sum(-1), torch.ones(2, cells * cells))


def test_wrong_requests_are_explained() -> None:
    with refused(ValueError, "kind='hard'", "gumbel, argmax, soft"):
        token_targets(torch.zeros(1, 1, 2), "hard")  # type: ignore[arg-type]
    with refused(ValueError, "kind='gumbel'"):
        token_targets(torch.zeros(1, 1, 2))
