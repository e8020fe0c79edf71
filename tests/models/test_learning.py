"""Every network can be trained: gradients, groups of parameters, checkpointing, stochastic depth."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from shallow_networks import EVERY_NETWORK, NANO, images, shallow
from timm.optim import param_groups_layer_decay
from torch import nn


@pytest.mark.parametrize("name", EVERY_NETWORK)
@pytest.mark.parametrize("options", [{}, {"tap": 4, "token_head": True}], ids=["plain", "tap+tokens"])
def test_every_parameter_learns(name: str, options: dict[str, Any]) -> None:
    model = shallow(name, **options).train()
    if options:
        class_logits, token_logits = model.forward_tokens(images(name))
        assert token_logits.ndim == 3
        loss = class_logits.square().mean() + token_logits.square().mean()
    else:
        loss = model(images(name)).square().mean()
    loss.backward()
    assert loss.isfinite()
    assert [n for n, p in model.named_parameters() if p.grad is None or not p.grad.isfinite().all()] == []


def in_order(model: Any) -> list[nn.Module]:
    """The parts of a network in the order in which an image goes through them."""
    if hasattr(model, "layers"):
        stages = [part for stage in model.layers for part in (stage.downsample, *stage.blocks)]
        return [model.patch_embed, *stages, model.norm, model.head]
    if hasattr(model, "stages"):
        stages = [part for i, stage in enumerate(model.stages) for part in (*model.downsamples[max(i - 1, 0) : i], *stage)]
        return [model.patch_embed, *stages, model.norm, model.head]
    blocks = list(model.blocks)
    if model.downsample is not None:
        blocks.insert(model.downsample_after + 1, model.downsample)
    return [model.patch_embed, *blocks, *model.cls_attn_blocks, model.norm, model.head]


@pytest.mark.parametrize("name", EVERY_NETWORK)
def test_layer_decay_groups_hold_every_parameter_once(name: str) -> None:
    model = shallow(name)
    groups = param_groups_layer_decay(model, weight_decay=0.05, layer_decay=0.5)
    grouped = [id(p) for group in groups for p in group["params"]]
    assert sorted(grouped) == sorted(id(p) for p in model.parameters())
    assert len({group["lr_scale"] for group in groups}) >= 4
    scale = {id(p): group["lr_scale"] for group in groups for p in group["params"]}
    depth = [scale[id(p)] for module in in_order(model) for p in module.parameters()]
    assert depth == sorted(depth)
    assert model.no_weight_decay() <= {n for n, _ in model.named_parameters()}


@pytest.mark.parametrize("name", EVERY_NETWORK)
def test_gradient_checkpointing_changes_no_gradient(name: str) -> None:
    model = shallow(name, drop_path_rate=0.0).train()
    x = images(name)
    gradients = []
    for enabled in (False, True):
        fresh = copy.deepcopy(model)
        fresh.set_grad_checkpointing(enabled)
        fresh(x).square().sum().backward()
        gradients.append({n: p.grad for n, p in fresh.named_parameters()})
    torch.testing.assert_close(gradients[0], gradients[1])


@pytest.mark.parametrize("name", NANO)
@pytest.mark.parametrize(
    ("rule", "rates"), [("constant", [0.3, 0.3, 0.3]), ("linear", [0.0, 0.15, 0.3]), ("rvt", [0, 0.1, 0.2])]
)
def test_stochastic_depth_follows_its_rule(name: str, rule: str, rates: list[float]) -> None:
    depths = {"swin": (1, 1, 1), "rvt": (3,), "fan": (3,)}["swin" if "swin" in name else name[:3]]
    widths = {} if "swin" in name else dict(embed_dims=(96,), num_heads=(4,))
    heads = dict(num_heads=(1, 2, 4)) if "swin" in name else {}
    feature_block = dict(feature_block=1) if "hybrid" in name else {}
    masks = dict(masked_blocks=0) if name.startswith("rvt") else {}
    model = shallow(name, depths=depths, drop_path_rate=0.3, drop_path_rule=rule, **widths, **heads, **feature_block, **masks)
    blocks = [m for m in model.modules() if hasattr(m, "attn") and hasattr(m, "norm1") and not hasattr(m, "forward_patches")]
    drops = [getattr(b, "drop_path", None) or b.drop_path1 for b in blocks]
    assert [round(getattr(d, "drop_prob", 0.0), 6) for d in drops] == rates
