"""The position encoding of FAN against its formula."""

from __future__ import annotations

import math

import pytest
import torch

from robustvit.layers.fourier_position import FourierPosition


def formula(row: int, column: int, grid: tuple[int, int], paired: bool) -> list[float]:
    """The 64 features of one position, counted from 1."""
    features = []
    for position, n in ((row, grid[0]), (column, grid[1])):
        u = 2 * math.pi * position / (n + 1e-6)
        for j in range(32):
            w = 10000 ** (2 * (j // 2) / 32 if paired else j / 32)
            features.append(math.sin(u / w) if j % 2 == 0 else math.cos(u / w))
    return features


@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize("grid", [(14, 14), (3, 5), (1, 1)])
def test_features_are_those_of_the_formula_rows_first(grid: tuple[int, int], paired: bool) -> None:
    encoding = FourierPosition(64, paired=paired)
    encoding.proj.weight.data = torch.eye(64)[:, :, None, None]
    torch.nn.init.zeros_(encoding.proj.bias)
    expected = [formula(r, c, grid, paired) for r in range(1, grid[0] + 1) for c in range(1, grid[1] + 1)]
    with torch.no_grad():
        torch.testing.assert_close(encoding(grid), torch.tensor([expected]), rtol=1e-5, atol=1e-5)


def test_the_encoding_is_projected_to_the_width_of_the_tokens() -> None:
    encoding = FourierPosition(24)
    assert encoding((2, 3)).shape == (1, 6, 24)
    assert sum(p.numel() for p in encoding.parameters()) == 64 * 24 + 24


def test_angles_are_float32_in_low_precision() -> None:
    encoding = FourierPosition(64)
    expected = encoding((14, 14))
    low = encoding.to(torch.bfloat16)((14, 14))
    assert low.dtype == torch.bfloat16
    torch.testing.assert_close(low.float(), expected, rtol=0.05, atol=0.05)
