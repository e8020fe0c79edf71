"""Parameters of segmenters and detectors have the rates and decays that the published programs give them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import nn

import robustvit as rv
from robustvit.training.config import OptimizerConfig
from robustvit.training.optimization import build_optimizer

REFERENCE = json.loads((Path(__file__).parents[1] / "reference" / "dense" / "protocols.json").read_text())["parameter_groups"]
PUBLISHED = REFERENCE["fan_tiny_8_p4_hybrid/segformer"]
SEGMENTATION = OptimizerConfig(lr=6e-5, weight_decay=0.01, no_decay="layer_norms", head_rate=10)
DETECTION = OptimizerConfig(lr=1e-4, weight_decay=0.05, no_decay="layer_norms")


def described(group: dict[str, object]) -> str:
    return f"lr {group['lr']:g} weight_decay {group['weight_decay']:g}"


def grouped(network: nn.Module, config: OptimizerConfig) -> dict[str, set[str]]:
    """Rate and decay -> our names."""
    names = {id(parameter): name for name, parameter in network.named_parameters()}
    groups = build_optimizer(network, config, 8).param_groups
    return {described(group): {names[id(parameter)] for parameter in group["params"]} for group in groups}


@pytest.fixture(scope="module")
def found() -> dict[str, set[str]]:
    return grouped(rv.create_model("fan_hybrid_tiny/segformer", num_classes=19), SEGMENTATION)


def test_groups_of_a_segmenter_are_the_published_ones(found: dict[str, set[str]]) -> None:
    """Every published name carries the number of its group into our names; query, key and value become one tensor."""
    network = rv.create_model("fan_hybrid_tiny/segformer", num_classes=19, paired_position=False)
    kinds = list(PUBLISHED)
    marked = {name: torch.full((1,), float(kinds.index(kind))) for kind in kinds for name in PUBLISHED[kind]}
    ours = {name: value for name, value in network.native_weights(marked).items() if name not in network.unread_shapes}
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


def test_groups_of_a_detector_are_the_published_ones() -> None:
    """One rate for all. Of 373 tensors with decay, 27 are read by nothing; 16 of keys and values lie with their queries."""
    published = REFERENCE["fan_tiny_8_p4_hybrid/cascade_mask_rcnn"]
    network = rv.create_model("fan_hybrid_tiny/cascade_mask_rcnn", num_classes=80, paired_position=False)
    found = grouped(network, DETECTION)
    plain, free = "lr 0.0001 weight_decay 0.05", "lr 0.0001 weight_decay 0"
    assert (published[plain], len(published[free])) == (373, 68)
    assert found.keys() == published.keys()
    assert len(found[plain]) == 373 - 27 - 16
    assert found[free] == set(network.native_weights({name: torch.zeros(1) for name in published[free]}))


def test_norms_of_the_levels_of_a_detector_do_not_decay() -> None:
    """STL's; published as `out_norm0` to `out_norm3`."""
    network = rv.create_model("fan_hybrid_nano/mask_rcnn", num_classes=2, level_norms=True)
    found = grouped(network, DETECTION)
    norms = {name for name, _ in network.named_parameters() if "level_norms" in name}
    assert len(norms) == 8
    assert norms <= found["lr 0.0001 weight_decay 0"]
