"""AFAT equals the reference step for step, leaves networks alone, and its patch scorer climbs."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from families import FAMILIES, context_of, pictures, small_network
from refusals import refused
from steps import make_step
from torch import Tensor, nn

import robustvit as rv
from robustvit.data.scenes.dataset import Scenes
from robustvit.methods import afat as afat_module
from robustvit.methods.afat import STRENGTHS, Afat, AfatConfig
from robustvit.methods.alignment import alignment_loss
from robustvit.methods.base import Step
from robustvit.methods.patch_corruption import cover_patches, draw_noise, keep_mask, random_scores
from robustvit.models.rvt import RVTBlock
from robustvit.recording.tape import record
from robustvit.recording.token_grids import token_stride
from robustvit.tasks.classification import Classification
from robustvit.training.forward import Forward, TrainedNetwork

CASE: dict[str, Any] = json.loads((Path(__file__).parents[1] / "reference" / "afat.json").read_text())["case4_full_step"]
IMAGENET = dict(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))


def alone(tensors: Sequence[Tensor]) -> None:
    """The reduction of a single process."""


def run_step(network: nn.Module, method: Afat, images: Tensor, loss_scale: float = 1.0, **options: Any) -> Step:
    """Forward, backward and C's gradient; the step of C is left to the test."""
    step = make_step(network, images, method, **options)
    loss = F.cross_entropy(step.outputs.answer, step.targets) + sum(method.terms(step).values())
    (loss_scale * step.share * loss).backward()
    method.after_backward(step, loss_scale)
    return step


def gradients_of(method: Afat) -> list[Tensor]:
    assert method.scorer is not None
    return [parameter.grad.clone() for parameter in method.scorer.parameters() if parameter.grad is not None]


class ReferenceNetwork(nn.Module):
    """The network of the reference: 2x2 patches of 8x8 pixels, two RVT blocks of width 8, mean over tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Conv2d(3, 8, 2, stride=2)
        self.blocks = nn.ModuleList([RVTBlock(8, 2, mlp_ratio=2) for _ in range(2)])
        self.head = nn.Linear(8, 5)
        for block in self.blocks:
            block.norm1.eps = block.norm2.eps = 1e-5

    def forward(self, x: Tensor) -> Tensor:
        z = self.embed(x).flatten(2).transpose(1, 2)
        for block in self.blocks:
            z = block(z, (4, 4))
        return self.head(z.mean(1))


@pytest.fixture
def reference(monkeypatch: pytest.MonkeyPatch) -> tuple[ReferenceNetwork, dict[str, Tensor]]:
    """The network and, by name, what else the reference draws; its noise takes the place of AFAT's own."""
    rs = np.random.RandomState(1)

    def draw(values: np.ndarray) -> Tensor:
        return torch.from_numpy(np.asarray(values, dtype="float32"))

    network = ReferenceNetwork().train()
    parameters = dict(network.named_parameters())
    for name, shape in CASE["parameters_in_order"]:
        values = 0.2 * rs.standard_normal(shape) + float(re.search(r"(norm|bn)\d\.weight$", name) is not None)
        own = parameters[name.replace(".mlp.", ".ffn.")]
        own.data = draw(values).view(own.shape)
    drawn = dict(conv=draw(0.5 * rs.standard_normal((1, 3, 2, 2))), fc=draw(0.25 * rs.standard_normal((16, 16))))
    drawn["x"] = draw(rs.standard_normal((4, 3, 8, 8)))
    drawn["noise"] = torch.stack([draw(rs.random_sample((4, 3, 8, 8))) for _ in range(2)])
    drawn["y"] = torch.from_numpy(rs.randint(0, 5, 4))
    monkeypatch.setattr(afat_module, "draw_noise", lambda x, *others: drawn["current noise"])
    return network, drawn


def reference_method(network: nn.Module, drawn: dict[str, Tensor], **options: Any) -> Afat:
    config = AfatConfig(rho=0.25, patch_size=2, variant="released", joint_batch=True, **options)
    method = config.build(context_of(network, img_size=(8, 8)))
    assert method.scorer is not None
    method.scorer.conv.weight.data, method.scorer.fc.weight.data = drawn["conv"].clone(), drawn["fc"].clone()
    return method


def reference_step(
    network: nn.Module, method: Afat, drawn: dict[str, Tensor], noise: Tensor, loss_scale: float = 1.0
) -> dict[str, Tensor]:
    """One step as the reference makes it; what it computed."""
    drawn["current noise"] = noise
    x, y = drawn["x"], drawn["y"]
    task = Classification()
    forward = Forward(TrainedNetwork(network, task, token_logits=False), network, task, method.needs)
    step = Step(
        task=task,
        network=network,
        forward=partial(forward, targets=F.one_hot(y, 5).float()),
        images=x,
        targets=F.one_hot(y, 5).float(),
        seeds=range(4),
        share=1.0,
        epoch=0.0,
        **IMAGENET,  # type: ignore[arg-type]
    )
    corrupted = method.companion(step)
    assert corrupted is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(method, "companion", lambda step: corrupted)  # made above, to be shown
        forward.run(step, [method])
    align, ce = method.terms(step)["afat"], F.cross_entropy(step.outputs.answer, y)
    (loss_scale * (ce + align)).backward()
    method.after_backward(step, loss_scale)
    return {"x^": corrupted.detach(), "align": align.detach() / method.config.weight, "ce": ce.detach()}


def occluded(x: Tensor, corrupted: Tensor) -> list[list[int]]:
    """The patches of 2x2 pixels that are no longer the clamped image."""
    mean, std = (torch.tensor(IMAGENET[name])[:, None, None] for name in ("mean", "std"))
    differs = (corrupted != torch.clamp(x, (0 - mean) / std, (1 - mean) / std)).any(1).float()
    return [row.nonzero().flatten().tolist() for row in F.max_pool2d(differs, 2).flatten(1)]


@pytest.mark.parametrize("loss_scale", [1.0, 1024.0])
@pytest.mark.parametrize("strength", ["1.0", "65536.0"])
def test_two_steps_of_the_released_program_equal_the_reference_whatever_the_loss_scale_is(
    reference: tuple[ReferenceNetwork, dict[str, Tensor]], strength: str, loss_scale: float
) -> None:
    network, drawn = reference
    options = dict(corruption_objective="total", corruption_grad_scale=0.005 * float(strength))
    method = reference_method(network, drawn, **options)
    assert method.scorer is not None
    for expected, noise in zip(CASE["results"][f"loss_scale={strength}"], drawn["noise"], strict=True):
        found = reference_step(network, method, drawn, noise, loss_scale)
        assert occluded(drawn["x"], found["x^"]) == expected["occluded"]
        assert found["ce"].item() == pytest.approx(expected["ce_clean"], abs=1e-5)
        assert found["align"].item() == pytest.approx(expected["align_official(sum/(L+1e-4))"], abs=1e-5)
        conv, fc = gradients_of(method)
        torch.testing.assert_close(conv, torch.tensor(expected["C_grad_conv"]), rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(fc[0], torch.tensor(expected["C_grad_fc_row0"]), rtol=1e-4, atol=1e-5)
        norm = method.update(alone)["afat_gradient_norm"]
        assert norm == pytest.approx(expected["C_grad_norm_before_clip"], rel=1e-4)
        weights = method.scorer.conv.weight, method.scorer.fc.weight
        torch.testing.assert_close(weights[0].data, torch.tensor(expected["C_conv_after_step"]), rtol=0, atol=1e-7)
        torch.testing.assert_close(weights[1][0].data, torch.tensor(expected["C_fc_row0_after_step"]), rtol=0, atol=1e-7)
        assert weights[1].double().sum().item() == pytest.approx(expected["C_fc_sum_after_step"], abs=1e-5)


def test_the_alignment_alone_moves_the_scorer_as_the_reference_says(
    reference: tuple[ReferenceNetwork, dict[str, Tensor]],
) -> None:
    network, drawn = reference

    def norm() -> float:
        method = reference_method(network, drawn, corruption_objective="align", corruption_grad_scale=0.005)
        reference_step(network, method, drawn, drawn["noise"][0])
        return method.update(alone)["afat_gradient_norm"]

    expected = CASE["results"]
    for _ in range(2):  # the running statistics of the reference are those after two passes
        assert norm() == pytest.approx(expected["C_grad_norm_from_lambda_align_only"], rel=1e-4)
    network.eval()
    assert norm() == pytest.approx(expected["same_with_BN_in_eval: align_only"], rel=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_gradients_reach_the_network_and_the_scorer_each_by_its_own_way(family: str) -> None:
    network = small_network(family)
    method = AfatConfig().build(context_of(network))
    assert method.scorer is not None
    step = make_step(network, pictures(), method)
    terms = method.terms(step)
    assert torch.isfinite(terms["afat"])
    assert terms["afat"] > 0
    (F.cross_entropy(step.outputs.answer, step.targets) + terms["afat"]).backward()
    assert all(parameter.grad is None for parameter in method.scorer.parameters())
    before = {name: p.grad.clone() for name, p in network.named_parameters() if p.grad is not None}
    assert any(value.abs().max() > 0 for value in before.values())
    method.after_backward(step, 1.0)
    assert all(gradient.abs().max() > 0 for gradient in gradients_of(method))
    for name, parameter in network.named_parameters():
        assert parameter.grad is None or torch.equal(parameter.grad, before[name])


@pytest.mark.parametrize("family", FAMILIES)
def test_a_step_leaves_no_trace_in_the_network(family: str) -> None:
    network = small_network(family).eval()
    expected, keys = network(pictures()), list(network.state_dict())
    hooks = [len(m._forward_hooks) + len(m._forward_pre_hooks) for m in network.modules()]
    method = AfatConfig().build(context_of(network))
    run_step(network, method, pictures())
    assert torch.equal(network(pictures()), expected)
    assert list(network.state_dict()) == keys
    assert [len(m._forward_hooks) + len(m._forward_pre_hooks) for m in network.modules()] == hooks


@pytest.mark.parametrize("family", FAMILIES)
def test_the_loss_falls_on_a_fixed_batch(family: str) -> None:
    network = small_network(family)
    method = AfatConfig(weight=0.05).build(context_of(network))
    optimizer = torch.optim.AdamW(network.parameters(), lr=2e-3)
    losses = []
    for _ in range(6):
        step = make_step(network, pictures(), method)
        loss = F.cross_entropy(step.outputs.answer, step.targets) + method.terms(step)["afat"]
        optimizer.zero_grad()
        loss.backward()
        method.after_backward(step, 1.0)
        optimizer.step()
        method.update(alone)
        losses.append(loss.item())
    assert losses[-1] < losses[0] - 0.1


@pytest.mark.parametrize("family", ["vit", "fan_vit"])
def test_the_scorer_climbs_where_its_gradient_is_not_clipped(family: str, shake: Callable[[nn.Module], nn.Module]) -> None:
    network = shake(small_network(family)).train()
    strength = torch.linspace(0, 1, 16).view(4, 4).repeat_interleave(8, 0).repeat_interleave(8, 1)
    images = pictures(8) * strength  # some patches matter more than others

    def rise(maximize: bool) -> float:
        options = dict(rho=0.2, patch_size=8, weight_decay=0.0, corruption_grad_scale=1e-3, lr=100.0)
        method = AfatConfig(**options).build(context_of(network))  # type: ignore[arg-type]
        method.optimizer.param_groups[0]["maximize"] = maximize
        heights = []
        for _ in range(12):
            step = make_step(network, images, method)
            align = method.terms(step)["afat"]
            (F.cross_entropy(step.outputs.answer, step.targets) + align).backward()
            method.after_backward(step, 1.0)
            method.update(alone)
            heights.append(align.item())
        return float(np.mean(heights[-3:])) / heights[0]

    assert rise(maximize=True) > 1 > rise(maximize=False)


def ratio_after_training_the_scorer_of(variant: str, updates: int) -> float:
    """L_align of the patches it then chooses over that of random ones, on other images; the shipped network is frozen."""
    network = rv.create_model("vit_nano", pretrained=True).eval().requires_grad_(False)
    method = AfatConfig(variant=variant).build(context_of(network))  # type: ignore[arg-type]
    scenes = Scenes("train", 16 * (updates + 4), (32, 32))
    for i in range(updates):
        run_step(network, method, scene_batch(scenes, i), seeds=range(16 * i, 16 * i + 16))
        method.update(alone)
    held_out = [make_step(network, scene_batch(scenes, updates + i), seeds=range(i, i + 16)) for i in range(4)]
    return float(np.mean([method.diagnose(step)["chosen_over_random"] for step in held_out]))


def scene_batch(scenes: Scenes, i: int) -> Tensor:
    return torch.stack([(scenes[j][0].float() / 255 - 0.5) / 0.25 for j in range(16 * i, 16 * i + 16)])


@pytest.mark.slow
def test_the_scorer_of_the_paper_soon_hurts_more_than_chance_where_the_released_one_does_not() -> None:
    assert ratio_after_training_the_scorer_of("paper", 25) > 3
    assert ratio_after_training_the_scorer_of("released", 25) < 2


@pytest.mark.parametrize("family", FAMILIES)
def test_the_diagnosis_is_the_ratio_of_two_losses_and_changes_nothing(family: str) -> None:
    network = small_network(family).train()
    method = AfatConfig(noise="zero").build(context_of(network))
    assert method.scorer is not None
    step = run_step(network, method, pictures())
    state, before = torch.get_rng_state(), {name: value.clone() for name, value in network.state_dict().items()}
    found = method.diagnose(step)
    assert network.training
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    random = random_scores(step.seeds, method.patches, step.images)
    network.eval()
    heights = []
    for scores in (method.scorer(step.images), random):
        covered = cover_patches(step.images, keep_mask(scores, 0.1), torch.zeros_like(step.images), step.mean, step.std)
        with torch.no_grad(), record(network, attention=False) as clean:
            network(step.images)
        with torch.no_grad(), record(network, attention=False) as spoiled:
            network(covered)
        heights.append(alignment_loss(clean.features, spoiled.features, prefix_tokens=clean.prefix_tokens).item())
    assert found == {"chosen_over_random": pytest.approx(heights[0] / heights[1], rel=1e-5)}
    assert AfatConfig(selection="random").build(context_of(network)).diagnose(step) == {}


def test_a_variant_says_how_its_scorer_climbs_but_for_what_is_given() -> None:
    assert AfatConfig().strength == STRENGTHS["paper"]
    assert AfatConfig(variant="released").strength == (327.68, 1.0, 1e-4)
    assert AfatConfig(variant="released", lr=0.5).strength == (327.68, 1.0, 0.5)
    given = AfatConfig(corruption_grad_scale=2.0, corruption_grad_clip=0.25, lr=0.0)
    assert given.strength == given.build(context_of(small_network("vit"))).strength == (2.0, 0.25, 0.0)


@pytest.mark.parametrize("family", ["vit", "fan_vit"])
@pytest.mark.parametrize("objective", ["align", "ce"])
def test_scores_move_along_the_gradient_of_the_objective(objective: str, family: str) -> None:
    network = small_network(family)
    options = dict(weight_decay=0.0, lr=1e-3, corruption_grad_scale=1.0, corruption_objective=objective, joint_batch=True)
    method = AfatConfig(**options).build(context_of(network))  # type: ignore[arg-type]
    assert method.scorer is not None
    before = method.scorer(pictures()).detach()
    step = make_step(network, pictures(), method)
    loss = F.cross_entropy(step.outputs.answer, step.targets) + method.terms(step)["afat"]
    loss.backward()
    method.after_backward(step, 1.0)
    method.update(alone)
    moved = method.scorer(pictures()).detach() - before

    def height(shift: float) -> float:  # of a mask that follows the scores a little
        keep = keep_mask(before, method.config.rho) + shift * moved / moved.norm()
        noise = draw_noise(step.images, "unit_normalised", step.mean, step.std, step.seeds)
        corrupted = cover_patches(step.images, keep, noise, step.mean, step.std)
        outputs = step.forward(torch.cat([corrupted, step.images]).double())
        if objective == "ce":
            return F.cross_entropy(outputs.answer[:4], step.targets.double()).item()
        assert outputs.tape is not None
        clean, spoiled = outputs.tape.part(4, 8, 8), outputs.tape.part(0, 4, 8)
        return alignment_loss(clean.features, spoiled.features, prefix_tokens=clean.prefix_tokens).item()

    network.double()
    assert height(0.01) > height(0.0) > height(-0.01)


def test_the_gradient_of_the_scorer_does_not_depend_on_how_it_is_taken() -> None:
    def gradients(unused_norm: bool, **options: Any) -> list[Tensor]:
        torch.manual_seed(0)
        network = small_network("vit")
        if unused_norm:  # batch statistics that nothing depends on: AFAT takes the gradient in a pass of its own
            network.add_module("unused", nn.BatchNorm2d(1))
        method = AfatConfig(**options).build(context_of(network))
        run_step(network, method, pictures(), loss_scale=options.pop("loss_scale", 256.0), share=0.25)
        return gradients_of(method)

    expected = gradients(unused_norm=True, joint_batch=True)
    for options in ({"joint_batch": True}, {"joint_batch": True, "corruption_objective": "total"}, {}):
        for found, wanted in zip(gradients(unused_norm=False, **options), expected, strict=True):
            torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("objective", ["align", "total", "ce"])
def test_micro_batches_and_processes_add_up_to_the_gradient_of_the_whole_batch(objective: str) -> None:
    network, images, labels = small_network("vit"), pictures(8), torch.arange(8)
    whole, parts, other = (AfatConfig(corruption_objective=objective).build(context_of(network)) for _ in range(3))  # type: ignore[arg-type]
    run_step(network, whole, images, labels=labels, seeds=range(8))
    for method, rows in ((parts, slice(0, 2)), (parts, slice(2, 4)), (other, slice(4, 8))):
        share = len(labels[rows]) / 8
        run_step(network, method, images[rows], labels=labels[rows], seeds=range(8)[rows], share=share)

    def add_other_process(gradients: Sequence[Tensor]) -> None:
        for mine, theirs in zip(gradients, gradients_of(other), strict=True):
            mine += theirs

    expected = whole.update(alone)
    assert parts.update(add_other_process) == pytest.approx(expected, rel=1e-4)
    assert whole.scorer is not None
    assert parts.scorer is not None
    for found, wanted in zip(parts.scorer.parameters(), whole.scorer.parameters(), strict=True):
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-7)


def test_a_restored_scorer_continues_identically() -> None:
    network = small_network("vit")
    method = AfatConfig(lr=0.01).build(context_of(network))
    for seed in (0, 1):
        run_step(network, method, pictures(seed=seed))
        method.update(alone)
    restored = AfatConfig(lr=0.01).build(context_of(network, seed=5))
    assert method.scorer is not None
    assert restored.scorer is not None
    assert not torch.equal(method.scorer.fc.weight, restored.scorer.fc.weight)
    state = {name: torch.load(_stored(part), weights_only=True) for name, part in method.state_dict().items()}
    restored.load_state_dict(state)
    for each in (method, restored):
        run_step(network, each, pictures(seed=2))
        each.update(alone)
    assert torch.equal(method.scorer.fc.weight, restored.scorer.fc.weight)
    assert torch.equal(method.scorer.conv.weight, restored.scorer.conv.weight)


def _stored(value: Any) -> io.BytesIO:
    buffer = io.BytesIO()
    torch.save(value, buffer)
    buffer.seek(0)
    return buffer


def test_the_scorer_starts_from_the_seed_of_the_run_and_leaves_global_randomness_alone() -> None:
    network = small_network("vit")
    state = torch.get_rng_state()
    one, same, other = (AfatConfig().build(context_of(network, seed=seed)).scorer for seed in (1, 1, 2))
    assert one is not None
    assert same is not None
    assert other is not None
    assert torch.equal(one.fc.weight, same.fc.weight)
    assert not torch.equal(one.fc.weight, other.fc.weight)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("selection", ["adversarial", "random"])
@pytest.mark.parametrize("noise", ["unit_normalised", "pixel_uniform", "zero"])
def test_what_happens_to_a_image_depends_on_its_seed_alone(selection: str, noise: str) -> None:
    network, images = small_network("vit"), pictures(6)
    method = AfatConfig(selection=selection, noise=noise, joint_batch=True).build(context_of(network))  # type: ignore[arg-type]
    whole = method.companion(make_step(network, images, seeds=range(6)))
    turned = method.companion(make_step(network, images[[4, 1]], seeds=[4, 1]))
    assert whole is not None
    assert turned is not None
    torch.testing.assert_close(turned, whole[[4, 1]], rtol=0, atol=0)
    covered = (whole != images).any(1).float()
    assert F.max_pool2d(covered, 4).sum((1, 2)).tolist() == [7] * 6  # floor(0.1 * 63) + 1 of 64
    if noise == "zero":
        assert whole[(whole != images).any(1, keepdim=True).expand_as(whole)].abs().max() == 0


def test_random_selection_trains_the_network_without_a_scorer() -> None:
    network = small_network("fan_vit")
    method = AfatConfig(selection="random").build(context_of(network))
    run_step(network, method, pictures())
    assert method.scorer is None
    assert method.update(alone) == {}
    assert method.state_dict() == {}
    assert any(p.grad is not None and p.grad.abs().max() > 0 for p in network.blocks.parameters())


def test_an_overflow_leaves_the_scorer_finite() -> None:
    network = small_network("vit")
    method = AfatConfig().build(context_of(network))
    run_step(network, method, pictures(), loss_scale=float("inf"))
    method.update(alone)
    assert method.scorer is not None
    assert all(torch.isfinite(parameter).all() for parameter in method.scorer.parameters())


def test_the_side_of_the_patches_is_that_of_most_tokens_and_asking_for_it_changes_nothing() -> None:
    sides = {family: token_stride(small_network(family), (32, 32)) for family in FAMILIES}
    assert sides == dict(fan_vit=4, fan_hybrid=16, fan_swin=4, rvt=4, vit=4, deit=4, swin=8)
    network = small_network("fan_vit")
    network.blocks[1].eval()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    assert token_stride(network, (64, 32)) == 4
    assert network.training
    assert not network.blocks[1].training
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    with refused(ValueError, "30x30"):
        token_stride(network, (30, 30))


def test_other_patch_sizes_and_long_images_work() -> None:
    network = small_network("fan_vit")
    method = AfatConfig(patch_size=8, joint_batch=True).build(context_of(network, img_size=(32, 64)))
    images = pictures().repeat(1, 1, 1, 2)
    step = run_step(network, method, images)
    assert method.scorer is not None
    assert method.scorer.grid == (4, 8)
    assert step.companions["afat"].answer.shape == (4, 10)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(weight=0), "weight=0 is not possible: give more than 0, or leave afat out"),
        (dict(rho=1.0), "rho=1.0 is not possible; give 0 or more and less than 1"),
        (dict(noise="black"), "noise='black' is not known; choose one of unit_normalised, pixel_uniform, zero"),
        (dict(lr=-1.0), "lr=-1.0 is not possible; give 0 or more, or null for what the variant has"),
        (dict(corruption_grad_clip=float("nan")), "corruption_grad_clip=nan is not possible"),
        (dict(corruption_objective="all"), "corruption_objective='all' is not known; choose one of align, total, ce"),
    ],
)
def test_wrong_options_are_explained(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        AfatConfig(**options)


@pytest.mark.parametrize(("family", "is_joint"), [("fan_vit", False), ("vit", True)])
def test_images_go_in_one_batch_by_default_only_where_no_batch_norm_mixes_them(family: str, is_joint: bool) -> None:
    context = context_of(small_network(family))
    assert AfatConfig().build(context).is_joint is is_joint
    assert AfatConfig(joint_batch=not is_joint).build(context).is_joint is not is_joint
