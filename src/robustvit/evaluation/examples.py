"""A few images as the network saw them, with its answers, for the report."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
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

__all__ = ["data_uri", "example_image", "make_examples"]

SIDE = 160
"""Larger images are shown at this size."""
SHOWN = ("gaussian_noise", "defocus_blur", "fog", "jpeg_compression", "patches")


def make_examples(planned: Pass, count: int) -> tuple[Example, ...]:
    """The first `count` readable samples, spread over the dataset, clean and under a condition of each group."""
    conditions = _shown(planned.conditions)
    step = max(1, len(planned.samples) // max(count, 1))
    examples: list[Example] = []
    for sample in islice(planned.samples, 0, None, step):
        if len(examples) == count:
            break
        try:
            image = planned.protocol.apply(sample.open())[None]
        except (UnreadablePictureError, ValueError):
            continue
        examples.append(_example(planned, sample, image, conditions))
    return tuple(examples)


def _shown(conditions: Sequence[Condition]) -> list[Condition]:
    by_name: dict[str, Condition] = {}
    for c in conditions:  # the middle severity, or the nearest one that was measured
        if c.name not in by_name or abs(c.severity - 3) < abs(by_name[c.name].severity - 3):
            by_name[c.name] = c
    names = [n for n in SHOWN if n in by_name] or [n for n in by_name if n != CLEAN.name][:4]
    return [CLEAN, *(by_name[n] for n in names)]


def _example(planned: Pass, sample: Sample, image: Tensor, conditions: Sequence[Condition]) -> Example:
    task, target = planned.task, planned.task.target(sample, planned.samples)
    seen = torch.cat([planned.under(image, [sample.id], condition) for condition in conditions])
    predictions = predict_images(task, planned.network, seen, planned.normalisation)
    shown = [example_image(task, *row, target) for row in zip(conditions, seen, predictions, strict=True)]
    return Example(sample.id, task.target_text(target), tuple(shown))


def example_image(task: Task, condition: Condition, pixels: Tensor, prediction: object, target: object) -> ExampleImage:
    """An image with the answer.

    Args:
        task: whose answer it is.
        condition: that the image is under.
        pixels: uint8 [3, H, W].
        prediction, target: of the task.
    """
    answer = task.answer(prediction, target)
    image = task.draw(Image.fromarray(pixels.permute(1, 2, 0).numpy()), prediction, target)
    told = (answer.text, answer.confidence, answer.is_right)
    return ExampleImage(condition.name, condition.severity, data_uri(image), *told)


def data_uri(image: Image.Image) -> str:
    """An image as an address that holds it; large ones are made smaller."""
    if max(image.size) > SIDE:
        image = image.copy()
        image.thumbnail((SIDE, SIDE), Image.Resampling.LANCZOS)
    file = io.BytesIO()
    image.save(file, "PNG") if max(image.size) <= 64 else image.save(file, "JPEG", quality=88)
    kind = "png" if max(image.size) <= 64 else "jpeg"
    return f"data:image/{kind};base64,{base64.b64encode(file.getvalue()).decode()}"
