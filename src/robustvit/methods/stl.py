"""STL in training: stage 1 makes a labeler of tokens, stage 2 a student that learns from it (STL, sections 3.1 and 3.2).

Both networks have a token head. The image label on the class token is the loop's own cross-entropy; the methods here add the
term of the tokens. The labeler sees the images with the spatial augmentations alone, the student all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, get_args

import torch
from torch import Tensor

from robustvit.methods.base import Method, MethodConfig, MethodContext, Needs, Outputs, Step
from robustvit.methods.token_labels import (
    LabelKind,
    draw_exponential,
    mix_labels,
    pooled_loss,
    resize_labels,
    token_accuracy,
    token_loss,
    token_targets,
)
from robustvit.runtime.evaluation_mode import evaluation_mode
from robustvit.tasks.mixing import Mix, mix_parts

__all__ = ["LabelerConfig", "LabelerView", "StlLabeler", "StlStudent", "StudentConfig", "Supervision", "TokenMix"]

Supervision = Literal["pooled", "every_token"]
"""Where stage 1 puts the image label: on the mean of the tokens (Eq. 2), or on every token (an ablation)."""

TokenMix = Literal["none", "match"]
"""Whether token labels are mixed: not at all, as published, or as the image was (ours): mixup blends, cutmix by cell."""

LabelerView = Literal["spatial", "unmixed", "student"]
"""What the labeler sees, the rows of Table 6: the images with spatial augmentations alone; with RandAugment and erasing too;
or all that the student sees, mixing included."""


def _check_choices(config: Any, **kinds: Any) -> None:
    for name, kind in kinds.items():
        if getattr(config, name) not in get_args(kind):
            raise ValueError(f"{name}={getattr(config, name)!r} is not known; choose one of {', '.join(get_args(kind))}")


def _token_logits(outputs: Outputs) -> Tensor:
    if outputs.token_logits is None:
        raise ValueError("STL needs token logits and the network gave none; build it with token_head=True")
    return outputs.token_logits


@dataclass(frozen=True)
class LabelerConfig(MethodConfig):
    """Stage 1.

    Attributes:
        token_weight: alpha.
        supervision: see `Supervision`.
    """

    tasks: ClassVar[tuple[str, ...]] = ("classification",)
    trains_token_head: ClassVar[bool] = True

    token_weight: float = 1.0
    supervision: Supervision = "pooled"

    def __post_init__(self) -> None:
        _check_choices(self, supervision=Supervision)

    @property
    def needs(self) -> Needs:
        return Needs(token_logits=True)

    def build(self, context: MethodContext) -> StlLabeler:
        return StlLabeler(self)


class StlLabeler(Method):
    """`alpha CE(mean of the tokens, y)`."""

    name = "stl_labeler"

    def __init__(self, config: LabelerConfig) -> None:
        self.config, self.needs = config, config.needs

    def terms(self, step: Step) -> dict[str, Tensor]:
        tokens = _token_logits(step.outputs)
        if self.config.supervision == "pooled":
            loss = pooled_loss(tokens, step.targets)
        else:
            loss = token_loss(tokens, step.targets[:, None].expand(-1, tokens.shape[1], -1))
        return {self.name: self.config.token_weight * loss}

    def diagnose(self, step: Step) -> dict[str, float]:
        """Share of the tokens that are told to be what the image is: of a mixed one, the larger part."""
        return {"token_accuracy": token_accuracy(_token_logits(step.outputs), step.targets[:, None])}


@dataclass(frozen=True)
class StudentConfig(MethodConfig):
    """Stage 2.

    Attributes:
        labeler: name of the labeler, any network that can have a token head; "" lets the student label for itself.
        checkpoint: the labeler's weights: a file, or the folder of a run of stage 1.
        options: further arguments of `create_model` for the labeler.
        token_weight: beta.
        labels: how token labels are made of the labeler's logits.
        smoothing: of hard token labels.
        token_mix: see `TokenMix`.
        labeler_view: see `LabelerView`.
        untrained: let a labeler without weights teach nonsense, to try a recipe out.
        ramp_epochs: the weight of the tokens grows as sqrt(epoch / ramp_epochs) until then; 0 for its full value at once.
    """

    tasks: ClassVar[tuple[str, ...]] = ("classification",)
    trains_token_head: ClassVar[bool] = True

    labeler: str = ""
    checkpoint: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    token_weight: float = 1.0
    labels: LabelKind = "gumbel"
    smoothing: float = 0.1
    token_mix: TokenMix = "none"
    labeler_view: LabelerView = "spatial"
    untrained: bool = False
    ramp_epochs: float = 0.0

    def __post_init__(self) -> None:
        _check_choices(self, labels=LabelKind, token_mix=TokenMix, labeler_view=LabelerView)
        if self.checkpoint and not self.labeler:
            raise ValueError(f"checkpoint={self.checkpoint!r} needs the name of its network; give labeler=NAME")
        if self.labeler and bool(self.checkpoint) == self.untrained:
            raise ValueError(
                f"labeler={self.labeler!r} needs the weights of stage 1, or the word that it has none: give checkpoint (file "
                "or folder of its run), or untrained=True to try things out"
            )
        if self.labeler_view == "student" and self.token_mix == "match":
            raise ValueError("labeler_view='student' labels images that are mixed already; leave token_mix at 'none'")
        if not 0 <= self.smoothing < 1:
            raise ValueError(f"smoothing={self.smoothing!r} is not possible; give 0 or more and less than 1")

    @property
    def needs(self) -> Needs:
        view = self.labeler_view
        return Needs(token_logits=True, spatial_view=view == "spatial", unmixed_view=view == "unmixed")

    def build(self, context: MethodContext) -> StlStudent:
        return StlStudent(self, context)


class StlStudent(Method):
    """`beta` times the mean over images and tokens of CE(token, q), q from the labeler (Eq. 5)."""

    name = "stl_student"

    def __init__(self, config: StudentConfig, context: MethodContext) -> None:
        self.config, self.needs = config, config.needs
        self.labeler: Any = None
        if config.labeler:
            options = {"num_classes": context.num_classes, **config.options, "token_head": True}
            self.labeler = context.load_network(config.labeler, config.checkpoint, options).eval().requires_grad_(False)

    def terms(self, step: Step) -> dict[str, Tensor]:
        tokens = _token_logits(step.outputs)
        return {self.name: self._weight(step.epoch) * token_loss(tokens, self._labels(step, tokens.shape[-1]))}

    def diagnose(self, step: Step) -> dict[str, float]:
        """Share of the tokens that are told to be what their labels say."""
        tokens = _token_logits(step.outputs)
        return {"token_accuracy": token_accuracy(tokens, self._labels(step, tokens.shape[-1]))}

    def _weight(self, epoch: float) -> float:
        ramp = self.config.ramp_epochs
        return self.config.token_weight * (min(1.0, epoch / ramp) ** 0.5 if ramp else 1.0)

    @torch.no_grad()
    def _labels(self, step: Step, classes: int) -> Tensor:
        """q [B, N, K] on the student's grid."""
        config, student_grid = self.config, step.outputs.grid
        seen = {"spatial": step.view, "unmixed": step.unmixed, "student": step.images}[config.labeler_view]
        if seen is None or student_grid is None:
            raise ValueError(
                f"STL needs the {config.labeler_view} view and the grid of the tokens; prepare the step as `needs` says"
            )
        logits, grid = self._ask(step, seen, student_grid)
        if logits.shape[-1] != classes:
            raise ValueError(
                f"the labeler knows {logits.shape[-1]} classes and the student {classes}; train both on the same classes"
            )
        drawn = draw_exponential(step.seeds, logits) if config.labels == "gumbel" else None
        labels = token_targets(logits, config.labels, smoothing=config.smoothing, exponential=drawn)
        labels = resize_labels(labels, grid, student_grid)
        if config.token_mix == "none":
            return labels
        H, W = step.images.shape[-2:]

        def mixed(labels: Tensor, mix: Mix | None) -> Tensor:
            return labels if mix is None else mix_labels(labels, mix, student_grid, (H, W))

        return mix_parts(step.mixes, labels, mixed)

    def _ask(self, step: Step, seen: Tensor, student_grid: tuple[int, int]) -> tuple[Tensor, tuple[int, int]]:
        """The labeler's token logits [B, N, K] and their grid."""
        if self.labeler is None:
            with evaluation_mode(step.network):  # the published program stays in it
                return _token_logits(step.forward(seen)), student_grid
        _, logits = self.labeler.forward_tokens(seen)
        return logits, self.labeler.token_grid(*seen.shape[-2:])
