from __future__ import annotations

import io

import golden
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from torch import Tensor

from robustvit.corruptions.parameters import SIZES, Family, parameters
from robustvit.corruptions.registry import corrupt

TOLERANCE = {"brightness": 0.003, "contrast": 0.0, "saturate": 0.02, "pixelate": 0.0}
"""Share of values that may differ from the published ones, by one grey level."""
NAMES = [*TOLERANCE, "jpeg_compression"]


def noise_image(seed: int, *shape: int) -> Tensor:
    return torch.randint(0, 256, shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("name", TOLERANCE)
def test_images_are_the_published_ones(name: str) -> None:
    cells = golden.files("deterministic", name)
    assert len(cells) == 18
    for folder, _, severity in cells:
        ours = corrupt(golden.picture(folder), name, severity, family=golden.FAMILIES[folder])
        largest, share = golden.difference(ours, golden.picture(folder, f"deterministic/{name}_{severity}"))
        assert largest <= 1, (folder, severity)
        assert share <= TOLERANCE[name], (folder, severity)


def test_jpeg_images_are_the_published_ones_but_for_the_library() -> None:
    cells = golden.files("deterministic", "jpeg_compression")
    assert len(cells) == 18
    for folder, name, severity in cells:
        ours = corrupt(golden.picture(folder), name, severity, family=golden.FAMILIES[folder])
        theirs = golden.picture(folder, f"deterministic/{name}_{severity}")
        assert (ours.double() - theirs.double()).abs().mean() < 0.5, (folder, severity)


@pytest.mark.parametrize("name", NAMES)
@given(severity=st.integers(1, 5), H=st.integers(32, 70), W=st.integers(32, 70), seed=st.integers(0, 99))
@settings(max_examples=8, deadline=None)
def test_a_image_is_changed_alike_alone_and_in_a_batch(name: str, severity: int, H: int, W: int, seed: int) -> None:
    images = noise_image(seed, 3, 3, H, W)
    before = images.clone()
    together = corrupt(images, name, severity, family="arbitrary")
    alone = torch.cat([corrupt(image, name, severity, family="arbitrary")[None] for image in images])
    assert together.shape == images.shape
    assert together.dtype == torch.uint8
    assert torch.equal(together, alone)
    assert torch.equal(images, before)


@pytest.mark.parametrize("name", NAMES)
def test_memory_layout_does_not_matter(name: str) -> None:
    images = noise_image(0, 2, 3, 48, 40)
    strided = images.contiguous(memory_format=torch.channels_last)
    assert torch.equal(corrupt(images, name, 3), corrupt(strided, name, 3))
    grey = images[:, :1]
    assert torch.equal(corrupt(grey, name, 3), corrupt(grey.repeat(1, 3, 1, 1), name, 3))


@given(colour=st.tuples(*[st.integers(0, 255)] * 3), severity=st.integers(1, 5))
@settings(max_examples=40, deadline=None)
def test_brightness_raises_the_largest_channel_and_keeps_ratios(colour: tuple[int, int, int], severity: int) -> None:
    image = torch.tensor(colour, dtype=torch.uint8)[:, None, None].expand(3, 32, 32)
    out = corrupt(image, "brightness", severity, family="arbitrary")[:, 0, 0].tolist()
    raised = min(max(colour) + 25.5 * severity, 255)
    for before, after in zip(colour, out, strict=True):
        assert abs(after + 0.5 - (raised * before / max(colour) if max(colour) else raised)) <= 1


@given(colour=st.tuples(*[st.integers(0, 255)] * 3), severity=st.integers(1, 5))
@settings(max_examples=40, deadline=None)
def test_saturate_keeps_the_largest_channel(colour: tuple[int, int, int], severity: int) -> None:
    image = torch.tensor(colour, dtype=torch.uint8)[:, None, None].expand(3, 32, 32)
    out = corrupt(image, "saturate", severity, family="arbitrary")[:, 0, 0].tolist()
    m, b = [(0.3, 0), (0.1, 0), (2, 0), (5, 0.1), (20, 0.2)][severity - 1]
    V, lowest = max(colour), min(colour)
    assert max(out) == V
    if lowest < V:
        scale = min(m * (V - lowest) / V + b, 1) * V / (V - lowest)
        for before, after in zip(colour, out, strict=True):
            assert abs(after + 0.5 - (V - (V - before) * scale)) <= 1


def test_saturating_grey_makes_it_red() -> None:
    grey = torch.full((3, 32, 32), 200, dtype=torch.uint8)
    assert corrupt(grey, "saturate", 5)[:, 0, 0].tolist() == [200, 160, 160]  # S = 2.5 * 0 + 0.2
    assert torch.equal(corrupt(grey, "saturate", 1), grey)


@given(severity=st.integers(1, 5), seed=st.integers(0, 99))
@settings(max_examples=15, deadline=None)
def test_contrast_shrinks_towards_the_mean_of_each_channel(severity: int, seed: int) -> None:
    image = noise_image(seed, 3, 40, 33)
    x = image.double() / 255
    mean = image.double().sum((1, 2), keepdim=True) / (255 * 40 * 33)
    expected = (x - mean) * [0.4, 0.3, 0.2, 0.1, 0.05][severity - 1] + mean
    out = corrupt(image, "contrast", severity, family="arbitrary")
    assert torch.equal(out, (expected.clamp(0, 1) * 255).to(torch.uint8))


@pytest.mark.parametrize("severity", range(1, 6))
def test_pixelating_224_pixels_is_the_same_with_both_rules(severity: int) -> None:
    image = golden.picture("imagenet224")
    pil = Image.fromarray(image[0].permute(1, 2, 0).numpy())
    small = pil.resize((int(224 * [0.6, 0.5, 0.4, 0.3, 0.25][severity - 1]),) * 2, Image.Resampling.BOX)
    for family in ("imagenet", "arbitrary"):
        ours = corrupt(image, "pixelate", severity, family=family)[0].permute(1, 2, 0)
        assert np.array_equal(ours.numpy(), np.asarray(small.resize((224, 224), Image.Resampling.BOX)))


@given(
    severity=st.integers(1, 5),
    H=st.integers(32, 150),
    W=st.integers(32, 150),
    family=st.sampled_from(["arbitrary", "cifar", "tiny"]),
)
@settings(max_examples=60, deadline=None)
def test_pixelate_is_what_pillow_makes_of_it_at_any_size(severity: int, H: int, W: int, family: Family) -> None:
    side = SIZES.get(family)
    H, W = (side, side) if side else (H, W)
    images = noise_image(H * W, 2, 3, H, W)
    c = parameters("pixelate", severity, family)
    back = Image.Resampling.NEAREST if family == "arbitrary" else Image.Resampling.BOX
    for image, ours in zip(images, corrupt(images, "pixelate", severity, family=family), strict=True):
        small = Image.fromarray(image.permute(1, 2, 0).numpy()).resize((int(W * c), int(H * c)), Image.Resampling.BOX)
        assert np.array_equal(ours.permute(1, 2, 0).numpy(), np.asarray(small.resize((W, H), back)))


@pytest.mark.parametrize("size", [(64, 64), (256, 40), (40, 256), (132, 64), (128, 64), (1024, 512)])
@pytest.mark.parametrize(("severity", "factor"), [(2, 2), (5, 4)])
def test_pixelating_to_means_of_whole_pixels_is_what_pillow_makes_of_it(
    size: tuple[int, int], severity: int, factor: int
) -> None:
    H, W = size
    image = noise_image(0, 3, H, W)
    small = Image.fromarray(image.permute(1, 2, 0).numpy()).resize((W // factor, H // factor), Image.Resampling.BOX)
    ours = corrupt(image, "pixelate", severity, family="arbitrary").permute(1, 2, 0).numpy()
    assert np.array_equal(ours, np.asarray(small.resize((W, H), Image.Resampling.NEAREST)))


def test_jpeg_is_what_pillow_makes_of_it() -> None:
    image = golden.picture("arbitrary96x160")
    buffer = io.BytesIO()
    Image.fromarray(image[0].permute(1, 2, 0).numpy()).save(buffer, "JPEG", quality=15)
    pillow = torch.from_numpy(np.array(Image.open(buffer))).permute(2, 0, 1)[None]
    assert torch.equal(corrupt(image, "jpeg_compression", 3), pillow)
