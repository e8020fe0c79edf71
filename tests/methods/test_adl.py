"""ADL as a method: on every backbone, of the batch's own images alone, and without a trace in the network."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from refusals import refused
from steps import BACKBONES, build_backbone, context_of, make_step, pictures
from torch import Tensor, nn

from robustvit.methods import attention_diversification
from robustvit.methods.adl import AdlConfig
from robustvit.methods.base import Method, Step

CHUNKS = pytest.mark.parametrize("chunk", [0, 7])
EVERY_BACKBONE = pytest.mark.parametrize("key", BACKBONES)


def adl_of(network: nn.Module, images: Tensor, **options: Any) -> Tensor:
    method = AdlConfig(**options).build(context_of(network))
    return method.terms(make_step(network, images, method))["adl"]


class Companion(Method):
    """Sends noise through the network with the images."""

    name = "companion"

    def companion(self, step: Step) -> Tensor:
        return torch.randn_like(step.images)


@CHUNKS
@EVERY_BACKBONE
def test_the_loss_is_finite_and_its_gradient_reaches_attention_and_not_the_classifier(key: str, chunk: int) -> None:
    network = build_backbone(key)
    loss = adl_of(network, pictures(key), chunk=chunk)
    loss.backward()
    assert 0 < loss.item() < 1
    reached = {name for name, parameter in network.named_parameters() if parameter.grad is not None}
    assert all(parameter.grad.isfinite().all() for parameter in network.parameters() if parameter.grad is not None)
    projections = [name for name, _ in network.named_parameters() if name.endswith("attn.qkv.weight")]
    assert reached.issuperset(projections)
    assert all(network.get_parameter(name).grad.abs().max() > 0 for name in projections if not _has_tiny_windows(key, name))
    assert not {name for name in reached if name.startswith("head")}


def _has_tiny_windows(key: str, name: str) -> bool:
    return key == "fan_swin" and name.startswith(("layers.2", "layers.3"))  # windows of 4 and 1 tokens may have no entry above


@CHUNKS
@EVERY_BACKBONE
def test_the_network_stays_as_it_was(key: str, chunk: int) -> None:
    network = build_backbone(key).eval()
    images = pictures(key)
    expected, keys = network(images), list(network.state_dict())
    hooks = _hooks(network)
    adl_of(network, images, chunk=chunk).backward()
    assert torch.equal(network(images), expected)
    assert list(network.state_dict()) == keys
    assert _hooks(network) == hooks


def _hooks(network: nn.Module) -> int:
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) + len(m._backward_hooks) for m in network.modules())


@CHUNKS
@EVERY_BACKBONE
def test_the_loss_of_a_batch_is_the_mean_over_its_images(key: str, chunk: int) -> None:
    network, images = build_backbone(key).eval(), pictures(key, 3)
    single = torch.stack([adl_of(network, image[None], chunk=chunk) for image in images])
    assert single.std() > 1e-4
    torch.testing.assert_close(adl_of(network, images, chunk=chunk), single.mean(), rtol=1e-4, atol=1e-6)


@CHUNKS
@EVERY_BACKBONE
def test_companions_of_other_methods_do_not_count(key: str, chunk: int) -> None:
    network, images = build_backbone(key).eval(), pictures(key)
    method = AdlConfig(chunk=chunk).build(context_of(network))
    step = make_step(network, images, Companion(), method)
    assert step.companions["companion"].answer.shape == step.outputs.answer.shape
    torch.testing.assert_close(method.terms(step)["adl"], adl_of(network, images, chunk=chunk), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("key", "chunk"), [*((key, 0) for key in BACKBONES), ("fan_vit", 32)])
def test_the_loss_falls_on_a_fixed_batch(key: str, chunk: int) -> None:
    network, images = build_backbone(key).eval(), pictures(key)  # without stochastic depth
    method = AdlConfig(chunk=chunk).build(context_of(network))
    optimizer = torch.optim.Adam([p for name, p in network.named_parameters() if ".attn." in name], lr=3e-4)
    losses = []
    for _ in range(16):
        optimizer.zero_grad()
        loss = method.terms(make_step(network, images, method))["adl"]
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert min(losses[-2:]) < 0.95 * losses[0], losses


@CHUNKS
def test_the_weight_multiplies_and_the_options_are_those_of_the_equation(chunk: int) -> None:
    network, images = build_backbone("vit").eval(), pictures("vit")
    method = AdlConfig(chunk=chunk).build(context_of(network))
    reading = AdlConfig().build(context_of(network))
    maps = make_step(network, images, reading).outputs.tape.attention
    cases: list[tuple[dict[str, Any], Tensor]] = [
        ({}, attention_diversification(maps, prefix_tokens=1)),
        ({"weight": 0.5}, attention_diversification(maps, prefix_tokens=1) / 2),
        ({"tau": 3.0}, attention_diversification(maps, prefix_tokens=1, tau=3.0)),
        ({"prefix": "include"}, attention_diversification(maps)),
        ({"per_head": True}, attention_diversification(maps, prefix_tokens=1, per_head=True)),
        ({"variant": "released", "tau": 0.5}, attention_diversification(maps, prefix_tokens=1, tau=0.5, variant="released")),
        ({"layers": (-1,)}, attention_diversification(maps[-1:], prefix_tokens=1)),
    ]
    for options, expected in cases:
        torch.testing.assert_close(adl_of(network, images, chunk=chunk, **options), expected, rtol=1e-5, atol=1e-6)
    assert len({round(expected.item(), 5) for _, expected in cases}) == len(cases)
    assert method.needs.attention == (chunk == 0)


def test_shifted_windows_are_compared_within_their_regions() -> None:
    network, images = build_backbone("swin").eval(), pictures("swin")
    method = AdlConfig().build(context_of(network))
    step = make_step(network, images, method)
    tape = step.outputs.tape
    expected = attention_diversification(tape.attention, regions=tape.regions)
    torch.testing.assert_close(method.terms(step)["adl"], expected)
    assert abs(expected.item() - attention_diversification(tape.attention).item()) > 1e-3


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_the_equation_is_computed_in_float32_in_mixed_precision(dtype: torch.dtype) -> None:
    network, images = build_backbone("swin").eval(), pictures("swin")
    method = AdlConfig().build(context_of(network))
    with torch.autocast("cpu", dtype):
        step = make_step(network, images, method)
        mixed = method.terms(step)["adl"]
    tape = step.outputs.tape
    expected = attention_diversification([maps.float() for maps in tape.attention], regions=tape.regions)
    torch.testing.assert_close(mixed, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"variant": "code"}, "variant='code' is not known; choose one of paper, released"),
        ({"tau": -1.0}, "tau=-1 is not possible; give 0 or more"),
        ({"weight": 0.0}, "weight=0.0 is not possible: give more than 0, or leave adl out"),
        ({"chunk": -2}, "chunk=-2 is not a number of rows"),
        ({"prefix": "only"}, "prefix='only' is not known; choose 'exclude' or 'include'"),
        ({"layers": "last"}, "layers='last' is not known; give 'all' or indices"),
        ({"layers": (0, 2)}, r"layers=\[0, 2\]: this network has 2 blocks"),
        ({"layers": ()}, r"layers=\[\]: this network has 2 blocks"),
    ],
)
def test_wrong_options_are_explained(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        AdlConfig(**options).build(context_of(build_backbone("vit")))


def test_attention_whose_rows_cannot_be_computed_again_is_refused_in_chunks_alone() -> None:
    network = build_backbone("vit", attn_drop_rate=0.1)
    AdlConfig().build(context_of(network))
    with refused(ValueError, "block 0", "attn_drop_rate=0.1", "use chunk=0"):
        AdlConfig(chunk=8).build(context_of(network))
    rotary = nn.Module()
    rotary.attn = nn.Module()
    rotary.attn.attn_drop, rotary.attn.fused_attn = nn.Dropout(0.0), False
    AdlConfig().build(context_of(rotary))
    with refused(ValueError, "block 0", "Module", "use chunk=0"):
        AdlConfig(chunk=8).build(context_of(rotary))


def test_a_step_without_a_recording_is_refused() -> None:
    network = build_backbone("vit")
    with pytest.raises(ValueError, match="nothing was recorded"):
        AdlConfig().build(context_of(network)).terms(make_step(network, pictures("vit")))


@pytest.mark.parametrize(
    ("start", "ramp", "expected"),
    [
        (0.0, 0.0, {0.0: 1.0, 0.5: 1.0, 1.0: 1.0}),
        (0.5, 0.0, {0.0: 0.0, 0.49: 0.0, 0.5: 1.0, 1.0: 1.0}),
        (0.0, 0.5, {0.0: 0.0, 0.25: 0.5, 0.5: 1.0, 0.75: 1.0}),
        (0.25, 0.5, {0.2: 0.0, 0.25: 0.0, 0.5: 0.5, 0.75: 1.0, 1.0: 1.0}),
    ],
)
def test_the_weight_is_zero_before_the_start_and_grows_over_the_ramp(
    start: float, ramp: float, expected: dict[float, float]
) -> None:
    network, images = build_backbone("vit").eval(), pictures("vit")
    whole = adl_of(network, images, weight=0.5)
    method = AdlConfig(weight=0.5, start=start, ramp=ramp).build(context_of(network))
    for progress, share in expected.items():
        step = make_step(network, images, method, progress=progress)
        found = method.terms(step)["adl"]
        torch.testing.assert_close(found, share * whole, msg=f"at {progress}")
        assert found.requires_grad == (share > 0)
        assert method.diagnose(step)["weight_share"] == share


@pytest.mark.parametrize(
    ("options", "named"),
    [({"start": -0.1}, "start=-0.1"), ({"ramp": 2.0}, "ramp=2.0"), ({"start": 0.7, "ramp": 0.4}, "start=0.7 and ramp=0.4")],
)
def test_a_start_beyond_the_training_is_refused(options: dict[str, Any], named: str) -> None:
    with refused(ValueError, named, "give"):
        AdlConfig(**options)


@pytest.mark.parametrize("key", ["vit", "swin", "rvt"])
def test_diagnostics_are_the_same_with_whole_maps_and_with_chunks(key: str) -> None:
    network, images = build_backbone(key).eval(), pictures(key)
    found = []
    for chunk in (0, 7):
        method = AdlConfig(chunk=chunk).build(context_of(network))
        found.append(method.diagnose(make_step(network, images, method)))
    assert found[0] == pytest.approx(found[1], rel=1e-4)
    assert 0 < found[0]["rows_counted"] <= 1
    assert found[0]["entropy"] < 1


def test_uniform_attention_is_a_concern_once_the_loss_has_begun() -> None:
    network, images = build_backbone("vit").eval(), pictures("vit")
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if ".attn.qkv." in name:
                parameter.zero_()
    method = AdlConfig(start=0.5).build(context_of(network))
    early, late = (method.diagnose(make_step(network, images, method, progress=p)) for p in (0.4, 0.6))
    assert late == {**early, "weight_share": 1.0}
    assert late["rows_counted"] == 0
    assert late["entropy"] == pytest.approx(1.0, abs=1e-5)
    assert method.concern(early) is None
    assert "methods.adl.start" in str(method.concern(late))
    assert method.concern({**late, "rows_counted": 0.21}) is None
