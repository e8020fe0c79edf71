"""Parameters and FLOPs as the papers print them.

Ours may differ: papers do not say what they count. docs/papers.md names the FLOPs and parameters that do, with the printed
numbers that are not here because the papers contradict each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["PUBLISHED_COSTS", "PublishedCost", "published_costs"]


@dataclass(frozen=True)
class PublishedCost:
    """One row of a table.

    Attributes:
        network: as `create_model` takes it.
        parameters: in millions.
        flops: multiply-adds of an image of 224 x 224 pixels, in billions.
        source: paper and table.
        options: further arguments of `create_model`.
    """

    network: str
    parameters: float
    flops: float
    source: str
    options: Mapping[str, Any] = field(default_factory=dict)


_FAN_1, _FAN_8, _TAP_1, _STL, _AFAT = "FAN, Table 1", "FAN, Table 8", "TAP and ADL, Table 1", "STL, Table 2", "AFAT, Table 2"
_TAP_2 = "TAP and ADL, Table 2"

PUBLISHED_COSTS = (
    PublishedCost("fan_vit_tiny", 7.3, 1.4, _FAN_1),
    PublishedCost("fan_vit_small", 28.3, 5.3, _FAN_1),
    PublishedCost("fan_vit_base", 54.0, 10.4, _FAN_1),
    PublishedCost("fan_vit_large", 80.5, 15.8, _FAN_1),
    PublishedCost("fan_hybrid_tiny", 7, 3.5, _FAN_8),
    PublishedCost("fan_hybrid_small", 26, 6.7, _FAN_8),
    PublishedCost("fan_hybrid_base", 50, 11.3, _FAN_8),
    PublishedCost("fan_hybrid_base", 50.4, 11.7, _TAP_2),
    PublishedCost("fan_hybrid_large", 77, 16.9, _FAN_8),
    PublishedCost("fan_hybrid_base", 50.4, 11.7, _TAP_1, {"tap": "avg3x3"}),
    PublishedCost("fan_hybrid_base", 50.7, 11.8, _TAP_1, {"tap": 4}),
    PublishedCost("fan_hybrid_base", 50.7, 11.8, _TAP_1, {"tap": "multi_kernel4"}),
    PublishedCost("fan_hybrid_base", 79.4, 17.3, _TAP_1, {"tap": "conv3x3"}),
    PublishedCost("fan_hybrid_base", 130.7, 27.4, _TAP_1, {"tap": "conv5x5"}),
    PublishedCost("fan_hybrid_tiny", 8, 3.6, _STL, {"token_head": True}),
    PublishedCost("fan_hybrid_small", 27, 6.8, _STL, {"token_head": True}),
    PublishedCost("fan_hybrid_base", 51, 11.4, _STL, {"token_head": True}),
    PublishedCost("fan_hybrid_large", 77, 17.0, _STL, {"token_head": True}),
    PublishedCost("rvt_tiny_plus", 10.9, 1.3, _AFAT),
    PublishedCost("rvt_small_plus", 23.3, 4.7, _AFAT),
    PublishedCost("rvt_base_plus", 91.8, 17.7, _AFAT),
    PublishedCost("rvt_base_plus", 92.1, 17.9, _TAP_2, {"tap": 4}),
    PublishedCost("resnet50", 25.6, 4.1, _AFAT),
    PublishedCost("deit_small_patch16_224", 22.1, 4.6, _AFAT),
    PublishedCost("swin_tiny_patch4_window7_224", 28.3, 4.5, _AFAT),
)


def published_costs(network: str) -> tuple[PublishedCost, ...]:
    """The rows of a network without further arguments."""
    return tuple(cost for cost in PUBLISHED_COSTS if cost.network == network and not cost.options)
