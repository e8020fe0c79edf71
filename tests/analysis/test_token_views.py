"""Occlusion by many masks, and the labels of tokens."""

from __future__ import annotations

import pytest
import timm
import torch
from torch import Tensor, nn

import robustvit as rv
from robustvit.analysis.occlusion import occlusion_study
from robustvit.analysis.patch_corruption import patch_effect
from robustvit.analysis.token_labels import token_labels
from robustvit.attacks import PatchSettings, PixelNetwork


def pixels(count: int = 2) -> Tensor:
    return torch.rand(count, 3, 32, 32, generator=torch.Generator().manual_seed(0))


def test_more_covered_patches_change_attention_more_and_none_change_nothing() -> None:
    torch.manual_seed(0)
    model = PixelNetwork(rv.create_model("vit_nano", num_classes=10))
    labels = torch.tensor([0, 1])
    found = {rho: occlusion_study(model, pixels(), labels, masks=4, settings=PatchSettings(rho)) for rho in (0.0, 0.1, 0.6)}
    cosines = {rho: one.cosines for rho, one in found.items()}
    assert all(value is not None and value.shape == (4, 2) for value in cosines.values())
    assert cosines[0.0].mean() == pytest.approx(1, abs=1e-5)
    assert cosines[0.0].mean() > cosines[0.1].mean() > cosines[0.6].mean()
    assert len(found[0.1].cosines.unique()) > 4  # every mask is another one
    assert found[0.1].accuracies.shape == (4,)


def test_a_network_without_attention_is_judged_by_its_answers_alone() -> None:
    model = PixelNetwork(timm.create_model("resnet10t", num_classes=10))
    found = occlusion_study(model, pixels(), torch.tensor([0, 1]), masks=2)
    assert found.cosines is None
    assert found.right.shape == (2, 2)
    with pytest.raises(ValueError, match="masks=0"):
        occlusion_study(model, pixels(), torch.tensor([0, 1]), masks=0)


class Known(nn.Module):
    """A network whose 8 x 8 tokens say class 1 on the left, surely, and class 2 on the right, hardly."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = rv.create_model("vit_nano", num_classes=3)
        self.token_head = nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x)

    def forward_tokens(self, x: Tensor) -> tuple[Tensor, Tensor]:
        logits = torch.zeros(len(x), 8, 8, 3)
        logits[:, :, :4, 1], logits[:, :, 4:, 2] = 20.0, 0.1
        return self.inner(x), logits.flatten(1, 2)

    def token_grid(self, height: int, width: int) -> tuple[int, int]:
        return 8, 8


def test_labels_confidence_and_foreground_of_known_tokens() -> None:
    found = token_labels(Known(), pixels(), torch.tensor([1, 2]))
    assert found.labels[0].tolist() == [[1] * 4 + [2] * 4] * 8
    assert found.foreground[0].tolist() == [[True] * 4 + [False] * 4] * 8
    assert found.foreground[1].tolist() == [[False] * 4 + [True] * 4] * 8
    assert found.levels()[0].tolist() == [[2] * 4 + [0] * 4] * 8
    assert found.levels()[1].tolist() == [[0] * 4 + [1] * 4] * 8
    assert found.drawn_foreground[0, :, :4].all()  # a sure token is always drawn as it is
    share = found.drawn_foreground[1, :, 4:].float().mean()
    assert 0.1 < share < 0.7  # a hardly sure one as often as its confidence says, 0.36
    again = token_labels(Known(), pixels()[1:], torch.tensor([2]), sample_ids=[1])
    assert torch.equal(again.drawn_foreground, found.drawn_foreground[1:])


def test_a_network_without_a_token_head_is_refused() -> None:
    with pytest.raises(ValueError, match="token_head=True"):
        token_labels(timm.create_model("resnet10t"), pixels(), torch.tensor([0, 1]))


class OnePatch(nn.Module):
    """Class 1 as surely as the upper left 4 x 4 pixels are bright."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(10.0))

    def forward(self, x: Tensor) -> Tensor:
        bright = self.scale * x[:, :, :4, :4].mean((1, 2, 3))
        return torch.stack([torch.zeros_like(bright), bright], dim=1)


class FirstPatch(nn.Module):
    """Chooses the upper left patch: it has the lowest score."""

    grid = (8, 8)

    def forward(self, x: Tensor) -> Tensor:
        return torch.arange(64.0, device=x.device).expand(len(x), 64)


def test_covering_the_only_patch_that_counts_takes_the_confidence_and_another_one_does_not() -> None:
    model = PixelNetwork(OnePatch(), mean=(0.0,) * 3, std=(1.0,) * 3)
    images, labels = torch.ones(3, 3, 32, 32), torch.ones(3, dtype=torch.long)
    settings = PatchSettings(rho=0.01, patch_size=4, noise="zero")  # one patch of 64
    effect = patch_effect(model, images, labels, FirstPatch(), settings)  # type: ignore[arg-type]
    sure = torch.tensor(10.0).sigmoid()
    torch.testing.assert_close(effect.clean, sure.expand(3))
    torch.testing.assert_close(effect.spoiled, torch.full((3,), 0.5))  # black says nothing
    torch.testing.assert_close(effect.by_chance, sure.expand(3))  # another patch of these three images
    assert (effect.chosen[:, :, :4, :4] == 0).all()
    assert (effect.chosen[:, :, 4:] == 1).all()
