"""Segmentation: a target is the class of every pixel, a prediction is a label map of the size of the image."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from robustvit.corruptions.conditions import Condition
from robustvit.data.map_layouts import corrupted_maps, open_maps
from robustvit.data.normalisation import Normalisation
from robustvit.data.readers.class_folders import LayoutError
from robustvit.data.samples import SampleSet
from robustvit.metrics.iou import (
    CLASS_IOU,
    CLEAN_MEAN_CLASS_ACCURACY,
    CLEAN_PIXEL_ACCURACY,
    IGNORED,
    MEAN_CLASS_ACCURACY,
    MIOU,
    PIXEL_ACCURACY,
    class_ious,
    count_pixels,
    mean_class_accuracy,
    mean_iou,
)
from robustvit.models.functions import FunctionNetwork
from robustvit.models.segmenter import AUXILIARY_WEIGHT
from robustvit.runtime.evaluation_mode import evaluation_mode
from robustvit.tasks.base import Answer, SummaryMeasures, Task
from robustvit.tasks.class_matching import ClassMismatchError, label_names_of
from robustvit.tasks.given_maps import given_maps
from robustvit.tasks.map_classes import map_classes_of
from robustvit.tasks.notes import Note, other_classes_note
from robustvit.tasks.overlays import overlay
from robustvit.tasks.per_class import ClassResult, class_result
from robustvit.tasks.pixel_loss import image_cross_entropies, pixel_cross_entropy
from robustvit.tasks.tallies import Tallies, Tally
from robustvit.tasks.windows import Inference

__all__ = ["Segmentation"]

RIGHT, PREDICTED, LABELLED = "right", "predicted", "labelled"
PIXELS = 2**21
"""Whose logits are held at once: of a 2048x1024 image, or of several smaller ones."""


@dataclass(frozen=True)
class Segmentation(Task):
    """A class per pixel.

    Attributes:
        classes: their names; empty before `bind`.
        palette: their colours.
        label_ids: what evaluation servers call them; None where that is not known.
        inference: how images become logits.
        divisor: of the loss, see `pixel_cross_entropy`.
        places: the output of each class, where the network has the same classes in another order; None for the same order.
        other_names: what the network calls its outputs, where these are other classes than those of the dataset.
    """

    name = "segmentation"
    primary = MIOU
    summary = SummaryMeasures.of(MIOU, has_degradation=True)
    further: ClassVar[Mapping[str, str]] = {
        PIXEL_ACCURACY.key: CLEAN_PIXEL_ACCURACY.key,
        MEAN_CLASS_ACCURACY.key: CLEAN_MEAN_CLASS_ACCURACY.key,
    }
    protocol = "native"
    is_dense = True
    batch_size = 4
    ranks_samples = True
    example_side = 360
    can_be_attacked = True
    classes: tuple[str, ...] = ()
    palette: tuple[tuple[int, int, int], ...] = ()
    label_ids: tuple[int, ...] | None = None
    inference: Inference = field(default_factory=Inference)
    divisor: Literal["all", "counted"] = "all"
    places: tuple[int, ...] | None = None
    other_names: tuple[str, ...] = ()

    # data

    def open(self, data: str | Path, **options: Any) -> SampleSet:
        return open_maps(data, **options)

    def outputs(self, samples: Any) -> int:
        """One per class.

        Raises:
            LayoutError: there are no label maps to learn from.
        """
        samples.require_targets()
        return len(samples.classes)

    def open_copies(self, root: Path, names: Sequence[str], severities: Sequence[int]) -> dict[tuple[str, int], SampleSet]:
        found = corrupted_maps(root, names, severities)
        if not found:
            raise LayoutError(f"{root} has corrupted copies, but none with label maps of {', '.join(names)}")
        return dict(found)

    def check_clean_beside(self, root: str | Path, what: str) -> None:
        self.open(root)  # Cityscapes-C may have its clean images beside the corrupted ones

    def open_images(self, data: str | Path, **options: Any) -> SampleSet | None:
        """A dataset in one of the layouts, whose label maps are no images to be predicted."""
        try:
            samples = self.open(data, **options)
        except LayoutError as error:
            if not Path(data).is_dir():
                raise
            warnings.warn(f"{data} is taken for a plain folder, all files of which are images: {error}", stacklevel=2)
            return None
        return samples if samples.classes else None

    def with_classes(self, samples: SampleSet, classes: Sequence[str]) -> SampleSet:
        if classes and len(samples.classes) != len(classes):
            raise ValueError(f"{samples.name} has {len(samples.classes)} classes; the training set has {len(classes)}")
        return super().with_classes(samples, classes)

    # training

    def with_divisor(self, divisor: Literal["all", "counted"]) -> Segmentation:
        return replace(self, divisor=divisor)

    def place(self, target: np.ndarray, placement: Any) -> np.ndarray:
        """uint8 [h, w]; 255 beyond the image."""
        return placement.map(target, IGNORED)

    def collate(self, targets: Sequence[np.ndarray]) -> Tensor:
        """uint8 [B, h, w]."""
        return torch.from_numpy(np.stack(targets))

    def forward(self, network: Any, images: Tensor, targets: Any) -> list[Tensor]:
        """Logits [B, K, H, W] of the head, and of each auxiliary head."""
        return network.forward_all(images)

    def loss(self, answer: Sequence[Tensor], targets: Tensor) -> dict[str, Tensor]:
        """The cross-entropy over pixels, and 0.4 of that of each auxiliary head."""
        main, *others = (pixel_cross_entropy(logits, targets, divisor=self.divisor) for logits in answer)
        return {"ce": main, **({"auxiliary": AUXILIARY_WEIGHT * torch.stack(others).sum()} if others else {})}

    # attacks

    def attacked_answer(self, network: nn.Module, inputs: Tensor) -> Tensor:
        """Logits [B, K, H, W] of whole images: attacks do without the windows, sizes and mirror images of `inference`."""
        logits = network(inputs).float()
        return logits if self.places is None else logits[:, list(self.places)]

    def attack_losses(self, answer: Tensor, targets: Tensor) -> Tensor:
        """The mean cross-entropy over the labelled pixels of each image."""
        return image_cross_entropies(answer, targets)

    # evaluation

    def with_options(self, **options: Any) -> Segmentation:
        return replace(self, inference=Inference(**options)) if options else self

    def bind_in_order(self, outputs: int) -> Segmentation:
        return self if self.classes else replace(self, classes=tuple(f"class {i}" for i in range(outputs)))

    def bind(self, network: Any, samples: Any, size: tuple[int, int], **options: Any) -> Segmentation:
        super().bind(network, samples, size, **options)
        if not samples.has_targets:
            raise LayoutError(f"{samples.name} has no label maps, so there is nothing to measure by; `predict` needs none")
        self._check_inference(network)
        outputs = getattr(network, "num_classes", len(samples.classes))
        if outputs != len(samples.classes):
            raise ClassMismatchError(
                f"{type(network).__name__} has {outputs} classes and {samples.name} has {len(samples.classes)}; is this the "
                "network for these images?"
            )
        names, classes = label_names_of(network), tuple(samples.classes)
        known = len(names) == outputs and set(names) == set(classes)
        return replace(
            self,
            classes=classes,
            palette=tuple(samples.palette),
            places=tuple(names.index(name) for name in classes) if known and names != classes else None,
            other_names=names if len(names) == outputs and not known else (),
        )

    def bind_images(self, network: Any, samples: Any, size: tuple[int, int]) -> Segmentation:
        self._check_inference(network)
        found = map_classes_of(network, _outputs(network, size), samples)
        return replace(self, classes=found.names, palette=found.palette, label_ids=found.label_ids)

    def _check_inference(self, network: nn.Module) -> None:
        if isinstance(network, FunctionNetwork) and self.inference != Inference():
            raise ValueError(
                f"windows, sizes and mirrored images are for networks; the function {network.extra_repr()} is shown whole "
                "images. Leave these options out"
            )

    def predict(self, network: nn.Module, inputs: Tensor) -> list[np.ndarray]:
        """Label maps uint8 [H, W]; 255 where the logits are not finite."""
        return self._maps(self.inference.strips(network, inputs))

    def predict_images(self, network: nn.Module, images: Tensor, normalisation: Normalisation) -> list[np.ndarray]:
        """Label maps uint8 [H, W], from uint8 [B, 3, H, W]."""
        if isinstance(network, FunctionNetwork):
            return given_maps(network.ask(images), images, len(self.classes), network.extra_repr())
        at_once = max(1, PIXELS // (images.shape[2] * images.shape[3]))
        with torch.inference_mode():
            parts = (self.inference.logit_strips(network, part, normalisation) for part in images.split(at_once))
            return [label_map for strips in parts for label_map in self._maps(strips)]

    def disagreement(self, first: np.ndarray, second: np.ndarray) -> float:
        """The share of the pixels whose class is another one."""
        return float((first != second).mean())

    def _maps(self, strips: Iterable[Tensor]) -> list[np.ndarray]:
        """Logits [B, K, some rows, W], from top to bottom -> B label maps."""
        labels = []
        for logits in strips:
            labels.append(self._labels(logits))
            del logits  # before the next strip is made
        return list(np.concatenate(labels, axis=1))

    def _labels(self, logits: Tensor) -> np.ndarray:
        """[B, K, H, W] -> uint8 [B, H, W]."""
        largest, outputs = logits.max(1)
        labels = outputs if self.places is None else torch.tensor(self.places, device=outputs.device).argsort()[outputs]
        return labels.to(torch.uint8).masked_fill_(~largest.isfinite(), IGNORED).cpu().numpy()

    def tally(self, prediction: np.ndarray, target: np.ndarray) -> Tally:
        """Pixels of each class that are right, predicted and labelled."""
        return dict(zip((RIGHT, PREDICTED, LABELLED), count_pixels(prediction, target, len(self.classes)), strict=True))

    def score(self, tallies: Tallies, counts: np.ndarray) -> dict[str, np.ndarray]:
        right, predicted, labelled = (counts @ tallies[name] for name in (RIGHT, PREDICTED, LABELLED))  # R K
        with np.errstate(divide="ignore", invalid="ignore"):
            accuracy = right.sum(-1) / labelled.sum(-1)
        return {
            MIOU.key: mean_iou(right, predicted, labelled),
            PIXEL_ACCURACY.key: accuracy,
            MEAN_CLASS_ACCURACY.key: mean_class_accuracy(right, labelled),
        }

    def extras(self, tallies: Tallies) -> dict[str, float]:
        """How many images have pixels without an answer."""
        return {"no_answer": float((tallies[PREDICTED].sum(-1) < tallies[LABELLED].sum(-1)).sum())}

    def has_same_targets(self, first: Tallies, second: Tallies) -> bool:
        return bool((first[LABELLED] == second[LABELLED]).all())

    def per_class(self, conditions: Sequence[Condition], rows: Sequence[Tallies]) -> tuple[ClassResult, ...]:
        """IoU of every class."""
        counts = [[row[name].sum(0) for name in (RIGHT, PREDICTED, LABELLED)] for row in rows]
        ious = np.stack([class_ious(*parts) for parts in counts])  # conditions K
        images = (rows[0][LABELLED] > 0).sum(0)
        return tuple(
            class_result(name, int(images[k]), conditions, {CLASS_IOU.key: ious[:, k].tolist()}, by_corruption=True)
            for k, name in enumerate(self.classes)
        )

    def notes(self, samples: SampleSet, clean: Tallies, *, is_untrained: bool) -> list[Note]:
        """Whether the network says that its classes are others."""
        return [other_classes_note(self.other_names, self.classes)] if self.other_names else []

    # report

    def answer(self, prediction: np.ndarray, target: np.ndarray) -> Answer:
        """mIoU of the image."""
        counts = count_pixels(prediction, target, len(self.classes))
        value = float(mean_iou(*counts))
        return Answer(f"mIoU {MIOU.text(value)}")

    def target_text(self, target: np.ndarray) -> str:
        """The classes in the image, largest first."""
        labels, areas = np.unique(target[target != IGNORED], return_counts=True)
        names = [self.classes[k] for k in labels[areas.argsort()[::-1]]]
        return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")

    def draw(self, image: Image.Image, prediction: np.ndarray, target: np.ndarray) -> Image.Image:
        return overlay(image, prediction, self.palette)

    def draw_target(self, image: Image.Image, target: np.ndarray) -> Image.Image:
        return overlay(image, target, self.palette)

    def legend(self) -> tuple[tuple[str, tuple[int, int, int]], ...]:
        """The classes with their colours."""
        return tuple(zip(self.classes, self.palette, strict=True))

    def facts(self) -> tuple[Any, ...]:
        return (self.name, self.inference, self.classes, self.places)

    def describe(self, samples: SampleSet) -> dict[str, Any]:
        return {"classes": len(samples.classes), "inference": self.inference.describe()}


def _outputs(network: Any, size: tuple[int, int]) -> int | None:
    """How many classes a segmenter has, where it says so, or answers to a black image; of a function nobody knows."""
    declared = getattr(network, "num_classes", None)
    if isinstance(declared, int) or isinstance(network, FunctionNetwork):
        return declared if isinstance(declared, int) else None
    parameter = next(network.parameters(), torch.zeros(()))
    with evaluation_mode(network):
        answer = network(torch.zeros(1, 3, *size, device=parameter.device, dtype=parameter.dtype))
    if not isinstance(answer, Tensor) or answer.ndim != 4:
        raise ValueError(f"{type(network).__name__} is no segmenter: it must return logits [B, K, H, W]")
    return answer.shape[1]
