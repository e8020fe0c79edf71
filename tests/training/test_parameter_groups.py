"""Parameters of a segmenter have the rates and decays that the published program gives them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import robustvit as rv
from robustvit.training.config import OptimizerConfig
from robustvit.training.optimization import build_optimizer

REFERENCE = json.loads((Path(__file__).parents[1] / "reference" / "dense" / "protocols.json").read_text())["parameter_groups"]
PUBLISHED = REFERENCE["fan_tiny_8_p4_hybrid/segformer"]
SEGMENTATION = OptimizerConfig(lr=6e-5, weight_decay=0.01, no_decay="layer_norms", head_rate=10)


def described(group: dict[str, object]) -> str:
    return f"lr {group['lr']:g} weight_decay {group['weight_decay']:g}"


@pytest.fixture(scope="module")
def found() -> dict[str, set[str]]:
    """Rate and decay -> our names."""
    network = rv.create_model("fan_hybrid_tiny/segformer", num_classes=19)
    names = {id(parameter): name for name, parameter in network.named_parameters()}
    groups = build_optimizer(network, SEGMENTATION, 8).param_groups
    return {described(group): {names[id(parameter)] for parameter in group["params"]} for group in groups}


def test_groups_of_a_segmenter_are_the_published_ones(found: dict[str, set[str]]) -> None:
    """Every published name carries the number of its group into our names; query, key and value become one tensor."""
    network = rv.create_model("fan_hybrid_tiny/segformer", num_classes=19, paired_position=False)
    kinds = list(PUBLISHED)
    marked = {name: torch.full((1,), float(kinds.index(kind))) for kind in kinds for name in PUBLISHED[kind]}
    ours = network.native_weights(marked)
    assert set(ours) == {name for names in found.values() for name in names}
    for kind, names in found.items():
        assert {kinds[int(value)] for name in names for value in ours[name].tolist()} == {kind}


def test_all_but_unused_tensors_are_there(found: dict[str, set[str]]) -> None:
    """27 tensors of class attention and 2 of the head are read by nothing; 16 of keys and values lie with their queries."""
    counts = {kind: len(names) for kind, names in found.items()}
    published = {kind: len(names) for kind, names in PUBLISHED.items()}
    assert published == {"lr 6e-05 weight_decay 0.01": 259, "lr 6e-05 weight_decay 0": 68, "lr 0.0006 weight_decay 0.01": 15}
    assert counts == {
        "lr 6e-05 weight_decay 0.01": 259 - 27 - 16,
        "lr 6e-05 weight_decay 0": 68,
        "lr 0.0006 weight_decay 0.01": 15 - 2,
    }
