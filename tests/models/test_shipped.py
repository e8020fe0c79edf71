"""Weights that come with the package."""

from __future__ import annotations

import timm
import torch

import robustvit as rv
from robustvit.data.scenes.dataset import Hints, Scenes
from robustvit.models.shipped import SHIPPED, shipped_file


def accuracy(network: torch.nn.Module) -> float:
    images, labels = Scenes("test", 200, 32, hints=Hints(0.9, 0.9)).tensors()
    mean, std = (torch.tensor(network.pretrained_cfg[name])[:, None, None] for name in ("mean", "std"))
    with torch.no_grad():
        answers = network.eval()((images / 255 - mean) / std).argmax(1)
    return float((answers == labels).float().mean())


def test_shipped_networks_are_trained_and_load_without_a_network_connection() -> None:
    for name in SHIPPED:
        assert accuracy(rv.create_model(name, pretrained=True)) > 0.65
        assert accuracy(timm.create_model(f"{name}.scenes", pretrained=True)) > 0.65


def test_untrained_networks_are_what_they_were() -> None:
    assert not any(".tap." in key for key in rv.create_model("fan_vit_nano").state_dict())
    assert rv.create_model("fan_vit_nano", num_classes=7).num_classes == 7


def test_another_number_of_classes_keeps_the_rest() -> None:
    for name in SHIPPED:
        network, other = rv.create_model(name, pretrained=True), rv.create_model(name, pretrained=True, num_classes=3)
        assert other.num_classes == 3
        weights, kept = network.state_dict(), other.state_dict()
        assert all(torch.equal(weights[key], kept[key]) for key in weights if not key.startswith(("head.", "token_head.")))


def test_all_shipped_weights_take_at_most_three_megabytes() -> None:
    assert sum(shipped_file(name).stat().st_size for name in SHIPPED) <= 3_000_000
