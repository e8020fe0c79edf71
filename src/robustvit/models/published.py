"""Where the authors publish their weights: data for the registry, with the scores they report.

`url` can be fetched by a program. `page` needs a browser; the file is then given to `robustvit.from_official`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["PUBLISHED", "PublishedWeights"]

_FAN = "https://github.com/zhoudaquan/fully_attentional_network_ckpt/releases/download/v1.0.0/"
_RSPC = "https://github.com/guoyongcs/RSPC/releases/download/"
_TAP = "https://github.com/guoyongcs/TAPADL/releases/download/v1.0/"
_CIFAR10 = dict(mean=(0.49139968, 0.48215827, 0.44653124), std=(0.24703233, 0.24348505, 0.26158768), crop_pct=0.875)
_CIFAR100 = dict(mean=(0.50707516, 0.48654887, 0.44091784), std=(0.26733429, 0.25643846, 0.27615047), crop_pct=0.875)
_RSPC_CROP = dict(crop_pct=0.875)
"""The authors of RSPC measured FAN at 256 -> 224 pixels; FAN's own crop is 1.0."""
_DRIVE = "https://drive.google.com/file/d/"


@dataclass(frozen=True)
class PublishedWeights:
    """One weight file.

    Args:
        architecture: our name of the network.
        tag: timm's tag, `recipe_data`.
        published_name: the authors' name of the network, as `from_official` takes it.
        url: address that a program can fetch.
        page: address that only a browser can open.
        input_size: side of the images, in pixels.
        num_classes: None where the authors do not say; the network is then built without a classifier.
        preprocessing: mean, std and crop_pct where they are not the network's own.
        model_args: what the network needs besides its name to fit the file.
        reported: the authors' scores: accuracies (of segmenters mIoU), `_mce` and `_mfr`, in percent. That on ImageNet-C is
            FAN's and STL's mean over 17 corruptions, `fan17`.
    """

    architecture: str
    tag: str
    published_name: str
    url: str | None = None
    page: str | None = None
    input_size: int = 224
    num_classes: int | None = 1000
    preprocessing: Mapping[str, Any] = field(default_factory=dict)
    model_args: Mapping[str, Any] = field(default_factory=dict)
    reported: Mapping[str, float] = field(default_factory=dict)

    def how_to_get(self) -> str:
        """What to do about a file behind a browser page."""
        return (
            f"the weights {self.architecture}.{self.tag} lie behind a browser page: open {self.page} , save the file, then "
            f"{self.how_to_load()}"
        )

    def how_to_load(self) -> str:
        """What to do with a file that was fetched by other means."""
        return f'give it as {self.published_name}=FILE (in Python: robustvit.from_official("{self.published_name}", FILE))'


PUBLISHED: tuple[PublishedWeights, ...] = (
    PublishedWeights(
        "fan_vit_tiny",
        "fan_in1k",
        "fan_tiny_12_p16_224",
        url=_FAN + "fan_vit_tiny.pth.tar",
        reported={"imagenet": 79.2, "imagenet_c_fan17": 57.5, "imagenet_a": 15.6, "imagenet_r": 42.5},
    ),
    PublishedWeights(
        "fan_vit_small",
        "fan_in1k",
        "fan_small_12_p16_224",
        url=_FAN + "fan_vit_small.pth.tar",
        reported={"imagenet": 82.5, "imagenet_c_fan17": 64.5, "imagenet_a": 29.1, "imagenet_r": 50.4},
    ),
    PublishedWeights(
        "fan_vit_base",
        "fan_in1k",
        "fan_base_18_p16_224",
        url=_FAN + "fan_vit_base.pth.tar",
        reported={"imagenet": 83.6, "imagenet_c_fan17": 67.0, "imagenet_a": 35.4, "imagenet_r": 51.8},
    ),
    PublishedWeights(
        "fan_hybrid_tiny",
        "fan_in1k",
        "fan_tiny_8_p4_hybrid",
        url=_FAN + "fan_hybrid_tiny.pth.tar",
        reported={"imagenet": 80.1, "imagenet_c_fan17": 57.4},
    ),
    PublishedWeights(
        "fan_hybrid_small",
        "fan_in1k",
        "fan_small_12_p4_hybrid",
        url=_FAN + "fan_hybrid_small.pth.tar",
        reported={"imagenet": 83.5, "imagenet_c_fan17": 64.7},
    ),
    PublishedWeights(
        "fan_hybrid_base",
        "fan_in1k",
        "fan_base_16_p4_hybrid",
        url=_FAN + "fan_hybrid_base.pth.tar",
        reported={"imagenet": 83.9, "imagenet_c_fan17": 66.4},
    ),
    PublishedWeights(
        "fan_hybrid_base",
        "fan_in22k_ft_in1k",
        "fan_base_16_p4_hybrid",
        url=_FAN + "fan_hybrid_base_in22k_1k.pth.tar",
        reported={"imagenet": 85.3, "imagenet_c_fan17": 70.5},
    ),
    PublishedWeights(
        "fan_hybrid_base",
        "fan_in22k_ft_in1k_384",
        "fan_base_16_p4_hybrid",
        url=_FAN + "fan_hybrid_base_in22k_1k_384.pth.tar",
        input_size=384,
        reported={"imagenet": 85.6},
    ),
    PublishedWeights(
        "fan_hybrid_large",
        "fan_in22k_ft_in1k",
        "fan_large_16_p4_hybrid",
        url=_FAN + "fan_hybrid_large_in22k_1k.pth.tar",
        reported={"imagenet": 86.5, "imagenet_c_fan17": 73.6},
    ),
    PublishedWeights(
        "fan_hybrid_large",
        "fan_in22k_ft_in1k_384",
        "fan_large_16_p4_hybrid",
        url=_FAN + "fan_hybrid_large_in22k_1k_384.pth.tar",
        input_size=384,
        reported={"imagenet": 87.1},
    ),
    PublishedWeights(
        "fan_hybrid_base",
        "fan_in22k",
        "fan_base_16_p4_hybrid",
        url=_FAN + "fan_hybrid_base_in22k.pth.tar",
        num_classes=None,
    ),
    PublishedWeights(
        "fan_hybrid_large",
        "fan_in22k",
        "fan_large_16_p4_hybrid",
        url=_FAN + "fan_hybrid_large_in22k.pth.tar",
        num_classes=None,
    ),
    PublishedWeights(
        "rvt_tiny_plus",
        "rspc_in1k",
        "rvt_tiny_plus",
        url=_RSPC + "v1.0/rspc_rvt_tiny.pth.tar",
        reported={"imagenet": 79.5, "imagenet_c_mce": 55.7, "imagenet_a": 16.5, "imagenet_p_mfr": 38.0},
    ),
    PublishedWeights(
        "rvt_small_plus",
        "rspc_in1k",
        "rvt_small_plus",
        url=_RSPC + "v1.0/rspc_rvt_small.pth.tar",
        reported={"imagenet": 82.2, "imagenet_c_mce": 48.4, "imagenet_a": 27.9, "imagenet_p_mfr": 34.3},
    ),
    PublishedWeights(
        "rvt_base_plus",
        "rspc_in1k",
        "rvt_base_plus",
        url=_RSPC + "v1.0/rspc_rvt_base.pth.tar",
        reported={"imagenet": 82.8, "imagenet_c_mce": 45.7, "imagenet_a": 32.1, "imagenet_p_mfr": 31.0},
    ),
    PublishedWeights(
        "fan_hybrid_tiny",
        "rspc_in1k",
        "fan_tiny_8_p4_hybrid",
        url=_RSPC + "v1.0/rspc_fan_tiny.pth.tar",
        preprocessing=_RSPC_CROP,
        reported={"imagenet": 80.3, "imagenet_c_mce": 57.2, "imagenet_a": 23.6, "imagenet_p_mfr": 37.3},
    ),
    PublishedWeights(
        "fan_hybrid_small",
        "rspc_in1k",
        "fan_small_12_p4_hybrid",
        url=_RSPC + "v1.0/rspc_fan_small.pth.tar",
        preprocessing=_RSPC_CROP,
        reported={"imagenet": 83.6, "imagenet_c_mce": 47.5, "imagenet_a": 36.8, "imagenet_p_mfr": 33.5},
    ),
    PublishedWeights(
        "fan_hybrid_base",
        "rspc_in1k",
        "fan_base_16_p4_hybrid",
        url=_RSPC + "v1.0/rspc_fan_base.pth.tar",
        preprocessing=_RSPC_CROP,
        reported={"imagenet": 84.2, "imagenet_c_mce": 44.5, "imagenet_a": 41.1, "imagenet_p_mfr": 30.0},
    ),
    PublishedWeights(
        "rvt_small_plus",
        "rspc_cifar10",
        "rvt_small_plus_cifar10",
        url=_RSPC + "v1.1/rspc_rvt_small_cifar10.pth.tar",
        num_classes=10,
        preprocessing=_CIFAR10,
        reported={"cifar10": 97.73, "cifar10_c": 94.14},
    ),
    PublishedWeights(
        "fan_hybrid_small",
        "rspc_cifar10",
        "fan_small_12_p4_hybrid_cifar10",
        url=_RSPC + "v1.1/rspc_fan_small_cifar10.pth.tar",
        num_classes=10,
        preprocessing=_CIFAR10,
        reported={"cifar10": 98.06, "cifar10_c": 94.59},
    ),
    PublishedWeights(
        "rvt_small_plus",
        "rspc_cifar100",
        "rvt_small_plus_cifar100",
        url=_RSPC + "v1.1/rspc_rvt_small_cifar100.pth.tar",
        num_classes=100,
        preprocessing=_CIFAR100,
        reported={"cifar100": 84.81, "cifar100_c": 74.94},
    ),
    PublishedWeights(
        "fan_hybrid_small",
        "rspc_cifar100",
        "fan_small_12_p4_hybrid_cifar100",
        url=_RSPC + "v1.1/rspc_fan_small_cifar100.pth.tar",
        num_classes=100,
        preprocessing=_CIFAR100,
        reported={"cifar100": 85.3, "cifar100_c": 75.72},
    ),
    PublishedWeights(
        "fan_hybrid_tiny",
        "stl_in1k",
        "fan_tiny_8_p4_hybrid_token",
        page=_DRIVE + "1fiUzJs-9eq9CKay9OamTL4czwUtSeuMq/view",
        model_args={"token_head": True},
        reported={"imagenet": 79.9, "imagenet_c_fan17": 58.2, "imagenet_a": 23.7, "imagenet_r": 42.5},
    ),
    PublishedWeights(
        "fan_hybrid_small",
        "stl_in1k",
        "fan_small_12_p4_hybrid_token",
        page=_DRIVE + "1RnN7wF0j-fZtdDLXszEWAVwETCyNhBNM/view",
        model_args={"token_head": True},
        reported={"imagenet": 83.4, "imagenet_c_fan17": 65.5, "imagenet_a": 38.2, "imagenet_r": 51.8},
    ),
    PublishedWeights(
        "fan_hybrid_base",
        "stl_in1k",
        "fan_base_16_p4_hybrid_token",
        page=_DRIVE + "1d7Yi48eEL7X68CfQ62dG69PRHe5LEnWG/view",
        model_args={"token_head": True},
        reported={"imagenet": 84.5, "imagenet_c_fan17": 68.2, "imagenet_a": 42.6, "imagenet_r": 55.3},
    ),
    PublishedWeights(
        "fan_hybrid_large",
        "stl_in1k",
        "fan_large_16_p4_hybrid_token",
        page=_DRIVE + "1JXM7WxlOwciaK3dalPD4UDqbph-8wUlo/view",
        model_args={"token_head": True},
        reported={"imagenet": 84.7, "imagenet_c_fan17": 68.8, "imagenet_a": 46.1, "imagenet_r": 56.6},
    ),
    PublishedWeights(
        "fan_hybrid_tiny",
        "stl_labeler_in1k",
        "fan_tiny_8_p4_hybrid_token",
        page=_DRIVE + "19H58ISQmp4UE-tJb0S4LRMrwngmYkLYn/view",
        model_args={"token_head": True},
    ),
    PublishedWeights(
        "fan_hybrid_small",
        "stl_labeler_in1k",
        "fan_small_12_p4_hybrid_token",
        page=_DRIVE + "1RhAchy8GbEZjSMGBcj9i6Tkd0CDHRQoy/view",
        model_args={"token_head": True},
    ),
    PublishedWeights(
        "fan_hybrid_base",
        "stl_labeler_in1k",
        "fan_base_16_p4_hybrid_token",
        page=_DRIVE + "1-7mQK-UuV8rnB1MVhf7NJIdLAG9qHim3/view",
        model_args={"token_head": True},
    ),
    PublishedWeights(
        "fan_hybrid_large",
        "stl_labeler_in1k",
        "fan_large_16_p4_hybrid_token",
        page=_DRIVE + "1w5NYL9c8uPmIjSeacLUDwpiWdEGdG5Lc/view",
        model_args={"token_head": True},
    ),
    PublishedWeights(
        "rvt_tiny",
        "rvt_in1k",
        "rvt_tiny",
        page=_DRIVE + "1L500fTe3MRNSfrd3bjfbMDk0M11D-bZR/view",
        reported={"imagenet": 78.4},
    ),
    PublishedWeights(
        "rvt_small",
        "rvt_in1k",
        "rvt_small",
        page=_DRIVE + "1YW19LnWNZnx5tn0x-z-4Oypb4ZGD4QYr/view",
        reported={"imagenet": 81.7},
    ),
    PublishedWeights(
        "rvt_base",
        "rvt_in22k_in1k",
        "rvt_base",
        page=_DRIVE + "134cHKCAz_IJ91G5fvqNCZBjZ9Z62YQDm/view",
        reported={"imagenet": 83.4},
    ),
    PublishedWeights(
        "rvt_tiny_plus",
        "rvt_in1k",
        "rvt_tiny_plus",
        page=_DRIVE + "1zKq6_WT2Y4eHHSARmdU-CkA3rttysPd7/view",
        reported={"imagenet": 79.3},
    ),
    PublishedWeights(
        "rvt_small_plus",
        "rvt_in1k",
        "rvt_small_plus",
        page=_DRIVE + "1g40huqDVthjS2H5sQV3ppcfcWEzn9ekv/view",
        reported={"imagenet": 81.8},
    ),
    PublishedWeights(
        "rvt_base_plus",
        "rvt_in22k_in1k",
        "rvt_base_plus",
        page=_DRIVE + "13pEjHNij9YPjCyI7_sOAVQ7FfFgWaC5W/view",
        reported={"imagenet": 83.6},
    ),
    PublishedWeights(
        "fan_hybrid_base",
        "tapadl_in1k",
        "tap_fan_base_16_p4_hybrid",
        url=_TAP + "tapadl_fan_base.pth.tar",
        model_args={"tap": 4},
        reported={"imagenet": 84.3, "imagenet_c_mce": 43.7, "imagenet_a": 42.3, "imagenet_p_mfr": 29.2},
    ),
    PublishedWeights(
        "rvt_base_plus",
        "tapadl_in1k",
        "tap_rvt_base_plus",
        url=_TAP + "tapadl_rvt_base.pth.tar",
        model_args={"tap": 4, "ffn": "conv"},
        reported={"imagenet": 83.1, "imagenet_c_mce": 44.7, "imagenet_a": 32.7, "imagenet_p_mfr": 29.6},
    ),
    PublishedWeights(
        "fan_hybrid_base/segformer",
        "tapadl_cityscapes",
        "tap_fan_base_16_p4_hybrid/segformer",
        url=_TAP + "tapadl_fan_base_segmentation.pth",
        input_size=1024,
        num_classes=19,
        reported={"cityscapes": 82.9, "cityscapes_c": 69.7, "acdc": 63.6},
    ),
)
