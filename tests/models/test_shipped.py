"""Weights that come with the package."""

from __future__ import annotations

from pathlib import Path

import pytest
import timm
import torch
from dense_weights import SEGMENTERS
from dense_weights import dense_weights as deterministic_weights

import robustvit as rv
from robustvit.data.scenes.dataset import Hints, Scenes
from robustvit.data.scenes.maps import SceneMaps
from robustvit.models import dense_weights
from robustvit.models.dense_names import dense_name
from robustvit.models.dense_weights import whole_weights
from robustvit.models.loading import load_model
from robustvit.models.shipped import FOLDER, SHIPPED


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


def test_the_shipped_segmenter_is_trained_and_knows_its_classes() -> None:
    network = rv.create_model("fan_hybrid_nano/segformer.scenes", pretrained=True)
    results = rv.evaluate(network, "scenes-easy:20", suite="clean")
    assert results.clean > 0.6
    assert network.pretrained_cfg["label_names"] == list(SceneMaps.classes)


def test_the_shipped_segmenter_can_start_another_one() -> None:
    network, other = (
        rv.create_model("fan_hybrid_nano/segformer", pretrained=True, **classes) for classes in ({}, {"num_classes": 3})
    )
    weights, kept = network.state_dict(), other.state_dict()
    assert kept["decode_head.classifier.weight"].shape[0] == 3
    assert all(torch.equal(weights[key], kept[key]) for key in weights if not key.startswith("decode_head.classifier."))
    assert "label_names" not in other.pretrained_cfg


def test_weights_of_a_segmenter_that_nobody_has_are_refused() -> None:
    with pytest.raises(ValueError, match="it has scenes"):
        rv.create_model("fan_hybrid_nano/segformer.cityscapes", pretrained=True)
    with pytest.raises(ValueError, match=r"fan_hybrid_tiny\.fan_in1k/segformer"):
        rv.create_model("fan_hybrid_tiny/segformer.fan_in1k")
    with pytest.raises(ValueError, match="only of its backbone"):
        load_model("fan_hybrid_tiny/segformer")
    with pytest.raises(ValueError, match=r"fan_hybrid_base/segformer\.tapadl_cityscapes"):
        load_model("fan_hybrid_base/segformer")


def test_a_published_segmenter_is_fetched_by_its_tag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    published = deterministic_weights(SEGMENTERS["tap_fan_base_16_p4_hybrid/segformer"])
    file = tmp_path / "segmenter.pth"
    torch.save({"state_dict": published, "meta": {}}, file)
    asked: list[str] = []
    monkeypatch.setattr(dense_weights, "download_cached_file", lambda url: asked.append(url) or file)
    network = rv.create_model("fan_hybrid_base/segformer.tapadl_cityscapes", pretrained=True)
    assert whole_weights(dense_name("tap_fan_base_16_p4_hybrid/segformer")).url == asked[0]  # type: ignore[arg-type, union-attr]
    assert asked[0].endswith("/tapadl_fan_base_segmentation.pth")
    assert torch.equal(network.decode_head.classifier.weight, published["decode_head.linear_pred.weight"])


def test_all_shipped_weights_take_at_most_five_megabytes() -> None:
    assert sum(file.stat().st_size for file in FOLDER.rglob("*") if file.is_file()) <= 5_000_000
