"""Networks with and without an option start from the same weights where they have the same tensors."""

from __future__ import annotations

from typing import Any

import pytest
import timm
import torch
from torch import Tensor, nn

import robustvit as rv
from robustvit.models.initialisation import named_initialisation

FAMILIES = ["fan_vit_nano", "fan_hybrid_nano", "fan_swin_nano", "rvt_nano", "vit_nano"]
DENSE = ["fan_hybrid_nano/segformer", "fan_vit_nano/setr_naive", "vit_nano/segformer", "fan_hybrid_nano/faster_rcnn"]


def initial(name: str, seed: int = 0, **options: Any) -> dict[str, Tensor]:
    torch.manual_seed(seed)
    return rv.create_model(name, **options).state_dict()


def shared(a: dict[str, Tensor], b: dict[str, Tensor]) -> list[str]:
    return [name for name in a if name in b and a[name].shape == b[name].shape]


def different(a: dict[str, Tensor], b: dict[str, Tensor]) -> list[str]:
    return [name for name in shared(a, b) if not torch.equal(a[name], b[name])]


@pytest.mark.parametrize("options", [dict(tap=4), dict(token_head=True), dict(tap="conv3x3", token_head=True)], ids=str)
@pytest.mark.parametrize("name", FAMILIES)
def test_a_network_with_an_option_starts_from_the_weights_of_the_one_without(name: str, options: dict[str, Any]) -> None:
    plain, other = initial(name), initial(name, **options)
    assert shared(plain, other) == list(plain)
    assert len(other) > len(plain)
    assert not different(plain, other)


@pytest.mark.parametrize("name", DENSE)
def test_a_dense_network_with_tap_starts_from_the_weights_of_the_one_without(name: str) -> None:
    plain, other = initial(name, num_classes=3), initial(name, num_classes=3, tap=4)
    assert len(other) > len(plain)
    assert not different(plain, other)


def test_a_deeper_network_starts_with_the_blocks_of_the_shallower_one() -> None:
    shallow, deep = initial("fan_vit_nano", depths=(2,)), initial("fan_vit_nano", depths=(5,))
    assert sum(name.startswith("blocks.1.") for name in shared(shallow, deep)) > 10
    assert not different(shallow, deep)


def test_heads_start_alike_on_every_backbone() -> None:
    names = ("fan_hybrid_nano", "vit_nano", "resnet18")
    one, *others = (initial(f"{name}/segformer", num_classes=3, embed_dim=32) for name in names)
    heads = {"decode_head.fuse.conv.weight", "decode_head.classifier.weight", "decode_head.classifier.bias"}
    for other in others:
        assert heads <= set(shared(one, other)) - set(different(one, other))


@pytest.mark.parametrize("options", [dict(tap=4), dict(token_head=True)], ids=str)
def test_a_network_of_timm_with_an_option_starts_from_the_weights_of_the_one_without(options: dict[str, Any]) -> None:
    name = "vit_tiny_patch16_224"
    plain, other = initial(name, num_classes=3, depth=2), initial(name, num_classes=3, depth=2, **options)
    assert len(other) > len(plain)
    assert not different(plain, other)


def test_backbones_of_dense_networks_start_as_the_classifiers() -> None:
    classifier, segmenter = initial("fan_vit_nano"), initial("fan_vit_nano/segformer")
    backbone = {name.removeprefix("backbone."): value for name, value in segmenter.items() if name.startswith("backbone.")}
    assert len(shared(classifier, backbone)) > 30
    assert not different(classifier, backbone)


@pytest.mark.parametrize("name", ["fan_vit_nano", "rvt_nano"])
def test_seeds_and_tensors_of_a_network_have_different_weights(name: str) -> None:
    zero, one = initial(name), initial(name, seed=1)
    drawn = [key for key, value in zero.items() if value.is_floating_point() and value.ndim > 1 and value.std() > 0]
    assert len(drawn) > 10
    assert all(not torch.equal(zero[key], one[key]) for key in drawn)
    same_shape = [(a, b) for a in drawn for b in drawn if a < b and zero[a].shape == zero[b].shape]
    assert same_shape
    assert all(not torch.equal(zero[a], zero[b]) for a, b in same_shape)


def test_timm_builds_our_networks_from_the_same_weights() -> None:
    torch.manual_seed(0)
    built = timm.create_model("fan_vit_nano", tap=4).state_dict()
    assert not different(built, initial("fan_vit_nano"))


def test_what_is_built_takes_as_much_from_the_global_generator_with_any_option() -> None:
    torch.manual_seed(0)
    rv.create_model("fan_vit_nano")
    after = torch.rand(3)
    torch.manual_seed(0)
    rv.create_model("fan_vit_nano", tap=4, token_head=True)
    assert torch.equal(torch.rand(3), after)


class Scaled(nn.Module):
    """Draws twice, then scales a part."""

    def __init__(self, *, with_more: bool = False) -> None:
        super().__init__()
        self.more = nn.Linear(7, 7) if with_more else nn.Identity()
        self.layer = nn.Linear(200, 100)
        nn.init.normal_(self.layer.weight, std=0.5)
        with torch.no_grad():
            self.layer.weight[:50] *= 0.0
            self.layer.weight.mul_(2)
            self.layer.weight[50:60] = 7.0
        self.constant = nn.Parameter(torch.full((3,), 0.25))
        self.overwritten = nn.Linear(5, 5)
        nn.init.eye_(self.overwritten.weight)
        nn.init.zeros_(self.overwritten.bias)


def test_what_a_layer_does_after_drawing_is_done_again() -> None:
    built = []
    for with_more in (False, True):
        torch.manual_seed(3)
        with named_initialisation() as initialise:
            network = Scaled(with_more=with_more)
            initialise(network)
        built.append(network)
    weight = built[0].layer.weight.detach()
    assert torch.equal(weight, built[1].layer.weight)
    assert weight[:50].abs().max() == 0
    assert torch.equal(weight[50:60], torch.full((10, 200), 7.0))
    assert weight[60:].std().item() == pytest.approx(1.0, rel=0.03)
    assert built[0].constant.tolist() == [0.25] * 3
    assert torch.equal(built[0].overwritten.weight.detach(), torch.eye(5))
    assert not built[0].overwritten.bias.any()


def test_networks_are_built_on_the_meta_device() -> None:
    network = rv.create_model("fan_vit_nano", tap=4, device="meta")
    assert all(parameter.is_meta for parameter in network.parameters())


def test_trained_weights_stay_as_they_are() -> None:
    one, other = (rv.create_model("fan_vit_nano", pretrained=True).state_dict() for _ in range(2))
    assert not different(one, other)
    assert different(one, initial("fan_vit_nano"))


def test_a_fresh_classifier_on_trained_weights_starts_as_the_one_of_an_untrained_network() -> None:
    tuned, fresh = (initial("fan_vit_nano", num_classes=7, pretrained=trained) for trained in (True, False))
    trained = rv.create_model("fan_vit_nano", pretrained=True).state_dict()
    head = {"head.weight", "head.bias"}
    assert not different({k: v for k, v in tuned.items() if k not in head}, trained)
    assert all(torch.equal(tuned[name], fresh[name]) for name in head)
    assert tuned["head.weight"].std() > 0
