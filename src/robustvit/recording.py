"""Looking inside a network while it runs: attention maps and features of every block, from outside.

Works on every network whose blocks have timm's kind of attention: FAN, FAN-Swin, RVT, and timm's ViT, DeiT, Swin and
relatives. While recording, attention is computed explicitly instead of fused (the two agree to rounding). On leaving, and on
any error, the network is as it was: no hooks, no wrappers, the same state dict.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from timm.models.cait import ClassAttn
from timm.models.swin_transformer import WindowAttention
from torch import Tensor, nn

__all__ = ["NothingRecordedError", "Tape", "record"]


class NothingRecordedError(RuntimeError):
    """The network has nothing that could be recorded, or it did not run."""


class Tape:
    """What was recorded in the latest forward pass.

    Attributes:
        attention: per block [B, heads, N, N] after softmax and dropout: the matrix that multiplies the values. Rows are
            queries; N counts prefix tokens. Swin: [B * windows, heads, M, M], windows of a picture together, row-major.
        features: per block [B, N, C], the output of the block.
        grids: per block (Hp, Wp), the grid that the image tokens of the features are on.
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
        self.class_attention: list[Tensor] = []

    @property
    def grid(self) -> tuple[int, int]:
        """(Hp, Wp) of the last block."""
        if not self.grids:
            raise NothingRecordedError("nothing has been recorded yet: call the network inside `with record(model) as tape:`")
        return self.grids[-1]


def _has_attention(module: nn.Module) -> bool:
    attention = getattr(module, "attn", None)
    return isinstance(getattr(attention, "attn_drop", None), nn.Module) and hasattr(attention, "fused_attn")


@contextmanager
def record(model: nn.Module, *, attention: bool = True) -> Iterator[Tape]:
    """Records attention and features of every block while the body runs.

    Outputs, gradients and training mode are those of the network without recording; tensors keep their gradient history unless
    the caller disables gradients. A further forward pass replaces what was recorded. A compiled network (`torch.compile`) runs
    uncompiled meanwhile, as does everything else compiled in this process; its compiled form is back afterwards. Gradient
    checkpointing is off meanwhile: recorded tensors are kept anyway.

    Args:
        model: the network, or a wrapper that has it inside (`torch.compile`, `features_only=True`).
        attention: False records features alone, and leaves attention fused.

    Raises:
        NothingRecordedError: the network has no attention that can be read, or the body did not run it.

    Example:
        >>> with record(model) as tape:
        ...     logits = model(images)
        >>> tape.attention[-1].mean(1)   # B N N, heads averaged
    """
    blocks = [m for m in model.modules() if _has_attention(m)]
    token_blocks = [m for m in blocks if not isinstance(m.attn, ClassAttn)]
    if not token_blocks:
        raise NothingRecordedError(
            f"{type(model).__name__} has no attention that can be recorded; FAN, FAN-Swin, RVT and timm's ViT, DeiT and "
            "Swin have"
        )
    owner = next((m for m in model.modules() if hasattr(m, "num_prefix_tokens")), None)
    tape = Tape(int(owner.num_prefix_tokens) if owner is not None else 0)  # type: ignore[arg-type]
    with ExitStack() as stack:
        stack.enter_context(torch.compiler.set_stance("force_eager"))
        for module in model.modules():
            if getattr(module, "grad_checkpointing", False):
                stack.enter_context(_attribute(module, "grad_checkpointing", False))
        source = _GridSource(model)
        for handle in source.handles:
            stack.callback(handle.remove)
        for block in blocks:
            for handle in _attach(block, block is token_blocks[0], tape, source, attention):
                stack.callback(handle.remove)
            if attention:
                stack.enter_context(_attribute(block.attn, "fused_attn", False))
        yield tape
    if not tape.features:
        raise NothingRecordedError("the network did not run inside `with record(model)`, so there is nothing to show")


@contextmanager
def _attribute(owner: Any, name: str, value: Any) -> Iterator[None]:
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


class _GridSource:
    """The grid of a ViT, whose blocks are not told: from the size of the picture at the patch embedding."""

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


def _attach(block: nn.Module, is_first: bool, tape: Tape, source: _GridSource, maps: bool) -> list[Any]:
    """Hooks that write one block's attention (where `maps` are wanted) and output to the tape."""
    attention = block.attn
    is_class_attention = isinstance(attention, ClassAttn)

    def start(module: nn.Module, inputs: tuple[Any, ...]) -> None:
        tape.clear()

    def keep_attention(module: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> None:
        (tape.class_attention if is_class_attention else tape.attention).append(output)

    def keep_features(module: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> None:
        grid: tuple[int, int] | None
        if isinstance(attention, WindowAttention):  # B H W C
            grid = (output.shape[1], output.shape[2])
            output = output.flatten(1, 2)
        else:
            grid = inputs[1] if len(inputs) > 1 and isinstance(inputs[1], tuple) else source.grid
        tape.features.append(output)
        tape.grids.append(grid if grid is not None else (1, output.shape[1] - tape.prefix_tokens))

    handles: list[Any] = [block.register_forward_pre_hook(start)] if is_first else []
    if maps:
        handles.append(attention.attn_drop.register_forward_hook(keep_attention))  # type: ignore[union-attr]
    if not is_class_attention:
        handles.append(block.register_forward_hook(keep_features))
    return handles
