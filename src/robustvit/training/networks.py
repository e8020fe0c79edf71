"""The network of a run: built from its configuration, started from other weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from robustvit.models.loading import built_with
from robustvit.models.registry import create_model
from robustvit.models.sources import weights_file
from robustvit.models.weights_into import load_weights
from robustvit.tasks.base import Task
from robustvit.training.config import AugmentConfig, ModelConfig

__all__ = ["frozen_network", "initialisation_notes", "model_options", "network_of"]


def model_options(config: ModelConfig, num_classes: int) -> dict[str, Any]:
    """The arguments of `create_model` for this configuration."""
    given: dict[str, Any] = dict(num_classes=num_classes, **config.options)
    if config.drop_path is not None:
        given["drop_path_rate"] = config.drop_path
    if config.img_size is not None:
        given["img_size"] = config.img_size
    if config.tap is not None:
        given.update(tap=config.tap, tap_blocks=config.tap_blocks)
    if config.token_head:
        given["token_head"] = True
    return given


def network_of(task: Task, config: ModelConfig, outputs: int, augment: AugmentConfig) -> Any:
    """The network of a run, built by its task; its `pretrained_cfg` has size, crop and normalisation of this run.

    Weights to start from may lack what is to be trained: TAP, the token head, a classifier of these classes.
    """
    options = model_options(config, outputs)
    with built_with(config.name, options):
        del options["num_classes"]
        network: Any = task.build(config.name, config.pretrained, outputs=outputs, **options)
    if config.checkpoint:
        load_weights(network, weights_file(config.checkpoint), fresh=("classifier", "tap", "token_head"))
    _describe(network, config, augment)
    return network


_NAMED = 3
"""Tensors that a note names; the others are counted."""


def initialisation_notes(network: Any) -> list[str]:
    """What a reader should know of a backbone that started from weights of a classifier; empty where it did not."""
    initialised = getattr(network, "initialised", None)
    if initialised is None:
        return []
    missing, unused = map(_counted, initialised)
    started = "the backbone started from the weights of a classifier"
    return [f"{started}; missing there, so left at their initial values: {missing}; unused: {unused}"]


def _counted(names: Sequence[str]) -> str:
    """ "5 (a, b, c and 2 more)" or "none"."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{len(names)} ({', '.join(names[:_NAMED])}{more})" if names else "none"


_OF_THE_START = ("tag", "origin_url", "paper_ids", "paper_name", "notes")
"""What timm says about the weights that a run starts from, and what is not true of those that it ends with."""


def _describe(network: Any, config: ModelConfig, augment: AugmentConfig) -> None:
    cfg = network.pretrained_cfg
    for name in _OF_THE_START:
        cfg.pop(name, None)
    for name in ("mean", "std"):
        if getattr(augment, name) is not None:
            cfg[name] = getattr(augment, name)
    if config.crop_pct is not None:
        cfg.update(crop_pct=config.crop_pct, crop_mode="center")
        cfg.pop("test_crop_pct", None)  # timm's evaluations would take it first
    if config.interpolation is not None:
        cfg["interpolation"] = config.interpolation
    cfg["num_classes"] = network.num_classes


def frozen_network(name: str, checkpoint: str, **options: Any) -> Any:
    """A teacher or labeler: in evaluation mode, without gradients; untrained without a checkpoint."""
    file = weights_file(checkpoint) if checkpoint else None
    with built_with(name, options):
        return create_model(name, checkpoint_path=file, **options).eval().requires_grad_(False)
