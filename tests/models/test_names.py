"""Names, tags and the weights that they bring."""

from __future__ import annotations

from typing import Any

import pytest
import timm
import torch
from refusals import refused

import robustvit as rv


def test_unknown_names_get_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"did you mean .*fan_hybrid_small"):
        rv.create_model("fan_hybird_small")
    with refused(ValueError, "'imagenet'", "fan_in1k"):
        rv.create_model("fan_vit_tiny.imagenet")
    with pytest.raises(ValueError, match="tap='max' is not known"):
        rv.create_model("fan_vit_nano", tap="max")


def test_weights_behind_a_browser_page_say_what_to_do() -> None:
    with pytest.raises(RuntimeError, match=r"drive\.google\.com.*from_official\(\"rvt_tiny\""):
        rv.create_model("rvt_tiny", pretrained=True)
    with pytest.raises(RuntimeError, match="fan_tiny_8_p4_hybrid_token"):
        timm.create_model("fan_hybrid_tiny.stl_in1k", pretrained=True)


def test_a_published_name_brings_the_preprocessing_of_its_weights() -> None:
    model = rv.create_model("rvt_small_plus_cifar10", device="meta")
    assert model.pretrained_cfg["tag"] == "rspc_cifar10"
    assert rv.create_model("tap_fan_base_16_p4_hybrid", device="meta").pretrained_cfg["tag"] == "tapadl_in1k"


def test_cifar_weights_are_preprocessed_as_cifar() -> None:
    cfg = timm.get_pretrained_cfg("fan_hybrid_small.rspc_cifar10")
    assert cfg.mean == (0.49139968, 0.48215827, 0.44653124)
    assert cfg.crop_pct == 0.875


@pytest.mark.parametrize(
    ("published", "file"),
    [
        ("tap_fan_base_16_p4_hybrid", "tapadl_fan_base.pth.tar"),
        ("tap_rvt_base_plus", "tapadl_rvt_base.pth.tar"),
        ("rvt_small_plus_cifar10", "rspc_rvt_small_cifar10.pth.tar"),
        ("fan_small_12_p4_hybrid_cifar100", "rspc_fan_small_cifar100.pth.tar"),
        ("fan_tiny_12_p16_224", "fan_vit_tiny.pth.tar"),
        ("fan_small_12_p4_hybrid.rspc_in1k", "rspc_fan_small.pth.tar"),
    ],
)
def test_published_names_fetch_their_own_weights(published: str, file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fetched: list[str] = []

    def fetch(url: str, **_: Any) -> str:
        fetched.append(url)
        raise ConnectionError("no network here")

    monkeypatch.setattr("timm.models._builder.download_cached_file", fetch)
    name = published.partition(".")[0]
    with pytest.raises(RuntimeError, match=rf"{file} cannot be fetched .*{name}=FILE .*from_official"):
        rv.create_model(published, pretrained=True, device="meta")
    assert fetched[0].endswith(f"/{file}")


def test_published_name_without_weights_says_so() -> None:
    with refused(RuntimeError, "fan_large_24_p16_224"):
        rv.create_model("fan_large_24_p16_224", pretrained=True)


def test_tags_bring_what_their_weights_need() -> None:
    with torch.device("meta"):
        assert timm.create_model("fan_hybrid_base.tapadl_in1k").blocks[0].tap is not None
        assert timm.create_model("fan_hybrid_tiny.stl_in1k").token_head is not None
        rvt = timm.create_model("rvt_base_plus.tapadl_in1k")
        assert type(rvt.stages[0][0].ffn).__name__ == "ConvFFN"
        assert timm.create_model("fan_hybrid_base.fan_in22k_ft_in1k_384").pretrained_cfg["input_size"] == (3, 384, 384)
        assert timm.create_model("rvt_small_plus.rspc_cifar10").num_classes == 10
