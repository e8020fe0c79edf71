"""Noise2Net, and what holds for every DeepAugment equivalent."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused
from torch import Tensor

from robustvit.data.normalisation import Normalisation
from robustvit.data.scenes.dataset import scenes_batch
from robustvit.training.config import AugmentConfig
from robustvit.training.deepaugment.distortion import Distortion, convolve_each
from robustvit.training.deepaugment.kinds import KINDS as NAMES
from robustvit.training.deepaugment.kinds import distortion_class
from robustvit.training.deepaugment.noise2net import Noise2Net
from robustvit.training.deepaugment.self_autoencoder import Autoencoder, SelfAutoencoder
from robustvit.training.deepaugment.self_upscaler import SelfUpscaler, Upscaler

NORMALISATION = Normalisation((0.5, 0.45, 0.4), (0.25, 0.24, 0.26))
KINDS: dict[str, Callable[..., Distortion]] = {
    "noise2net": Noise2Net,
    "self-cae": lambda *args, **kwargs: SelfAutoencoder(Autoencoder(), *args, **kwargs),
    "self-sr": lambda *args, **kwargs: SelfUpscaler(Upscaler(width=8, blocks=6), *args, **kwargs),
}


def pictures(count: int, size: tuple[int, int] = (32, 32)) -> Tensor:
    """Normalised generated images [B, 3, H, W]."""
    pixels = scenes_batch(0, range(count), size).images.float() / 255
    return NORMALISATION(pixels)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [(32, 32), (18, 27)])
def test_shape_and_dtype_stay_and_values_are_pixels(kind: str, size: tuple[int, int]) -> None:
    images = pictures(4, size).half()
    distorted = KINDS[kind](NORMALISATION, share=1.0)(images, range(4))
    assert distorted.shape == images.shape
    assert distorted.dtype == images.dtype
    pixels = NORMALISATION.inverse(distorted.float())
    assert pixels.min() >= -2e-3
    assert pixels.max() <= 1 + 2e-3


@pytest.mark.parametrize("kind", KINDS)
def test_a_sample_does_not_depend_on_its_batch(kind: str) -> None:
    distort, images, seeds = KINDS[kind](NORMALISATION), pictures(8), [7 * i + 3 for i in range(8)]
    together = distort(images, seeds)
    order = [5, 0, 3]
    assert torch.equal(distort(images[order], [seeds[i] for i in order]), together[order])
    alone = [distort(images[i : i + 1], seeds[i : i + 1])[0] for i in range(8)]
    assert torch.equal(torch.stack(alone), together)


@pytest.mark.parametrize("kind", KINDS)
def test_grouped_samples_get_what_they_get_alone(kind: str) -> None:
    distort, seeds = KINDS[kind](NORMALISATION), list(range(5))
    pixels = NORMALISATION.inverse(pictures(5))
    alone = torch.cat([distort.distort_all(pixels[i : i + 1], [seed]) for i, seed in enumerate(seeds)])
    torch.testing.assert_close(distort.distort_all(pixels, seeds), alone, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_the_global_random_state_neither_matters_nor_changes(kind: str) -> None:
    distort, images = KINDS[kind](NORMALISATION), pictures(4)
    first = distort(images, range(4))
    torch.manual_seed(99)
    before = torch.get_rng_state()
    assert torch.equal(distort(images, range(4)), first)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("kind", KINDS)
def test_each_seed_distorts_in_its_own_way(kind: str) -> None:
    images = pictures(1).expand(6, -1, -1, -1)
    distorted = KINDS[kind](NORMALISATION, share=1.0)(images, range(6))
    assert len({tuple(picture.flatten().tolist()) for picture in distorted}) == 6


@given(start=st.integers(0, 2**62))
@settings(max_examples=10, deadline=None)
def test_about_half_of_the_samples_are_chosen(start: int) -> None:
    chosen = Noise2Net(NORMALISATION).chosen(range(start, start + 2000))
    assert 850 < len(chosen) < 1150  # 6 standard deviations


def test_only_the_chosen_samples_change() -> None:
    distort, images = Noise2Net(NORMALISATION), pictures(12)
    changed = (distort(images, range(12)) != images).flatten(1).any(1)
    assert changed.nonzero()[:, 0].tolist() == distort.chosen(range(12))
    assert 0 < changed.sum() < 12


def test_no_share_and_the_whole_share() -> None:
    images = pictures(3)
    assert torch.equal(Noise2Net(NORMALISATION, share=0.0)(images, range(3)), images)
    assert Noise2Net(NORMALISATION, share=1.0).chosen(range(50)) == list(range(50))


def test_noise2net_keeps_a_share_of_the_image() -> None:
    """Four steps of strength e that have nothing to do with the image would leave a cosine of 1 / sqrt(1 + 4 e^2)."""
    images = pictures(32)
    distorted = Noise2Net(NORMALISATION, share=1.0)(images, range(32))

    def cosine(a: Tensor, b: Tensor) -> float:
        a, b = (x - x.mean((1, 2, 3), keepdim=True) for x in (a, b))
        return torch.nn.functional.cosine_similarity(a.flatten(1), b.flatten(1)).mean().item()

    weakest, strongest = (1 / (1 + 4 * e**2) ** 0.5 for e in (0.375, 0.75))  # 0.80 and 0.55
    assert strongest < cosine(images, distorted) < weakest


def test_every_sample_is_convolved_with_its_own_kernel() -> None:
    x, weights, biases = torch.randn(3, 2, 6, 7), torch.randn(3, 4, 2, 3, 3), torch.randn(3, 4)
    out = convolve_each(x, weights, biases, dilation=2)
    for i in range(3):
        padded = torch.nn.functional.pad(x[i : i + 1], [2] * 4, mode="replicate")
        alone = torch.nn.functional.conv2d(padded, weights[i], biases[i], dilation=2)
        torch.testing.assert_close(out[i : i + 1], alone)


def test_a_constant_image_stays_finite() -> None:
    assert Noise2Net(NORMALISATION, share=1.0)(torch.zeros(2, 3, 16, 16), range(2)).isfinite().all()


@pytest.mark.parametrize(
    ("images", "seeds", "named"),
    [
        (torch.zeros(2, 3, 8, 8, dtype=torch.uint8), [0, 1], ("uint8", [2, 3, 8, 8])),
        (torch.zeros(3, 8, 8), [0, 1, 2], ([3, 8, 8],)),
        (torch.zeros(2, 3, 8, 8), [0], ("2", "1")),
    ],
)
def test_bad_input_is_named(images: Tensor, seeds: list[int], named: tuple[object, ...]) -> None:
    with refused(ValueError, *named):
        Noise2Net(NORMALISATION)(images, seeds)


def test_bad_settings_are_named() -> None:
    with refused(ValueError, "share", 1.5):
        Noise2Net(NORMALISATION, share=1.5)
    with refused(ValueError, "augment.deepaugment", "noise", *NAMES):
        AugmentConfig(deepaugment="noise")


def test_the_table_has_every_kind_by_its_name() -> None:
    assert {name: distortion_class(name).kind for name in NAMES} == {name: name for name in KINDS}
