"""Which parameters have another learning rate, or no weight decay, where timm's own rule is not wanted.

The published segmenters and detectors go by names. Of the rest of the network, what is called `norm` has no decay; their batch
norms are called otherwise, as are the layer norms of the stem and of the down-sampling, so these decay, as do all biases,
scales and temperatures. Heads, whatever they contain, decay and learn ten times as fast. Our batch norms are called `norm`,
too: the rule is therefore about norms that are no batch norms.
"""

from __future__ import annotations

from typing import Any

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from robustvit.training.config import OptimizerConfig

__all__ = ["is_of_head", "parameter_groups"]


def parameter_groups(network: nn.Module, config: OptimizerConfig, rate: float) -> list[dict[str, Any]]:
    """The groups of a torch optimizer: with and without decay, of the body and of the heads; empty ones are left out.

    Args:
        network: whose parameters are trained.
        config: `no_decay`, `weight_decay` and `head_rate`.
        rate: peak learning rate of the body.
    """
    excepted = _layer_norms(network) if config.no_decay == "layer_norms" else _excepted_by_timm(network)
    groups: dict[tuple[bool, bool], list[nn.Parameter]] = {
        (is_head, is_excepted): [] for is_head in (False, True) for is_excepted in (False, True)
    }
    for name, parameter in network.named_parameters():
        if parameter.requires_grad:
            groups[is_of_head(name), name in excepted].append(parameter)
    return [
        {
            "params": parameters,
            "lr": rate * (config.head_rate if is_head else 1),
            "weight_decay": 0.0 if is_excepted else config.weight_decay,
        }
        for (is_head, is_excepted), parameters in groups.items()
        if parameters
    ]


def is_of_head(name: str) -> bool:
    """Whether a parameter is of a head: `decode_head.fuse.conv.weight`, `auxiliary_heads.0.norm.bias`, `head.weight`."""
    return any(part.endswith(("head", "heads")) for part in name.split("."))


def _layer_norms(network: nn.Module) -> set[str]:
    """Parameters of norms of the body that are called so, and are not batch norms."""
    found = set()
    for name, module in network.named_modules():
        if "norm" in name and not isinstance(module, _BatchNorm) and not is_of_head(name):
            found |= {f"{name}.{own}" for own, _ in module.named_parameters(recurse=False)}
    return found


def _excepted_by_timm(network: nn.Module) -> set[str]:
    """Biases, what has one dimension, and what the network names: timm's rule."""
    named = set(network.no_weight_decay()) if hasattr(network, "no_weight_decay") else set()  # type: ignore[operator]
    return named | {name for name, p in network.named_parameters() if p.ndim <= 1 or name.endswith(".bias")}
