"""ImageNet-Sketch and ImageNet-V2: other images of ImageNet's 1000 classes, all of which compete."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from torch import nn

from robustvit.data.layouts import suite_folder
from robustvit.data.readers.class_folders import LayoutError, folder_images, holds_split
from robustvit.data.readers.numbered_classes import class_numbers, v2_folder
from robustvit.data.samples import SampleSet
from robustvit.evaluation.passes import Pass
from robustvit.evaluation.planning import chosen_samples, plain_pass, protocol_for, samples_for
from robustvit.evaluation.settings import Settings
from robustvit.evaluation.suites.suite import Suite
from robustvit.evaluation.tallied import Tallied
from robustvit.metrics.bootstrap import Statistic
from robustvit.metrics.cells import clean_accuracy_of
from robustvit.metrics.imagenet_classes import IMAGENET_WNIDS
from robustvit.metrics.measures import Measure, register
from robustvit.tasks.base import Task
from robustvit.tasks.relabelled import Relabelled

__all__ = ["IMAGENET_SKETCH", "IMAGENET_V2", "ImageNetSketch", "ImageNetV2"]

SKETCH = "imagenet-sketch"
SPLITS = ("train", "val", "validation", "test")
SKETCH_ACCURACY = register(
    Measure(
        "imagenet_sketch_accuracy",
        "ImageNet-Sketch accuracy",
        "Top-1 accuracy on ImageNet-Sketch: drawings of ImageNet's 1000 classes, all of which compete.",
        family="shift",
        ranks=True,
        claim="gets {} of ImageNet-Sketch right",
    )
)
V2_ACCURACY = register(
    Measure(
        "imagenet_v2_accuracy",
        "ImageNet-V2 accuracy",
        "Top-1 accuracy on ImageNet-V2: photographs collected anew for ImageNet's 1000 classes, all of which compete.",
        family="shift",
        ranks=True,
        claim="gets {} of ImageNet-V2 right",
    )
)


def _sketch_folder(data: Path) -> Path:
    """Where the drawings are: in a folder of `data` named after the suite, or `sketch` as in the published archive, else in
    `data` itself.

    Raises:
        LayoutError: its images are those of a split of another dataset.
    """
    place = suite_folder(data, SKETCH)
    if place == data and (data / "sketch").is_dir():
        return data / "sketch"
    is_split = data.name in SPLITS or holds_split(data)
    if place == data and is_split and not any("sketch" in name.lower() for name in (data.name, data.parent.name)):
        raise LayoutError(
            f"{place} has no folder {SKETCH}, and its own images are no drawings; give the folder that has CLASS/IMAGE.JPEG "
            "of ImageNet-Sketch"
        )
    return place


class ImageNetSketch(Suite):
    name = SKETCH
    summary = "ImageNet-Sketch: drawings of the 1000 classes"
    tasks = ("classification",)

    def plan(self, network: nn.Module, settings: Settings) -> Pass:
        protocol = protocol_for(network, settings, "model", published=True)
        place = _sketch_folder(Path(settings.data)) if settings.is_path and Path(settings.data).is_dir() else None
        samples = samples_for(settings, protocol, place)
        if settings.class_map is None:
            self._check(samples)
        return plain_pass(network, settings, self, samples, protocol)

    def _check(self, samples: SampleSet) -> None:
        """Raises LayoutError for images that cannot be those of ImageNet's classes."""
        classes = samples.classes
        if classes and len(classes) != len(IMAGENET_WNIDS) and not set(classes) <= set(IMAGENET_WNIDS):
            raise LayoutError(
                f"{samples.name} has {len(classes)} classes, such as {classes[0]}, and ImageNet-Sketch the 1000 of ImageNet; "
                "give the folder that has its images, or a class map"
            )

    def statistics(self, task: Task, tallied: Tallied) -> dict[str, Statistic]:
        return {SKETCH_ACCURACY.key: clean_accuracy_of(tallied.cells)}

    def extras(self, task: Task, tallied: Tallied) -> Mapping[str, float]:
        return {}


class ImageNetV2(Suite):
    """Its folders are the numbers of the classes, 0 to 999: sorted as text, 10 would come before 2."""

    name = "imagenet-v2"
    summary = "ImageNet-V2: new photographs of the 1000 classes, in folders 0 to 999"
    tasks = ("classification",)

    def plan(self, network: nn.Module, settings: Settings) -> Pass:
        if not settings.is_path or not Path(settings.data).is_dir():
            raise ValueError(f"the suite {self.name!r} reads files; give the folder that has them")
        protocol = protocol_for(network, settings, "model", published=True)
        place = v2_folder(Path(settings.data))
        images = folder_images(place, ignore_orientation=protocol.ignore_orientation)
        numbered = Relabelled(images, class_numbers(images.classes, str(place)), IMAGENET_WNIDS)
        return plain_pass(network, settings, self, chosen_samples(numbered, settings), protocol)

    def statistics(self, task: Task, tallied: Tallied) -> dict[str, Statistic]:
        return {V2_ACCURACY.key: clean_accuracy_of(tallied.cells)}

    def extras(self, task: Task, tallied: Tallied) -> Mapping[str, float]:
        return {}


IMAGENET_SKETCH = ImageNetSketch()
IMAGENET_V2 = ImageNetV2()
