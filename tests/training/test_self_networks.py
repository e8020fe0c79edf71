"""`self-cae` and `self-sr`: networks that learn the training images, and the ways of breaking them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from refusals import refused
from torch import Tensor, nn

from robustvit.data.normalisation import Normalisation
from robustvit.data.scenes.dataset import scenes_batch
from robustvit.training.deepaugment import learned
from robustvit.training.deepaugment.filter_perturbations import (
    CODE,
    FEATURES_BEFORE,
    FEATURES_WITHIN,
    FILTERS,
    FILTERS_OF_AUTOENCODER,
)
from robustvit.training.deepaugment.learned import ImageNetwork, fit, own_filters
from robustvit.training.deepaugment.self_autoencoder import Autoencoder, SelfAutoencoder
from robustvit.training.deepaugment.self_upscaler import SelfUpscaler, Upscaler

NORMALISATION = Normalisation((0.5, 0.5, 0.5), (0.25, 0.25, 0.25))
FEATURES = {**CODE, **FEATURES_BEFORE, **FEATURES_WITHIN}


@pytest.fixture(scope="module")
def scenes() -> Tensor:
    return scenes_batch(0, range(48), (32, 32)).images


@pytest.fixture(scope="module")
def autoencoder(scenes: Tensor) -> Autoencoder:
    return fit(Autoencoder, scenes, seed=0, steps=40)


@pytest.fixture(scope="module")
def upscaler(scenes: Tensor) -> Upscaler:
    return fit(Upscaler, scenes, seed=0, steps=25)


@torch.no_grad()
def reconstruction_error(network: nn.Module, scenes: Tensor) -> float:
    pixels = scenes.float() / 255
    seen = F.avg_pool2d(pixels, 2) if isinstance(network, Upscaler) else pixels
    return F.mse_loss(network(seen), pixels).item()


def test_a_trained_autoencoder_beats_an_untrained_one_and_the_mean_image(autoencoder: Autoencoder, scenes: Tensor) -> None:
    error = reconstruction_error(autoencoder, scenes)
    assert error < 0.5 * reconstruction_error(Autoencoder(), scenes)
    assert error < 0.7 * (scenes.float() / 255).var((0, 2, 3)).mean()


def test_a_trained_upscaler_beats_an_untrained_one(upscaler: Upscaler, scenes: Tensor) -> None:
    assert reconstruction_error(upscaler, scenes) < 0.3 * reconstruction_error(Upscaler(), scenes)


def test_training_depends_on_its_seed_alone(scenes: Tensor) -> None:
    def weights(seed: int) -> Tensor:
        return fit(Autoencoder, scenes, seed, steps=2).to_code.weight

    first = weights(3)
    torch.manual_seed(11)
    before = torch.get_rng_state()
    assert torch.equal(weights(3), first)
    assert torch.equal(torch.get_rng_state(), before)
    assert not torch.equal(weights(4), first)


def test_own_filters_that_are_the_learned_ones_change_nothing(autoencoder: Autoencoder, scenes: Tensor) -> None:
    code = autoencoder.encode(scenes[:3].float() / 255)
    own = own_filters(autoencoder.decoder, 3)
    wide = F.pad(code, [8] * 4)  # 3 16 24 24 -> images of 96 pixels
    inside = (..., slice(40, 56), slice(40, 56))  # out of reach of the edges, which are repeated here and 0 there
    torch.testing.assert_close(autoencoder.decode(wide, own)[inside], autoencoder.decode(wide)[inside], atol=1e-5, rtol=0)


def test_broken_networks_leave_the_image_visible(autoencoder: Autoencoder, upscaler: Upscaler, scenes: Tensor) -> None:
    images = (scenes.float() / 255 - 0.5) / 0.25
    for distort in (SelfAutoencoder(autoencoder, NORMALISATION, share=1.0), SelfUpscaler(upscaler, NORMALISATION, share=1.0)):
        distorted = distort(images, range(len(images)))
        like_itself = F.cosine_similarity(distorted.flatten(1), images.flatten(1)).mean()
        like_another = F.cosine_similarity(distorted.flatten(1), images.roll(1, 0).flatten(1)).mean()
        assert like_itself > 0.4
        assert like_itself > like_another + 0.2
        assert (distorted - images).abs().mean() > 0.05


@pytest.mark.parametrize("name", FILTERS)
def test_every_fault_of_filters_changes_them_and_keeps_their_shape(name: str) -> None:
    filters = torch.randn(16, 8, 3, 3)
    broken = FILTERS[name](filters, torch.Generator().manual_seed(0))
    assert broken.shape == filters.shape
    assert broken.isfinite().all()
    assert not torch.equal(broken, filters)


@pytest.mark.parametrize("name", FEATURES)
def test_every_fault_of_features_keeps_their_shape_and_repeats(name: str) -> None:
    features = torch.randn(16, 5, 6)
    broken = FEATURES[name](features, torch.Generator().manual_seed(0))
    assert broken.shape == features.shape
    assert torch.equal(broken, FEATURES[name](features, torch.Generator().manual_seed(0)))
    assert torch.equal(broken, features) == (name == "nothing")


def test_the_catalogue_has_as_many_ways_as_deepaugment() -> None:
    assert (len(FILTERS_OF_AUTOENCODER), len(CODE), len(FILTERS), len(FEATURES_BEFORE)) == (8, 9, 17, 4)


def test_the_cache_spares_a_second_training(scenes: Tensor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained: list[int] = []

    def train(network: type[ImageNetwork], images: Tensor, seed: int) -> ImageNetwork:
        trained.append(seed)
        return fit(network, images, seed, steps=1)

    monkeypatch.setattr(learned, "fit", train)
    cache = tmp_path / "made" / "cae.safetensors"

    def result(images: Tensor, seed: int = 0) -> Tensor:
        distort = SelfAutoencoder.build(NORMALISATION, lambda: images, cache=cache, seed=seed)
        return distort(scenes[:4].float() / 255, range(4))

    first = result(scenes)
    assert torch.equal(result(scenes), first)
    assert trained == [0]
    result(scenes, seed=1)
    result(scenes[:40], seed=1)
    assert trained == [0, 1, 1]
    cache.write_bytes(b"not a file of weights")
    result(scenes[:40], seed=1)
    assert trained == [0, 1, 1, 1]


def test_a_cache_of_the_other_network_is_not_taken(scenes: Tensor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learned, "fit", lambda network, images, seed: network().eval())
    cache = tmp_path / "weights.safetensors"
    for kind in (SelfAutoencoder, SelfUpscaler, SelfAutoencoder):
        assert isinstance(kind.build(NORMALISATION, lambda: scenes, cache=cache).network, kind.network_class)


@pytest.mark.parametrize(
    "images",
    [
        torch.zeros(4, 3, 32, 32),
        torch.zeros(4, 1, 32, 32, dtype=torch.uint8),
        torch.zeros(0, 3, 32, 32, dtype=torch.uint8),
        torch.zeros(4, 3, 3, 32, dtype=torch.uint8),
    ],
)
def test_images_that_cannot_be_learned_are_named(images: Tensor) -> None:
    H, W = images.shape[-2:]
    with refused(ValueError, f"{H}, {W}]"):
        fit(Autoencoder, images, steps=1)
