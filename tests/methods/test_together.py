"""All methods at once, on every backbone."""

from __future__ import annotations

import pytest
import torch
from families import FAMILIES, context_of, pictures, small_network
from steps import make_step

from robustvit.methods.adl import AdlConfig
from robustvit.methods.afat import AfatConfig
from robustvit.methods.distillation import DistillationConfig
from robustvit.methods.patch_augment import PatchAugmentConfig
from robustvit.methods.stl import LabelerConfig, StudentConfig


@pytest.mark.parametrize("joint_batch", [False, True])
@pytest.mark.parametrize("family", FAMILIES)
def test_all_methods_add_their_terms_and_reach_every_parameter(family: str, joint_batch: bool) -> None:
    network = small_network(family, tap=4, token_head=True)
    context = context_of(network)
    student = StudentConfig(labeler="fan_vit_nano", untrained=True)
    teacher = DistillationConfig(teacher="vit_nano", options={"pretrained": True})
    configs = [AdlConfig(tau=0), AfatConfig(joint_batch=joint_batch), LabelerConfig(), student, teacher, PatchAugmentConfig()]
    methods = [config.build(context) for config in configs]
    step = make_step(network, pictures(), *methods, view=pictures(seed=1))
    terms = {name: value for method in methods for name, value in method.terms(step).items()}
    assert set(terms) == {"adl", "afat", "stl_labeler", "stl_student", "distillation", "patch_augment"}
    torch.stack(list(terms.values())).sum().backward()
    for method in methods:
        method.after_backward(step, 1.0)
        method.update(lambda tensors: None)
    assert all(value.isfinite() for value in terms.values())
    assert all(p.grad is not None and p.grad.isfinite().all() for p in network.parameters())
