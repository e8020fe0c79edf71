"""Classification: a target is the index of a class, a prediction is the class with the largest logit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from timm.data.mixup import mixup_target
from torch import Tensor, nn

from robustvit.corruptions.conditions import Condition
from robustvit.data.normalisation import Normalisation
from robustvit.data.readers.class_folders import LayoutError
from robustvit.data.samples import Sample, SampleSet
from robustvit.metrics import measures
from robustvit.metrics.accuracy import is_right, share_right
from robustvit.metrics.calibration import calibration_error
from robustvit.metrics.class_subset import keep_classes
from robustvit.metrics.intervals import Interval
from robustvit.metrics.wilson import wilson_interval
from robustvit.models.class_logits import class_logits
from robustvit.runtime.memory import fits_memory, is_out_of_memory
from robustvit.tasks.base import Answer, SummaryMeasures, Task
from robustvit.tasks.class_accuracies import class_accuracies_of
from robustvit.tasks.class_matching import (
    IMAGENET_OUTPUTS,
    NO_ANSWER,
    ClassMismatchError,
    Matching,
    label_names_of,
    match_classes,
)
from robustvit.tasks.class_predictions import Predictions, predictions_of
from robustvit.tasks.class_rule import ClassRule
from robustvit.tasks.mixing import Mix
from robustvit.tasks.notes import Note, chance_note
from robustvit.tasks.per_class import ClassResult
from robustvit.tasks.relabelled import Relabelled
from robustvit.tasks.tallies import Tallies, Tally

__all__ = ["NO_ANSWER", "ClassPrediction", "Classification", "correct", "soft_cross_entropy"]


@dataclass(frozen=True)
class ClassPrediction:
    """The class of largest softmax, as a position among the outputs that compete, or NO_ANSWER; and that softmax."""

    position: int
    confidence: float


def soft_cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    """The mean over rows of `-sum_k t_k log_softmax(x)_k`; logits and target [..., K], computed in float32."""
    return -(target.float() * F.log_softmax(logits.float(), dim=-1)).sum(-1).mean()


@dataclass(frozen=True)
class Classification(Task):
    """One class per image.

    Attributes:
        matching: which output belongs to which class of the dataset; None before `bind`.
        rule: how the tokens of a network take part.
        rule_told: what results say about it; empty before `bind`.
    """

    name = "classification"
    primary = measures.ACCURACY
    summary = SummaryMeasures(
        clean=measures.CLEAN_ACCURACY,
        mean=measures.MEAN_ACCURACY,
        mean_15=measures.MEAN_ACCURACY_15,
        mean_19=measures.MEAN_ACCURACY_19,
    )
    is_share = True
    can_be_attacked = True
    prediction_table = Predictions
    matching: Matching | None = None
    rule: ClassRule = field(default_factory=ClassRule)
    rule_told: Mapping[str, str] = field(default_factory=dict)

    # data

    def outputs(self, samples: SampleSet) -> int:
        """One per class; where nobody knows their names, as many as the labels of the samples need.

        Raises:
            LayoutError: there are fewer than two classes.
        """
        count = len(samples.classes) or int(max(samples.labels)) + 1  # type: ignore[attr-defined]
        if count < 2:
            only = f", {samples.classes[0]!r}" if samples.classes else ""
            raise LayoutError(f"{samples.name} has one class only{only}; there is nothing to tell apart")
        return count

    def with_classes(self, samples: SampleSet, classes: Sequence[str]) -> SampleSet:
        """By name: some of the classes may be missing, but there may be no others."""
        if not classes or not samples.classes or tuple(classes) == tuple(samples.classes):
            return samples
        if unknown := sorted(set(samples.classes) - set(classes)):
            raise ValueError(f"{samples.name} has classes that the training set does not have: {', '.join(unknown[:8])}")
        return Relabelled(samples, [list(classes).index(name) for name in samples.classes], classes)

    # training

    def check(self, config: Any) -> None:
        """Whether the network will have what validation reads."""
        if self.rule.token_fusion and not (config.model.token_head or config.model.options.get("token_head")):
            raise ValueError("validation.token_fusion=true reads token logits; add model.token_head=true, or leave it out")

    def collate(self, targets: Sequence[int]) -> Tensor:
        """int64 [B]."""
        return torch.as_tensor(targets, dtype=torch.int64)

    def mix(self, targets: Tensor, mix: Mix | None, *, outputs: int, smoothing: float) -> Tensor:
        """y_i = lam * smooth(label_i) + (1 - lam) * smooth(label_{B-1-i}), with smooth: on = 1 - s + s/K, off = s/K.

        Returns:
            float32 [B, K].
        """
        return mixup_target(targets, outputs, 1.0 if mix is None else mix.lam, smoothing)

    def loss(self, answer: Tensor, targets: Tensor) -> dict[str, Tensor]:
        """The cross-entropy of logits [B, K] with targets [B, K]."""
        return {"ce": soft_cross_entropy(answer, targets)}

    # attacks

    def attacked_answer(self, network: nn.Module, inputs: Tensor) -> Tensor:
        """Logits [B, K] of all outputs."""
        return self.rule.logits(network, inputs).float()

    def attack_losses(self, answer: Tensor, targets: Tensor) -> Tensor:
        """The cross-entropy of each image; targets int64 [B]."""
        return F.cross_entropy(answer.float(), targets, reduction="none")

    # evaluation

    @property
    def bound(self) -> Matching:
        """The matching of the classes."""
        if self.matching is None:
            raise RuntimeError("this task is not bound to a network and a dataset yet; call `bind`")
        return self.matching

    @property
    def columns(self) -> tuple[int, ...] | None:
        """Outputs of the network that compete; None for all."""
        return self.bound.columns

    @property
    def competing(self) -> int:
        """How many outputs compete."""
        return len(self.columns) if self.columns is not None else self.bound.outputs

    def with_options(self, **options: Any) -> Classification:
        return replace(self, rule=ClassRule(**options)) if options else self

    def bind_in_order(self, outputs: int) -> Classification:
        """Label i is output i."""
        return replace(self, matching=Matching(outputs, tuple(range(outputs))))

    def bind(
        self,
        network: nn.Module,
        samples: SampleSet,
        size: tuple[int, int],
        *,
        class_map: Mapping[str, int] | None = None,
        subset: Literal["a", "r"] | None = None,
        outputs: int | None = None,
        **options: Any,
    ) -> Classification:
        """See `Task.bind`.

        Args:
            network, samples, size: as there.
            class_map: class name -> output, where they are not in the same order.
            subset: "a" or "r": only the 200 classes of ImageNet-A or -R compete.
            outputs: of the network, where they are known; otherwise it is asked with a black image.
            options: none.

        Raises:
            ClassMismatchError: the classes are not those of the network.
            ValueError: the rule needs a token head, and the network has none.
        """
        super().bind(network, samples, size, **options)
        self.rule.check(network)
        outputs = count_outputs(network, size) if outputs is None else outputs
        given: Any = dict(class_map=class_map, subset=subset, label_names=label_names_of(network))
        matching = match_classes(samples.classes, outputs, **given)
        return replace(self, matching=matching, rule_told=self.rule.describe(network))

    def bind_images(self, network: nn.Module, samples: SampleSet, size: tuple[int, int]) -> Classification:
        """With the names of the dataset's classes where these are classes of the network."""
        try:
            return self.bind(network, samples, size)
        except ClassMismatchError:
            outputs = count_outputs(network, size)
            matching = match_classes((), outputs, label_names=label_names_of(network))
            return replace(self, matching=matching, rule_told=self.rule.describe(network))

    def known(self) -> dict[str, Any]:
        return {"outputs": self.bound.outputs}

    def target(self, sample: Sample, samples: SampleSet) -> int:
        """The position among the competing outputs that is right for this sample."""
        label, targets = sample.target(), self.bound.targets
        if not 0 <= label < len(targets):
            raise ClassMismatchError(
                f"image {sample.id} of {samples.name} has label {label}, but there are only outputs for labels 0 to "
                f"{len(targets) - 1}; is this the network for these images?"
            )
        return targets[label]

    def logits(self, network: nn.Module, inputs: Tensor) -> Tensor:
        """[B, K] of the outputs that compete, in float32."""
        logits = self.rule.logits(network, inputs).detach().float()  # a view of a parameter wants gradients
        return logits if self.matching is None or self.columns is None else keep_classes(logits, self.columns)

    @torch.inference_mode()
    def logits_of_images(self, network: nn.Module, images: Tensor, normalisation: Normalisation) -> Tensor:
        """As `logits`, from uint8 [B, 3, H, W]."""
        parameter = next(network.parameters(), torch.zeros(()))
        return self.logits(network, normalisation(images.to(parameter.device)).to(parameter.dtype))

    @torch.inference_mode()
    def predict(self, network: nn.Module, inputs: Tensor) -> list[ClassPrediction]:
        """The class of each image; NO_ANSWER, without confidence, where the logits are not finite."""
        logits = self.logits(network, inputs)
        confidences, positions = logits.softmax(-1).max(-1)
        finite = logits.isfinite().all(-1)
        confidences, positions = torch.where(finite, confidences, 0), torch.where(finite, positions, NO_ANSWER)
        return [ClassPrediction(*pair) for pair in zip(positions.tolist(), confidences.tolist(), strict=True)]

    def disagreement(self, first: ClassPrediction, second: ClassPrediction) -> float:
        """Whether the class is another one."""
        return float(first.position != second.position)

    def tally(self, prediction: ClassPrediction, target: int) -> Tally:
        return {
            "label": np.int64(target),
            "prediction": np.int64(prediction.position),
            "confidence": np.float32(prediction.confidence),
        }

    def score(self, tallies: Tallies, counts: np.ndarray) -> dict[str, np.ndarray]:
        """The share of right answers."""
        return {self.primary.key: share_right(correct(tallies), counts)}

    def interval(self, key: str, tallies: Tallies) -> Interval | None:
        """Wilson's, which is made for a share."""
        right = int(correct(tallies).sum())
        return wilson_interval(right, len(tallies)) if key == self.primary.key and len(tallies) else None

    def extras(self, tallies: Tallies) -> dict[str, float]:
        """The calibration error, and how many images got no answer."""
        gap = calibration_error(tallies["confidence"].clip(0, 1), correct(tallies))
        return {"calibration_error": gap, "no_answer": float((tallies["prediction"] == NO_ANSWER).sum())}

    def hardest(self, rows: Sequence[Tallies]) -> Tallies:
        """For each image a wrong answer, where there is one."""
        wrong = np.stack([~correct(row) for row in rows]).argmax(0)  # the first wrong row, or row 0 where all are right
        places = (wrong, np.arange(len(rows[0])))
        return Tallies(len(rows[0]), {name: np.stack([row[name] for row in rows])[places] for name in rows[0].arrays})

    def has_same_targets(self, first: Tallies, second: Tallies) -> bool:
        return bool((first["label"] == second["label"]).all())

    def clean_extras(self, tallies: Tallies) -> dict[str, float]:
        return {measures.EXPECTED_CALIBRATION_ERROR.key: self.extras(tallies)["calibration_error"]}

    def per_class(self, conditions: Sequence[Condition], rows: Sequence[Tallies]) -> tuple[ClassResult, ...]:
        return class_accuracies_of(conditions, rows, self.class_name)

    def predictions(
        self, network: str, suites: Sequence[str], conditions: Sequence[Condition], ids: Sequence[str], rows: Sequence[Tallies]
    ) -> Predictions:
        return predictions_of(network, suites, conditions, ids, rows, self.class_name)

    def notes(self, samples: SampleSet, clean: Tallies, *, is_untrained: bool) -> list[Note]:
        """Whether the accuracy on clean images is no better than guessing."""
        right, by = int(correct(clean).sum()), self.bound.by
        known: Any = dict(has_names=bool(samples.classes), is_untrained=is_untrained)
        note = chance_note(right, len(clean), self.competing, by, **known)
        return [] if note is None else [note]

    def class_map(self, samples: SampleSet) -> dict[str, int]:
        return dict(zip(samples.classes, self.bound.targets, strict=True)) if samples.classes else {}

    @property
    def is_imagenet(self) -> bool:
        """Whether all of ImageNet's 1000 classes compete."""
        return self.competing == IMAGENET_OUTPUTS

    # report

    def class_name(self, position: int) -> str:
        """What an answer (a position among the competing outputs) is called; the number of the output where nobody knows."""
        if position == NO_ANSWER:
            return "no answer"
        output = position if self.columns is None else self.columns[position]
        return self.bound.names.get(position) or f"output {output}"

    def answer(self, prediction: ClassPrediction, target: int) -> Answer:
        right = bool(is_right(prediction.position, target))
        return Answer(self.class_name(prediction.position), prediction.confidence, right)

    def target_text(self, target: int) -> str:
        return self.class_name(target)

    def facts(self) -> tuple[Any, ...]:
        return (self.bound.targets, self.columns, *([self.rule] if self.rule.token_fusion else []))

    def describe(self, samples: SampleSet) -> dict[str, Any]:
        """How many classes, and how they were matched with the outputs."""
        by_order = self.bound.by == "order"
        whole = getattr(samples, "pictures", samples)
        order = getattr(whole, "order_note", None) if by_order else None
        return {
            "classes": len(samples.classes) or len(self.bound.targets),
            **({"class_order": order} if order else {}),
            **({"classes_matched_by": self.bound.by} if samples.classes else {}),
            **self.rule_told,
        }

    def numbers(self, network: nn.Module, inputs: Tensor) -> Tensor:
        return class_logits(network(inputs), network, len(inputs))[0]


def correct(tallies: Tallies) -> np.ndarray:
    """bool [N]: whether the answers are right."""
    return is_right(tallies["prediction"], tallies["label"])


def count_outputs(network: Any, size: tuple[int, int]) -> int:
    """How many classes the network knows: it is asked with a black image, and has to agree with its `num_classes`."""
    declared = getattr(network, "num_classes", None)
    parameter = next(network.parameters(), torch.zeros(()))
    if parameter.is_meta:  # a network that is only planned with
        return int(declared or 0)
    with fits_memory(1, size), torch.inference_mode():
        output = _answer_to_black(network, torch.zeros(1, 3, *size, device=parameter.device, dtype=parameter.dtype))
    count = class_logits(output, network, 1).shape[1]
    if isinstance(declared, int) and declared != count:
        raise ValueError(
            f"{type(network).__name__} says that it has {declared} classes (num_classes), but returns {count} numbers for an "
            "image; is it a classifier, and are these its weights?"
        )
    return count


def _answer_to_black(network: nn.Module, image: Tensor) -> Any:
    was_training = network.training
    try:
        return network.eval()(image)
    except (RuntimeError, AssertionError, ValueError) as error:
        if is_out_of_memory(error):
            raise
        told = str(error).strip().partition("\n")[0]
        H, W = image.shape[-2:]
        raise ValueError(
            f"{type(network).__name__} does not take images of {H}x{W} pixels ({told}); give a size that it takes"
        ) from error
    finally:
        network.train(was_training)
