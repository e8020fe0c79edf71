"""Looking inside a network while it runs: attention maps and features of every block, from outside.

Works on every network whose blocks have timm's kind of attention: FAN, FAN-Swin, RVT, and timm's ViT, DeiT, Swin and
relatives. While recording, attention is computed explicitly instead of fused (the two agree to rounding). On leaving, and on
any error, the network is as it was: no hooks, no wrappers, the same state dict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from typing import Any

import torch
from timm.layers import Attention
from timm.models.cait import ClassAttn
from timm.models.swin_transformer import WindowAttention, window_partition
from torch import Tensor, nn

from robustvit.layers.position_scaled_attention import PositionScaledAttention

__all__ = [
    "AttentionRows",
    "NothingRecordedError",
    "Tape",
    "attention_blocks",
    "has_attention",
    "has_attention_rows",
    "prefix_tokens_of",
    "record",
    "unfused",
]


READABLE = "FAN, FAN-Swin, RVT and timm's ViT, DeiT and Swin have attention that can be read"


class NothingRecordedError(RuntimeError):
    """The network has nothing that could be recorded, or it did not run."""


@dataclass(frozen=True)
class AttentionRows:
    """Rows of one block's attention map that are yet to be computed, from what the block keeps for its gradient anyway.

    Attributes:
        q, k: [B, heads, R, d] of the rows, [B, heads, N, d]; Swin: [B * windows, ...].
        scale: factor on q.
        gate: RVT's mask [heads, R, N], whose sigmoid multiplies the scores; elsewhere None.
        bias, mask: Swin's [heads, R, N] and, where windows are shifted, [windows, R, N], added to the scores; elsewhere None.
        dropout: rate of dropout on the map, which cannot be repeated: `compute` gives the map before it.
    """

    q: Tensor
    k: Tensor
    scale: float
    gate: Tensor | None = None
    bias: Tensor | None = None
    mask: Tensor | None = None
    dropout: float = 0.0

    def compute(self) -> Tensor:
        """[B, heads, R, N] after softmax, in float32 at least: these rows of `Tape.attention`."""
        scores = (self.q * self.scale) @ self.k.transpose(-2, -1)
        if self.gate is not None:
            scores = scores * self.gate.sigmoid()
        if self.bias is not None:
            scores = scores + self.bias
        if self.mask is not None:  # windows repeat over the batch
            scores = (scores.unflatten(0, (-1, self.mask.shape[0])) + self.mask[:, None]).flatten(0, 1)
        return scores.softmax(-1, dtype=torch.promote_types(scores.dtype, torch.float32))

    def split(self, rows: int, skip: int = 0) -> list[AttentionRows]:
        """The rows from `skip` on, at most so many at a time."""
        N = self.q.shape[2]
        sizes = [skip] * bool(skip) + [min(rows, N - start) for start in range(skip, N, rows)]

        def cut(x: Tensor | None) -> list[Any]:  # one node in the graph, so that gradients meet in one tensor
            return [None] * len(sizes) if x is None else list(x.split(sizes, dim=-2))

        parts = zip(cut(self.q), cut(self.gate), cut(self.bias), cut(self.mask), strict=True)
        return [replace(self, q=q, gate=gate, bias=bias, mask=mask) for q, gate, bias, mask in parts][bool(skip) :]

    def part(self, share: slice) -> AttentionRows:
        """Of some images."""
        return replace(self, q=self.q[share], k=self.k[share])


class Tape:
    """What was recorded in the latest forward pass.

    Attributes:
        attention: per block [B, heads, N, N] after softmax and dropout: the matrix that multiplies the values. Rows are
            queries; N counts prefix tokens. Swin: [B * windows, heads, M, M], windows of an image together, row-major.
        features: per block [B, N, C], the output of the block.
        grids: per block (Hp, Wp), the grid that the image tokens of the features are on.
        regions: per block None, or int [windows, M] for Swin's windows that are shifted or padded: tokens with different
            numbers do not see each other, and -1 marks padding (which the others may see).
        windows: per block None, or int64 [windows, M] for Swin: which token of the grid stands where, -1 for padding.
        rows: per block what rows of its map can be computed from, without the whole map; None for attention of another kind
            than ViT's, RVT's and Swin's. Kept while gradients are, where it takes no memory of its own (with gradient
            checkpointing, that of q, k and v), or where it is asked for; else empty.
        class_attention: per class-attention block [B, heads, 1, 1 + N] (FAN; elsewhere empty).
        prefix_tokens: class and distillation tokens in front of the image tokens.
    """

    def __init__(self, prefix_tokens: int) -> None:
        self.prefix_tokens = prefix_tokens
        self.clear()

    def __repr__(self) -> str:
        grid = "x".join(map(str, self.grids[-1])) if self.grids else "none"
        return f"Tape({len(self.attention)} blocks, grid {grid}, {self.prefix_tokens} prefix tokens)"

    def clear(self) -> None:
        """Forgets the latest forward pass; another one does so by itself."""
        self.attention: list[Tensor] = []
        self.features: list[Tensor] = []
        self.grids: list[tuple[int, int]] = []
        self.regions: list[Tensor | None] = []
        self.windows: list[Tensor | None] = []
        self.row_makers: list[Callable[[], AttentionRows] | None] = []
        self.class_attention: list[Tensor] = []

    @property
    def rows(self) -> list[AttentionRows | None]:
        # made when asked for, outside the blocks: gradient checkpointing runs a block again without the hooks that are in it
        return [None if make is None else make() for make in self.row_makers]

    @property
    def grid(self) -> tuple[int, int]:
        """(Hp, Wp) of the last block."""
        if not self.grids:
            raise NothingRecordedError("nothing has been recorded yet: call the network inside `with record(model) as tape:`")
        return self.grids[-1]

    def part(self, start: int, stop: int, of: int) -> Tape:
        """What was recorded of the images from `start` to `stop`, of the batch of `of` images that ran.

        Tensors are views; grids and regions are those of every image.
        """
        ran = self.features[0].shape[0] if self.features else of
        if ran != of or not 0 <= start < stop <= of:
            raise ValueError(f"images {start} to {stop} of {of} are not on a tape of {ran} images")

        def cut(x: Tensor) -> slice:  # the windows of an image are together
            each = x.shape[0] // of
            return slice(start * each, stop * each)

        def cut_rows(make: Callable[[], AttentionRows]) -> AttentionRows:
            return make().part(cut(make().q))

        tape = Tape(self.prefix_tokens)
        for name in ("attention", "features", "class_attention"):
            setattr(tape, name, [x[cut(x)] for x in getattr(self, name)])
        tape.row_makers = [None if make is None else cache(partial(cut_rows, make)) for make in self.row_makers]
        tape.grids, tape.regions, tape.windows = list(self.grids), list(self.regions), list(self.windows)
        return tape


def attention_blocks(model: nn.Module) -> list[Any]:
    """The blocks whose attention among tokens `record` reads, in the order of the tape.

    Raises:
        NothingRecordedError: there are none.
    """
    blocks = [m for m in model.modules() if _has_attention(m) and not isinstance(m.attn, ClassAttn)]
    if not blocks:
        cfg = getattr(model, "pretrained_cfg", None)
        named = f" ({cfg['architecture']})" if isinstance(cfg, dict) and cfg.get("architecture") else ""
        raise NothingRecordedError(f"{type(model).__name__} has no attention that can be recorded{named}; {READABLE}")
    return blocks


def has_attention(model: nn.Module) -> bool:
    """Whether the network has attention among tokens that `record` reads."""
    return any(_has_attention(m) and not isinstance(m.attn, ClassAttn) for m in model.modules())


def has_attention_rows(attention: nn.Module) -> bool:
    """Whether `Tape.rows` knows this kind of attention. Kinds derived from it (differential, rotary) compute other maps."""
    return type(attention) in (Attention, PositionScaledAttention) or isinstance(attention, WindowAttention)


def _has_attention(module: nn.Module) -> bool:
    attention = getattr(module, "attn", None)
    return isinstance(getattr(attention, "attn_drop", None), nn.Module) and hasattr(attention, "fused_attn")


@contextmanager
def record(model: nn.Module, *, attention: bool = True, rows: bool | None = None) -> Iterator[Tape]:
    """Records attention and features of every block while the body runs.

    Outputs, gradients and training mode are those of the network without recording; tensors keep their gradient history unless
    the caller disables gradients. A further forward pass replaces what was recorded. A compiled network (`torch.compile`) runs
    uncompiled meanwhile, as does everything else compiled in this process; its compiled form is back afterwards. Gradient
    checkpointing is off while maps are recorded, which are kept anyway.

    Args:
        model: the network, or a wrapper that has it inside (`torch.compile`, `features_only=True`).
        attention: False records features alone, and leaves attention fused.
        rows: keep what rows of the maps can be computed from (`Tape.rows`); None does where gradients are kept, at no cost.

    Raises:
        NothingRecordedError: the network has no attention that can be read, or the body did not run it.

    Example:
        >>> with record(model) as tape:
        ...     logits = model(images)
        >>> tape.attention[-1].mean(1)   # B N N, heads averaged
    """
    first = attention_blocks(model)[0]
    blocks = [m for m in model.modules() if _has_attention(m)]
    tape = Tape(prefix_tokens_of(model))
    with ExitStack() as stack:
        stack.enter_context(torch.compiler.set_stance("force_eager"))
        for module in model.modules():
            if attention and getattr(module, "grad_checkpointing", False):
                stack.enter_context(_attribute(module, "grad_checkpointing", False))
        source = _GridSource(model)
        for handle in source.handles:
            stack.callback(handle.remove)
        for block in blocks:
            for handle in _BlockRecorder(block, block is first, tape, source, attention, rows).handles:
                stack.callback(handle.remove)
            if attention:
                stack.enter_context(unfused(block.attn))
        yield tape
    if not tape.features:
        raise NothingRecordedError("the network did not run inside `with record(model)`, so there is nothing to show")


def prefix_tokens_of(model: nn.Module) -> int:
    """How many class and distillation tokens stand in front of the image tokens."""
    owner = next((m for m in model.modules() if hasattr(m, "num_prefix_tokens")), None)
    return int(owner.num_prefix_tokens) if owner is not None else 0  # type: ignore[arg-type]


def unfused(attention: Any) -> AbstractContextManager[None]:
    """Lets the attention of a block compute its map, which then passes through `attn_drop`."""
    return _attribute(attention, "fused_attn", False)


@contextmanager
def _attribute(owner: Any, name: str, value: Any) -> Iterator[None]:
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


class _GridSource:
    """The grid of a ViT, whose blocks are not told: from the size of the image at the patch embedding."""

    def __init__(self, model: nn.Module) -> None:
        self.grid: tuple[int, int] | None = None
        self.handles = []
        for module in model.modules():
            embed = getattr(module, "patch_embed", None)
            if isinstance(embed, nn.Module) and hasattr(embed, "dynamic_feat_size"):
                self.handles.append(embed.register_forward_hook(self._note))

    def _note(self, module: nn.Module, inputs: tuple[Tensor, ...], output: Any) -> None:
        H, W = module.dynamic_feat_size(tuple(inputs[0].shape[-2:]))  # type: ignore[operator]
        self.grid = (int(H), int(W))


class _BlockRecorder:
    """Hooks that write one block to the tape: its output, what its map is made from, and the map where `maps` are wanted."""

    def __init__(self, block: Any, is_first: bool, tape: Tape, source: _GridSource, maps: bool, rows: bool | None) -> None:
        self.block, self.tape, self.source, self.rows = block, tape, source, rows
        self.attention: Any = block.attn
        self.is_windowed = isinstance(self.attention, WindowAttention)
        self.projected: Tensor | None = None
        self.map: Tensor | None = None
        self.masks: list[Any] = []
        self.handles: list[Any] = [block.register_forward_pre_hook(self._start)] if is_first else []
        if maps:
            self.handles.append(self.attention.attn_drop.register_forward_hook(self._keep_map))
        if isinstance(self.attention, ClassAttn):
            return
        if has_attention_rows(self.attention):
            self.handles.append(self.attention.qkv.register_forward_hook(self._note_projection))
        self.handles.append(self.attention.register_forward_hook(self._keep_rows, with_kwargs=True))
        self.handles.append(block.register_forward_hook(self._keep_features))

    def _start(self, module: nn.Module, inputs: tuple[Any, ...]) -> None:
        self.tape.clear()

    def _keep_map(self, module: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> None:
        self.map = output
        (self.tape.class_attention if isinstance(self.attention, ClassAttn) else self.tape.attention).append(output)

    def _note_projection(self, module: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> None:
        self.projected = output if self._keeps_rows else None

    @property
    def _keeps_rows(self) -> bool:
        return torch.is_grad_enabled() if self.rows is None else self.rows

    def _keep_rows(self, module: nn.Module, inputs: tuple[Any, ...], options: dict[str, Any], output: Tensor) -> None:
        self.masks = [given for given in (*inputs[1:], *options.values()) if given is not None and given is not False]
        projected, self.projected = self.projected, None
        if not self._keeps_rows:
            return
        is_known = projected is not None and (self.is_windowed or not self.masks)
        self.tape.row_makers.append(self._rows_later(projected) if is_known else None)  # type: ignore[arg-type]

    def _rows_later(self, projected: Tensor) -> Callable[[], AttentionRows]:
        attention = self.attention
        dropout = float(attention.attn_drop.p) if attention.training else 0.0
        return cache(partial(_rows, attention, projected, self.masks, dropout))

    def _keep_features(self, module: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> None:
        grid: tuple[int, int] | None
        self._check(output)
        if self.is_windowed:  # B H W C
            grid = (output.shape[1], output.shape[2])
            output = output.flatten(1, 2)
            self.tape.regions.append(_regions(grid, self.block.window_size, self.masks, output.device))
            self.tape.windows.append(_window_tokens(grid, self.block.window_size, self.block.shift_size).to(output.device))
        else:
            grid = inputs[1] if len(inputs) > 1 and isinstance(inputs[1], tuple) else self.source.grid
            self.tape.regions.append(None)
            self.tape.windows.append(None)
        self.tape.features.append(output)
        self.tape.grids.append(grid if grid is not None else (1, output.shape[1] - self.tape.prefix_tokens))

    def _check(self, output: Tensor) -> None:
        """Other networks have modules of the same names that attend over channels, to fewer tokens or in unknown windows."""
        kept, self.map = self.map, None
        if self.is_windowed:
            return
        kind = type(self.attention).__name__
        if output.ndim != 3:
            raise NothingRecordedError(f"blocks with {kind} give {list(output.shape)}, not tokens [B, N, C]; {READABLE}")
        N = output.shape[1]
        if kept is not None and tuple(kept.shape[-2:]) != (N, N):
            raise NothingRecordedError(
                f"the attention of {kind} is not among the {N} tokens of its block: maps are {list(kept.shape)}; {READABLE}"
            )


def _rows(attention: Any, projected: Tensor, masks: list[Tensor], dropout: float) -> AttentionRows:
    """From the output of qkv [B, N, 3 heads d]."""
    q, k, _ = projected.unflatten(-1, (3, attention.num_heads, -1)).permute(2, 0, 3, 1, 4)  # B heads N d
    rows = AttentionRows(q, k, attention.scale, dropout=dropout)
    if isinstance(attention, WindowAttention):
        return replace(rows, bias=attention._get_rel_pos_bias()[0], mask=masks[0] if masks else None)
    if isinstance(attention, PositionScaledAttention):
        return replace(rows, gate=attention.mask)
    return replace(rows, q=attention.q_norm(q), k=attention.k_norm(k))


@lru_cache(maxsize=64)
def _window_tokens(grid: tuple[int, int], window: tuple[int, int], shift: tuple[int, int]) -> Tensor:
    """int64 [windows, M]: which token stands where; timm shifts first and pads then, at the end."""
    H, W = grid
    tokens = torch.arange(H * W).view(H, W).roll((-shift[0], -shift[1]), (0, 1))
    padding = [0, -W % window[1], 0, -H % window[0]]
    padded = nn.functional.pad(tokens, padding, value=-1)
    return window_partition(padded[None, ..., None], window).flatten(1)


def _regions(grid: tuple[int, int], window: tuple[int, int], masks: list[Tensor], device: torch.device) -> Tensor | None:
    """Region numbers [windows, M] of a map of size `grid` in windows; None where all tokens of a window see each other."""
    padded = [-(-n // side) * side for n, side in zip(grid, window, strict=True)]
    if not masks and padded == list(grid):
        return None
    is_real = _window_tokens(grid, window, (0, 0)).to(device) >= 0  # windows M
    # the number of a region: its first token
    numbers = (masks[0] == 0).int().argmax(-1) if masks else torch.zeros_like(is_real, dtype=torch.int64)
    return torch.where(is_real, numbers, -1)
