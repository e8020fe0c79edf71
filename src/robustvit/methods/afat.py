"""AFAT: covers the patches whose corruption changes the network's features most, and trains the features not to change.

    min over F, max over C of   CE(F(x), y) + lambda L_align(x, x^)            (Eq. 3)

C scores the patches of x and the lowest are covered (`patch_corruption`); F sees x^ and x in one batch. C climbs by an
optimizer of its own. It is never touched by the backward pass of F: the mask is a leaf, its gradient is read there, scaled by
a constant of its own instead of the loss scale, and sent on into C. The sum over micro-batches and processes does not depend
on how the batch was split (but for batch statistics).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import torch
from torch import Tensor, nn

from robustvit.corruptions.patches import PatchNoise
from robustvit.methods.alignment import AlignmentVariant, alignment_loss
from robustvit.methods.base import Method, MethodConfig, MethodContext, Needs, Outputs, Step
from robustvit.methods.patch_corruption import PatchScorer, cover_patches, draw_noise, keep_mask, random_scores
from robustvit.recording.tape import Tape, record
from robustvit.recording.token_grids import token_stride
from robustvit.runtime.evaluation_mode import evaluation_mode
from robustvit.runtime.randomness import keyed_seed

__all__ = ["STRENGTHS", "Afat", "AfatConfig", "CorruptionObjective", "Selection", "Strength", "alignment_of_choices"]

Selection = Literal["adversarial", "random"]
"""Who chooses the patches: C, or chance (Table 4's ablation, without C)."""

CorruptionObjective = Literal["align", "total", "ce"]
"""What C makes large.

align: L_align alone, as Eq. 2 says. Where batch statistics let the cross-entropy of x depend on x^, this takes a second
    backward pass.
total: the whole loss, as released: through batch statistics C then also spoils the cross-entropy of x.
ce: the cross-entropy of x^ (an ablation); always takes a second backward pass.
"""


class Strength(NamedTuple):
    """How C climbs.

    Attributes:
        scale: on its gradient.
        clip: of the gradient of a patch's score; 0 for none.
        lr: of its SGD.
    """

    scale: float
    clip: float
    lr: float


STRENGTHS: dict[AlignmentVariant, Strength] = {
    "paper": Strength(scale=10.0, clip=0.0, lr=1e-2),
    "released": Strength(scale=327.68, clip=1.0, lr=1e-4),
}
"""The paper gives no numbers for C; these make it climb, see docs/afat.md. 327.68 is the first strength of the released code:
lambda times a loss scale of 65536 that it never removes. The clip here sees the gradient of the mean over the whole update,
the released one that of each device's part: with 16 devices, its strength is 16 times this number."""


@dataclass(frozen=True)
class AfatConfig(MethodConfig):
    """AFAT's options.

    Attributes:
        weight: lambda.
        rho: share of the patches to cover.
        patch_size: side of a patch in pixels; None takes the token stride of the network, see `token_stride`.
        noise: what covers a patch; "zero" is the mean colour, which stands for PatchDrop: the token stays.
        selection: see `Selection`.
        corruption_objective: see `CorruptionObjective`.
        corruption_grad_scale: multiplies the gradient of L_align (or of "ce") on its way to C. None takes what the variant has
            (`Strength`).
        corruption_grad_clip: largest gradient of a patch's score after that; 0 for any, None for what the variant has.
        joint_batch: False sends x^ through the network by itself: batch statistics are not shared, nothing of CE(x) can leak
            to C, and "align" takes one backward pass. True sends x^ and x in one batch with common statistics, as released.
            None joins them where the network has no batch norm, so that it makes no difference but in speed.
        lr, momentum, weight_decay: of C's SGD (Nesterov, ascending). The rate is constant; None takes what the variant has.
        clip_grad: largest norm of C's gradient.
        variant: of the alignment loss, and of C's strength. The released program is variant="released" with
            corruption_objective="total" and joint_batch=True.
    """

    weight: float = 0.005
    rho: float = 0.1
    patch_size: int | None = None
    noise: PatchNoise = "unit_normalised"
    selection: Selection = "adversarial"
    corruption_objective: CorruptionObjective = "align"
    corruption_grad_scale: float | None = None
    corruption_grad_clip: float | None = None
    joint_batch: bool | None = None
    lr: float | None = None
    momentum: float = 0.9
    weight_decay: float = 0.05
    clip_grad: float = 5.0
    variant: AlignmentVariant = "paper"

    def __post_init__(self) -> None:
        if not self.weight > 0:
            raise ValueError(f"weight={self.weight!r} is not possible: give more than 0, or leave afat out of the methods")
        if not 0 <= self.rho < 1:
            raise ValueError(f"rho={self.rho!r} is not possible; give 0 or more and less than 1")
        kinds = dict(noise=PatchNoise, selection=Selection, corruption_objective=CorruptionObjective, variant=AlignmentVariant)
        for name, kind in kinds.items():
            if getattr(self, name) not in get_args(kind):
                raise ValueError(f"{name}={getattr(self, name)!r} is not known; choose one of {', '.join(get_args(kind))}")
        for name in ("corruption_grad_scale", "corruption_grad_clip", "lr"):
            value = getattr(self, name)
            if value is not None and not value >= 0:
                raise ValueError(f"{name}={value!r} is not possible; give 0 or more, or null for what the variant has")

    @property
    def needs(self) -> Needs:
        return Needs(features=True)

    @property
    def strength(self) -> Strength:
        """That of the variant, but for what is given."""
        given = dict(scale=self.corruption_grad_scale, clip=self.corruption_grad_clip, lr=self.lr)
        return STRENGTHS[self.variant]._replace(**{name: value for name, value in given.items() if value is not None})

    def check(self, config: Any) -> None:
        super().check(config)
        if config.augment.crop == "multiscale":
            raise ValueError(
                "augment.crop=multiscale makes images of another size in every batch, and AFAT chooses among the patches of "
                "one size; take another crop, such as scene"
            )

    def build(self, context: MethodContext) -> Afat:
        return Afat(self, context)


@dataclass
class _Choice:
    """What C chose in a micro-batch, until its gradient is known.

    Attributes:
        mask: [B, N] from `keep_mask`, with its history in C.
        leaf: the same values cut off from C; what x^ is made with.
        gradient: of C's objective in `leaf`, scaled; None where the ordinary backward pass gives it.
    """

    mask: Tensor
    leaf: Tensor
    gradient: Tensor | None = None


class Afat(Method):
    """The method; `scorer` is C, None for random selection."""

    name = "afat"

    def __init__(self, config: AfatConfig, context: MethodContext) -> None:
        self.config, self.needs, self.strength = config, config.needs, config.strength
        has_batch_norm = any(isinstance(m, nn.modules.batchnorm._BatchNorm) for m in context.network.modules())
        self.is_joint = not has_batch_norm if config.joint_batch is None else config.joint_batch
        self.patch_size = config.patch_size or token_stride(context.network, context.img_size)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(keyed_seed(context.seed, "afat") >> 1)
            scorer = PatchScorer(context.img_size, self.patch_size).to(context.device)
        self.patches = scorer.grid[0] * scorer.grid[1]
        self.scorer = scorer if config.selection == "adversarial" else None
        self._choice: _Choice | None = None
        if self.scorer is not None:
            self.optimizer = torch.optim.SGD(
                scorer.parameters(),
                lr=self.strength.lr,
                momentum=config.momentum,
                nesterov=config.momentum > 0,
                weight_decay=config.weight_decay,
                maximize=True,
            )

    def companion(self, step: Step) -> Tensor | None:
        return self._corrupt(step) if self.is_joint else None

    def _corrupt(self, step: Step) -> Tensor:
        """x^ of `step.images`; notes what C chose."""
        x, config = step.images, self.config
        if self.scorer is None:
            keep = keep_mask(random_scores(step.seeds, self.patches, x.float()), config.rho)
        else:
            with torch.autocast(x.device.type, enabled=False):
                mask = keep_mask(self.scorer(x.float()), config.rho, self.strength.clip)
            keep = mask.detach().requires_grad_()
            self._choice = _Choice(mask, keep)
        noise = draw_noise(x, config.noise, step.mean, step.std, step.seeds)
        return cover_patches(x, keep.to(x.dtype), noise, step.mean, step.std)

    def terms(self, step: Step) -> dict[str, Tensor]:
        corrupted = step.companions[self.name] if self.is_joint else step.forward(self._corrupt(step))
        clean_tape, corrupted_tape = step.outputs.tape, corrupted.tape
        if clean_tape is None or corrupted_tape is None:
            raise ValueError("AFAT compares features and none were recorded; run the network as `needs` says")
        align = alignment_loss(
            clean_tape.features,
            corrupted_tape.features,
            prefix_tokens=clean_tape.prefix_tokens,
            variant=self.config.variant,
        )
        if self._choice is not None:
            self._choice.gradient = self._separate_gradient(step, align, corrupted, self._choice.leaf)
        return {self.name: self.config.weight * align}

    def _separate_gradient(self, step: Step, align: Tensor, corrupted: Outputs, leaf: Tensor) -> Tensor | None:
        """The gradient of C's objective in the mask, where the backward pass of the whole loss has another one."""
        objective = self.config.corruption_objective
        leaks = self.is_joint and _uses_batch_statistics(step.network)
        if objective == "total" or (objective == "align" and not leaks):
            return None
        aim = align if objective == "align" else step.loss(corrupted)
        return torch.autograd.grad(self.strength.scale * aim, leaf, retain_graph=True)[0]

    def diagnose(self, step: Step) -> dict[str, float]:
        """L_align of the patches that C chooses, over that of random ones: 1 where C has learned nothing yet."""
        if self.scorer is None:
            return {}
        with evaluation_mode(step.network):
            chosen, random = alignment_of_choices(step, self.scorer, self.config)
        return {"chosen_over_random": chosen / random if random else 1.0}

    def after_backward(self, step: Step, loss_scale: float) -> None:
        if self._choice is None:
            return
        choice, self._choice = self._choice, None
        if choice.gradient is not None:
            gradient = step.share * choice.gradient
        elif choice.leaf.grad is not None:  # of loss_scale * share * (lambda L_align + what leaks)
            gradient = choice.leaf.grad * (self.strength.scale / (self.config.weight * loss_scale))
        else:
            raise RuntimeError("AFAT's corrupted images took no part in the backward pass; add its term to the loss")
        choice.mask.backward(gradient)  # through `keep_mask`, which may clip it

    def update(self, reduce: Callable[[Sequence[Tensor]], None]) -> dict[str, float]:
        if self.scorer is None:
            return {}
        parameters = list(self.scorer.parameters())
        for parameter in parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        reduce(gradients)
        norm = nn.utils.clip_grad_norm_(parameters, self.config.clip_grad)
        for gradient in gradients:
            torch.nan_to_num_(gradient, nan=0.0, posinf=0.0, neginf=0.0)  # after an overflow, as released: a step of 0
        self.optimizer.step()
        self.optimizer.zero_grad()
        return {"afat_gradient_norm": float(norm)}

    def state_dict(self) -> dict[str, Any]:
        if self.scorer is None:
            return {}
        state = {"scorer": self.scorer.state_dict(), "optimizer": self.optimizer.state_dict()}
        return {**state, "img_size": list(self.scorer.img_size)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if self.scorer is not None:
            self.scorer.load_state_dict(state["scorer"])
            self.optimizer.load_state_dict(state["optimizer"])


def alignment_of_choices(step: Step, scorer: PatchScorer, config: AfatConfig) -> tuple[float, float]:
    """L_align of a batch with the patches covered that `scorer` chooses, and with as many random ones; the same noise.

    The network of the step is asked as it stands: put it into evaluation mode.
    """
    x = step.images.float()
    noise = draw_noise(x, config.noise, step.mean, step.std, step.seeds)
    N = scorer.grid[0] * scorer.grid[1]
    scores = (scorer(x), random_scores(step.seeds, N, x))

    def features(images: Tensor) -> Tape:
        with record(step.network, attention=False) as tape:
            step.network(images.to(step.images.dtype))
        return tape

    clean = features(x)
    covered = [features(cover_patches(x, keep_mask(one, config.rho), noise, step.mean, step.std)) for one in scores]
    losses = [alignment_loss(clean.features, tape.features, prefix_tokens=clean.prefix_tokens) for tape in covered]
    return float(losses[0]), float(losses[1])


def _uses_batch_statistics(network: nn.Module) -> bool:
    """Whether what the network says about an image depends on the others of its batch."""
    norms = (m for m in network.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm))
    return any(norm.training or norm.running_mean is None for norm in norms)
