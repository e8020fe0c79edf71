"""One step of training without the loop, on a small network of every family: what methods get to see, for their tests."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import robustvit as rv
from robustvit.methods.base import Method, MethodContext, MixedPart, Step
from robustvit.tasks.base import Task
from robustvit.tasks.classification import Classification
from robustvit.training.forward import Forward, TrainedNetwork, needs_of

MEAN, STD = (0.5, 0.5, 0.5), (0.25, 0.25, 0.25)


def make_step(
    network: nn.Module,
    images: Tensor,
    *methods: Method,
    num_classes: int = 10,
    labels: Tensor | None = None,
    targets: Tensor | None = None,
    seeds: Sequence[int] | None = None,
    share: float = 1.0,
    epoch: float = 0.0,
    progress: float = 0.0,
    view: Tensor | None = None,
    mixes: Sequence[MixedPart] = (),
    task: Task | None = None,
) -> Step:
    """A step up to the methods' terms, by the forward pass of the loop."""
    B = len(images)
    needs, task = needs_of(methods), task or Classification()
    forward = Forward(TrainedNetwork(network, task, needs.token_logits), network, task, needs)
    labels = torch.arange(B) % num_classes if labels is None else labels
    targets = F.one_hot(labels, num_classes).float() if targets is None else targets
    step = Step(
        task=task,
        network=network,
        forward=partial(forward, targets=targets),
        images=images,
        targets=targets,
        seeds=range(B) if seeds is None else seeds,
        share=share,
        epoch=epoch,
        progress=progress,
        mean=MEAN,
        std=STD,
        view=view,
        mixes=mixes,
    )
    forward.run(step, methods)
    return step


_VIT = {"img_size": 32, "patch_size": 4, "embed_dim": 32, "depth": 2, "num_heads": 2, "num_classes": 10}
# 11x11 tokens: windows of 4 need padding, and shifted ones have regions
_SWIN = {"img_size": 44, "window_size": 4, "embed_dim": 16, "depths": (2, 2), "num_heads": (1, 2), "num_classes": 10}

BACKBONES: dict[str, tuple[str, dict[str, Any], int]] = {
    "fan_vit": ("fan_vit_nano", {}, 32),
    "fan_hybrid": ("fan_hybrid_nano", {}, 64),
    "fan_swin": ("fan_swin_nano", {}, 32),
    "rvt": ("rvt_nano", {"masked_blocks": 2}, 32),
    "vit": ("vit_tiny_patch16_224", _VIT, 32),
    "deit": ("deit_tiny_distilled_patch16_224", _VIT, 32),
    "swin": ("swin_tiny_patch4_window7_224", _SWIN, 44),
}
"""name, arguments and side of the images"""


def build_backbone(key: str, **more: Any) -> nn.Module:
    """In training mode, with attention that is far from uniform, so that something is above the threshold."""
    name, options, _ = BACKBONES[key]
    network = rv.create_model(name, **{**options, **more}).train()
    with torch.no_grad():
        for parameter_name, parameter in network.named_parameters():
            if parameter_name.endswith(("qkv.weight", "attn.mask", "relative_position_bias_table")):
                parameter.add_(0.3 * torch.randn_like(parameter))
    return network


def pictures(key: str, batch: int = 2) -> Tensor:
    side = BACKBONES[key][2]
    return torch.randn(batch, 3, side, side)


def context_of(network: nn.Module, **more: Any) -> MethodContext:
    def no_network(*arguments: Any) -> nn.Module:
        raise AssertionError("this method needs no further network")

    known: dict[str, Any] = dict(num_classes=10, img_size=(32, 32), device=torch.device("cpu"), seed=0)
    return MethodContext(network, **{**known, "load_network": no_network, **more})
