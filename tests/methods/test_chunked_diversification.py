"""ADL in chunks has the values and the gradients of ADL on whole maps, and keeps no map."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused
from steps import BACKBONES, build_backbone, context_of, make_step, pictures
from torch import Tensor

import robustvit as rv
from robustvit.methods import attention_diversification, chunked_attention_diversification
from robustvit.methods.adl import AdlConfig
from robustvit.recording.tape import AttentionRows


def random_rows(B: int = 2, heads: int = 3, N: int = 20, gated: bool = False) -> AttentionRows:
    q, k = (3 * torch.randn(B, heads, N, 8) for _ in range(2))
    gate = torch.randn(heads, N, N).requires_grad_() if gated else None
    return AttentionRows(q.requires_grad_(), k.requires_grad_(), scale=8**-0.5, gate=gate)


def value_and_gradients(loss: Tensor, rows: AttentionRows) -> list[Tensor]:
    leaves = [leaf for leaf in (rows.q, rows.k, rows.gate) if leaf is not None]
    return [loss.detach(), *torch.autograd.grad(loss, leaves)]


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    batch=st.integers(1, 3),
    chunk=st.integers(1, 30),
    prefix_tokens=st.integers(0, 2),
    tau=st.sampled_from([0.5, 1.0, 2.0]),
    variant=st.sampled_from(["paper", "released"]),
    per_head=st.booleans(),
    gated=st.booleans(),
)
def test_values_and_gradients_equal_those_of_whole_maps(
    seed: int, batch: int, chunk: int, gated: bool, **options: Any
) -> None:
    torch.manual_seed(seed)
    rows = random_rows(batch, gated=gated)
    whole = value_and_gradients(attention_diversification([rows.compute()], **options), rows)
    chunked = value_and_gradients(chunked_attention_diversification([rows], chunk=chunk, **options), rows)
    torch.testing.assert_close(chunked, whole, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("variant", ["paper", "released"])
@pytest.mark.parametrize("key", BACKBONES)
def test_every_parameter_of_a_network_gets_the_same_gradient(key: str, variant: str) -> None:
    # in float64: fused and explicit attention differ by rounding, which may push an entry over the threshold
    network, images = build_backbone(key).double(), pictures(key).double()
    found = []
    for chunk in (0, 7):
        network.zero_grad()
        method = AdlConfig(chunk=chunk, variant=variant, tau=1.0).build(context_of(network))  # type: ignore[arg-type]
        loss = method.terms(make_step(network, images, method))["adl"]
        loss.backward()
        found.append({"loss": loss.detach()} | {n: p.grad for n, p in network.named_parameters() if p.grad is not None})
    torch.testing.assert_close(found[1], found[0], rtol=1e-8, atol=1e-8)
    assert max(float(g.abs().max()) for n, g in found[0].items() if n != "loss") > 1e-3


@pytest.mark.parametrize("key", BACKBONES)
def test_in_float32_gradients_of_one_forward_pass_are_the_same(key: str) -> None:
    network = build_backbone(key)
    with rv.record(network) as tape:
        network(pictures(key))
    options: dict[str, Any] = dict(prefix_tokens=tape.prefix_tokens, regions=tape.regions)
    parameters = [p for name, p in network.named_parameters() if ".attn." in name]
    losses = (
        attention_diversification(tape.attention, **options),
        chunked_attention_diversification(tape.rows, chunk=7, **options),
    )
    whole, chunked = (torch.autograd.grad(x, parameters, retain_graph=True, materialize_grads=True) for x in losses)
    torch.testing.assert_close(losses[1], losses[0], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(chunked, whole, rtol=1e-5, atol=1e-5)


def test_no_map_is_kept_for_the_backward_pass() -> None:
    rows = random_rows(1, heads=2, N=64)
    kept: list[int] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x.numel()) or x, lambda x: x):
        chunked_attention_diversification([rows], chunk=16)
    assert max(kept, default=0) < 64 * 64
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x.numel()) or x, lambda x: x):
        attention_diversification([rows.compute()])
    assert max(kept) == 2 * 64 * 64


def test_layers_weigh_the_same_whatever_their_size() -> None:
    layers = [random_rows(N=12), random_rows(N=30)]
    single = [chunked_attention_diversification([layer], chunk=8) for layer in layers]
    torch.testing.assert_close(chunked_attention_diversification(layers, chunk=8), torch.stack(single).mean())


def test_wrong_requests_are_explained() -> None:
    with refused(ValueError, "attention rows", "gradients"):
        chunked_attention_diversification([], chunk=8)
    with refused(ValueError, "chunk=0"):
        chunked_attention_diversification([random_rows()], chunk=0)
    with refused(ValueError, "use chunk=0"):
        chunked_attention_diversification([None], chunk=8)
    random = AttentionRows(torch.rand(1, 1, 4, 2), torch.rand(1, 1, 4, 2), scale=1.0, dropout=0.1)
    with refused(ValueError, "dropout", 0.1, "use chunk=0"):
        chunked_attention_diversification([random], chunk=8)
