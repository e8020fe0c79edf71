"""The shared filters against their definitions, written out value by value."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from robustvit.corruptions import filters
from robustvit.corruptions.filters import ONE, Border, add_zoomed, blur_bytes, gaussian_filter, streak
from robustvit.corruptions.parameters import FAMILIES, parameters

SIGMAS = sorted(
    {parameters("gaussian_blur", severity, family) for family in FAMILIES for severity in range(1, 6)}
    | {parameters("glass_blur", severity, family)[0] for family in FAMILIES for severity in range(1, 6)}
)
"""Every one that a corruption uses."""


def gaussian_by_definition(maps: Tensor, sigma: float, border: Border, truncate: float) -> Tensor:
    radius = int(truncate * sigma + 0.5)
    weights = np.exp(-(np.arange(-radius, radius + 1.0) ** 2) / (2 * sigma**2))
    weights /= weights.sum()
    result = maps.numpy()
    for axis in (-2, -1):
        widths = [(0, 0)] * result.ndim
        widths[axis] = (radius, radius)
        padded = np.pad(result, widths, mode="edge" if border == "replicate" else "symmetric")
        result = np.lib.stride_tricks.sliding_window_view(padded, 2 * radius + 1, axis) @ weights
    return torch.from_numpy(result)


@pytest.mark.parametrize("border", ["replicate", "mirror"])
@pytest.mark.parametrize(("sigma", "truncate"), [(0.4, 4.0), (1.0, 4.0), (3.3, 3.0), (6.0, 4.0), (30.0, 3.0)])
def test_gaussian_filter_is_the_weighted_mean_of_the_neighbours(sigma: float, truncate: float, border: Border) -> None:
    maps = torch.rand(2, 3, 70, 101, dtype=torch.float64)
    expected = gaussian_by_definition(maps, sigma, border, truncate)
    torch.testing.assert_close(gaussian_filter(maps, sigma, border=border, truncate=truncate), expected)


def test_gaussian_filter_takes_a_width_for_each_axis() -> None:
    maps = torch.rand(1, 1, 40, 50)
    only_rows = gaussian_filter(maps, (2.0, 0.1))
    only_columns = gaussian_filter(maps, (0.1, 2.0))
    torch.testing.assert_close(only_rows.mT, gaussian_filter(maps.mT.contiguous(), (0.1, 2.0)))
    torch.testing.assert_close(gaussian_filter(only_rows, (0.0, 2.0)), gaussian_filter(only_columns, (2.0, 0.0)))


def test_gaussian_filter_of_radius_0_changes_nothing() -> None:
    maps = torch.rand(2, 32, 32)
    assert torch.equal(gaussian_filter(maps, 0.12), maps)


@pytest.mark.parametrize("shape", [(33, 40), (2, 33, 40), (2, 3, 33, 40), (2, 2, 3, 33, 40)])
def test_gaussian_filter_takes_maps_with_any_leading_axes(shape: tuple[int, ...]) -> None:
    maps = torch.rand(shape)
    planes = maps.reshape(-1, 33, 40)
    expected = torch.stack([gaussian_filter(plane, 1.5) for plane in planes]).reshape(shape)
    torch.testing.assert_close(gaussian_filter(maps, 1.5), expected)


def zoom_clip(picture: Tensor, zoom: float, *, centred: bool) -> Tensor:
    total = torch.zeros_like(picture)
    add_zoomed(total, picture, [zoom], centred=centred)
    return total


@settings(max_examples=30, deadline=None)
@given(st.integers(32, 60), st.integers(32, 60), st.floats(1, 4.5), st.booleans())
def test_zoom_is_bilinear_interpolation_between_corners(H: int, W: int, zoom: float, centred: bool) -> None:
    maps = torch.rand(1, 1, H, W, dtype=torch.float64)
    kept, first, start, size = [], [], [], []
    for n in (H, W):
        kept.append(math.ceil(n / zoom))
        size.append(max(round(kept[-1] * zoom), n))
        first.append((n - kept[-1]) // 2)
        start.append((round(kept[-1] * zoom) - n) // 2 if centred else 0)
    crop = maps[..., first[0] : first[0] + kept[0], first[1] : first[1] + kept[1]]
    enlarged = torch.nn.functional.interpolate(crop, size, mode="bilinear", align_corners=True)
    expected = enlarged[..., start[0] : start[0] + H, start[1] : start[1] + W]
    torch.testing.assert_close(zoom_clip(maps[0], zoom, centred=centred), expected[0])


def test_zoom_1_changes_nothing() -> None:
    picture = torch.rand(3, 40, 50)
    assert torch.equal(zoom_clip(picture, 1.0, centred=False), picture)


@settings(max_examples=20, deadline=None)
@given(st.floats(-180, 180), st.sampled_from([(10, 3.0), (15, 12.0), (3, 1.0)]))
def test_streak_sums_pixels_along_a_line_with_the_edge_replicated(angle: float, shape: tuple[int, float]) -> None:
    radius, sigma = shape
    H, W = 48, 52
    maps = torch.rand(1, 2, H, W, dtype=torch.float64)
    weights = np.exp(-(np.arange(2 * radius + 1.0) ** 2) / (2 * sigma**2))
    expected = torch.zeros_like(maps)
    for i, weight in enumerate(weights / weights.sum()):
        dy = math.ceil(i * math.sin(math.radians(angle)) - 0.5)
        dx = math.ceil(i * math.cos(math.radians(angle)) - 0.5)
        rows, columns = (torch.arange(n).add(d).clamp(0, n - 1) for n, d in ((H, dy), (W, dx)))
        expected += weight * maps[:, :, rows][..., columns]
    torch.testing.assert_close(streak(maps, radius, sigma, angle), expected)
    levels = maps.mul(255).int()
    whole = streak(levels, radius, sigma, angle).double() / ONE
    torch.testing.assert_close(whole, streak(levels.double(), radius, sigma, angle), rtol=0, atol=1e-3)


def test_streak_stops_where_it_would_leave_a_small_image() -> None:
    maps = torch.ones(1, 1, 32, 32, dtype=torch.float64)
    darkened = streak(maps, 20, 15.0, 0.0)
    k = torch.exp(-(torch.arange(41.0) ** 2) / (2 * 15.0**2))
    assert float(darkened.max()) == pytest.approx(float(k[:32].sum() / k.sum()), abs=1e-6)
    assert float(streak(maps.int(), 20, 15.0, 0.0).max() / ONE) == pytest.approx(float(darkened.max()), abs=1e-5)


def test_a_whole_streak_keeps_flat_areas_exactly() -> None:
    levels = torch.arange(256, dtype=torch.int32).view(-1, 1, 1).expand(-1, 60, 60)
    assert torch.equal(streak(levels, 15, 12.0, 33.0), levels * ONE)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("sigma", SIGMAS)
def test_flat_areas_keep_their_level_when_blurred(sigma: float, dtype: torch.dtype) -> None:
    levels = torch.arange(256, dtype=torch.uint8).view(-1, 1, 1).expand(-1, 64, 64)
    blurred = torch.empty_like(levels, memory_format=torch.contiguous_format)
    blur_bytes(levels, sigma, dtype, blurred)
    assert torch.equal(blurred, levels)


@pytest.mark.parametrize("size", [(33, 40), (150, 1100)])
@pytest.mark.parametrize("sigma", [0.1, 0.7, 1.0, 1.5, 2.0, 6.0])
def test_blurred_bytes_are_the_truncated_weighted_means(sigma: float, size: tuple[int, int]) -> None:
    picture = torch.randint(0, 256, (3, *size), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    expected = gaussian_by_definition(picture.double(), sigma, "replicate", 4.0).add(1e-9).to(torch.uint8)
    for dtype, most in ((torch.float64, 0), (torch.float32, max(1, picture.numel() // 10_000))):
        blurred = torch.empty_like(picture)
        blur_bytes(picture, sigma, dtype, blurred)
        apart = (blurred.int() - expected.int()).abs()
        assert apart.max() <= 1
        assert (apart > 0).sum() <= most


@pytest.mark.parametrize("border", ["replicate", "mirror", "reflect", "black"])
@pytest.mark.parametrize(("sigma", "dtype"), [(1.5, torch.float32), (1.5, torch.float64), (7.0, torch.float32)])
def test_bands_of_large_maps_give_the_bits_of_the_whole(
    border: Border, sigma: float, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    maps = torch.rand(3, 173, 31, dtype=dtype)
    whole = gaussian_filter(maps, sigma, border=border)
    monkeypatch.setattr(filters, "BAND", 3 * 31 * 40)
    assert torch.equal(gaussian_filter(maps, sigma, border=border), whole)


@pytest.mark.parametrize("sigma", [1.0, 3.0, 7.0])
def test_bands_of_large_images_give_the_bytes_of_the_whole(sigma: float, monkeypatch: pytest.MonkeyPatch) -> None:
    image = torch.randint(0, 256, (3, 173, 31), dtype=torch.uint8)
    whole, banded = torch.empty_like(image), torch.empty_like(image)
    blur_bytes(image, sigma, torch.float32, whole)
    monkeypatch.setattr(filters, "BAND", 3 * 31 * 40)
    blur_bytes(image, sigma, torch.float32, banded)
    assert torch.equal(whole, banded)
