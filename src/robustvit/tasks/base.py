"""What a task is: everything that training, evaluation and report must know about targets and predictions.

Small: a new task is one file with one subclass of `Task`, registered in `tasks/registry` or by an entry point
`robustvit.tasks`.

In training, `check` comes first, and then targets pass through these in order:

    place(target, placement)        # for each sample, what was done to its image: crop, flip, resize
    collate(targets)                # of a batch
    mix(targets, mix, ...)          # on the device, where images were mixed
    forward(network, images, targets) -> answer
    loss(answer, targets)           # named terms

and in an evaluation:

    bind(network, samples, ...)     # a task that knows what this network answers and what these samples ask
    predict(network, inputs)        # one prediction per sample
    tally(prediction, target)       # what one sample contributes: see `tasks.scoring`, as for the next
    score(tallies, counts)          # all numbers, for any choice of samples
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from robustvit.data.files_below import files_below
from robustvit.data.layouts import imagenet_c_images, open_samples
from robustvit.data.map_layouts import open_split
from robustvit.data.normalisation import Normalisation
from robustvit.data.readers.class_folders import LayoutError
from robustvit.data.readers.corrupted_images import corrupted_folders
from robustvit.data.samples import IMAGE_SUFFIXES, Sample, SampleSet
from robustvit.metrics.measures import RATIO, RETENTION, Measure, register
from robustvit.models.registry import create_model
from robustvit.runtime.nested import map_tensors, tensors_of
from robustvit.tasks.marks import Mark
from robustvit.tasks.mixing import Mix
from robustvit.tasks.notes import Note
from robustvit.tasks.prediction_table import PredictionTable
from robustvit.tasks.scoring import Scoring
from robustvit.tasks.tallies import Tallies

__all__ = ["Answer", "SummaryMeasures", "Task"]


@dataclass(frozen=True)
class Answer:
    """A prediction in words, for the report.

    Attributes:
        text: what the network says.
        confidence: in 0 .. 1; None where it gives none.
        is_right: None where an answer is not just right or wrong.
    """

    text: str
    confidence: float | None = None
    is_right: bool | None = None


@dataclass(frozen=True)
class SummaryMeasures:
    """What a measure of a task is called clean, and averaged over corruptions.

    Attributes:
        clean: without corruption.
        mean: averaged over whatever corruptions and severities were measured.
        mean_15, mean_19: over the 15 common, or all 19, corruptions at all severities.
        has_degradation: whether the share that is lost is shown beside the one that is kept, as papers on segmentation do.
        retention: the share that is kept.
    """

    clean: Measure
    mean: Measure
    mean_15: Measure
    mean_19: Measure
    has_degradation: bool = False
    retention: Measure = RETENTION

    @staticmethod
    def second(measure: Measure) -> SummaryMeasures:
        """Of a measure beside the primary one: as `of`, without ranks, and KEY_retention."""
        label, meaning = f"Retention, {measure.words}", f"{measure.label} under corruption, divided by that on clean images."
        kept = register(Measure(f"{measure.key}_retention", label, meaning, unit=RATIO, family="retention", order=2))
        return replace(SummaryMeasures.of(measure, ranks=False), retention=kept)

    @staticmethod
    def of(primary: Measure, *, has_degradation: bool = False, ranks: bool = True) -> SummaryMeasures:
        """Registered as clean_KEY, mean_KEY, mean_KEY_15 and mean_KEY_19."""

        def made(key: str, label: str, meaning: str, **about: Any) -> Measure:
            same: Any = dict(unit=primary.unit, higher_is_better=primary.higher_is_better, ranks=ranks)
            return register(Measure(key, label, f"{primary.meaning} {meaning}", **same, **about))

        key, label, over = primary.key, primary.label, "Averaged over {} corruptions and their 5 severities."
        special = dict(family="corruption", refines=f"mean_{key}")
        return SummaryMeasures(
            clean=made(
                f"clean_{key}",
                f"Clean {primary.words}",
                "Without any corruption.",
                family="clean",
                claim=f"has a clean {primary.words} of {{}}",
            ),
            mean_15=made(f"mean_{key}_15", f"{label}, 15 common corruptions", over.format("the 15 common"), **special),
            mean_19=made(f"mean_{key}_19", f"{label}, all 19 corruptions", over.format("all 19"), **special),
            mean=made(f"mean_{key}", f"{label} under corruption", "Averaged over what was measured.", family="corruption"),
            has_degradation=has_degradation,
        )


class Task(Scoring):
    """One task. Instances know as much as they have to: see `bind`.

    Attributes:
        name: "classification", ...
        primary: what retention, the best checkpoint, charts and headlines are about: a share of which more is better, as
            accuracy, mIoU and AP are.
        summary: what the primary measure is called in summaries.
        seconds: key of another number of `score` -> what it is called in summaries, which have it clean and under corruption,
            too.
        protocol: of `PROTOCOLS`, where it is not the suite's own, or the network's.
        can_be_attacked: whether it has `attacked_answer` and `attack_losses`.
        is_share, ranks_samples: see `Scoring`.
        batch_size: images that an evaluation takes at once by default; work is kept batch by batch.
        example_side: pixels of the longer side of images in the report; larger ones are made smaller.
        is_dense: whether a target says something about places in the image, as label maps and boxes do; `place` moves it with
            the image.
        prediction_table: what `predictions` gives; None where predictions do not fit into a table.
    """

    name: ClassVar[str]
    summary: ClassVar[SummaryMeasures]
    seconds: ClassVar[Mapping[str, SummaryMeasures]] = {}
    batch_size: ClassVar[int] = 32
    is_dense: ClassVar[bool] = False
    protocol: ClassVar[str] = ""
    can_be_attacked: ClassVar[bool] = False
    prediction_table: ClassVar[type[PredictionTable] | None] = None
    example_side: ClassVar[int] = 160

    # data

    def open(self, data: str | Path, **options: Any) -> SampleSet:
        """The samples of a dataset that a user names; see `open_samples`."""
        return open_samples(data, **options)

    def outputs(self, samples: SampleSet) -> int:
        """How many outputs a network that learns from these samples has.

        Raises:
            ValueError: there is nothing to learn from them.
        """
        return len(samples.classes)

    def with_classes(self, samples: SampleSet, classes: Sequence[str]) -> SampleSet:
        """These samples with targets as another dataset, with these classes, has them.

        Raises:
            ValueError: they have other classes.
        """
        if classes and samples.classes and tuple(classes) != tuple(samples.classes):
            raise ValueError(f"{samples.name} has the classes {', '.join(samples.classes)}; expected {', '.join(classes)}")
        return samples

    def has_copies(self, root: Path) -> bool:
        """Whether a folder has corrupted copies that `open_copies` opens."""
        return bool(corrupted_folders(root))

    def open_copies(self, root: Path, names: Sequence[str], severities: Sequence[int]) -> dict[tuple[str, int], SampleSet]:
        """The corrupted copies that a folder has, as `robustvit corrupt` writes them: (corruption, severity) -> samples."""
        found = imagenet_c_images(root, tuple(names), severities)
        assert found is not None
        return found

    def check_clean_beside(self, root: str | Path, what: str) -> None:
        """Raises LayoutError where a folder of corrupted copies has no clean images for `what`."""
        raise LayoutError(
            f"{root} has corrupted copies of images (CORRUPTION/SEVERITY/...), and {what} needs clean ones; give their "
            "folder, or choose suites of corruptions, such as common15 or fog"
        )

    def open_images(self, data: str | Path, **options: Any) -> SampleSet | None:
        """The images of a dataset that a user names, to be predicted; None for a folder of which all images are meant."""
        path = Path(data)
        is_plain = path.is_dir() and any(file.suffix.lower() in IMAGE_SUFFIXES for file in files_below(path))
        return None if is_plain else self.open(data, **options)

    def open_split(self, folder: Path, split: str, *, ignore_orientation: bool = False) -> SampleSet:
        """The images of the split of just this name, also where their targets are withheld; see `map_layouts.open_split`."""
        return open_split(folder, split, ignore_orientation=ignore_orientation)

    # training

    def build(self, name: str, pretrained: bool, *, outputs: int, **options: Any) -> nn.Module:
        """A network of this task; see `create_model`."""
        return create_model(name, pretrained, num_classes=outputs, **options)

    def with_divisor(self, divisor: Literal["all", "counted"]) -> Task:
        """This task with another divisor of its loss: `loss.divisor` of a training run.

        Raises:
            ValueError: its loss is not one over pixels.
        """
        if divisor != "all":
            raise ValueError(
                f"loss.divisor={divisor} is for losses over pixels, which {self.name} does not have; leave it out"
            )
        return self

    def check(self, config: Any) -> None:
        """Called before a training run opens anything.

        Raises:
            ValueError: this task cannot be trained with these settings.
        """
        settings = {
            "augment.mixup": config.augment.mixup,
            "augment.cutmix": config.augment.cutmix,
            "loss.smoothing": config.loss.smoothing,
        }
        if given := [name for name, value in settings.items() if value]:
            raise ValueError(f"{self.name} takes neither mixed images nor smoothed targets; set {' and '.join(given)} to 0")
        if self.is_dense and config.augment.rand_augment:
            raise ValueError(
                f"augment.rand_augment={config.augment.rand_augment!r} rotates and shears images, and targets of {self.name} "
                "do not follow; leave it out, or take augment.photometric, which changes colours alone"
            )
        if config.data.copies:
            raise ValueError(f"data.copies are folders of classes, from which {self.name} learns nothing; leave them out")

    def place(self, target: Any, placement: Any) -> Any:
        """The target of a sample whose image was cropped, flipped and resized by `placement`."""
        return target

    def collate(self, targets: Sequence[Any]) -> Any:
        """The targets of a batch: tensors that `to(device)` takes."""
        raise NotImplementedError(f"{self.name} cannot be trained")

    def mix(self, targets: Any, mix: Mix | None, *, outputs: int, smoothing: float) -> Any:
        """What the loss compares with, after the images were mixed; by default they never are, see `check`.

        Args:
            targets: as collated, of images that were mixed among themselves.
            mix: how, see `Mix`; None for not at all.
            outputs: of the network.
            smoothing: s of the targets.
        """
        return targets

    def repeat(self, targets: Any, times: int) -> Any:
        """The targets of a batch that goes through the network `times` times at once, with other pixels each time."""
        return map_tensors(targets, lambda tensor: torch.cat([tensor] * times))

    def forward(self, network: nn.Module, images: Tensor, targets: Any) -> Any:
        """What the network answers in training, from images [B, 3, H, W]."""
        return network(images)

    def part(self, answer: Any, rows: slice) -> Any:
        """The answer to some of the images of a batch."""
        return map_tensors(answer, lambda tensor: tensor[rows])

    def loss(self, answer: Any, targets: Any) -> dict[str, Tensor]:
        """Named terms, each a mean over the batch."""
        raise NotImplementedError(f"{self.name} cannot be trained")

    # attacks

    def attacked_answer(self, network: nn.Module, inputs: Tensor) -> Any:
        """What an attack changes, in float32 with its gradient, from normalised inputs [B, 3, H, W] in evaluation mode."""
        raise NotImplementedError(f"{self.name} cannot be attacked")

    def attack_losses(self, answer: Any, targets: Any) -> Tensor:
        """What an attack makes large, for each sample [B], from the answer and targets as `collate` gives them."""
        raise NotImplementedError(f"{self.name} cannot be attacked")

    # evaluation

    def with_options(self, **options: Any) -> Task:
        """This task with what a user says about it besides its name: fields of `TASK_OPTIONS`.

        Raises:
            ValueError: a value is not possible, or the task has no such option.
        """
        if options:
            raise ValueError(f"{self.name} has no option {next(iter(options))}; leave it out")
        return self

    def bind_in_order(self, outputs: int) -> Task:
        """This task for a network whose outputs mean what the targets say, as in validation during training."""
        return self

    def bind(self, network: nn.Module, samples: SampleSet, size: tuple[int, int], **options: Any) -> Task:
        """This task for one network and one dataset.

        Args:
            network: to be measured.
            samples: to measure on.
            size: (H, W) of the input.
            options: of the task, from the settings of the evaluation; None where the user gave none.

        Raises:
            ValueError: they do not fit each other, or the task has no such option.
        """
        if given := [name for name, value in options.items() if value is not None]:
            raise ValueError(f"{self.name} has no option {given[0]}; leave it out")
        return self

    def bind_images(self, network: nn.Module, samples: SampleSet, size: tuple[int, int]) -> Task:
        """This task for one network and images whose targets nobody asks for: what it answers is called as the network says,
        or as the dataset does where they fit.

        Args:
            network, samples, size: as of `bind`.
        """
        return self.bind(network, samples, size)

    def known(self) -> dict[str, Any]:
        """Options of `bind` that need not be found out again for other samples of the same network."""
        return {}

    @property
    def columns(self) -> tuple[int, ...] | None:
        """Outputs of the network that compete for the answer; None for all."""
        return None

    def target(self, sample: Sample, samples: SampleSet) -> Any:
        """What the right prediction for a sample is compared with."""
        return sample.target()

    def predict_images(self, network: nn.Module, images: Tensor, normalisation: Normalisation) -> list[Any]:
        """One prediction per image, from uint8 [B, 3, H, W] or floating point in 0 .. 1, in the coordinates of the image."""
        parameter = next(network.parameters(), torch.zeros(()))
        with torch.inference_mode():
            return self.predict(network, normalisation(images.to(parameter.device)).to(parameter.dtype))

    @abstractmethod
    def predict(self, network: nn.Module, inputs: Tensor) -> list[Any]:
        """One prediction per sample, from normalised inputs [B, 3, H, W]; the network is in evaluation mode."""

    def disagreement(self, first: Any, second: Any) -> float:
        """The share, 0 to 1, by which two predictions for the same image differ; by default 0 or 1."""
        return float(not np.array_equal(first, second))

    def notes(self, samples: SampleSet, clean: Tallies, *, is_untrained: bool) -> list[Note]:
        """What a reader must know besides the numbers of the clean samples."""
        return []

    def class_map(self, samples: SampleSet) -> dict[str, int]:
        """Class of the samples -> output that was taken for it, for a user to correct; empty where that is no question."""
        return {}

    # report

    def answer(self, prediction: Any, target: Any) -> Answer:
        """The prediction in words."""
        return Answer(str(prediction))

    def target_text(self, target: Any) -> str:
        """The target in words."""
        return str(target)

    def draw(self, image: Image.Image, prediction: Any, target: Any) -> Image.Image:
        """The image with what was predicted drawn on it; the report shows both, unless it is the image itself."""
        return image

    def draw_target(self, image: Image.Image, target: Any) -> Image.Image | None:
        """The image with the target drawn on it; None where words (`target_text`) say it all."""
        return None

    def legend(self) -> Sequence[tuple[str, tuple[int, int, int]]]:
        """(name, colour) of what `draw` and `draw_target` draw; empty where nothing needs explaining."""
        return ()

    def marks(self) -> Sequence[Mark]:
        """What `draw` draws besides, in whichever colour; empty where there is nothing of that kind."""
        return ()

    # what results say about it

    def facts(self) -> tuple[Any, ...]:
        """What predictions depend on besides network, samples and protocol, for the fingerprint of a run."""
        return (self.name,)

    def describe(self, samples: SampleSet) -> dict[str, Any]:
        """What results say about the targets of these samples."""
        return {}

    def numbers(self, network: nn.Module, inputs: Tensor) -> Tensor:
        """Some numbers [n] that the network computes for one input, by which a changed network is recognised."""
        return next(tensors_of(network(inputs))).flatten()
