"""Evaluation transforms are what their names say."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image
from refusals import refused
from timm.data import create_transform, resolve_data_config

import robustvit as rv
from robustvit.data.protocols import Protocol, protocol_of

IMAGE = Image.fromarray(np.random.default_rng(0).integers(0, 255, (300, 400, 3), np.uint8))


@pytest.mark.parametrize("name", ["fan_vit_tiny", "rvt_tiny", "deit_tiny_patch16_224", "swin_tiny_patch4_window7_224"])
def test_the_protocol_of_the_model_is_timms(name: str) -> None:
    model = rv.create_model(name, device="meta") if "_" in name else None
    config = resolve_data_config({}, model=model)
    transform = create_transform(**{**config, "mean": (0, 0, 0), "std": (1, 1, 1)})
    ours = protocol_of("model", model).apply(IMAGE)
    theirs = (transform(IMAGE) * 255).round().to(torch.uint8)
    assert (ours.int() - theirs.int()).abs().max() <= 1


def test_imagenet_c_resizes_to_256_and_crops() -> None:
    small = IMAGE.resize((341, 256), Image.Resampling.BILINEAR)
    left, top = round((341 - 224) / 2), 16
    expected = np.array(small.crop((left, top, left + 224, top + 224)))
    ours = Protocol("imagenet-c", (224, 224), short_side=256).apply(IMAGE)
    assert (ours.permute(1, 2, 0).numpy() == expected).all()


def test_none_refuses_other_sizes_and_crop_refuses_smaller_ones() -> None:
    with refused(ValueError, "300x400", "32x32"):
        Protocol("none", (32, 32)).apply(IMAGE)
    with refused(ValueError, "300x400", "512x512"):
        Protocol("crop", (512, 512)).apply(IMAGE)
    assert Protocol("crop", (224, 224)).apply(IMAGE).shape == (3, 224, 224)
    assert Protocol("squash", (32, 64)).apply(IMAGE).shape == (3, 32, 64)


def test_an_unknown_protocol_is_refused_with_the_known_ones() -> None:
    with refused(ValueError, "'center'", "model, imagenet-c"):
        protocol_of("center", rv.create_model("fan_vit_nano"))
