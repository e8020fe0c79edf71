"""STL's stages train tokens of every backbone; the labeler is read and never touched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from families import FAMILIES, NETWORKS, build_by_name, context_of, pictures, small_network
from refusals import refused
from steps import make_step
from torch import Tensor, nn

from robustvit.methods.base import Method, MixedPart
from robustvit.methods.stl import LabelerConfig, StlStudent, StudentConfig
from robustvit.methods.token_labels import mix_labels, resize_labels, token_loss, token_targets
from robustvit.tasks.mixing import Mix


def student_of(network: nn.Module, family: str = "fan_vit", **options: Any) -> StlStudent:
    name, sizes = NETWORKS[family]
    return StudentConfig(labeler=name, options=sizes, untrained=True, **options).build(context_of(network))


def loss_of(network: nn.Module, method: Method, **options: Any) -> Tensor:
    step = make_step(network, pictures(), method, **options)
    return F.cross_entropy(step.outputs.answer, step.targets) + sum(method.terms(step).values())


@pytest.mark.parametrize("supervision", ["pooled", "every_token"])
@pytest.mark.parametrize("family", FAMILIES)
def test_stage_one_trains_the_tokens_of_every_backbone(family: str, supervision: str) -> None:
    network = small_network(family, token_head=True)
    method = LabelerConfig(supervision=supervision).build(context_of(network))  # type: ignore[arg-type]
    step = make_step(network, pictures(), method)
    terms = method.terms(step)
    terms["stl_labeler"].backward()
    assert torch.isfinite(terms["stl_labeler"])
    assert network.token_head.weight.grad.abs().max() > 0
    heads = network.get_classifier()
    class_parameters = [p for head in (heads if isinstance(heads, tuple) else (heads,)) for p in head.parameters()]
    assert class_parameters
    assert all(p.grad is None for p in class_parameters)  # the loop's own cross-entropy trains them
    assert method.state_dict() == {}


def test_the_pooled_term_is_eq_2_and_the_other_puts_the_label_on_every_token() -> None:
    network = small_network("vit", token_head=True)
    for supervision in ("pooled", "every_token"):
        method = LabelerConfig(token_weight=0.5, supervision=supervision).build(context_of(network))  # type: ignore[arg-type]
        step = make_step(network, pictures(), method)
        tokens = step.outputs.token_logits
        assert tokens is not None
        if supervision == "pooled":
            expected = F.cross_entropy(tokens.mean(1), step.targets)
        else:
            expected = F.cross_entropy(tokens.flatten(0, 1), step.targets.argmax(-1).repeat_interleave(tokens.shape[1]))
        torch.testing.assert_close(method.terms(step)["stl_labeler"], 0.5 * expected)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_student_of_every_backbone_learns_from_a_labeler_that_stays_as_it_was(family: str) -> None:
    network = small_network(family, token_head=True)
    method = student_of(network)
    labeler = method.labeler
    assert labeler is not None
    before, modes = [p.clone() for p in labeler.state_dict().values()], [m.training for m in network.modules()]
    step = make_step(network, pictures(), method, view=pictures(seed=1))
    loss = method.terms(step)["stl_student"]
    loss.backward()
    assert torch.isfinite(loss)
    assert network.token_head.weight.grad.abs().max() > 0
    assert all(p.grad is None and not p.requires_grad for p in labeler.parameters())
    assert all(torch.equal(a, b) for a, b in zip(before, labeler.state_dict().values(), strict=True))
    assert not labeler.training
    assert [m.training for m in network.modules()] == modes
    assert method.state_dict() == {}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_labeler_of_every_backbone_teaches(family: str) -> None:
    network = small_network("vit", token_head=True)  # 8x8 tokens; the others have 8x8, 4x4, 2x2 and 1x1
    method = student_of(network, family, labels="argmax")
    loss_of(network, method, view=pictures(seed=1)).backward()
    assert network.token_head.weight.grad.abs().max() > 0


def test_labels_come_from_the_spatial_view_and_are_resized_to_the_grid_of_the_student() -> None:
    network = small_network("vit", token_head=True)
    method = student_of(network, "fan_hybrid", labels="soft", token_weight=2.0)
    view = pictures(seed=1)
    step = make_step(network, pictures(), method, view=view)
    assert method.labeler is not None
    assert step.outputs.token_logits is not None
    with torch.no_grad():
        labels = method.labeler.forward_tokens(view)[1].softmax(-1)  # type: ignore[operator]
    expected = token_loss(step.outputs.token_logits, resize_labels(labels, (2, 2), (8, 8)))
    torch.testing.assert_close(method.terms(step)["stl_student"], 2 * expected)


def test_the_labeler_can_see_what_the_student_sees() -> None:
    network = small_network("vit", token_head=True)
    method = student_of(network, "vit", labels="argmax", labeler_view="student")
    assert not method.needs.spatial_view
    assert student_of(network).needs.spatial_view
    step = make_step(network, pictures(), method)
    assert method.labeler is not None
    assert step.outputs.token_logits is not None
    with torch.no_grad():
        labels = token_targets(method.labeler.forward_tokens(step.images)[1], "argmax")  # type: ignore[operator]
    torch.testing.assert_close(method.terms(step)["stl_student"], token_loss(step.outputs.token_logits, labels))


@pytest.mark.parametrize("mix", [Mix(0.3), Mix(0.75, (0, 16, 0, 16))])
def test_token_labels_stay_unmixed_unless_asked_for(mix: Mix) -> None:
    network, view = small_network("vit", token_head=True), pictures(seed=1)

    def term(token_mix: str, how: Mix | None) -> Tensor:
        torch.manual_seed(0)
        method = student_of(network, "vit", labels="soft", token_mix=token_mix)
        mixes = () if how is None else (MixedPart(4, how),)
        return method.terms(make_step(network, pictures(), method, view=view, mixes=mixes))["stl_student"]

    torch.testing.assert_close(term("none", mix), term("none", None))
    torch.testing.assert_close(term("match", None), term("none", None))
    torch.manual_seed(0)
    method = student_of(network, "vit", labels="soft")
    step = make_step(network, pictures(), method, view=view)
    assert method.labeler is not None
    assert step.outputs.token_logits is not None
    with torch.no_grad():
        labels = method.labeler.forward_tokens(view)[1].softmax(-1)  # type: ignore[operator]
    expected = token_loss(step.outputs.token_logits, mix_labels(labels, mix, (8, 8), (32, 32)))
    torch.testing.assert_close(term("match", mix), expected)


def test_token_labels_are_mixed_in_the_groups_in_which_images_were() -> None:
    network, view = small_network("vit", token_head=True), pictures(seed=1)
    method = student_of(network, "vit", labels="soft", token_mix="match")
    step = make_step(network, pictures(), method, view=view, mixes=(MixedPart(2, Mix(0.3)), MixedPart(2, None)))
    assert method.labeler is not None
    assert step.outputs.token_logits is not None
    with torch.no_grad():
        labels = method.labeler.forward_tokens(view)[1].softmax(-1)  # type: ignore[operator]
    expected = torch.cat([0.3 * labels[:2] + 0.7 * labels[[1, 0]], labels[2:]])
    torch.testing.assert_close(method.terms(step)["stl_student"], token_loss(step.outputs.token_logits, expected))


def test_gumbel_labels_depend_on_the_seed_of_the_sample_alone() -> None:
    network, images, view = small_network("vit", token_head=True).eval(), pictures(), pictures(seed=1)
    method = student_of(network, "vit")

    def term(rows: list[int], seeds: list[int]) -> float:
        labels = torch.arange(4)[rows]
        step = make_step(network, images[rows], method, view=view[rows], labels=labels, seeds=seeds)
        return method.terms(step)["stl_student"].item()

    whole = term([0, 1, 2, 3], [5, 6, 7, 8])
    parts = (term([3, 1], [8, 6]) + term([0, 2], [5, 7])) / 2
    assert parts == pytest.approx(whole, rel=1e-5)
    assert term([0, 1, 2, 3], [9, 10, 11, 12]) != pytest.approx(whole, rel=1e-5)


def test_a_student_can_label_for_itself_and_has_its_training_mode_back() -> None:
    network = small_network("fan_vit", token_head=True)
    network.blocks[0].eval()
    modes = [module.training for module in network.modules()]
    method = StudentConfig(labels="argmax").build(context_of(network))
    step = make_step(network, pictures(), method, view=pictures(seed=1))
    statistics = {name: value.clone() for name, value in network.named_buffers()}
    method.terms(step)["stl_student"].backward()
    assert [module.training for module in network.modules()] == modes
    assert all(torch.equal(value, statistics[name]) for name, value in network.named_buffers())
    assert network.token_head.weight.grad.abs().max() > 0


def test_the_weight_of_the_tokens_can_grow_with_the_root_of_the_epoch() -> None:
    network = small_network("vit", token_head=True)
    method = student_of(network, "vit", labels="argmax", ramp_epochs=300)

    def term(epoch: float) -> float:
        return method.terms(make_step(network, pictures(), method, view=pictures(seed=1), epoch=epoch))["stl_student"].item()

    full = term(300)
    assert term(0) == 0
    assert term(75) == pytest.approx(full / 2, rel=1e-5)
    assert term(400) == pytest.approx(full, rel=1e-5)


@pytest.mark.parametrize("stage", ["labeler", "student"])
@pytest.mark.parametrize("family", FAMILIES)
def test_the_loss_falls_on_a_fixed_batch(family: str, stage: str) -> None:
    network = small_network(family, token_head=True)
    method: Method = student_of(network, "vit") if stage == "student" else LabelerConfig().build(context_of(network))
    optimizer = torch.optim.AdamW(network.parameters(), lr=2e-3)
    losses = []
    for _ in range(6):
        loss = loss_of(network, method, view=pictures(seed=1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] - 0.1


def test_the_labeler_is_asked_for_with_the_classes_of_the_run_and_a_token_head() -> None:
    asked: list[tuple[str, str, dict[str, Any]]] = []

    def load(name: str, checkpoint: str, options: Mapping[str, Any]) -> nn.Module:
        asked.append((name, checkpoint, dict(options)))
        return build_by_name(name, "", options)

    network = small_network("vit", token_head=True)
    config = StudentConfig(labeler="fan_vit_nano", checkpoint="stage1", options={"tap": 2})
    config.build(context_of(network, load_network=load))
    assert asked == [("fan_vit_nano", "stage1", {"num_classes": 10, "tap": 2, "token_head": True})]


def test_wrong_requests_are_explained() -> None:
    with refused(ValueError, "labels='hard'", "gumbel, argmax, soft"):
        StudentConfig(labels="hard")  # type: ignore[arg-type]
    with refused(ValueError, "checkpoint='stage1'"):
        StudentConfig(checkpoint="stage1")
    for weights in ({}, {"checkpoint": "stage1", "untrained": True}):
        with refused(ValueError, "stage 1"):
            StudentConfig(labeler="fan_vit_nano", **weights)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="leave token_mix at 'none'"):
        StudentConfig(labeler_view="student", token_mix="match")
    with refused(ValueError, "supervision='all'", "pooled, every_token"):
        LabelerConfig(supervision="all")  # type: ignore[arg-type]
    network = small_network("vit", token_head=True)
    with refused(ValueError, "`needs`"):
        loss_of(network, student_of(network, "vit"))
    name, sizes = NETWORKS["vit"]
    foreign = StudentConfig(labeler=name, untrained=True, options={**sizes, "num_classes": 3}).build(context_of(network))
    with refused(ValueError, "3 classes", "student 10"):
        loss_of(network, foreign, view=pictures())


def test_the_labeler_can_see_the_images_before_they_are_mixed() -> None:
    network = small_network("vit", token_head=True)
    method = student_of(network, "vit", labels="soft", labeler_view="unmixed")
    assert method.needs.unmixed_view
    assert not method.needs.spatial_view
    unmixed = pictures(seed=1)
    step = make_step(network, pictures(), method)
    step.unmixed = unmixed
    assert method.labeler is not None
    assert step.outputs.token_logits is not None
    with torch.no_grad():
        labels = method.labeler.forward_tokens(unmixed)[1].softmax(-1)  # type: ignore[operator]
    torch.testing.assert_close(method.terms(step)["stl_student"], token_loss(step.outputs.token_logits, labels))
