"""Networks with the weights that the authors published, by the authors' names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from robustvit.models.building import build_by_name
from robustvit.models.dense_names import DETECTION_BACKBONE, DETECTION_HEADS, DenseName, dense_name
from robustvit.models.names import OFFICIAL, OfficialNetwork
from robustvit.models.networks import build_network
from robustvit.models.published_tensors import without_single_branch
from robustvit.models.weights_into import load_weights, weights_of
from robustvit.runtime.spelling import nearest
from robustvit.runtime.weights import CheckpointError

__all__ = ["from_official"]


def from_official(
    published_name: str,
    source: str | Path | Mapping[str, Any],
    *,
    num_classes: int | None = None,
    use_ema: bool = True,
    **model_args: Any,
) -> Any:
    """A network with published weights.

    Args:
        published_name: the authors' name, such as `fan_tiny_12_p16_224` or `tap_rvt_base_plus`; of a segmenter or detector
            with its head, `tap_fan_base_16_p4_hybrid/segformer`, `fan_small_12_p4_hybrid/cascade_mask_rcnn`. STL's are
            `stl_fan_small_12_p4_hybrid/...`; of these the backbone alone is `.../detection_backbone`. What its file
            has and nothing reads is left out; `dropped_weights` of the network names it.
        source: checkpoint file, or a state dict, also inside `state_dict`, `state_dict_ema`, `model` or with `module.` before
            its names. Files are read as weights only.
        num_classes: another number than the checkpoint's starts a fresh classifier.
        use_ema: take averaged weights where there are any.
        **model_args: for the network, e.g. `img_size=(256, 192)` or `drop_path_rate=0.1`.

    Returns:
        The network, in training mode as PyTorch builds it.

    Example:
        >>> model = from_official("tap_fan_base_16_p4_hybrid", "tapadl_fan_base.pth.tar").eval()
    """
    dense = dense_name(published_name)
    backbone = published_name if dense is None else published_backbone(dense)
    if backbone not in OFFICIAL:
        same = [name for name, network in OFFICIAL.items() if network.architecture == backbone]
        hint = f"; the authors call it {' or '.join(same)}" if same else nearest(backbone, OFFICIAL)
        raise ValueError(f"{backbone!r} is not a published name{hint or '; robustvit.OFFICIAL lists them'}")
    if dense is not None:
        return _published_dense(dense._replace(backbone=backbone), source, num_classes, use_ema, model_args)
    network = OFFICIAL[published_name]
    given = weights_of(source, use_ema)
    arguments = {**network.model_args, **_inferred_arguments(given, network)}
    if num_classes is not None:
        arguments["num_classes"] = num_classes
    model = build_by_name(published_name, **{**arguments, **model_args})
    load_weights(model, without_single_branch(given))
    return model


PUBLISHED_FIT = (1333, 800)
"""(longer, shorter side) that detectors are measured at."""
_STL = "stl_"
_OTHER_NAMES = {"fan_base_12_p4_hybrid": "fan_base_16_p4_hybrid", "fan_large_12_p4_hybrid": "fan_large_16_p4_hybrid"}
"""What the authors' detection programs call their networks -> what the others call them."""
_OF_CLASSIFIERS = ("backbone.norm.", "backbone.head.")
"""What published dense networks do not have of a classifier."""


def published_backbone(name: DenseName) -> str:
    """The published classifier that a published dense network is made of. STL's may differ by norms of its levels, which their
    weights tell."""
    own = name.backbone.removeprefix(_STL)
    return _OTHER_NAMES.get(own, own)


def _published_dense(
    name: DenseName, source: str | Path | Mapping[str, Any], num_classes: int | None, use_ema: bool, model_args: dict[str, Any]
) -> Any:
    """Its position encoding is not the classifier's, its levels are those of the authors' programs."""
    given = without_single_branch(weights_of(source, use_ema))
    arguments: dict[str, Any] = dict(paired_position=False)
    published = None if name.head == DETECTION_BACKBONE else _published_classes(given, detects=name.head in DETECTION_HEADS)
    if published is not None:
        arguments["num_classes"] = published
    if name.head == "setr_pup":
        arguments["auxiliary_units"] = 2 if "auxiliary_head.0.up_convs.1.0.conv.weight" in given else 1
    if name.head in DETECTION_HEADS:
        arguments["fit"] = PUBLISHED_FIT
    if any(key.startswith("backbone.out_norm") for key in given):
        arguments["level_norms"] = True
    if num_classes is not None:
        arguments["num_classes"] = num_classes
    network = build_network(str(name), **{**arguments, **model_args})
    load_weights(network, given, other_classes=num_classes not in (None, published))
    _check_whole(network)
    network.implied_args = {key: value for key, value in arguments.items() if key != "num_classes"}  # also of its copies
    return network


def _check_whole(network: Any) -> None:
    """Raises CheckpointError where weights lack what nothing reads: then they are not the published file."""
    lacking = [name for name in network.unread_shapes if name not in network.dropped_weights]
    if lacking := [name for name in lacking if not name.startswith(_OF_CLASSIFIERS)]:
        more = f" and {len(lacking) - 1} more" if lacking[1:] else ""
        raise CheckpointError(
            f"these weights lack {lacking[0]}{more}: nothing reads them, but published files have them; give the whole file"
        )


def _published_classes(weights: Mapping[str, Tensor], *, detects: bool) -> int:
    """Without the background that detectors count."""
    if detects:
        boxes = next(
            (w for n, w in weights.items() if n.startswith("roi_head.bbox_head.") and n.endswith("fc_cls.weight")), None
        )
        if boxes is None or boxes.ndim != 2:
            raise CheckpointError("these weights have no box head (roi_head.bbox_head); give a published detector's")
        return int(boxes.shape[0]) - 1
    heads = [
        weights[f"decode_head.{layer}.weight"]
        for layer in ("linear_pred", "conv_seg")
        if f"decode_head.{layer}.weight" in weights
    ]
    if not heads or heads[0].ndim != 4:
        raise CheckpointError("these weights have no segmentation head (decode_head); give a published segmenter's")
    return int(heads[0].shape[0])


def _inferred_arguments(weights: Mapping[str, Tensor], network: OfficialNetwork) -> dict[str, Any]:
    """What the names and shapes of a checkpoint say about the variant of `network` that it was made with."""
    arguments: dict[str, Any] = {}
    if "head.weight" in weights and weights["head.weight"].ndim == 2:
        arguments["num_classes"] = weights["head.weight"].shape[0]
    predictor = next((w for n, w in weights.items() if n.endswith("dilation_predictor.proj.0.weight")), None)
    if predictor is not None and predictor.ndim == 4 and "tap" in network.model_args:
        arguments["tap"] = predictor.shape[0]
    with torch.device("meta"):  # only to ask it
        return arguments | build_by_name(network.architecture).variant_of(weights)
