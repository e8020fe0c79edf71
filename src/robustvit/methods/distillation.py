"""Distillation: a trained teacher sees the same images, and the student learns its answers beside the labels.

Soft and hard teachers as DeiT defines them ("Training data-efficient image transformers & distillation through attention",
2021, Eq. 2 and 3), which FAN's Table 2 compares.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from robustvit.data.normalisation import Normalisation
from robustvit.methods.base import Method, MethodConfig, MethodContext, Step

__all__ = ["Distillation", "DistillationConfig", "Kind", "hard_distillation", "soft_distillation"]

Kind = Literal["soft", "hard"]
"""Learn the teacher's distribution, or its best class."""


def soft_distillation(logits: Tensor, teacher_logits: Tensor, temperature: float) -> Tensor:
    """T^2 KL(softmax(z_t / T) || softmax(z_s / T)), the mean over images (Eq. 2), in float32.

    Args:
        logits, teacher_logits: [B, K] of student and teacher.
        temperature: T.
    """
    student = F.log_softmax(logits.float() / temperature, dim=-1)
    teacher = F.log_softmax(teacher_logits.float() / temperature, dim=-1)
    return temperature**2 * F.kl_div(student, teacher, reduction="batchmean", log_target=True)


def hard_distillation(logits: Tensor, teacher_logits: Tensor) -> Tensor:
    """The cross-entropy with the teacher's best class, without smoothing, the mean over images (Eq. 3), in float32.

    Args:
        logits, teacher_logits: [B, K] of student and teacher.
    """
    return F.cross_entropy(logits.float(), teacher_logits.argmax(-1))


@dataclass(frozen=True)
class DistillationConfig(MethodConfig):
    """A teacher; `methods.distillation` in a recipe.

    DeiT's loss is (1 - alpha) CE + alpha * distillation. The loop adds `loss.weight` * CE by itself, so its mixture needs
    `loss.weight` = 1 - `weight`: 0.5 for a hard teacher (weight 0.5), 0.9 for a soft one (weight 0.1).

    A student with a distillation token (timm's `deit_*_distilled_*`) answers with the mean of its two heads, in training as in
    evaluation, and both terms are on this mean. DeiT gives each head one of the terms.

    Attributes:
        teacher: name of the network: ours, a published or any timm name.
        checkpoint: its weights: a file or the folder of a run; "" where `options` say `pretrained: true`.
        kind: see `Kind`.
        weight: alpha.
        temperature: T of a soft teacher.
        options: further arguments of the teacher's `create_model`, such as `img_size`.
    """

    tasks: ClassVar[tuple[str, ...]] = ("classification",)

    teacher: str
    checkpoint: str = ""
    kind: Kind = "hard"
    weight: float = 0.5
    temperature: float = 3.0
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise ValueError(f"kind={self.kind!r} is not known; choose one of {', '.join(get_args(Kind))}")
        if not self.weight > 0:
            raise ValueError(
                f"weight={self.weight!r} is not possible: give more than 0, or leave distillation out of the methods"
            )
        if not self.temperature > 0:
            raise ValueError(f"temperature={self.temperature!r} is not possible; give more than 0")
        if not self.checkpoint and not self.options.get("pretrained"):
            raise ValueError(
                f"the teacher {self.teacher!r} would be untrained; give its checkpoint, or options={{'pretrained': True}}"
            )

    def build(self, context: MethodContext) -> Distillation:
        if getattr(context.network, "distilled_training", False):
            raise ValueError(
                "the student returns its two heads by themselves in training; call set_distilled_training(False), which makes "
                "it return their mean, as in evaluation"
            )
        teacher = context.load_network(self.teacher, self.checkpoint, {"num_classes": context.num_classes, **self.options})
        published = (getattr(teacher, "pretrained_cfg", None) or {}).get("num_classes", context.num_classes)
        if not self.checkpoint and published != context.num_classes:
            raise ValueError(
                f"the published weights of {self.teacher!r} know {published} classes and the student {context.num_classes}: "
                "the teacher's classifier would be untrained; give the checkpoint of a teacher trained on these classes"
            )
        return Distillation(self, teacher)


class Distillation(Method):
    """Adds alpha * distillation on the images as the student gets them, mixed and erased, in the teacher's normalisation.

    Args:
        config: its options.
        teacher: [B, 3, H, W] -> logits [B, K]; frozen here, and in no state of the method.
    """

    name = "distillation"

    def __init__(self, config: DistillationConfig, teacher: nn.Module) -> None:
        self.config, self.teacher = config, teacher.eval().requires_grad_(False)

    def terms(self, step: Step) -> dict[str, Tensor]:
        logits, teacher_logits = step.outputs.answer, self._teach(step)
        if teacher_logits.shape != logits.shape:
            raise ValueError(
                f"the teacher {self.config.teacher!r} answers {list(teacher_logits.shape)} where the student answers "
                f"{list(logits.shape)}; they need the same classes"
            )
        if self.config.kind == "soft":
            value = soft_distillation(logits, teacher_logits, self.config.temperature)
        else:
            value = hard_distillation(logits, teacher_logits)
        return {"distillation": self.config.weight * value}

    @torch.no_grad()
    def _teach(self, step: Step) -> Tensor:
        own = getattr(self.teacher, "pretrained_cfg", None) or {}
        ours = Normalisation(tuple(step.mean), tuple(step.std))
        theirs = Normalisation(tuple(own.get("mean", step.mean)), tuple(own.get("std", step.std)))
        images = step.images if theirs == ours else theirs(ours.inverse(step.images))
        return self.teacher(images)
