"""Published weights: the authors' names of every tensor mapped to ours, strictly checked.

The one place that knows the authors' naming. Our networks differ from theirs where it helps: query, key and value are one
linear layer, 1x1 convolutions are linear layers, Swin merges patches at the start of a stage.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from timm.layers import resize_rel_pos_bias_table
from timm.models import adapt_input_conv
from timm.models.swin_transformer import WindowAttention
from torch import Tensor, nn

from robustvit.layers.position_scaled_attention import PositionScaledAttention
from robustvit.models.fan import FAN
from robustvit.models.fan_swin import FANSwin
from robustvit.models.names import OFFICIAL, OfficialNetwork
from robustvit.models.registry import create_model
from robustvit.models.rvt import RVT
from robustvit.runtime.spelling import nearest
from robustvit.runtime.weights import CheckpointError, read_weights, unwrap_weights

_logger = logging.getLogger(__name__)

__all__ = ["from_official", "load_weights", "to_native"]

_CHANNEL = [
    (r"\.mlp\.mlp_v\.", ".channel.mlp."),
    (r"\.mlp\.norm_v\.", ".channel.norm."),
    (r"\.mlp\.q\.", ".channel.query."),
    (r"\.mlp\.temperature$", ".channel.temperature"),
    (r"\.mlp\.se\.conv_(reduce|expand)\.", r".channel.\1."),
    (r"^(blocks\.\d+)\.mlp\.(fc1|fc2|gamma|dwconv)", r"\1.channel.mlp.\2"),  # SE: the MLP stands alone
    (r"\.dwconv\.bn\.", ".dwconv.norm."),
]
_FAN_NAMES = [
    (r"^pos_embeder\.", "pos_embed."),  # an older release
    (r"^pos_embed\.token_projection\.", "pos_embed.proj."),
    (r"^patch_embed\.backbone\.", "patch_embed."),
    (r"\.dilation_predictor\.proj\.", ".tap.predictor."),
    (r"^blocks\.\d+\.downsample\.", "downsample."),
    (r"^aux_head\.", "token_head."),
    *_CHANNEL,
]
_SWIN_NAMES = [
    *((pattern, ours.replace(".channel.", ".mlp.")) for pattern, ours in _CHANNEL if not pattern.startswith("^")),
    (r"^head\.", "head.fc."),
]
_RVT_NAMES = [
    (r"^patch_embed\.proj\.0\.", "patch_embed.conv."),
    (r"^patch_embed\.proj\.1\.", "patch_embed.norm."),
    (r"^patch_embed\.proj\.3\.", "patch_embed.proj."),
    (r"^transformers\.(\d+)\.blocks\.", r"stages.\1."),
    (r"^pools\.(\d+)\.conv\.", r"downsamples.\1."),
    (r"\.attn\.att_mask$", ".attn.mask"),
    (r"\.dilation_predictor\.proj\.", ".tap.predictor."),
    (r"\.mlp\.", ".ffn."),
]


def _rename(name: str, rules: list[tuple[str, str]]) -> str:
    for pattern, ours in rules:
        name = re.sub(pattern, ours, name)
    return name


def _split_class_attention(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """An older release had one layer for query, key and value of the class attention: thirds of its rows."""
    out = {}
    for name, value in weights.items():
        match = re.fullmatch(r"(cls_attn_blocks\.\d+\.attn)\.qkv\.(weight|bias)", name)
        if match is None or value.ndim == 0 or value.shape[0] % 3:
            out[name] = value
        else:
            out |= {f"{match[1]}.{part}.{match[2]}": rows for part, rows in zip("qkv", value.chunk(3), strict=True)}
    return out


def _join_qkv(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """FAN keeps the query apart from key and value; ours is one layer."""
    out = {}
    for name, value in weights.items():
        match = re.fullmatch(r"(blocks\.\d+\.attn)\.(q|kv)\.(weight|bias)", name)
        if match is None:
            out[name] = value
        else:
            q, kv = (weights.get(f"{match[1]}.{part}.{match[3]}") for part in ("q", "kv"))
            if q is None or kv is None or q.ndim == 0 or kv.ndim == 0 or q.shape[1:] != kv.shape[1:]:
                out[name] = value  # stays unknown, and is reported
            elif match[2] == "q":
                out[f"{match[1]}.qkv.{match[3]}"] = torch.cat((q, kv))
    return out


def to_native(weights: Mapping[str, Tensor], model: nn.Module) -> dict[str, Tensor]:
    """The authors' names and shapes -> those of `model`. Names of our own are left as they are.

    Args:
        weights: state dict with published names.
        model: FAN, FANSwin or RVT, built for it.
    """
    if not isinstance(model, FAN | FANSwin | RVT):
        raise TypeError(f"there are no published weights for {type(model).__name__}; expected FAN, FANSwin or RVT")
    rules = _FAN_NAMES
    weights = dict(weights)
    if isinstance(model, FANSwin):
        rules = _SWIN_NAMES
        derived = ("relative_position_index", "attn_mask")  # functions of the window: rebuilt, not loaded
        weights = {name: value for name, value in weights.items() if not name.endswith(derived)}
        merges = {name: value for name, value in weights.items() if re.match(r"layers\.\d+\.downsample\.", name)}
        if any(name.startswith("layers.0.") for name in merges):  # theirs end a stage, ours start the next
            weights = {name: value for name, value in weights.items() if name not in merges}
            for name, value in merges.items():
                _, stage, rest = name.split(".", 2)
                weights[f"layers.{int(stage) + 1}.{rest}"] = value
    elif isinstance(model, RVT):
        rules = _RVT_NAMES
    else:
        weights = _join_qkv(_split_class_attention(weights))
    if isinstance(model, FANSwin) and "head.fc.weight" in weights:
        rules = rules[:-1]
    native = {_rename(name, rules): value for name, value in weights.items()}
    shapes = {name: value.shape for name, value in model.state_dict().items()}
    for name, value in native.items():
        if value.ndim == 4 and value.shape[2:] == (1, 1) and name in shapes and len(shapes[name]) == 2:
            native[name] = value.flatten(1)  # 1x1 convolution -> linear layer
    return native


def _fit_image(weights: dict[str, Tensor], model: nn.Module) -> None:
    """Adapts what depends on the pictures: channels of the first convolution, grids of masks, windows of Swin."""
    first = f"{model.first_conv}.weight"
    expected = model.state_dict()[first].shape[1]
    if first in weights and weights[first].ndim == 4 and weights[first].shape[1] == 3 != expected:
        weights[first] = adapt_input_conv(expected, weights[first])
    for name, module in model.named_modules():
        if isinstance(module, PositionScaledAttention):
            module.fit_mask(weights, f"{name}.")
        elif isinstance(module, WindowAttention):
            key, ours = f"{name}.relative_position_bias_table", module.relative_position_bias_table
            table = weights.get(key)
            if table is not None and table.ndim == 2 and table.shape[1] == ours.shape[1] and table.shape != ours.shape:
                weights[key] = resize_rel_pos_bias_table(table, module.window_size, ours.shape)


def _weights_of(source: str | Path | Mapping[str, Any], use_ema: bool) -> dict[str, Tensor]:
    if isinstance(source, str | Path):
        return read_weights(source, use_ema=use_ema)
    return unwrap_weights(source, use_ema=use_ema)


def load_weights(
    model: nn.Module,
    source: str | Path | Mapping[str, Any],
    *,
    use_ema: bool = True,
    fresh: tuple[str, ...] = (),
) -> tuple[str, ...]:
    """Loads a checkpoint, with published or our own names, into a network; strict but for a classifier of another size.

    Args:
        model: FAN, FANSwin or RVT.
        source: file or state dict, also as training programs wrap it.
        use_ema: take averaged weights where there are any.
        fresh: parts ("tap", "token_head") that keep their initial values where the checkpoint has nothing of them.

    Returns:
        The parts of `fresh` that did.

    Raises:
        CheckpointError: the file cannot be read, or does not fit; nothing of the network has been changed then.
    """
    given = _weights_of(source, use_ema)
    if any(".patch_reasoning." in name for name in given):
        raise CheckpointError(
            "these weights are of an `_afat` variant, whose queries, keys and values come from convolutions "
            "(patch_reasoning); they do not fit the ordinary network"
        )
    weights = to_native(given, model)
    _fit_image(weights, model)
    expected = model.state_dict()
    for head in (str(model.classifier), "token_head"):
        ours, theirs = expected.get(f"{head}.weight"), weights.get(f"{head}.weight")
        if theirs is not None and theirs.ndim == 2 and (ours is None or ours.shape[0] != theirs.shape[0]):
            for part in ("weight", "bias"):  # another number of classes: the classifier starts anew
                weights.pop(f"{head}.{part}", None)
                expected.pop(f"{head}.{part}", None)
    kept = []
    for part in (*fresh, "last_level"):  # the convolution of the last level belongs to dense networks
        if not any(part in name.split(".") for name in weights):
            if any(part in name.split(".") for name in expected):
                kept.append(part)
                _logger.warning("the checkpoint has no weights for %s: it starts fresh and has to be trained", part)
            expected = {name: value for name, value in expected.items() if part not in name.split(".")}
    hint = f" (the checkpoint's names imply {_rvt_arguments(given)})" if isinstance(model, RVT) else ""
    _check_fit(weights, expected, f"{type(model).__name__}{hint}")
    model.load_state_dict(weights, strict=False)
    return tuple(part for part in kept if part in fresh)


def _check_fit(weights: Mapping[str, Tensor], expected: Mapping[str, Tensor], network: str) -> None:
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
    lines = [f"these weights do not fit this {network}: they are of another network, or of another variant of it"]
    for title, names in (("missing", missing), ("unexpected", unexpected), ("other shape", other)):
        if names:
            more = f" ... and {len(names) - 5} more" if len(names) > 5 else ""
            lines.append(f"  {title} ({len(names)}): " + ", ".join(names[:5]) + more)
    lines.append(f"  (names as in our networks; {len(expected)} expected, {len(weights)} given)")
    raise CheckpointError("\n".join(lines))


def _inferred_arguments(weights: Mapping[str, Tensor], network: OfficialNetwork) -> dict[str, Any]:
    """What the names and shapes of a checkpoint say about the variant of `network` that it was made with."""
    arguments: dict[str, Any] = {}
    if "head.weight" in weights and weights["head.weight"].ndim == 2:
        arguments["num_classes"] = weights["head.weight"].shape[0]
    predictor = next((w for n, w in weights.items() if n.endswith("dilation_predictor.proj.0.weight")), None)
    if predictor is not None and predictor.ndim == 4 and "tap" in network.model_args:
        arguments["tap"] = predictor.shape[0]
    if network.architecture.startswith("rvt"):
        arguments |= _rvt_arguments(weights)
        with torch.device("meta"):
            blocks = len(create_model(network.architecture).stages[0])
        arguments["masked_blocks"] = min(arguments["masked_blocks"], blocks)  # the strict check names those too many
    return arguments


def _rvt_arguments(weights: Mapping[str, Tensor]) -> dict[str, Any]:
    """RVT's variants differ in which blocks have a mask and in their FFN; the names of a checkpoint tell both."""
    masks = sum(re.search(r"^(transformers|stages)\.0\..*\.(att_)?mask$", name) is not None for name in weights)
    return {"masked_blocks": masks, "ffn": "conv" if any(".dwconv." in name for name in weights) else "plain"}


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
        published_name: the authors' name, such as `fan_tiny_12_p16_224` or `tap_rvt_base_plus`.
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
    if published_name not in OFFICIAL:
        same = [name for name, network in OFFICIAL.items() if network.architecture == published_name]
        hint = f"; the authors call it {' or '.join(same)}" if same else nearest(published_name, OFFICIAL)
        raise ValueError(f"{published_name!r} is not a published name{hint or '; robustvit.OFFICIAL lists them'}")
    network = OFFICIAL[published_name]
    given = _weights_of(source, use_ema)
    arguments = {**network.model_args, **_inferred_arguments(given, network)}
    if num_classes is not None:
        arguments["num_classes"] = num_classes
    model = create_model(published_name, **{**arguments, **model_args})
    load_weights(model, _without_single_branch(given))
    return model


def _without_single_branch(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """TAP with one branch is no TAP; its released form still has a predictor, which nothing reads."""
    single = any(n.endswith("dilation_predictor.proj.0.weight") and w.shape[:1] == (1,) for n, w in weights.items())
    return {n: w for n, w in weights.items() if not (single and ".dilation_predictor." in n)}
