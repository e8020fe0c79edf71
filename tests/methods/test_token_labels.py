"""The losses and labels of STL equal the reference, and Gumbel labels are draws from the labeler's distribution."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from robustvit.methods.token_labels import labeler_loss, resize_labels, student_loss, token_targets

CASE = json.loads((Path(__file__).parents[1] / "reference" / "stl_loss.json").read_text())
INPUTS = {name: torch.tensor(value) for name, value in CASE["inputs"].items()}
TARGET = torch.tensor(CASE["class_target"])


def test_the_loss_of_the_labeler_equals_the_reference() -> None:
    cls, tokens = INPUTS["cls_logits"].clone().requires_grad_(), INPUTS["token_logits"].clone().requires_grad_()
    class_term, pooled_term = labeler_loss(cls, tokens, TARGET)
    (class_term + pooled_term).backward()
    expected = CASE["stage1"]
    assert float(class_term) == pytest.approx(expected["cls_term"], abs=1e-6)
    assert float(pooled_term) == pytest.approx(expected["pooled_term"], abs=1e-6)
    torch.testing.assert_close(tokens.grad, torch.tensor(expected["grad_token_logits"]), rtol=0, atol=1e-6)
    torch.testing.assert_close(cls.grad, torch.tensor(expected["grad_cls_logits"]), rtol=0, atol=1e-6)


@pytest.mark.parametrize(("kind", "case"), [("gumbel", "gumbel_K5"), ("argmax", "argmax_K5"), ("soft", "softmax")])
def test_the_loss_of_the_student_equals_the_reference(kind: str, case: str) -> None:
    labels = token_targets(INPUTS["teacher_token_logits"], kind, exponential=INPUTS["exponential"])  # type: ignore[arg-type]
    tokens = INPUTS["token_logits"].clone().requires_grad_()
    class_term, token_term = student_loss(INPUTS["cls_logits"], tokens, TARGET, labels)
    expected = CASE["stage2"]
    assert float(class_term) == pytest.approx(expected["cls_term"], abs=1e-6)
    stored = expected[case]
    assert float(token_term) == pytest.approx(stored["token_term"] if isinstance(stored, dict) else stored, abs=1e-6)


def test_gumbel_labels_keep_the_labelers_distribution() -> None:
    logits = torch.tensor([2.0, 0.0, -1.0]).expand(1, 20000, 3)
    drawn = token_targets(logits, smoothing=0.1, generator=torch.Generator().manual_seed(0))
    expected = 0.9 * torch.tensor([2.0, 0.0, -1.0]).softmax(-1) + 0.1 / 3
    torch.testing.assert_close(drawn.mean((0, 1)), expected, rtol=0, atol=0.01)


def test_label_maps_follow_the_grid_of_the_student() -> None:
    labels = torch.eye(4)[torch.tensor([[0, 0, 1, 1], [0, 0, 1, 1], [2, 2, 3, 3], [2, 2, 3, 3]])].reshape(1, 16, 4)
    assert torch.equal(resize_labels(labels, (4, 4), (2, 2)), torch.eye(4)[None])
    assert torch.equal(resize_labels(resize_labels(labels, (4, 4), (2, 2)), (2, 2), (4, 4)), labels)
    with pytest.raises(ValueError, match="resize the labels"):
        student_loss(torch.zeros(1, 4), torch.zeros(1, 4, 4), torch.zeros(1, 4), labels)
