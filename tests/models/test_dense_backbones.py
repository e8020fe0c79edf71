"""What backbones of dense networks take and train, and what they start from."""

from __future__ import annotations

from pathlib import Path

import pytest
import timm
import torch
from dense_weights import SEGMENTERS, dense_weights
from refusals import refused
from timm.models import FeatureInfo
from timm.optim import create_optimizer_v2

import robustvit as rv
from robustvit.models.saved_folder import save_weights
from robustvit.runtime.weights import CheckpointError

PUBLISHED = "fan_tiny_8_p4_hybrid/segformer"


def segmenter(backbone: str, **options: object) -> torch.nn.Module:
    torch.manual_seed(0)
    return rv.create_model(f"{backbone}/segformer", num_classes=3, embed_dim=16, **options)


@pytest.mark.parametrize(
    ("backbone", "unread"),
    [
        ("fan_hybrid_nano", set()),
        ("fan_vit_nano", set()),
        ("convnext_atto", {"backbone.head.norm.weight", "backbone.head.norm.bias"}),
        ("xcit_nano_12_p16_224", {"backbone.cls_token"}),
    ],
)
def test_parameters_that_no_level_depends_on_are_not_trained(backbone: str, unread: set[str]) -> None:
    network = segmenter(backbone)
    network(torch.randn(2, 3, 64, 64)).sum().backward()
    assert {name for name, p in network.named_parameters() if not p.requires_grad} == unread
    assert {name for name, p in network.named_parameters() if p.grad is None} == unread


@pytest.mark.parametrize("backbone", ["samvit_base_patch16", "pvt_v2_b0", "efficientnet_b0", "swinv2_tiny_window8_256"])
def test_timms_backbones_take_odd_sizes(backbone: str) -> None:
    with torch.device("meta"):
        assert segmenter(backbone).eval()(torch.randn(1, 3, 33, 47)).shape == (1, 3, 33, 47)


def test_a_backbone_of_one_size_says_so_and_can_be_built_for_another() -> None:
    with torch.device("meta"):
        network = segmenter("mixer_s32_224")
        with refused(ValueError, "mixer_s32_224/segformer", "224x224", "64x96", "img_size"):
            network(torch.randn(1, 3, 64, 96))
        assert segmenter("mixer_s32_224", img_size=(64, 96))(torch.randn(1, 3, 64, 96)).shape == (1, 3, 64, 96)


def test_names_of_lists_of_features_are_those_of_the_classifier() -> None:
    network = segmenter("vgg11")
    left = network.initialise_backbone(timm.create_model("vgg11", num_classes=2).state_dict())
    assert left.missing == ()
    assert all(name.startswith(("pre_logits.", "head.")) for name in left.unused)


def test_layers_of_the_backbone_learn_slower_the_earlier_they_come() -> None:
    network = segmenter("fan_hybrid_nano")
    groups = create_optimizer_v2(network, opt="adamw", lr=1.0, layer_decay=0.5).param_groups
    scales = {id(parameter): group["lr_scale"] for group in groups for parameter in group["params"]}
    of = {name: scales[id(parameter)] for name, parameter in network.named_parameters()}
    assert of["decode_head.classifier.weight"] == 1
    assert of["backbone.patch_embed.stem.0.weight"] < of["backbone.blocks.0.attn.qkv.weight"]
    assert of["backbone.blocks.0.attn.qkv.weight"] < of["backbone.blocks.2.attn.qkv.weight"] < 1


def test_what_a_classifier_does_not_decay_its_segmenter_does_not_decay_either() -> None:
    assert "backbone.pos_embed" in segmenter("vit_nano").no_weight_decay()
    assert segmenter("resnet18").no_weight_decay() == set()


@pytest.mark.parametrize(
    ("head", "options", "named"),
    [
        ("segformer", {"auxiliary_units": 1}, "auxiliary_units"),
        ("setr_naive", {"head_drop_rate": 0.1}, "head_drop_rate"),
        ("setr_pup", {"auxiliary_units": 0}, "auxiliary_units=0"),
        ("segformer", {"embed_dim": 0}, "embed_dim=0"),
    ],
)
def test_options_that_a_head_does_not_have_are_refused(head: str, options: dict[str, object], named: str) -> None:
    with refused(ValueError, head, named):
        rv.create_model(f"fan_hybrid_nano/{head}", **options)


def test_published_weights_need_the_position_encoding_they_were_trained_with(tmp_path: Path) -> None:
    weights = dense_weights(SEGMENTERS[PUBLISHED])
    published = rv.from_official(PUBLISHED, weights).eval()
    own = rv.create_model("fan_hybrid_tiny/segformer", num_classes=19)
    with refused(CheckpointError, "paired_position=False"):
        own.native_weights(weights)
    save_weights(published, published.state_dict(), tmp_path, {}, {}, "segmentation")
    copy = rv.create_model(f"local-dir:{tmp_path}", pretrained=True).eval()
    images = torch.randn(1, 3, 32, 48)
    with torch.inference_mode():
        torch.testing.assert_close(copy(images), published(images))


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_a_dense_network_is_built_where_gradients_are_off(mode: type) -> None:
    with mode():
        network = segmenter("fan_hybrid_nano").eval()
        assert network(torch.zeros(1, 3, 32, 32)).shape == (1, 3, 32, 32)


def test_weights_of_the_whole_and_of_the_backbone_exclude_each_other(tmp_path: Path) -> None:
    with refused(ValueError, "backbone_weights", "fan_hybrid_nano/segformer"):
        rv.create_model("fan_hybrid_nano/segformer", pretrained=True, backbone_weights=tmp_path / "classifier.pth")


@pytest.mark.parametrize(
    ("backbone", "stages"), [("mnasnet_small", 5), ("levit_128s", 3), ("ghostnet_050", 5), ("inception_v4", 5)]
)
def test_the_last_map_stands_for_stages_that_a_backbone_does_not_have(backbone: str, stages: int) -> None:
    with torch.device("meta"):
        network = segmenter(backbone)
        levels = network.forward_features(torch.randn(1, 3, 224, 224))
    assert len(levels) == len(network.channels) == len(network.strides) == 4
    assert [level.shape[1] for level in levels] == list(network.channels)
    assert len(set(zip(network.channels, network.strides, strict=True))) == min(4, stages)


def test_maps_that_are_not_what_a_backbone_says_are_read_from_its_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    resnet = timm.models.resnet.ResNet
    features = resnet.forward_intermediates
    monkeypatch.setattr(resnet, "forward_intermediates", lambda *args, **how: [m[:, 1:] for m in features(*args, **how)])
    levels = segmenter("resnet18").forward_features(torch.randn(1, 3, 64, 64))
    assert [level.shape[1] for level in levels] == [64, 128, 256, 512]


def test_a_backbone_without_the_channels_that_it_says_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    channels = FeatureInfo.channels
    monkeypatch.setattr(FeatureInfo, "channels", lambda self, index=None: [c + 1 for c in channels(self, index)])
    with refused(ValueError, "resnet18", "64", "65"):
        segmenter("resnet18")


def test_published_files_are_whole_and_of_their_own_shapes() -> None:
    given = dense_weights(SEGMENTERS[PUBLISHED])
    unread = next(name for name in given if ".cls_attn_blocks." in name and name.endswith("mlp.fc1.weight"))
    with refused(CheckpointError, unread):
        rv.from_official(PUBLISHED, {name: value for name, value in given.items() if name != unread})
    with refused(CheckpointError, unread):
        rv.from_official(PUBLISHED, {**given, unread: torch.zeros(3, 3)})
    with refused(CheckpointError, "classifier.bias"):
        rv.from_official(PUBLISHED, {**given, "decode_head.linear_pred.bias": torch.zeros(5)})
