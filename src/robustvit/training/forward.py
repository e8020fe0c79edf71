"""One batch through network and methods: companions, the forward pass, and the loss terms.

Methods read what the network computed through `Outputs`; a method's companion images go through the network in one batch
with the images themselves, in front of them, so that batch statistics are those of both (docs/afat.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import reduce
from typing import Any

import torch
from torch import Tensor, nn

from robustvit.methods.base import Method, MethodConfig, Needs, Outputs, Step
from robustvit.recording.tape import Tape, record
from robustvit.tasks.base import Task

__all__ = ["Forward", "LossTerms", "TrainedNetwork", "loss_terms", "needs_of"]


def needs_of(methods: Iterable[Method | MethodConfig]) -> Needs:
    """All that any of the methods needs."""
    return reduce(lambda both, method: both | method.needs, methods, Needs())


class TrainedNetwork(nn.Module):
    """What is wrapped for several processes and compiled: images and targets -> answer, or (answer, token logits)."""

    def __init__(self, network: nn.Module, task: Task, token_logits: bool) -> None:
        super().__init__()
        self.network, self.task, self.token_logits = network, task, token_logits

    def forward(self, images: Tensor, targets: Any) -> Any:
        if self.token_logits:
            return self.network.forward_tokens(images)  # type: ignore[operator]
        return self.task.forward(self.network, images, targets)


class Forward:
    """Runs the network with what the methods need recorded.

    Args:
        module: `TrainedNetwork`, wrapped or compiled as it may be.
        network: the network inside.
        task: what is learned.
        needs: of all methods together.
    """

    def __init__(self, module: nn.Module, network: nn.Module, task: Task, needs: Needs) -> None:
        self.module, self.network, self.task, self.needs = module, network, task, needs

    def __call__(self, images: Tensor, targets: Any) -> Outputs:
        needs = self.needs
        recording = record(self.network, attention=needs.attention) if needs.recorded else nullcontext()
        with recording as tape:
            answer = self.module(images, targets)
        if not needs.token_logits:
            return Outputs(answer, None, tape)
        answer, token_logits = answer
        return Outputs(answer, token_logits, tape, self.network.token_grid(*images.shape[-2:]))  # type: ignore[operator]

    def run(self, step: Step, methods: Sequence[Method]) -> None:
        """Fills `step.outputs` and `step.companions`."""
        given = {method.name: method.companion(step) for method in methods}
        companions = {name: images for name, images in given.items() if images is not None}
        B = len(step.images)
        if not companions:
            step.outputs = self(step.images, step.targets)
            return
        together = torch.cat([*companions.values(), step.images])
        outputs = self(together, self.task.repeat(step.targets, len(companions) + 1))
        *others, step.outputs = [self._part(outputs, i * B, len(together), B) for i in range(len(companions) + 1)]
        step.companions = dict(zip(companions, others, strict=True))

    def _part(self, outputs: Outputs, start: int, total: int, count: int) -> Outputs:
        rows = slice(start, start + count)
        tape: Tape | None = outputs.tape.part(start, start + count, total) if outputs.tape is not None else None
        tokens = outputs.token_logits[rows] if outputs.token_logits is not None else None
        return Outputs(self.task.part(outputs.answer, rows), tokens, tape, outputs.grid)


@dataclass(frozen=True)
class LossTerms:
    """The weighted terms of the loss.

    Attributes:
        own: of the task, by name.
        added: method -> its terms by name.
    """

    own: Mapping[str, Tensor]
    added: Mapping[str, Mapping[str, Tensor]]

    @property
    def all(self) -> dict[str, Tensor]:
        return {**self.own, **{name: value for terms in self.added.values() for name, value in terms.items()}}


def loss_terms(step: Step, methods: Sequence[Method], weight: float) -> LossTerms:
    """The terms of the task, times `weight`, and what the methods add.

    Raises:
        ValueError: two of them have the same name.
    """
    own = step.task.loss(step.outputs.answer, step.targets) if weight else {}
    added = {method.name: method.terms(step) for method in methods}
    terms = LossTerms({name: weight * value for name, value in own.items()}, added)
    names = [*own, *(name for one in added.values() for name in one)]
    if len(names) > len(terms.all):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"two methods have a loss term {twice!r}; give one of them another name")
    return terms
