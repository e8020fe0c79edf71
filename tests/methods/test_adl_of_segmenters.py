"""ADL has the values and gradients of the published segmentation program, where that keeps the images of a batch apart."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch
from dense_weights import FOLDER, SEGMENTERS, assert_described, dense_weights
from reference_weights import reference_input
from torch import Tensor

import robustvit as rv
from robustvit.methods import attention_diversification, chunked_attention_diversification
from robustvit.recording.tape import AttentionRows

CASES: list[dict[str, Any]] = json.loads((FOLDER / "adl.json").read_text())["cases"]
MADE_UP = [case for case in CASES if "seed" in case]
OF_NETWORK = next(case for case in CASES if "network" in case)
REFERENCE = {"released": "released_keeping_batch", "paper": "paper"}


def scores(case: dict[str, Any], layer: int) -> Tensor:
    """Whose softmax are the maps of a layer [B, heads, N, N]."""
    B, heads, N = case["batch"], case["heads"], case["tokens"]
    Z = np.random.RandomState(case["seed"] + layer).standard_normal((B, heads, N, N)).astype("float32")
    Z[..., : case["focus"]] += 3
    return torch.from_numpy(np.float32(case["scale"]) * Z)


@pytest.mark.parametrize("variant", REFERENCE)
@pytest.mark.parametrize("case", MADE_UP, ids=lambda case: f"{case['batch']}x{case['tokens']}")
def test_values_and_gradients_of_maps_are_the_published_ones(case: dict[str, Any], variant: str) -> None:
    maps = [scores(case, i).softmax(-1).requires_grad_() for i in range(case["layers"])]
    loss = attention_diversification(maps, tau=case["tau"], variant=variant)  # type: ignore[arg-type]
    name = REFERENCE[variant]
    assert loss.item() == pytest.approx(case[name], rel=1e-5, abs=1e-7)
    norms = [gradient.norm().item() for gradient in torch.autograd.grad(loss, maps)]
    assert norms == pytest.approx(case[f"{name}_gradient_norm"], rel=1e-4, abs=1e-8)


@pytest.mark.parametrize("chunk", [5, 64])
@pytest.mark.parametrize("variant", REFERENCE)
@pytest.mark.parametrize("case", MADE_UP, ids=lambda case: f"{case['batch']}x{case['tokens']}")
def test_chunks_give_the_published_values(case: dict[str, Any], variant: str, chunk: int) -> None:
    N = case["tokens"]
    k = torch.eye(N).expand(case["batch"], case["heads"], N, N)  # q k^T = q: rows with given scores
    rows = [AttentionRows(scores(case, i).requires_grad_(), k, scale=1.0) for i in range(case["layers"])]
    loss = chunked_attention_diversification(rows, chunk=chunk, tau=case["tau"], variant=variant)  # type: ignore[arg-type]
    assert loss.item() == pytest.approx(case[REFERENCE[variant]], rel=1e-5, abs=1e-7)


def test_one_image_alone_counts_though_the_published_program_then_adds_nothing() -> None:
    alone = [case for case in MADE_UP if case["batch"] == 1 and case["focus"]]
    assert alone
    assert all(case["released"] == 0 and case["released_keeping_batch"] > 0.9 for case in alone)


@pytest.fixture(scope="module")
def published() -> Any:
    name = f"{OF_NETWORK['network']}/segformer"
    return rv.from_official(name, dense_weights(SEGMENTERS[name])).eval()


@pytest.mark.parametrize(("batch", "released"), [(2, "batch2_released"), (1, "batch1_keeping_batch")])
def test_attention_of_a_tap_segmenter_has_the_published_adl(published: Any, batch: int, released: str) -> None:
    images = reference_input(*OF_NETWORK["input"])[:batch]
    with rv.record(published) as tape:
        published(images)
    if batch == 2:
        assert_described(tape.attention[0].detach(), OF_NETWORK["first_map"])
    assert len(tape.attention) == OF_NETWORK["layers"]
    for tau in (1, 2):
        expected = OF_NETWORK[f"tau{tau}"]
        for variant, key in (("released", released), ("paper", f"batch{batch}_paper")):
            whole = attention_diversification(tape.attention, tau=tau, variant=variant)  # type: ignore[arg-type]
            chunked = chunked_attention_diversification(tape.rows, chunk=16, tau=tau, variant=variant)  # type: ignore[arg-type]
            assert [whole.item(), chunked.item()] == pytest.approx([expected[key]] * 2, rel=1e-5, abs=1e-6)
