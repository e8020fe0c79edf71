"""Detection: a target is the labelled objects of an image, a prediction is scored boxes of classes, with masks or without."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from robustvit.data.normalisation import Normalisation
from robustvit.data.object_layouts import corrupted_objects, open_object_split, open_objects
from robustvit.data.palettes import completed_palette
from robustvit.data.readers.class_folders import LayoutError
from robustvit.data.readers.corrupted_images import corrupted_folders
from robustvit.data.samples import SampleSet
from robustvit.metrics.average_precision import BOX_AP, MASK_AP
from robustvit.metrics.box_matching import Found, Labelled, missed_by_each_other
from robustvit.models.functions import FunctionNetwork
from robustvit.tasks.base import Answer, SummaryMeasures, Task
from robustvit.tasks.class_matching import ClassMismatchError, label_names_of
from robustvit.tasks.detected import found_objects, given_objects
from robustvit.tasks.detector_inputs import DetectorInputs, padded
from robustvit.tasks.detector_targets import Objects, as_tensors, placed, resized_target
from robustvit.tasks.found_table import FoundTable
from robustvit.tasks.marks import Mark
from robustvit.tasks.notes import Note, other_classes_note
from robustvit.tasks.object_drawing import INVENTED, LEAST_SCORE, MISSED, draw_found, draw_labelled
from robustvit.tasks.object_scoring import DETECTIONS, ObjectScoring
from robustvit.tasks.tallies import Tallies

__all__ = ["Detection"]

PIXELS = 2**21
"""Of inputs that a network sees at once: two of 1216x800, or many small ones."""


@dataclass(frozen=True)
class Detection(ObjectScoring, Task):
    """Objects.

    Attributes:
        classes: their names; empty before `bind`.
        palette: their colours.
        inputs: how images become inputs.
        places: label of a model -> class of the dataset, -1 for none of these; None where labels are classes.
        other_names: what the network calls its classes, where these are others than those of the dataset.
        category_ids, image_ids: see `ObjectScoring`.
    """

    name = "detection"
    summary = SummaryMeasures.of(BOX_AP, has_degradation=True)
    seconds: ClassVar[Mapping[str, SummaryMeasures]] = {MASK_AP.key: SummaryMeasures.second(MASK_AP)}
    prediction_table = FoundTable
    protocol = "native"
    is_dense = True
    batch_size = 4
    example_side = 360
    can_be_attacked = True
    classes: tuple[str, ...] = ()
    palette: tuple[tuple[int, int, int], ...] = ()
    inputs: DetectorInputs = field(default_factory=DetectorInputs)
    places: Mapping[int, int] | None = None
    other_names: tuple[str, ...] = ()
    category_ids: tuple[int, ...] | None = None
    image_ids: Mapping[str, int | str] | None = field(default=None, repr=False, compare=False)

    # data

    def open(self, data: str | Path, **options: Any) -> SampleSet:
        return open_objects(data, **options)

    def outputs(self, samples: Any) -> int:
        """One per class.

        Raises:
            LayoutError: there are no labelled objects to learn from.
        """
        samples.require_targets()
        return len(samples.classes)

    def has_copies(self, root: Path) -> bool:
        return bool(corrupted_folders(root, underscores=True))

    def open_copies(self, root: Path, names: Sequence[str], severities: Sequence[int]) -> dict[tuple[str, int], SampleSet]:
        found = corrupted_objects(root, names, severities)
        if not found:
            raise LayoutError(f"{root} has corrupted copies, but none with annotations of {', '.join(names)}")
        return dict(found)

    def check_clean_beside(self, root: str | Path, what: str) -> None:
        self.open(root)  # COCO-C may have its clean images beside the corrupted ones

    def open_images(self, data: str | Path, **options: Any) -> SampleSet | None:
        """A dataset in one of the layouts."""
        try:
            samples = self.open(data, **options)
        except LayoutError as error:
            if not Path(data).is_dir():
                raise
            warnings.warn(f"{data} is taken for a plain folder, all files of which are images: {error}", stacklevel=2)
            return None
        return samples if samples.classes else None

    def open_split(self, folder: Path, split: str, *, ignore_orientation: bool = False) -> SampleSet:
        return open_object_split(folder, split, ignore_orientation=ignore_orientation)

    def with_classes(self, samples: SampleSet, classes: Sequence[str]) -> SampleSet:
        if classes and len(samples.classes) != len(classes):
            raise ValueError(f"{samples.name} has {len(samples.classes)} classes; the training set has {len(classes)}")
        return super().with_classes(samples, classes)

    # training

    def place(self, target: Labelled | Objects, placement: Any) -> Objects:
        return placed(target, placement)

    def collate(self, targets: Sequence[Labelled | Objects]) -> list[dict[str, Tensor]]:
        """Of each image what `place` gave, or the objects of the whole image."""
        return [as_tensors(target) for target in targets]

    def repeat(self, targets: Sequence[Any], times: int) -> list[Any]:
        return list(targets) * times

    def forward(self, network: Any, images: Tensor, targets: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
        """Name of a loss -> [B, 2], see `Detector.image_losses`."""
        return network.image_losses(images, targets)

    def loss(self, answer: Mapping[str, Tensor], targets: Any) -> dict[str, Tensor]:
        """The losses of proposals and regions, each over all samples of the batch."""
        totals = {name: value.sum(0) for name, value in answer.items()}
        return {name: total / count.clamp(min=1) for name, (total, count) in totals.items()}

    # attacks

    def attacked_answer(self, network: nn.Module, inputs: Tensor) -> dict[str, Any]:
        """What the network computes before it needs the targets; the sizes of the images, and as it sees them.

        Raises:
            NotImplementedError: it is a detector that robustvit did not build.
        """
        detector: Any = network
        if not hasattr(detector, "losses_of"):
            kind = type(network).__name__
            raise NotImplementedError(
                f"attacks follow the losses of detectors that robustvit built, and {kind} is another one"
            )
        shown = self._bound_inputs(detector).resized(inputs)
        pyramid = detector.forward_pyramid(detector.forward_features(padded(shown)))
        anchors = detector.forward_rpn(pyramid)
        sizes = {"size": inputs.shape[2:], "shown": shown.shape[2:]}
        return {"pyramid": pyramid, "anchors": anchors, "network": detector, **sizes}

    def attack_losses(self, answer: Mapping[str, Any], targets: Sequence[Mapping[str, Tensor]]) -> Tensor:
        """Of each image, the sum of the losses that the network was trained with, over all anchors and regions."""
        moved = [resized_target(self._as_learned(target), answer["size"], answer["shown"]) for target in targets]
        sizes = [answer["shown"]] * len(moved)
        losses = answer["network"].losses_of(answer["pyramid"], answer["anchors"], moved, sizes, sampled=False)
        return torch.stack([value[:, 0] / value[:, 1].clamp(min=1) for value in losses.values()]).sum(0)

    def _as_learned(self, target: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """A target with labels of the network instead of classes of the dataset."""
        if self.places is None:
            return target
        labels = {k: label for label, k in self.places.items()}
        return dict(target, labels=target["labels"].new_tensor([labels[k] for k in target["labels"].tolist()]))

    # evaluation

    def with_options(self, **options: Any) -> Detection:
        return replace(self, inputs=DetectorInputs(**options)) if options else self

    def bind_in_order(self, outputs: int) -> Detection:
        return self if self.classes else replace(self, classes=tuple(f"class {i}" for i in range(outputs)))

    def bind(self, network: Any, samples: Any, size: tuple[int, int], **options: Any) -> Detection:
        super().bind(network, samples, size, **options)
        if not samples.has_targets:
            samples.require_targets()
        names, classes, outputs = label_names_of(network), tuple(samples.classes), getattr(network, "num_classes", None)
        known = len(names) == outputs and set(classes) <= set(names)
        if isinstance(outputs, int) and outputs != len(classes) and not known:
            raise ClassMismatchError(
                f"{type(network).__name__} has {outputs} classes and {samples.name} has {len(classes)}; is this the network "
                "for these images?"
            )
        ids = {"category_ids": samples.category_ids, "image_ids": samples.image_ids}
        bound = replace(self, classes=classes, palette=tuple(samples.palette), places=None, **ids)
        if known and names != classes:
            return replace(bound, places={names.index(name): k for k, name in enumerate(classes)})
        return replace(bound._of_model(network), other_names=names if len(names) == outputs and not known else ())

    def bind_images(self, network: Any, samples: Any, size: tuple[int, int]) -> Detection:
        names = label_names_of(network) or tuple(samples.classes)
        outputs = getattr(network, "num_classes", None)
        if not names and outputs is None:
            raise ValueError(
                f"nobody says which classes {type(network).__name__} has; give images with annotations that name them"
            )
        if outputs is not None and len(names) != outputs:
            names = tuple(f"class {i}" for i in range(outputs))
        is_own = names == tuple(samples.classes)
        palette = tuple(samples.palette) if is_own else completed_palette([None] * len(names))
        known = dict(zip(samples.classes, getattr(samples, "category_ids", None) or (), strict=False))
        ids = tuple(known[name] for name in names) if set(names) <= set(known) else None
        return replace(self, classes=names, palette=palette, category_ids=ids)._of_model(network)

    def _of_model(self, network: nn.Module) -> Detection:
        """With what the labels of a model that robustvit did not build mean.

        Raises:
            ValueError: the options are not for this kind of model.
        """
        kind = self.inputs.labels
        if self.inputs.fit is not None and not hasattr(network, "detect"):
            raise ValueError(
                f"fit={self.inputs.fit} is for detectors of robustvit; others resize images themselves. Leave it out"
            )
        if hasattr(network, "detect"):
            if kind != "classes":
                raise ValueError(f"labels={kind} is for models that robustvit did not build; leave it out")
            return self
        if kind == "categories" and self.category_ids is None:
            raise ValueError("labels=categories are ids of an annotation file, and these images have none; choose another")
        given = {"classes": range(len(self.classes)), "from_one": range(1, 1 + len(self.classes))}.get(kind, self.category_ids)
        return replace(self, places={label: k for k, label in enumerate(given or ())})

    def _bound_inputs(self, network: Any) -> DetectorInputs:
        return self.inputs if self.inputs.fit is not None else replace(self.inputs, fit=getattr(network, "fit", None))

    def _class_of(self, labels: np.ndarray) -> np.ndarray:
        """Labels of the model -> classes; -1 for none of these."""
        if self.places is None:
            return labels
        return np.array([self.places.get(int(label), -1) for label in labels], np.int64)

    def _given(self, answer: Any, images: Tensor, whose: str) -> list[Found]:
        """The objects that a model of a user found.

        Raises:
            ValueError: the answer is no such thing, or has labels that the user did not speak of.
        """

        def class_of(labels: np.ndarray) -> np.ndarray:
            first, kinds = int(self.inputs.labels == "from_one"), self._class_of(labels)
            last = first + len(self.classes) - 1
            if (kinds < 0).any() and list(self.places or ()) == list(range(first, last + 1)):
                raise ValueError(
                    f"{whose} returned the label {labels[kinds < 0][0]}; expected {first} to {last}, as "
                    f"labels={self.inputs.labels}; choose classes (from 0), from_one or categories (ids of the annotations)"
                )
            return kinds

        return given_objects(answer, images, class_of, whose)

    def predict(self, network: Any, inputs: Tensor) -> list[Found]:
        """Of normalised inputs [B, 3, H, W], in their own pixels."""
        sizes = [(inputs.shape[2], inputs.shape[3])] * len(inputs)
        found = network.detect(padded(inputs), sizes, sizes)
        return [found_objects(own, size, self._class_of) for own, size in zip(found, sizes, strict=True)]

    def predict_images(self, network: Any, images: Tensor, normalisation: Normalisation) -> list[Found]:
        """Objects in uint8 [B, 3, H, W], in their own pixels."""
        if isinstance(network, FunctionNetwork):
            return self._given(network.ask(images), images, network.extra_repr())
        parameter = next(network.parameters(), torch.zeros(()))
        shown = self._bound_inputs(network).resized(images)
        if not hasattr(network, "detect"):  # as torchvision's detectors, which take a list of images in 0 .. 1
            with torch.inference_mode():
                answer = network([image.to(parameter.device).float() / 255 for image in images])
            return self._given(answer, images, type(network).__name__)
        original, size = (images.shape[2], images.shape[3]), (shown.shape[2], shown.shape[3])
        found: list[Found] = []
        for part in shown.split(max(1, PIXELS // (size[0] * size[1]))):
            with torch.inference_mode():
                inputs = padded(normalisation(part.to(parameter.device)).to(parameter.dtype))
                detected = network.detect(inputs, [size] * len(part), [original] * len(part))
            found += [found_objects(own, original, self._class_of) for own in detected]
        return found

    def disagreement(self, first: Found, second: Found) -> float:
        """The share of the objects, of those that are drawn, that the other one does not find by an overlap of 0.5."""
        return missed_by_each_other(first, second, LEAST_SCORE)

    def notes(self, samples: Any, clean: Tallies, *, is_untrained: bool) -> list[Note]:
        """Whether the network says that its classes are others or finds nothing, and what is wrong with the annotations."""
        found = [other_classes_note(self.other_names, self.classes)] if self.other_names else []
        found += [Note("annotations", "Annotations", text) for text in getattr(samples, "problems", ())]
        if not self.extras(clean)[DETECTIONS.key]:
            told = "The network found nothing at all in the clean images"
            remedy = "." if is_untrained else ": is it trained, and are its outputs finite numbers?"
            found.append(Note("no-detections", "Nothing found", told + remedy))
        return found

    # report

    def answer(self, prediction: Found, target: Labelled) -> Answer:
        """AP of the image."""
        value = self.scores(Tallies.stack([self.tally(prediction, target)]))[BOX_AP.key]
        return Answer(f"AP {BOX_AP.text(value)}" if value == value else f"{len(prediction.scores)} found")

    def target_text(self, target: Labelled) -> str:
        """How many objects of which class, the most frequent first."""
        kinds, counts = np.unique(target.classes[~target.is_crowd], return_counts=True)
        order = counts.argsort(kind="stable")[::-1]
        texts = [f"{counts[i]} {self.classes[kinds[i]]}" for i in order]
        return ", ".join(texts[:3]) + (f" and {len(texts) - 3} more" if len(texts) > 3 else "") or "nothing"

    def draw(self, image: Image.Image, prediction: Found, target: Labelled | None) -> Image.Image:
        return draw_found(image, prediction, target, self.classes, self.palette, side=self.example_side)

    def draw_target(self, image: Image.Image, target: Labelled) -> Image.Image:
        return draw_labelled(image, target, self.classes, self.palette, side=self.example_side)

    def legend(self) -> tuple[tuple[str, tuple[int, int, int]], ...]:
        """The classes with their colours."""
        return tuple(zip(self.classes, self.palette, strict=True))

    def marks(self) -> tuple[Mark, ...]:
        """What becomes of objects and detections, of which those with a score of `LEAST_SCORE` or more are drawn."""
        return (
            Mark(f"found (score {LEAST_SCORE:g} or more)", "solid"),
            Mark("found, but no such object is there", "crossed", _hex(INVENTED)),
            Mark("missed", "dashed", _hex(MISSED)),
        )

    def facts(self) -> tuple[Any, ...]:
        return (self.name, self.inputs, self.classes, self.places)

    def describe(self, samples: SampleSet) -> dict[str, Any]:
        return {"classes": len(samples.classes), "inference": self.inputs.describe()}

    def numbers(self, network: Any, inputs: Tensor) -> Tensor:
        """Scores of the proposals; of other models, whatever they say."""
        if not hasattr(network, "forward_rpn"):
            return torch.zeros(1)
        scores, _ = network.forward_rpn(network.forward_pyramid(network.forward_features(inputs)))
        return scores[0].flatten()


def _hex(colour: tuple[int, int, int]) -> str:
    return f"#{bytes(colour).hex()}"
