"""Published network names and our networks for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

__all__ = ["OFFICIAL", "OfficialNetwork"]


class OfficialNetwork(NamedTuple):
    """Our network for a published name: `create_model(architecture, **model_args)`."""

    architecture: str
    model_args: Mapping[str, Any]


_FAN = {
    "fan_tiny_12_p16_224": "fan_vit_tiny",
    "fan_small_12_p16_224": "fan_vit_small",
    "fan_base_18_p16_224": "fan_vit_base",
    "fan_large_24_p16_224": "fan_vit_large",
    "fan_tiny_8_p4_hybrid": "fan_hybrid_tiny",
    "fan_small_12_p4_hybrid": "fan_hybrid_small",
    "fan_base_16_p4_hybrid": "fan_hybrid_base",
    "fan_large_16_p4_hybrid": "fan_hybrid_large",
    "fan_Xlarge_16_p4_hybrid": "fan_hybrid_xlarge",
}
_SWIN = {f"fan_swin_{size}_patch4_window7_224": f"fan_swin_{size}" for size in ("tiny", "small", "base", "large")}
_RVT = [f"rvt_{size}{plus}" for size in ("tiny", "small", "base") for plus in ("", "_plus")]
_TOKEN = ("fan_tiny_8_p4_hybrid", "fan_small_12_p4_hybrid", "fan_base_16_p4_hybrid", "fan_large_16_p4_hybrid")
_CIFAR = {"rvt_small_plus": "rvt_small_plus", "fan_small_12_p4_hybrid": "fan_hybrid_small"}

OFFICIAL: Mapping[str, OfficialNetwork] = {
    **{name: OfficialNetwork(ours, {}) for name, ours in (_FAN | _SWIN).items()},
    "fan_small_12_p16_224_se_attn": OfficialNetwork("fan_vit_small_se", {}),
    **{f"tap_{name}": OfficialNetwork(ours, {"tap": 4}) for name, ours in _FAN.items()},
    # the released TAP-FAN-Swin swallows the option: it is FAN-Swin
    **{f"tap_{name}": OfficialNetwork(ours, {}) for name, ours in _SWIN.items()},
    **{f"{name}_token": OfficialNetwork(_FAN[name], {"token_head": True}) for name in _TOKEN},
    **{name: OfficialNetwork(name, {}) for name in _RVT},
    # every released TAP-RVT has the convolutional FFN, the base size too
    **{f"tap_{name}": OfficialNetwork(name, {"tap": 4, "ffn": "conv"}) for name in _RVT},
    **{f"{name}_cifar{k}": OfficialNetwork(ours, {"num_classes": k}) for name, ours in _CIFAR.items() for k in (10, 100)},
}
"""Published name -> our network, for every network of FAN, TAP-FAN, STL, RVT, TAP-RVT and RSPC on CIFAR."""
