"""Every network as a backbone: the maps that it announces, alone and together."""

from __future__ import annotations

import pytest
import timm
import torch
from shallow_networks import EVERY_NETWORK, EVERY_PYRAMID, backbone, images, quick_of, shallow, side


@pytest.mark.parametrize("name", EVERY_NETWORK)
def test_features_only_gives_the_maps_it_announces(name: str) -> None:
    model = backbone(name).eval()
    maps = model(images(name))
    info = model.feature_info
    assert [m.shape[1] for m in maps] == info.channels()
    assert [side(name) // m.shape[2] for m in maps] == info.reduction()
    assert info.reduction() == sorted(info.reduction())
    assert len(set(info.module_name())) == len(maps)


def test_fan_swin_as_a_backbone_takes_any_size_and_computes_what_one_built_for_it_computes() -> None:
    """Both sizes are above the windows in every stage: windows and shifts stay those of the size it was built for."""
    backbone = timm.create_model("fan_swin_nano", features_only=True, img_size=160).eval()
    built = timm.create_model("fan_swin_nano", features_only=True, img_size=(192, 224), strict_img_size=True).eval()
    built.load_state_dict(backbone.state_dict())
    x = torch.randn(1, 3, 192, 224)
    for ours, expected in zip(backbone(x), built(x), strict=True):
        torch.testing.assert_close(ours, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", EVERY_PYRAMID)
def test_pyramids_have_strides_4_8_16_32(name: str) -> None:
    assert backbone(name).feature_info.reduction() == [4, 8, 16, 32]


@pytest.mark.parametrize("name", EVERY_NETWORK)
def test_features_only_keeps_no_parameter_without_gradient(name: str) -> None:
    model = backbone(name).train()
    sum(m.square().mean() for m in model(images(name))).backward()
    assert [n for n, p in model.named_parameters() if p.grad is None] == []


@pytest.mark.parametrize("name", EVERY_PYRAMID)
def test_one_level_alone_is_the_same_map(name: str) -> None:
    torch.manual_seed(1)
    all_levels = backbone(name).eval()
    weights, x = all_levels.state_dict(), images(name)
    with torch.no_grad():
        for index, expected in enumerate(all_levels(x)):
            one = backbone(name, out_indices=(index,)).eval()
            one.load_state_dict({n: weights[n] for n in one.state_dict()})
            torch.testing.assert_close(one(x)[0], expected)


@pytest.mark.parametrize("name", EVERY_NETWORK)
def test_intermediates_agree_with_features(name: str) -> None:
    model = shallow(name).eval()
    x = images(name)
    final, maps = model.forward_intermediates(x)
    torch.testing.assert_close(final, model.forward_features(x))
    assert len(maps) == len(model.feature_info)
    last = model.forward_intermediates(x, indices=1, intermediates_only=True)
    chosen = model.forward_intermediates(x, indices=[0, -1], intermediates_only=True, stop_early=True)
    torch.testing.assert_close(last[0], maps[-1])
    torch.testing.assert_close(chosen, [maps[0], maps[-1]])
    normed = model.forward_intermediates(x, indices=1, norm=True, intermediates_only=True)
    assert normed[0].shape == maps[-1].shape
    assert not torch.equal(normed[0], maps[-1])


@pytest.mark.parametrize("name", quick_of("fan_vit", "fan_hybrid", "rvt"))
def test_intermediates_come_as_tokens_too(name: str) -> None:
    model = shallow(name).eval()
    x = images(name)
    maps = model.forward_intermediates(x, intermediates_only=True)
    tokens = model.forward_intermediates(x, intermediates_only=True, output_fmt="NLC")
    for m, t in zip(maps, tokens, strict=True):
        torch.testing.assert_close(m.flatten(2).transpose(1, 2), t)


@pytest.mark.parametrize(
    "name", quick_of("fan_hybrid_nano", "fan_hybrid_tiny", "fan_hybrid_small", "fan_hybrid_base", "fan_hybrid_large")
)
def test_last_level_reproduces_the_released_dense_networks(name: str) -> None:
    same = backbone(name, last_level="same")
    conv = backbone(name, last_level="conv")
    assert same.feature_info.reduction() == [4, 8, 16, 16]
    assert conv.feature_info.reduction() == [4, 8, 16, 32]
    assert conv.feature_info.channels()[-1] == 768
    x = images(name)
    assert conv(x)[-1].shape[1] == 768
    assert same(x)[-1].shape == same(x)[-2].shape
