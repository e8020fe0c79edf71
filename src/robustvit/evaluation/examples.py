"""A few images as the network saw them, with its answers, for the report."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Container, Sequence
from itertools import islice

import torch
from PIL import Image
from torch import Tensor

from robustvit.corruptions.conditions import CLEAN, Condition
from robustvit.data.samples import Sample, UnreadablePictureError
from robustvit.evaluation.passes import Pass
from robustvit.evaluation.results import Example, ExampleImage
from robustvit.tasks.base import Task
from robustvit.tasks.passes import predict_images
from robustvit.tasks.tallies import Tallies

__all__ = ["data_uri", "example_image", "example_of", "make_examples"]

SHOWN = ("gaussian_noise", "defocus_blur", "fog", "jpeg_compression", "patches")


def make_examples(planned: Pass, count: int, left_out: Container[str] = ()) -> tuple[Example, ...]:
    """The first `count` readable samples, spread over the dataset, clean and under a condition of each group.

    Args:
        planned: the pass that they are of.
        count: how many.
        left_out: ids of samples that could not be measured.
    """
    step = max(1, len(planned.samples) // max(count, 1))
    examples: list[Example] = []
    for sample in islice(planned.samples, 0, None, step):
        if len(examples) == count:
            break
        if sample.id in left_out:
            continue
        try:
            image = planned.protocol.apply(sample.open())[None]
        except (UnreadablePictureError, ValueError):
            continue
        examples.append(example_of(planned, sample, image, _shown(planned.conditions_of(sample.id))))
    return tuple(examples)


def _shown(conditions: Sequence[Condition]) -> list[Condition]:
    by_name: dict[str, Condition] = {}
    for c in conditions:  # the middle severity, or the nearest one that was measured
        if c.name not in by_name or abs(c.severity - 3) < abs(by_name[c.name].severity - 3):
            by_name[c.name] = c
    names = [n for n in SHOWN if n in by_name] or [n for n in by_name if n != CLEAN.name][:4]
    return [*([CLEAN] if CLEAN in conditions else []), *(by_name[n] for n in names)]


def example_of(planned: Pass, sample: Sample, image: Tensor, conditions: Sequence[Condition]) -> Example:
    """A sample under these conditions.

    Args:
        planned: the pass that it is of.
        sample: to show.
        image: uint8 [1, 3, H, W], as the protocol gives it.
        conditions: of the pass.
    """
    task, target = planned.task, planned.task.target(sample, planned.samples)
    seen = torch.cat([planned.under(image, [sample.id], condition) for condition in conditions])
    predictions = predict_images(task, planned.network, seen, planned.normalisation)
    shown = [example_image(task, *row, target) for row in zip(conditions, seen, predictions, strict=True)]
    drawn = task.draw_target(_opened(image[0]), target)
    labelled = "" if drawn is None else data_uri(drawn, task.example_side)
    return Example(sample.id, task.target_text(target), tuple(shown), labelled)


def example_image(task: Task, condition: Condition, pixels: Tensor, prediction: object, target: object) -> ExampleImage:
    """An image with the answer.

    Args:
        task: whose answer it is.
        condition: that the image is under.
        pixels: uint8 [3, H, W].
        prediction, target: of the task.
    """
    answer, side = task.answer(prediction, target), task.example_side
    image = _opened(pixels)
    drawn = task.draw(image, prediction, target)
    seen = "" if drawn is image else data_uri(image, side)
    told = (answer.text, answer.confidence, answer.is_right)
    score = _score(task, prediction, target)
    return ExampleImage(condition.name, condition.severity, data_uri(drawn, side), *told, seen, score)


def _score(task: Task, prediction: object, target: object) -> float | None:
    """The primary measure of one image alone; None where that says nothing."""
    if not task.ranks_samples:
        return None
    score = float(task.sample_scores(Tallies.stack([task.tally(prediction, target)]))[0])
    return score if math.isfinite(score) else None


def _opened(pixels: Tensor) -> Image.Image:
    """uint8 [3, H, W] -> the image."""
    return Image.fromarray(pixels.permute(1, 2, 0).numpy())


def data_uri(image: Image.Image, side: int = Task.example_side) -> str:
    """An image as an address that holds it; if its longer side has more than `side` pixels, it is made smaller."""
    if max(image.size) > side:
        image = image.copy()
        image.thumbnail((side, side), Image.Resampling.LANCZOS)
    file = io.BytesIO()
    image.save(file, "PNG") if max(image.size) <= 64 else image.save(file, "JPEG", quality=88)
    kind = "png" if max(image.size) <= 64 else "jpeg"
    return f"data:image/{kind};base64,{base64.b64encode(file.getvalue()).decode()}"
