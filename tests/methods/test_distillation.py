"""Distillation: DeiT's equations on numbers one can compute by hand, and a teacher that only teaches."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused
from steps import MEAN, STD, build_backbone, context_of, make_step, pictures
from torch import Tensor, nn

import robustvit as rv
from robustvit.methods.distillation import Distillation, DistillationConfig, hard_distillation, soft_distillation

TRAINED = {"pretrained": True}


class Teacher(nn.Module):
    """Answers with the mean colour of an image, and remembers what it was asked."""

    def __init__(self, num_classes: int = 10, **cfg: Any) -> None:
        super().__init__()
        self.head = nn.Linear(3, num_classes)
        self.drop = nn.Dropout(0.5)
        self.pretrained_cfg = cfg
        self.asked: list[Tensor] = []

    def forward(self, images: Tensor) -> Tensor:
        self.asked.append(images)
        return self.drop(self.head(images.mean((2, 3))))


def distillation(teacher: nn.Module, network: nn.Module | None = None, **options: Any) -> Distillation:
    calls: list[Any] = []

    def load(*arguments: Any) -> nn.Module:
        calls.append(arguments)
        return teacher

    config = DistillationConfig(**{"teacher": "tutor", "options": TRAINED, **options})
    method = config.build(context_of(build_backbone("vit") if network is None else network, load_network=load))
    assert calls == [("tutor", config.checkpoint, {"num_classes": 10, **config.options})]
    return method


def test_a_soft_teacher_by_hand() -> None:
    # T = 2: teacher (3/4, 1/4), student (1/2, 1/2); KL = 3/4 log(3/2) + 1/4 log(1/2)
    logits, teacher_logits = torch.zeros(1, 2), torch.tensor([[2 * math.log(3), 0.0]])
    expected = 4 * (0.75 * math.log(1.5) + 0.25 * math.log(0.5))
    assert soft_distillation(logits, teacher_logits, 2.0).item() == pytest.approx(expected, abs=1e-6)


def test_a_hard_teacher_by_hand() -> None:
    logits = torch.tensor([[0.0, math.log(3)], [0.0, 0.0]])
    teacher_logits = torch.tensor([[1.0, 7.0], [5.0, 4.0]])
    expected = (-math.log(0.75) - math.log(0.5)) / 2
    assert hard_distillation(logits, teacher_logits).item() == pytest.approx(expected, abs=1e-6)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**31), st.floats(0.5, 8), st.floats(-3, 3))
def test_a_soft_teacher_costs_nothing_to_whoever_agrees_and_something_to_others(seed: int, T: float, shift: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    teacher_logits, others = (torch.randn(4, 6, generator=generator) for _ in range(2))
    assert soft_distillation(teacher_logits + shift, teacher_logits, T).item() == pytest.approx(0, abs=1e-4)
    assert soft_distillation(others, teacher_logits, T).item() > 1e-3


def test_with_high_temperature_the_gradient_is_that_of_matching_centred_logits() -> None:
    """T^2 keeps the gradient's size: (1 / K) (z_s - z_t) for centred logits (Hinton et al., section 2.1)."""
    logits, teacher_logits = (x - x.mean(1, keepdim=True) for x in torch.randn(2, 1, 5))
    logits.requires_grad_()
    soft_distillation(logits, teacher_logits, 1000.0).backward()
    torch.testing.assert_close(logits.grad, (logits.detach() - teacher_logits) / 5, rtol=1e-2, atol=5e-3)


@pytest.mark.parametrize("kind", ["soft", "hard"])
def test_the_student_learns_and_the_teacher_does_not(kind: str) -> None:
    network, teacher = build_backbone("vit"), Teacher()
    method = distillation(teacher, network, kind=kind)
    step = make_step(network, pictures("vit"), method)
    terms = method.terms(step)
    terms["distillation"].backward()
    assert list(terms) == ["distillation"]
    assert all(parameter.grad is not None for parameter in network.head.parameters())
    assert all(parameter.grad is None and not parameter.requires_grad for parameter in teacher.parameters())
    assert not teacher.training
    assert method.state_dict() == {}
    assert not method.needs.recorded


def test_terms_are_the_weighted_equations() -> None:
    network, images, teacher = build_backbone("vit").eval(), pictures("vit"), Teacher(mean=MEAN, std=STD).eval()
    step = make_step(network, images)
    expected = teacher(images)
    soft = distillation(teacher, network, kind="soft", weight=0.1, temperature=2.0).terms(step)["distillation"]
    torch.testing.assert_close(soft, 0.1 * soft_distillation(step.outputs.answer, expected, 2.0))
    hard = distillation(teacher, network, kind="hard", weight=0.5).terms(step)["distillation"]
    torch.testing.assert_close(hard, 0.5 * hard_distillation(step.outputs.answer, expected))


def test_the_teacher_sees_the_students_images_in_its_own_normalisation() -> None:
    network, pixels = build_backbone("vit"), torch.rand(2, 3, 32, 32)
    mean, std = (torch.tensor(values)[:, None, None] for values in (MEAN, STD))
    step = make_step(network, (pixels - mean) / std)
    same, other = Teacher(mean=MEAN, std=STD), Teacher(mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0))
    for teacher in (same, other):
        distillation(teacher, network).terms(step)
    assert torch.equal(same.asked[0], step.images)
    torch.testing.assert_close(other.asked[0], pixels)


def test_a_student_with_a_distillation_token_is_taught_on_the_mean_of_its_heads() -> None:
    network = build_backbone("deit")
    method = distillation(Teacher(), network)
    method.terms(make_step(network, pictures("deit"), method))["distillation"].backward()
    assert all(p.grad.abs().max() > 0 for p in (network.head.weight, network.head_dist.weight))
    network.set_distilled_training()
    with pytest.raises(ValueError, match=r"two heads.*set_distilled_training\(False\)"):
        distillation(Teacher(), network)


def test_one_of_our_networks_teaches() -> None:
    network, teacher = build_backbone("vit"), rv.create_model("fan_vit_nano")
    method = distillation(teacher, network, checkpoint="teacher.safetensors", options={})
    assert method.terms(make_step(network, pictures("vit"), method))["distillation"].isfinite()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "warm"}, "kind='warm' is not known; choose one of soft, hard"),
        ({"weight": 0.0}, "weight=0.0 is not possible: give more than 0"),
        ({"temperature": 0.0}, "temperature=0.0 is not possible"),
        ({"options": {}}, "the teacher 'tutor' would be untrained; give its checkpoint"),
    ],
)
def test_wrong_options_are_explained(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        distillation(Teacher(), **options)


def test_a_teacher_of_other_classes_is_refused() -> None:
    teacher = Teacher()
    teacher.pretrained_cfg["num_classes"] = 1000  # and a fresh classifier for 10
    with refused(ValueError, "'tutor'", 1000, 10, "untrained"):
        distillation(teacher)
    network = build_backbone("vit")
    method = distillation(Teacher(num_classes=7), network)
    with refused(ValueError, [2, 7], [2, 10]):
        method.terms(make_step(network, pictures("vit")))
