"""One batch through network and methods: companions, the forward pass, and the loss terms.

Methods read what the network computed through `Outputs`; a method's companion pictures go through the network in one batch
with the pictures themselves, in front of them, so that batch statistics are those of both (docs/afat.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from functools import reduce

import torch
from torch import Tensor, nn

from robustvit.methods.base import Method, MethodConfig, Needs, Outputs, Step
from robustvit.recording.tape import Tape, record
from robustvit.tasks.classification import soft_cross_entropy

__all__ = ["Forward", "TrainedNetwork", "loss_terms", "needs_of"]


def needs_of(methods: Iterable[Method | MethodConfig]) -> Needs:
    """All that any of the methods needs."""
    return reduce(lambda both, method: both | method.needs, methods, Needs())


class TrainedNetwork(nn.Module):
    """What is wrapped for several processes and compiled: images -> logits, or (logits, token logits)."""

    def __init__(self, network: nn.Module, token_logits: bool) -> None:
        super().__init__()
        self.network, self.token_logits = network, token_logits

    def forward(self, images: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        return self.network.forward_tokens(images) if self.token_logits else self.network(images)  # type: ignore[operator]


class Forward:
    """Runs the network with what the methods need recorded.

    Args:
        module: `TrainedNetwork`, wrapped or compiled as it may be.
        network: the network inside.
        needs: of all methods together.
    """

    def __init__(self, module: nn.Module, network: nn.Module, needs: Needs) -> None:
        self.module, self.network, self.needs = module, network, needs

    def __call__(self, images: Tensor) -> Outputs:
        needs = self.needs
        recording = record(self.network, attention=needs.attention) if needs.recorded else nullcontext()
        with recording as tape:
            answer = self.module(images)
        if not needs.token_logits:
            return Outputs(answer, None, tape)
        logits, token_logits = answer
        return Outputs(logits, token_logits, tape, self.network.token_grid(*images.shape[-2:]))  # type: ignore[operator]

    def run(self, step: Step, methods: Sequence[Method]) -> None:
        """Fills `step.outputs` and `step.companions`."""
        given = {method.name: method.companion(step) for method in methods}
        companions = {name: images for name, images in given.items() if images is not None}
        B = len(step.images)
        together = torch.cat([*companions.values(), step.images]) if companions else step.images
        outputs = self(together)
        parts = [_part(outputs, i * B, len(together), B) for i in range(len(companions) + 1)] if companions else [outputs]
        step.companions = dict(zip(companions, parts, strict=False))
        step.outputs = parts[-1]


def _part(outputs: Outputs, start: int, total: int, count: int) -> Outputs:
    rows = slice(start, start + count)
    tape: Tape | None = outputs.tape.part(start, start + count, total) if outputs.tape is not None else None
    tokens = outputs.token_logits[rows] if outputs.token_logits is not None else None
    return Outputs(outputs.logits[rows], tokens, tape, outputs.grid)


def loss_terms(step: Step, methods: Sequence[Method], weight: float) -> dict[str, Tensor]:
    """The weighted terms of the loss by name: cross-entropy of the image label, and what the methods add."""
    terms = {"ce": weight * soft_cross_entropy(step.outputs.logits, step.targets)} if weight else {}
    for method in methods:
        for name, value in method.terms(step).items():
            if name in terms:
                raise ValueError(f"two methods have a loss term {name!r}; give one of them another name")
            terms[name] = value
    return terms
