"""Weights of other sizes, classes and variants of a network."""

from __future__ import annotations

from pathlib import Path

import pytest
import timm
import torch
from shallow_networks import NANO, backbone, images, shallow


@pytest.mark.parametrize("name", NANO)
def test_tap_and_token_head_start_fresh_on_plain_weights(name: str, tmp_path: Path) -> None:
    plain = shallow(name)
    torch.save(plain.state_dict(), tmp_path / "plain.pth")
    overlay = dict(file=str(tmp_path / "plain.pth"))
    model = shallow(name, tap=4, token_head=True, pretrained=True, pretrained_cfg_overlay=overlay)
    for key, value in plain.state_dict().items():
        assert torch.equal(model.state_dict()[key], value), key


def test_detection_level_starts_fresh_on_classifier_weights(tmp_path: Path) -> None:
    torch.save(shallow("fan_hybrid_nano").state_dict(), tmp_path / "plain.pth")
    overlay = dict(file=str(tmp_path / "plain.pth"))
    model = backbone("fan_hybrid_nano", last_level="conv", pretrained=True, pretrained_cfg_overlay=overlay)
    assert model(images("fan_hybrid_nano"))[-1].shape[1] == 768


@pytest.mark.parametrize(("grid", "size"), [((4, 16), (16, 64)), ((12, 12), (48, 48))])
def test_masks_follow_their_grid_even_where_the_number_of_tokens_is_the_same(
    grid: tuple[int, int], size: tuple[int, int]
) -> None:
    from robustvit.layers.position_scaled_attention import resize_mask

    square = timm.create_model("rvt_nano", masked_blocks=1)
    model = timm.create_model("rvt_nano", masked_blocks=1, img_size=size)
    model.load_state_dict(square.state_dict())
    mask = resize_mask(square.stages[0][0].attn.mask.detach(), (8, 8), grid)
    assert model.grid == grid
    torch.testing.assert_close(model.stages[0][0].attn.mask.detach(), mask)
    again = timm.create_model("rvt_nano", masked_blocks=1, img_size=size)
    again.load_state_dict(model.state_dict())
    assert torch.equal(again.stages[0][0].attn.mask, model.stages[0][0].attn.mask)


def test_swin_weights_fit_other_windows(tmp_path: Path) -> None:
    torch.save(timm.create_model("fan_swin_nano").state_dict(), tmp_path / "weights.pth")
    overlay = dict(file=str(tmp_path / "weights.pth"))
    for options in (dict(img_size=64), dict(img_size=64, window_size=8), dict(img_size=(32, 64))):
        model = timm.create_model("fan_swin_nano", pretrained=True, pretrained_cfg_overlay=overlay, **options)
        size = options["img_size"]
        assert model.eval()(torch.randn(1, 3, *((size, size) if isinstance(size, int) else size))).isfinite().all()


def test_networks_built_by_their_class_load_weights_too() -> None:
    from robustvit.models.fan import FAN
    from robustvit.models.weights_into import load_weights

    small = dict(embed_dims=(96,), depths=(1,), num_heads=(4,), patch_size=4, num_classes=3)
    model, other = FAN(32, **small), FAN(32, **small)  # type: ignore[arg-type]
    load_weights(other, model.state_dict())
    assert torch.equal(other.head.weight, model.head.weight)
