"""Weights into a network: published, our own or timm's, strictly checked.

Our networks say themselves how weights become theirs (`OwnNetwork`); for timm's, timm says it.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from timm.models import adapt_input_conv
from torch import Tensor, nn

from robustvit.models.published_tensors import Weights
from robustvit.runtime.weights import CheckpointError, read_weights, unwrap_weights

__all__ = ["OwnNetwork", "load_weights", "weight_rules", "weights_of"]

_logger = logging.getLogger(__name__)


class OwnNetwork:
    """What a network of ours says about its weights. Mix in before `nn.Module`."""

    first_conv: str
    """Name of the convolution that reads the image."""
    classifier: str
    """Name of the layer that gives the class logits."""
    late_parts: tuple[str, ...] = ()
    """Parts that weights of a classifier do not have, because only dense networks use them."""
    fresh_parts: tuple[str, ...] = ()
    """Of "tap" and "token_head", those that the published weights did not have; they have to be trained."""

    @property
    def classifiers(self) -> tuple[str, ...]:
        """Names of all layers that give class logits."""
        return (self.classifier,)

    @staticmethod
    def from_published(weights: Mapping[str, Tensor]) -> Weights:
        """The authors' names of tensors -> ours; names of our own stay."""
        return dict(weights)

    def variant_of(self, weights: Mapping[str, Tensor]) -> dict[str, Any]:
        """Arguments of the class that the names of a checkpoint imply, where they do."""
        return {}

    def native_weights(self, weights: Mapping[str, Tensor]) -> Weights:
        """Weights with published or our own names -> as this network has them: names, shapes, channels, grids, windows."""
        if any(".patch_reasoning." in name for name in weights):
            raise CheckpointError(
                "these weights are of an `_afat` variant, whose queries, keys and values come from convolutions "
                "(patch_reasoning); they do not fit the ordinary network"
            )
        native, state = self.from_published(weights), self.state_dict()  # type: ignore[attr-defined]
        for name, value in native.items():
            if value.ndim == 4 and value.shape[2:] == (1, 1) and name in state and state[name].ndim == 2:
                native[name] = value.flatten(1)  # 1x1 convolution -> linear layer
        first = f"{self.first_conv}.weight"
        channels = state[first].shape[1]
        if first in native and native[first].ndim == 4 and native[first].shape[1] == 3 != channels:
            native[first] = adapt_input_conv(channels, native[first])
        for name, module in self.named_modules():  # type: ignore[attr-defined]
            fit = getattr(module, "fit_weights", None)
            if callable(fit):  # what depends on the size of the image
                fit(native, f"{name}.")
        return native

    def load_pretrained(self, path: str | Path) -> None:
        """For timm's `pretrained=True`: reads a weight file, weights only. A missing TAP or token head starts fresh."""
        fresh = load_weights(self, path, fresh=("tap", "token_head"))  # type: ignore[arg-type]
        self.fresh_parts = tuple(part for part in fresh if part != "classifier")


def weights_of(source: str | Path | Mapping[str, Any], use_ema: bool = True) -> Weights:
    """The tensors of a file or a state dict, also as training programs wrap it."""
    if isinstance(source, str | Path):
        return read_weights(source, use_ema=use_ema)
    return unwrap_weights(source, use_ema=use_ema)


def load_weights(
    network: nn.Module,
    source: str | Path | Mapping[str, Any],
    *,
    use_ema: bool = True,
    fresh: tuple[str, ...] = (),
    other_classes: bool = True,
) -> tuple[str, ...]:
    """Loads a checkpoint into a network; strict but for a classifier of another number of classes, which starts fresh.

    Args:
        network: ours, which takes published and our own names, or timm's, which takes what timm takes.
        source: file or state dict, also as training programs wrap it.
        use_ema: take averaged weights where there are any.
        fresh: parts ("tap", "token_head", "classifier") that keep their initial values where the checkpoint has none of them.
        other_classes: False refuses classifiers of another number of classes, too.

    Returns:
        The parts that did.

    Raises:
        CheckpointError: the file cannot be read, or does not fit; nothing of the network has been changed then.
    """
    given = weights_of(source, use_ema)
    rules = weight_rules(network)
    weights, expected = rules.native_weights(given), dict(network.state_dict())
    kept = _drop_other_classifiers(weights, expected, [*rules.classifiers, "token_head"]) if other_classes else []
    for part in (*fresh, *rules.late_parts):
        if not _names_of(part, weights, rules.classifiers) and (ours := _names_of(part, expected, rules.classifiers)):
            kept.append(part)
            _logger.warning("the checkpoint has no weights for %s: it starts fresh and has to be trained", part)
            for name in ours:
                del expected[name]
    variant = rules.variant_of(given)
    whose = f"the weights in {source}" if isinstance(source, str | Path) else "these weights"
    _check_fit(weights, expected, type(network).__name__, whose, f" (their names imply {variant})" if variant else "")
    network.load_state_dict(weights, strict=False)
    return tuple(part for part in dict.fromkeys(kept) if part not in rules.late_parts)


def weight_rules(network: nn.Module) -> OwnNetwork:
    """How weights become those of a network."""
    return network if isinstance(network, OwnNetwork) else _TimmNetwork(network)


class _TimmNetwork(OwnNetwork):
    """What timm says about the weights of one of its networks."""

    def __init__(self, network: Any) -> None:
        self.network = network

    @property
    def classifiers(self) -> tuple[str, ...]:
        name = self.network.pretrained_cfg.get("classifier") or "head"
        return (name,) if isinstance(name, str) else tuple(name)

    def native_weights(self, weights: Mapping[str, Tensor]) -> Weights:
        """As timm itself would load them: other names, and position tables of another image size."""
        home = next((cls.__module__ for cls in type(self.network).__mro__ if cls.__module__.startswith("timm.")), "timm")
        convert = getattr(importlib.import_module(home), "checkpoint_filter_fn", None)
        return dict(weights) if convert is None else dict(convert(dict(weights), self.network))


def _drop_other_classifiers(weights: Weights, expected: Weights, heads: list[str]) -> list[str]:
    """Takes the classifiers of another number of classes out of both; "classifier" or "token_head" for each."""
    dropped = []
    for head in heads:
        ours, theirs = expected.get(f"{head}.weight"), weights.get(f"{head}.weight")
        if theirs is not None and theirs.ndim in (2, 4) and (ours is None or ours.shape[0] != theirs.shape[0]):
            for tensors in (weights, expected):
                for name in [name for name in tensors if name.startswith(f"{head}.")]:
                    del tensors[name]
            dropped.append("token_head" if head == "token_head" else "classifier")
    return dropped


def _names_of(part: str, weights: Weights, classifiers: tuple[str, ...]) -> list[str]:
    """Names of the tensors of a part: the classifiers stand at the top, others anywhere."""
    if part == "classifier":
        return [name for name in weights if name.startswith(tuple(f"{head}." for head in classifiers))]
    return [name for name in weights if part in name.split(".")]


def _check_fit(weights: Weights, expected: Weights, network: str, whose: str, hint: str) -> None:
    """Raises CheckpointError with a list of what differs."""
    missing = [n for n in expected if n not in weights and not n.endswith("num_batches_tracked")]
    unexpected = [n for n in weights if n not in expected]
    other = [
        f"{n}: {list(weights[n].shape)}, expected {list(e.shape)}"
        for n, e in expected.items()
        if n in weights and weights[n].shape != e.shape
    ]
    if not (missing or unexpected or other):
        return
    lines = [f"{whose} do not fit this {network}: they are of another network, or of another variant of it{hint}"]
    for title, names in (("missing", missing), ("unexpected", unexpected), ("other shape", other)):
        if names:
            more = f" ... and {len(names) - 5} more" if len(names) > 5 else ""
            lines.append(f"  {title} ({len(names)}): " + ", ".join(names[:5]) + more)
    lines.append(f"  (names as in the network; {len(expected)} expected, {len(weights)} given)")
    raise CheckpointError("\n".join(lines))
