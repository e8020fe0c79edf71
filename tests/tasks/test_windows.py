"""Sliding windows, and what else happens between an image and its logits."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from dense_weights import assert_described
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused
from torch import Tensor, nn

from robustvit.data.normalisation import Normalisation
from robustvit.tasks.windows import Inference, window_starts

SLIDING = json.loads((Path(__file__).parents[1] / "reference" / "dense" / "protocols.json").read_text())["sliding"]
PLAIN = Normalisation((0.0, 0.0, 0.0), (1.0, 1.0, 1.0))


class Convolution(nn.Module):
    """The network of the reference values: logits at a quarter of the size, resized to the input."""

    def __init__(self) -> None:
        super().__init__()
        weight = np.random.RandomState(5).standard_normal((5, 3, 3, 3)) / math.sqrt(27)
        self.weight = nn.Parameter(torch.from_numpy(weight.astype("float32")))
        self.sizes: list[tuple[int, ...]] = []

    def forward(self, x: Tensor) -> Tensor:
        self.sizes += [tuple(x.shape[2:])] * len(x)
        return F.interpolate(F.conv2d(x, self.weight, stride=4, padding=1), x.shape[2:], mode="bilinear", align_corners=False)


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("case", SLIDING["cases"], ids=lambda case: "x".join(map(str, case["image"])))
def test_stitched_logits_are_those_of_the_published_program(case: dict, batch: int) -> None:
    H, W = case["image"]
    image = torch.from_numpy(np.random.RandomState(0).standard_normal(size=(2, 3, H, W)).astype("float32"))[:1]
    inference, network = Inference(window=tuple(case["window"]), stride=tuple(case["stride"]), batch=batch), Convolution()
    with torch.inference_mode():
        stitched = inference.stitched(network, image)
    assert [list(size) for size in network.sizes] == case["window_sizes"]
    assert_described(stitched, case["stitched"])
    resized = F.interpolate(stitched, case["original"], mode="bilinear", align_corners=False)
    assert_described(resized, case["resized"])
    assert resized.argmax(1).flatten().bincount(minlength=5).tolist() == case["histogram"]


@given(st.integers(1, 400), st.integers(1, 100), st.integers(1, 100))
def test_windows_cover_the_image_and_end_with_it(length: int, window: int, step: int) -> None:
    starts = window_starts(length, window, min(step, window))
    assert starts[0] == 0
    assert starts[-1] + window >= length
    assert starts[-1] == max(0, length - window)
    assert all(0 < b - a <= window for a, b in pairwise(starts))


def test_one_window_that_covers_the_image_is_the_whole_image() -> None:
    images, network = torch.randint(0, 256, (2, 3, 40, 56), dtype=torch.uint8), Convolution()
    whole = Inference().logits(network, images, PLAIN)
    torch.testing.assert_close(Inference(window=(40, 56)).logits(network, images, PLAIN), whole, rtol=0, atol=0)
    torch.testing.assert_close(Inference(window=(64, 64)).logits(network, images, PLAIN), whole, rtol=0, atol=0)


def test_logits_have_the_size_of_the_image_whatever_it_was_resized_to() -> None:
    images, network = torch.randint(0, 256, (1, 3, 30, 50), dtype=torch.uint8), Convolution()
    logits = Inference(fit=(64, 32), window=(32, 32), flip=True, scales=(0.5, 1.0)).logits(network, images, PLAIN)
    assert logits.shape == (1, 5, 30, 50)
    assert set(network.sizes) == {(16, 27), (32, 32)}


def test_mirrored_images_have_mirrored_answers() -> None:
    images, network = torch.randint(0, 256, (1, 3, 32, 48), dtype=torch.uint8), Convolution()
    inference = Inference(flip=True)
    logits, mirrored = (inference.logits(network, x, PLAIN) for x in (images, images.flip(-1)))
    torch.testing.assert_close(logits, mirrored.flip(-1))


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"window": (32, 0)}, "window=(32, 0)"),
        ({"window": (32, 32), "stride": (48, 32)}, "stride=(48, 32)"),
        ({"scales": ()}, "scales=()"),
        ({"batch": 0}, "batch=0"),
    ],
)
def test_what_cannot_be_is_refused(options: dict, named: str) -> None:
    with refused(ValueError, named):
        Inference(**options)
