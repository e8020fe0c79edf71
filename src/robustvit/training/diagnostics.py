"""Whether the methods of a run act: numbers of an update, for the log and training.png.

In updates that are logged, methods say something about themselves (`Method.diagnose`), so do parts of the network
(`diagnosed_as`, `watched` and `diagnose` of a layer, such as TAP's), and the gradient of each method is compared with that of
the task. Nothing of it changes the training.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from robustvit.methods.base import Method, Step
from robustvit.training.distributed import Workers
from robustvit.training.forward import LossTerms

__all__ = ["Diagnosis", "gradient_ratios"]


class Diagnosis:
    """The diagnostics of one update.

    Args:
        network: that is trained.
        methods: of the run.
        can_compare: whether gradients of single terms can be taken: not of sharded or compiled networks.
    """

    def __init__(self, network: nn.Module, methods: Sequence[Method], *, can_compare: bool) -> None:
        self.network, self.methods, self.can_compare = network, methods, can_compare
        self.sums: dict[tuple[str, str], float] = defaultdict(float)
        self.has_compared = False

    @contextmanager
    def watching(self, share: float) -> Iterator[None]:
        """Reads what parts of the network say about the forward pass inside, of a `share` of the update's images."""
        parts = [module for module in self.network.modules() if hasattr(module, "diagnosed_as")]
        with ExitStack() as stack:
            for part in parts:
                read = partial(self._read, part, share / sum(p.diagnosed_as == part.diagnosed_as for p in parts))
                stack.callback(part.watched.register_forward_hook(read).remove)  # type: ignore[union-attr]
            yield

    def _read(self, part: Any, share: float, module: nn.Module, inputs: Any, output: Tensor) -> None:
        self._add(part.diagnosed_as, part.diagnose(output), share)

    def _add(self, name: str, numbers: Mapping[str, float], share: float) -> None:
        for key, value in numbers.items():
            self.sums[name, key] += float(value) * share

    def ask(self, step: Step, terms: LossTerms, workers: Workers, scale: float) -> None:
        """What the methods say about a micro-batch; gradients are those of the first one of each process.

        Args:
            step, terms: of the micro-batch, before the backward pass.
            workers: the processes of the run.
            scale: on losses, by which half precision avoids underflow.
        """
        for method in self.methods:
            self._add(method.name, method.diagnose(step), step.share)
        if self.can_compare and not self.has_compared:
            self.has_compared = True
            for name, ratio in gradient_ratios(terms, self.network, scale).items():
                self._add(name, {"gradient_ratio": ratio}, 1 / workers.world)

    def agreed(self, workers: Workers, device: torch.device) -> dict[str, dict[str, float]]:
        """Method or part -> its numbers, over all processes; without those that half precision made infinite."""
        keys = sorted(self.sums)
        values = torch.tensor([self.sums[key] for key in keys], dtype=torch.float64, device=device)
        workers.sum([values])
        found: dict[str, dict[str, float]] = {}
        for (name, key), value in zip(keys, values.tolist(), strict=True):
            if math.isfinite(value):
                found.setdefault(name, {})[key] = value
        return found


def gradient_ratios(terms: LossTerms, network: nn.Module, scale: float = 1.0) -> dict[str, float]:
    """For each method, the norm of the gradient of its terms over that of the task's own terms, in the network's parameters.

    A ratio of 0.001 means that the method is as good as off. Empty where the task has no loss of its own; where that has no
    gradient, or an infinite one by half precision, ratios are infinite: nothing is known.
    """
    parameters = [parameter for parameter in network.parameters() if parameter.requires_grad]

    def norm(losses: Mapping[str, Tensor]) -> float:
        with_gradient = [term.float() for term in losses.values() if term.requires_grad]
        if not with_gradient:
            return 0.0
        loss = scale * torch.stack(with_gradient).sum()
        gradients = torch.autograd.grad(loss, parameters, retain_graph=True, allow_unused=True)
        return float(nn.utils.get_total_norm([g.float() for g in gradients if g is not None]))

    if not terms.own:
        return {}
    own = norm(terms.own)
    return {name: norm(added) / own if own and math.isfinite(own) else math.inf for name, added in terms.added.items()}
