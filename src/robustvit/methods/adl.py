"""ADL as a method: the attention diversification loss on the images of a batch, for any network that `record` reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from robustvit.methods.attention_diversification import Variant, attention_diversification, check_options
from robustvit.methods.attention_spread import attention_spread
from robustvit.methods.base import Method, MethodConfig, MethodContext, Needs, Step
from robustvit.methods.chunked_diversification import chunked_attention_diversification
from robustvit.recording.tape import Tape, attention_blocks, has_attention_rows

__all__ = ["Adl", "AdlConfig"]


@dataclass(frozen=True)
class AdlConfig(MethodConfig):
    """The attention diversification loss; `methods.adl` in a recipe.

    Attributes:
        weight: lambda, the factor on the loss.
        tau: entries of the map below tau / N do not count.
        variant: "paper" or "released", see `Variant`.
        layers: "all", or indices of blocks with attention among tokens, over all stages; -1 is the last.
        prefix: "exclude" leaves class and distillation tokens out, "include" counts them as tokens like others.
        per_head: every head by itself instead of their mean.
        chunk: rows of the maps that exist at a time; the network then keeps its fused attention. 0 keeps whole maps, which
            is faster, and takes heads * N^2 numbers a layer and image.
        start: share of the training after which the loss begins. From the first update on, small networks make it small by
            attending everywhere alike, which is no diversity: no entry reaches the threshold, and nothing is learned from it.
        ramp: share of the training over which the weight then grows linearly to its full value; 0 for at once.
    """

    weight: float = 1.0
    tau: float = 2.0
    variant: Variant = "paper"
    layers: str | tuple[int, ...] = "all"
    prefix: Literal["exclude", "include"] = "exclude"
    per_head: bool = False
    chunk: int = 0
    start: float = 0.0
    ramp: float = 0.0

    def __post_init__(self) -> None:
        check_options(self.tau, self.variant)
        if not self.weight > 0:
            raise ValueError(f"weight={self.weight!r} is not possible: give more than 0, or leave adl out of the methods")
        if self.chunk < 0:
            raise ValueError(f"chunk={self.chunk} is not a number of rows; give 0 for whole maps, or 1 or more")
        if self.prefix not in ("exclude", "include"):
            raise ValueError(f"prefix={self.prefix!r} is not known; choose 'exclude' or 'include'")
        for name in ("start", "ramp"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name}={getattr(self, name)!r} is not a share of the training; give a number from 0 to 1")
        if self.start + self.ramp > 1:
            raise ValueError(
                f"start={self.start:g} and ramp={self.ramp:g} reach beyond the end of the training; give shares that "
                "add up to 1 at most"
            )
        if isinstance(self.layers, str) and self.layers != "all":
            raise ValueError(f"layers={self.layers!r} is not known; give 'all' or indices of blocks, such as [0, 1, -1]")

    @property
    def needs(self) -> Needs:
        return Needs(features=True) if self.chunk else Needs(attention=True)  # rows come with every recording

    def share_at(self, progress: float) -> float:
        """Of lambda, after a share of the training: 0 before `start`, then growing over `ramp` to 1."""
        if progress < self.start:
            return 0.0
        return min(1.0, (progress - self.start) / self.ramp) if self.ramp else 1.0

    def check(self, config: Any) -> None:
        if config.loop.grad_checkpointing and not self.chunk:
            raise ValueError(
                "loop.grad_checkpointing has no effect while whole attention maps are kept; switch it off, or set "
                "methods.adl.chunk"
            )
        super().check(config)

    def build(self, context: MethodContext) -> Adl:
        """Checks that the network has these layers, and that their maps can be computed in chunks where that is wanted."""
        blocks = attention_blocks(context.network)
        indices = tuple(range(len(blocks))) if isinstance(self.layers, str) else tuple(self.layers)
        wrong = [i for i in indices if not -len(blocks) <= i < len(blocks)]
        if wrong or not indices:
            raise ValueError(f"layers={list(indices)}: this network has {len(blocks)} blocks with attention among tokens")
        if self.chunk:
            for i in indices:
                self._check_chunks(i, blocks[i].attn)
        return Adl(self, indices)

    def _check_chunks(self, index: int, attention: Any) -> None:
        problem = None
        if not has_attention_rows(attention):
            problem = f"is of a kind ({type(attention).__name__}) whose rows cannot be computed by themselves"
        elif attention.attn_drop.p:
            problem = f"has dropout (attn_drop_rate={attention.attn_drop.p:g}), which draws anew each time"
        if problem:
            raise ValueError(
                f"chunk={self.chunk}: the attention of block {index} {problem}; use chunk=0, which keeps the maps"
            )


FEW_ROWS = 0.2
"""Share of the rows below which ADL has next to nothing to work on."""


class Adl(Method):
    """Adds lambda * ADL of the batch's own images; companions of other methods do not count."""

    name = "adl"

    def __init__(self, config: AdlConfig, layers: tuple[int, ...]) -> None:
        self.config, self.layers, self.needs = config, layers, config.needs

    def terms(self, step: Step) -> dict[str, Tensor]:
        config, tape = self.config, _tape_of(step)
        weight = config.weight * config.share_at(step.progress)
        if not weight:
            return {self.name: step.images.new_zeros((), dtype=torch.float32)}
        options: dict[str, Any] = dict(
            tau=config.tau,
            variant=config.variant,
            prefix_tokens=self._prefix(tape),
            regions=[tape.regions[i] for i in self.layers],
            per_head=config.per_head,
        )
        if config.chunk:
            rows = [tape.rows[i] for i in self.layers]
            value = chunked_attention_diversification(rows, chunk=config.chunk, **options)
        else:
            value = attention_diversification([tape.attention[i] for i in self.layers], **options)
        return {self.name: weight * value}

    def diagnose(self, step: Step) -> dict[str, float]:
        """How attention is spread, see `layer_spread`; and the share of lambda that the loss has by now."""
        tape = _tape_of(step)
        layers = [(self._blocks(tape, i), tape.regions[i]) for i in self.layers]
        return {**attention_spread(layers, self.config.tau), "weight_share": self.config.share_at(step.progress)}

    def concern(self, numbers: Mapping[str, float]) -> str | None:
        if numbers["rows_counted"] >= FEW_ROWS or not numbers["weight_share"]:
            return None
        return (
            f"only {numbers['rows_counted']:.1%} of the attention rows have an entry of tau / N or more, so ADL hardly acts: "
            f"attention is nearly uniform (entropy {numbers['entropy']:.2f} of 1). Let it begin later "
            "(methods.adl.start=0.5), or lower methods.adl.weight"
        )

    def _prefix(self, tape: Tape) -> int:
        return tape.prefix_tokens if self.config.prefix == "exclude" else 0

    def _blocks(self, tape: Tape, i: int) -> Iterator[Tensor]:
        """Rows of the map of block i, [B, R, N] with heads averaged; `chunk` of them at a time."""
        prefix, rows = self._prefix(tape), tape.rows[i] if self.config.chunk else None
        if rows is None:
            parts = iter([tape.attention[i][:, :, prefix:]])
        else:
            whole = rows.bias is not None  # windows of Swin are small
            parts = (part.compute() for part in rows.split(rows.q.shape[2] if whole else self.config.chunk, skip=prefix))
        for part in parts:
            yield part[..., prefix:].mean(1)


def _tape_of(step: Step) -> Tape:
    if step.outputs.tape is None:
        raise ValueError("ADL reads the tape of the step, and nothing was recorded; run the network inside `record`")
    return step.outputs.tape
