"""Reading between pixels against the definition of bilinear interpolation, pixel by pixel."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from robustvit.corruptions.filters import Border
from robustvit.corruptions.sampling import read_between

PADDING = {"replicate": "edge", "mirror": "symmetric", "reflect": "reflect", "black": "constant"}
"""What NumPy calls the borders."""


@pytest.mark.parametrize("border", PADDING)
@given(
    H=st.integers(3, 20),
    W=st.integers(3, 20),
    unit=st.sampled_from([1, 32, 64]),
    seed=st.integers(0, 2**32 - 1),
    beyond=st.integers(0, 2),
)
@settings(max_examples=15, deadline=None)
def test_values_between_pixels_are_exactly_bilinear(H: int, W: int, unit: int, seed: int, beyond: int, border: Border) -> None:
    random = np.random.default_rng(seed)
    picture = random.integers(0, 256, (3, H, W))
    x, y = (random.integers(-beyond * unit, (n - 1 + beyond) * unit + 1, (5, 7)) for n in (W, H))
    padded = np.pad(picture, [(0, 0), (3, 3), (3, 3)], mode=PADDING[border])  # type: ignore[call-overload]
    left, top, right, down = x // unit + 3, y // unit + 3, x % unit, y % unit
    expected = (
        padded[:, top, left] * (unit - right) * (unit - down)
        + padded[:, top, left + 1] * right * (unit - down)
        + padded[:, top + 1, left] * (unit - right) * down
        + padded[:, top + 1, left + 1] * right * down
    ) / unit**2
    sources = torch.from_numpy(np.stack([x, y])).float()
    read = read_between(torch.from_numpy(picture).float(), sources, unit, border=border)
    assert np.array_equal(read.numpy(), expected)
