"""A network to be studied and the images as it sees them, batch by batch, as often as a study wants to look."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn

from robustvit.analysis.attention_chunks import check_attention
from robustvit.analysis.given_images import images_at
from robustvit.analysis.shared_options import Options
from robustvit.attacks.patches import PatchSettings
from robustvit.attacks.pixel_network import PixelNetwork
from robustvit.data.protocols import Protocol, protocol_of
from robustvit.data.readers.loose_images import NO_LABEL
from robustvit.data.samples import Sample, SampleSet, UnreadablePictureError
from robustvit.recording.block_outputs import check_blocks
from robustvit.recording.tape import NothingRecordedError, has_attention
from robustvit.runtime.evaluation_mode import evaluation_mode
from robustvit.runtime.interruption import check_interrupted
from robustvit.runtime.nested import tensors_of
from robustvit.tasks.base import Task
from robustvit.tasks.class_matching import ClassMismatchError, label_names_of, match_classes
from robustvit.tasks.classification import Classification
from robustvit.tasks.registry import task_named

__all__ = ["Batch", "Subject", "make_subject"]

Progress = Callable[[int, int], None]
MOST_KEPT = 2**28
"""Bytes of decoded images that are kept."""


@dataclass(frozen=True)
class Batch:
    """Some images.

    Attributes:
        ids: one per image.
        pixels: uint8 [B, 3, H, W].
        labels: int64 [B], positions among the outputs of a classifier; of other networks NO_LABEL.
    """

    ids: tuple[str, ...]
    pixels: Tensor
    labels: Tensor


@dataclass
class Subject:
    """One network with its images.

    Attributes:
        name: of the network.
        network: in evaluation mode.
        pictures: the images to look at.
        protocol: how an image becomes the input.
        targets: class of the images -> output; None where labels are missing or do not fit, or the network is no classifier.
        batch_size: images at once.
        progress: called with (images seen, in all) during a pass.
        skipped: id -> why it could not be read.
        enlarged: ids of images that are lower or narrower than the input.
        kept: id -> decoded image, of the first ones, so that a second look costs nothing.
        shown: ids of the images that figures show; None for the first ones.
        task: of the network.
    """

    name: str
    network: Any
    pictures: SampleSet
    protocol: Protocol
    targets: tuple[int, ...] | None
    batch_size: int = Options.batch_size
    progress: Progress | None = None
    skipped: dict[str, str] = field(default_factory=dict)
    enlarged: set[str] = field(default_factory=set)
    kept: dict[str, Tensor] = field(default_factory=dict)
    shown: tuple[str, ...] | None = None
    task: Task = field(default_factory=Classification)

    @property
    def is_classifier(self) -> bool:
        """Whether it answers with a class of the image, which is right or wrong."""
        return self.task.name == Classification.name

    @property
    def truth(self) -> str:
        """Where labels come from."""
        if not self.is_classifier:
            return "no labels: what the network answers is not looked at"
        return "labels of the images" if self.targets is not None else "the network's own answers to the clean images"

    @cached_property
    def pixel_network(self) -> PixelNetwork:
        return PixelNetwork(self.network, task=self.task)

    @cached_property
    def device(self) -> torch.device:
        return next(self.network.parameters()).device

    @cached_property
    def trouble_with_attention(self) -> str | None:
        """Why the attention of the network cannot be read; None where it can."""
        if not has_attention(self.network):
            return f"{type(self.network).__name__} has no attention among tokens that can be read"
        return self._trouble(check_attention)

    @cached_property
    def trouble_with_blocks(self) -> str | None:
        """Why the outputs of the blocks cannot be followed; None where they can."""
        return self._trouble(check_blocks)

    def _trouble(self, check: Callable[[nn.Module, tuple[int, int]], None]) -> str | None:
        try:
            check(self.network, self.protocol.size)
        except NothingRecordedError as error:
            return str(error)
        return None

    @cached_property
    def patch_side(self) -> int:
        """Side in pixels of the patches that are covered: those of the tokens.

        Raises:
            ValueError: they are not square.
        """
        return PatchSettings().side(self.pixel_network, self.protocol.size)

    @property
    def dtype(self) -> torch.dtype:
        return next(self.network.parameters()).dtype

    def batches(self, most: int | None = None) -> Iterator[Batch]:
        """The images that can be read, at most `most` of them.

        Raises:
            ValueError: none of them can.
        """
        total, done = min(len(self.pictures), most or len(self.pictures)), 0
        readable = islice(self._readable(), most)
        while group := list(islice(readable, self.batch_size)):
            yield self._batch(group)
            done += len(group)
            self.tell(done, total)
        if not done:
            raise ValueError(f"no image of {self.pictures.name} could be read{self._example_of_skipped()}")

    def tell(self, done: int, total: int) -> None:
        """Reports progress, and stops where somebody wants that."""
        check_interrupted()
        if self.progress is not None:
            self.progress(done, total)

    def only(self, position: int | None = None) -> Batch:
        """One image as a batch: the first one that figures show, or that at this position among those that can be read."""
        if position is None and self.shown:
            return self.named(self.shown[:1])
        position = position or 0
        group = list(islice(self._readable(), position, position + 1))
        if not group:
            raise ValueError(
                f"picture={position}: there are only {len(self.pictures) - len(self.skipped)} images that can be read; the "
                f"first one is 0{self._example_of_skipped()}"
            )
        return self._batch(group)

    def named(self, ids: Sequence[str]) -> Batch:
        """The images with these ids as a batch, in this order."""
        found: dict[str, tuple[Sample, Tensor]] = {}
        wanted = set(ids)
        for picture in self.pictures:
            if len(found) == len(wanted):
                break
            if picture.id in wanted and (pair := self._read(picture)) is not None:
                found[picture.id] = pair
        return self._batch([found[name] for name in ids])

    def shown_ids(self, count: int) -> tuple[str, ...]:
        """Of the images that figures show: as chosen, or the first `count` that can be read."""
        if self.shown is None:
            self.shown = tuple(picture.id for picture, _ in islice(self._readable(), count))
        return self.shown

    def first_size(self) -> tuple[int, int] | None:
        """(H, W) of the first image that can be opened, as it is; None where there is none."""
        for picture in self.pictures:
            try:
                image = picture.open()
            except (UnreadablePictureError, ValueError):
                continue
            return image.height, image.width
        return None

    def clean(self) -> Iterator[Tensor]:
        """Normalised [B, 3, H, W]."""
        return (self.normalised(batch.pixels) for batch in self.batches())

    def normalised(self, pixels: Tensor) -> Tensor:
        """uint8 [B, 3, H, W] -> the input of the network."""
        return self.pixel_network.normalise(self.unit(pixels)).to(self.dtype)

    def unit(self, pixels: Tensor) -> Tensor:
        """uint8 -> float in 0 .. 1 on the device of the network."""
        return pixels.to(self.device).float() / 255

    def try_out(self) -> None:
        """Runs one image through the network.

        Raises:
            ValueError: no image can be read, or the answer is not finite.
        """
        batch = self.only()
        with evaluation_mode(self.network):
            answer = tensors_of(self.pixel_network(self.unit(batch.pixels)))
        if not all(part.isfinite().all() for part in answer):
            raise ValueError(
                f"{self.name} answers image {batch.ids[0]} with numbers that are not finite (NaN or infinity), so that "
                "nothing can be found out about it; are these the weights that you mean?"
            )

    def _readable(self) -> Iterator[tuple[Sample, Tensor]]:
        return (pair for picture in self.pictures if (pair := self._read(picture)) is not None)

    def _batch(self, group: list[tuple[Sample, Tensor]]) -> Batch:
        pixels = torch.stack([pixels for _, pixels in group])
        return Batch(tuple(picture.id for picture, _ in group), pixels, self._labels([p for p, _ in group], pixels))

    def _example_of_skipped(self) -> str:
        return next((f" ({name}: {why})" for name, why in self.skipped.items()), "")

    def _read(self, picture: Sample) -> tuple[Sample, Tensor] | None:
        if picture.id in self.kept:
            return picture, self.kept[picture.id]
        try:
            image = picture.open()
            pixels = self.protocol.apply(image)
            if image.height < pixels.shape[1] or image.width < pixels.shape[2]:
                self.enlarged.add(picture.id)
            if len(self.kept) * pixels.numel() < MOST_KEPT:
                self.kept[picture.id] = pixels
            return picture, pixels
        except (UnreadablePictureError, ValueError) as error:
            self.skipped[picture.id] = str(error)
            return None

    def _labels(self, pictures: list[Sample], pixels: Tensor) -> Tensor:
        if not self.is_classifier:
            return torch.full((len(pictures),), NO_LABEL, device=self.device)
        if self.targets is not None:
            return torch.tensor([self._target(picture) for picture in pictures], device=self.device)
        with evaluation_mode(self.network):
            return self.pixel_network(self.unit(pixels)).argmax(1)

    def _target(self, picture: Sample) -> int:
        assert self.targets is not None
        if not 0 <= picture.target() < len(self.targets):
            raise ClassMismatchError(
                f"image {picture.id} of {self.pictures.name} has label {picture.target()}, but {self.name} has outputs for "
                f"labels 0 to {len(self.targets) - 1} only; is this the network for these images?"
            )
        return self.targets[picture.target()]


def make_subject(
    name: str,
    network: nn.Module,
    images: Any,
    options: Options,
    *,
    limit: int | None = None,
    size: tuple[int, int] | None = None,
    class_map: dict[str, int] | None = None,
    ignore_orientation: bool = False,
) -> Subject:
    """A network with its images.

    Args:
        name: of the network.
        network: of any task.
        images: see `images_at`.
        options: their seed orders the images, and their batch size divides them.
        limit: look only at the first so many images.
        size: (H, W) of the input, other than the network's own.
        class_map: class name -> output.
        ignore_orientation: see `read_image`.

    Raises:
        ValueError: there are no images, or a class map does not fit.
    """
    protocol = replace(protocol_of("model", network, size), ignore_orientation=ignore_orientation)
    task = task_named(getattr(network, "task", None) or Classification.name)
    how: dict[str, Any] = dict(ignore_orientation=ignore_orientation, task=task)
    pictures = images_at(images, protocol.size, limit, options.seed, **how)
    if task.name != Classification.name:
        if class_map is not None:
            raise ValueError(f"class_map is for classifiers, and {name} is for {task.name}; leave it out")
        return Subject(name, network, pictures, protocol, None, options.batch_size, task=task)
    if class_map is None and _first_label(pictures) == NO_LABEL:
        return Subject(name, network, pictures, protocol, None, options.batch_size)
    outputs = getattr(network, "num_classes", None)
    try:
        labels = label_names_of(network)
        targets: tuple[int, ...] | None = match_classes(
            pictures.classes, int(outputs or 0), class_map=class_map, label_names=labels
        ).targets
    except ClassMismatchError:
        if class_map is not None:
            raise
        targets = None
    return Subject(name, network, pictures, protocol, targets, options.batch_size)


def _first_label(pictures: SampleSet) -> int:
    return next((picture.target() for picture in pictures), NO_LABEL)
