"""Networks of every kind by name: classifiers, BACKBONE/HEAD, and folders of either."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from robustvit.layers.linear import quicken
from robustvit.models.building import build_by_name, note_size
from robustvit.models.dense import DenseNetwork
from robustvit.models.dense_names import DETECTION_BACKBONE, DETECTION_HEADS, DenseName, dense_name
from robustvit.models.detector import OPTIONS as DETECTOR_OPTIONS
from robustvit.models.detector import build_detector
from robustvit.models.initialisation import coming_seed, named_initialisation
from robustvit.models.levels import build_backbone
from robustvit.models.saved_folder import LOCAL, buildable, read_saved_config, weights_in
from robustvit.models.segmenter import OPTIONS as SEGMENTER_OPTIONS
from robustvit.models.segmenter import build_segmenter
from robustvit.models.sources import weights_file
from robustvit.models.weights_into import load_weights

__all__ = ["build_network"]

HEAD_OPTIONS = frozenset(DETECTOR_OPTIONS).union(*SEGMENTER_OPTIONS.values()) - {"embed_dim"}
"""Arguments that are of some head, and never of a backbone; `embed_dim` is that of a ViT where the head has none."""
CITYSCAPES_CLASSES, COCO_CLASSES = 19, 80


def build_network(name: str, pretrained: bool = False, **options: Any) -> Any:
    """The network of a name; see `create_model` for name and options."""
    if name.startswith(LOCAL):
        folder = name.removeprefix(LOCAL)
        config = read_saved_config(folder)
        dense = dense_name(config.get("architecture", ""))
        if dense is not None:
            return _saved(folder, dense, config, pretrained, options)
    dense = dense_name(name)
    return build_by_name(name, pretrained, **options) if dense is None else _dense(dense, pretrained, **options)


def _dense(
    name: DenseName,
    pretrained: bool,
    *,
    num_classes: int | None = None,
    backbone_weights: str | Path | None = None,
    **options: Any,
) -> Any:
    """A dense network; `pretrained` and `backbone_weights` are about the weights of its backbone."""
    if options.get("features_only"):
        raise ValueError(f"{name} is a dense network, which has `forward_features`; give {name.backbone} for features_only")
    if options.pop("token_head", False) or options.pop("token_fusion", False):
        raise ValueError(f"{name} has no classifier of tokens; leave token_head and token_fusion out")
    detects = name.head in (*DETECTION_HEADS, DETECTION_BACKBONE)
    if num_classes is None:
        num_classes = COCO_CLASSES if detects else CITYSCAPES_CLASSES
    if num_classes < 1:
        raise ValueError(f"num_classes={num_classes} is not possible for {name}; give at least 1")
    size = options.pop("img_size", None)
    known = DETECTOR_OPTIONS if detects else SEGMENTER_OPTIONS[name.head]
    of_head = {key: options.pop(key) for key in known if key in options}
    if unknown := [key for key in options if key in HEAD_OPTIONS]:
        raise ValueError(f"{name.head} has no option {unknown[0]}; it has {', '.join(known)}")
    level, seed = "conv" if detects else "same", coming_seed()  # of the head: the same one whatever the backbone draws
    backbone = build_backbone(name.backbone, pretrained, img_size=size, last_level=options.pop("last_level", level), **options)
    if name.head == DETECTION_BACKBONE:
        return DenseNetwork(backbone, 0)
    with named_initialisation(seed) as initialise:
        network: Any = (build_detector if detects else build_segmenter)(name.head, backbone, num_classes, **of_head)
        initialise(network)
    quicken(network)
    network.pretrained_cfg["architecture"] = str(name)
    if backbone_weights is not None:
        network.initialise_backbone(weights_file(backbone_weights))
    return note_size(network, size)


def _saved(folder: str, name: DenseName, config: dict[str, Any], pretrained: bool, options: dict[str, Any]) -> Any:
    """A dense network of a folder that `robustvit train` wrote; another number of classes gets a fresh classifier."""
    cfg, parts = config.get("pretrained_cfg", {}), {k: v for k, v in config.get("robustvit", {}).items() if k != "task"}
    own = {key: value for key, value in config.get("model_args", {}).items() if key != "backbone_weights"}
    given = {"num_classes": config.get("num_classes"), **own, **parts, **options}
    with buildable(folder):
        network = _dense(name, False, **{key: value for key, value in given.items() if value is not None})
    network.pretrained_cfg |= {key: cfg[key] for key in ("input_size", "mean", "std") if key in cfg}
    network.pretrained_cfg |= {key: config[key] for key in ("label_names",) if config.get(key)}
    if pretrained:
        network.fresh_parts = load_weights(network, weights_in(folder))
    if network.num_classes != config.get("num_classes"):
        network.pretrained_cfg.pop("label_names", None)
    return network
