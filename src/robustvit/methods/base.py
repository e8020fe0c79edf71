"""What a method is: something that training adds to any network, and that leaves no trace in it.

A method's config says what the method needs and where it cannot work, before anything is opened. The method may send a second
batch through the network together with the first, and turns a step into named loss terms, already weighted. Terms add, so
methods compose in any order, and the loop never asks which are active. A method may own trainable parts (AFAT's patch
corruption network) with an optimizer and a state of their own.

One step of the loop, in order:

    companion(step) of each method          # further images for the same forward pass
    step.outputs, step.companions           # what the network answers
    terms(step) of each method              # weighted loss terms, added to those of the task
    diagnose(step) of each method           # in updates that are logged: numbers that show whether it acts
    backward of the sum
    after_backward(step, loss_scale)        # once a micro-batch
    update(reduce)                          # once an update of the network, after it
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from robustvit.recording.tape import Tape
from robustvit.runtime.randomness import keyed_seed
from robustvit.tasks.base import Task
from robustvit.tasks.mixing import MixedPart

__all__ = ["Method", "MethodConfig", "MixedPart", "Needs", "Outputs", "Step", "draw_uniform", "sample_generator"]


@dataclass(frozen=True)
class Needs:
    """What a method reads besides the answer of the network.

    Attributes:
        attention: `outputs.tape.attention`; the network then computes attention explicitly.
        features: `outputs.tape.features`.
        token_logits: `outputs.token_logits`; the network must have a token head.
        spatial_view: `step.view`, the same images with the spatial augmentations alone (STL).
        unmixed_view: `step.unmixed`, the images as they are before they are mixed, but erased.
    """

    attention: bool = False
    features: bool = False
    token_logits: bool = False
    spatial_view: bool = False
    unmixed_view: bool = False

    @property
    def recorded(self) -> bool:
        """Whether the network has to be recorded, which it then runs uncompiled for."""
        return self.attention or self.features

    def __or__(self, other: Needs) -> Needs:
        return Needs(**{name: getattr(self, name) or getattr(other, name) for name in self.__dataclass_fields__})


@dataclass(frozen=True)
class Outputs:
    """What the network said about B images.

    Attributes:
        answer: as the task's `forward` gives it: of a classifier, logits [B, K].
        token_logits: [B, N, K], where a method needs them.
        tape: what was recorded, where a method needs it. Features have the prefix tokens in front.
        grid: (Hp, Wp) of the token logits.
    """

    answer: Any
    token_logits: Tensor | None = None
    tape: Tape | None = None
    grid: tuple[int, int] | None = None


@dataclass
class Step:
    """One micro-batch on its way through the network.

    Attributes:
        task: what is learned.
        network: what is trained, without wrappers: for reading its sizes, not for calling it.
        forward: other pixels of the same samples [B, 3, H, W] -> `Outputs`; a further pass, with all that the methods need
            recorded.
        images: [B, 3, H, W], normalised, after every augmentation and mixing.
        targets: as the task collates and mixes them: of a classifier [B, K], mixed and smoothed.
        seeds: one per sample, of (run seed, epoch, sample id): what is drawn from them depends on neither batch nor process.
        share: B over the images of the whole update (all processes and micro-batches). Terms are means over this batch;
            the loop multiplies their sum by `share`.
        epoch: as a fraction, 1.5 in the middle of the second.
        progress: share of the training that is done, 0 .. 1.
        mean, std: of the normalisation.
        view: [B, 3, H, W], normalised, unmixed, where a method needs `spatial_view`.
        unmixed: [B, 3, H, W], `images` without mixing, where a method needs `unmixed_view`.
        mixes: how `images` were mixed, part by part; none for not at all.
        outputs: of `images`.
        companions: outputs of the images that methods gave along, by the method's name.
    """

    task: Task
    network: nn.Module
    forward: Callable[[Tensor], Outputs]
    images: Tensor
    targets: Any
    seeds: Sequence[int]
    share: float
    epoch: float
    mean: tuple[float, ...]
    std: tuple[float, ...]
    progress: float = 0.0
    view: Tensor | None = None
    unmixed: Tensor | None = None
    mixes: Sequence[MixedPart] = ()
    outputs: Outputs = field(init=False)
    companions: dict[str, Outputs] = field(default_factory=dict)

    def loss(self, outputs: Outputs) -> Tensor:
        """The task's own loss of some outputs, all its terms together, unweighted."""
        return reduce(torch.add, self.task.loss(outputs.answer, self.targets).values())


class MethodConfig:
    """The options of a method, `methods.NAME` in a recipe: base of a frozen dataclass beside each method.

    Attributes:
        tasks: names of the tasks whose targets and answers the method understands; empty for all, because it reads neither.
        trains_token_head: whether the method is one of those that train `model.token_head`.
    """

    tasks: ClassVar[tuple[str, ...]] = ()
    trains_token_head: ClassVar[bool] = False

    @property
    def needs(self) -> Needs:
        """What the method reads; known before network and data exist."""
        return Needs()

    def check(self, config: Any) -> None:
        """Called before anything is opened.

        Raises:
            ValueError: the method cannot work in this run, or a setting of the run would do nothing beside it.
        """
        if self.tasks and config.task not in self.tasks:
            raise ValueError(
                f"it reads what networks answer in {' and '.join(self.tasks)}, and cannot train {config.task}; leave it out"
            )
        for option, is_idle in (("compile", self.needs.recorded), ("grad_checkpointing", self.needs.attention)):
            if is_idle and getattr(config.loop, option):
                raise ValueError(
                    f"loop.{option} has no effect with this method, whose recording runs the network as it is; switch one of "
                    "them off"
                )
        if self.needs.token_logits and not config.model.token_head:
            raise ValueError("it needs the classifier of tokens; set model.token_head=true")

    def build(self, context: MethodContext) -> Method:
        """The method for a network.

        Raises:
            ValueError: the network cannot be trained so.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class MethodContext:
    """What a method may know when it is built.

    Attributes:
        network: to be trained.
        num_classes: K.
        img_size: (H, W) of the images.
        device: of the network.
        seed: of the run; parts of a method start from it.
        load_network: (name, checkpoint or "", options) -> a network in eval mode on the device, for teachers and labelers.
    """

    network: nn.Module
    num_classes: int
    img_size: tuple[int, int]
    device: torch.device
    seed: int
    load_network: Callable[[str, str, Mapping[str, Any]], nn.Module]


class Method:
    """A method that does nothing; subclasses override what they are about."""

    name: str = ""
    needs: Needs = Needs()

    def companion(self, step: Step) -> Tensor | None:
        """Images [B, 3, H, W] to go through the network in one batch with `step.images`, in front of them."""
        return None

    def terms(self, step: Step) -> dict[str, Tensor]:
        """Named scalar loss terms, weighted."""
        return {}

    def diagnose(self, step: Step) -> dict[str, float]:
        """Numbers that show whether the method acts, for the log; called where an update is logged, after `terms`.

        They are means over this batch, and must not change the training: no draws from global generators, no statistics.
        Names say how to draw them: `a_times_b`, `a_over_b` and `..._ratio` are multiples, others shares from 0 to 1.
        """
        return {}

    def concern(self, numbers: Mapping[str, float]) -> str | None:
        """What a user should know if these diagnostics, of a whole batch, say that the method does not do what it is for."""
        return None

    def after_backward(self, step: Step, loss_scale: float) -> None:
        """Called after the backward pass of a micro-batch, whose loss was multiplied by `share` and `loss_scale`."""

    def update(self, reduce: Callable[[Sequence[Tensor]], None]) -> dict[str, float]:
        """Called after the network's optimizer has stepped: steps what the method trains itself.

        Args:
            reduce: sums tensors over the processes, in place.

        Returns:
            Numbers for the log.
        """
        return {}

    def state_dict(self) -> dict[str, Any]:
        """Tensors and plain values that a resumed run needs; {} for a method without memory."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes over what `state_dict` gave."""


def sample_generator(seed: int, *purpose: int | str, device: torch.device | str = "cpu") -> torch.Generator:
    """A generator for one sample and purpose."""
    return torch.Generator(device).manual_seed(keyed_seed(seed, *purpose) >> 1)


def draw_uniform(seeds: Sequence[int], shape: tuple[int, ...], purpose: str, like: Tensor) -> Tensor:
    """U[0, 1) of [B, *shape], each sample from its own generator, with the dtype and on the device of `like`.

    A GPU draws by itself, and other numbers than a CPU: to draw on the CPU would take longer than a training step.
    """
    device = like.device if like.device.type == "cuda" else torch.device("cpu")
    drawn = torch.empty(len(seeds), *shape, device=device)
    for row, seed in zip(drawn, seeds, strict=True):
        row.uniform_(generator=sample_generator(seed, purpose, device=device))
    return drawn.to(device=like.device, dtype=like.dtype)
