"""A few pictures as the network saw them, for the report."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from itertools import islice

import torch
from PIL import Image
from torch import Tensor, nn

from robustvit.data.samples import Sample, UnreadablePictureError
from robustvit.evaluation.classification import Task, predict
from robustvit.evaluation.conditions import CLEAN, Condition
from robustvit.evaluation.results import Example, ExamplePicture

__all__ = ["data_uri", "make_examples"]

SIDE = 160
"""Larger pictures are shown at this size."""
SHOWN = ("gaussian_noise", "defocus_blur", "fog", "jpeg_compression", "patches")


def make_examples(model: nn.Module, task: Task, count: int) -> tuple[Example, ...]:
    """The first `count` readable pictures, spread over the set, clean and under a condition of each group."""
    conditions = _shown(task.conditions)
    step = max(1, len(task.pictures) // max(count, 1))
    examples: list[Example] = []
    for picture in islice(task.pictures, 0, None, step):
        if len(examples) == count:
            break
        try:
            image = task.protocol.apply(picture.open())[None]
        except (UnreadablePictureError, ValueError):
            continue
        examples.append(_example(model, task, picture, image, conditions))
    return tuple(examples)


def _shown(conditions: Sequence[Condition]) -> list[Condition]:
    by_name: dict[str, Condition] = {}
    for c in conditions:  # the middle severity, or the nearest one that was measured
        if c.name not in by_name or abs(c.severity - 3) < abs(by_name[c.name].severity - 3):
            by_name[c.name] = c
    names = [n for n in SHOWN if n in by_name] or [n for n in by_name if n != "clean"][:4]
    return [CLEAN, *(by_name[n] for n in names)]


def _example(model: nn.Module, task: Task, picture: Sample, image: Tensor, conditions: Sequence[Condition]) -> Example:
    seen = torch.cat([task.damage.apply(image, [picture.id], condition) for condition in conditions])
    confidences, answers = predict(model, task, seen)
    target = task.targets[picture.target()]
    shown = []
    for condition, pixels, confidence, answer in zip(conditions, seen, confidences.tolist(), answers.tolist(), strict=True):
        name = task.class_name(answer)
        shown.append(ExamplePicture(condition.name, condition.severity, data_uri(pixels), name, confidence, answer == target))
    return Example(picture.id, task.class_name(target), tuple(shown))


def data_uri(pixels: Tensor) -> str:
    """A picture, uint8 [3, H, W], as an address that holds it; large ones are made smaller."""
    image = Image.fromarray(pixels.permute(1, 2, 0).numpy())
    if max(image.size) > SIDE:
        image.thumbnail((SIDE, SIDE), Image.Resampling.LANCZOS)
    file = io.BytesIO()
    image.save(file, "PNG") if max(image.size) <= 64 else image.save(file, "JPEG", quality=88)
    kind = "png" if max(image.size) <= 64 else "jpeg"
    return f"data:image/{kind};base64,{base64.b64encode(file.getvalue()).decode()}"
