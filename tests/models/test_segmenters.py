"""Segmenters: BACKBONE/HEAD for every family, at any size, with everything that classifiers can do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import timm
import torch
from dense_weights import SEGMENTATION, SEGMENTERS, assert_described, dense_keys, dense_weights
from reference_weights import reference_input
from refusals import refused
from torch.nn import functional as F

import robustvit as rv
from robustvit.metrics.iou import IGNORED
from robustvit.models.exporting import export_program
from robustvit.models.heads.segformer import SegFormerHead
from robustvit.runtime.weights import CheckpointError
from robustvit.tasks.segmentation import Segmentation

FAMILIES = [
    "fan_hybrid_nano/segformer",
    "fan_vit_nano/setr_naive",
    "fan_swin_nano/segformer",
    "rvt_nano/setr_pup",
    "vit_nano/segformer",
    "resnet18/segformer",
    "swin_tiny_patch4_window7_224/segformer",
]
CLASSES = 5


def segmenter(name: str, **options: object) -> torch.nn.Module:
    torch.manual_seed(0)
    return rv.create_model(name, num_classes=CLASSES, **options).eval()


@pytest.fixture(scope="module", params=SEGMENTATION)
def published(request: pytest.FixtureRequest) -> tuple[torch.nn.Module, dict[str, Any]]:
    """A published network with the weights of the reference, and what it gives."""
    name = request.param.partition("@")[0]
    weights = dense_weights(SEGMENTERS[name], request.param.partition("#")[2])
    return rv.from_official(name, weights).eval(), SEGMENTATION[request.param]


def test_maps_and_logits_are_those_of_the_published_programs(published: tuple[torch.nn.Module, dict[str, Any]]) -> None:
    network, expected = published
    images = reference_input(*expected["input"])
    with torch.inference_mode():
        levels = network.forward_features(images)
        for ours, described in zip(levels, expected["levels"], strict=True):
            assert_described(ours, described)
        assert_described(network.forward_head(levels), expected["logits"])
        assert_described(network(images), expected["full"])
        for ours, described in zip(network.forward_auxiliary(levels), expected.get("auxiliary", ()), strict=True):
            assert_described(ours, described)


def test_losses_are_those_of_the_published_programs(published: tuple[torch.nn.Module, dict[str, Any]]) -> None:
    network, expected = published
    labels = torch.from_numpy(reference_labels(*expected["input"]))
    with torch.inference_mode():
        answer = network.forward_all(reference_input(*expected["input"]))
        found = Segmentation().loss(answer, labels)
        auxiliary = [float(Segmentation().loss([answer[0], logits], labels)["auxiliary"]) for logits in answer[1:]]
    weighted = [entry["loss"] for entry in expected.get("auxiliary", ())]
    assert float(found["ce"]) == pytest.approx(expected["loss"], rel=1e-5)
    assert auxiliary == pytest.approx(weighted, rel=1e-5)
    assert float(found.get("auxiliary", 0)) == pytest.approx(sum(weighted), rel=1e-5)


def reference_labels(H: int, W: int) -> np.ndarray:
    """[2, H, W] of 19 classes; a tenth does not count."""
    labels = np.random.RandomState(1).randint(0, 19, (2, H, W))
    return np.where(np.random.RandomState(2).rand(2, H, W) < 0.1, IGNORED, labels)


@pytest.mark.parametrize("name", SEGMENTERS)
def test_every_published_segmenter_loads_whole_and_names_what_nothing_reads(name: str) -> None:
    entry = SEGMENTERS[name]
    given = {key: torch.zeros(shape) for key, shape in dense_keys(entry).items()}
    network = rv.from_official(name, given)
    dropped = network.dropped_weights
    assert all(".cls_attn_blocks." in key or "cls_token" in key or "conv_seg" in key for key in dropped)
    assert ("decode_head.conv_seg.weight" in dropped) == name.endswith("/segformer")
    kept = sum(p.numel() for p in network.parameters())
    assert kept + sum(given[key].numel() for key in dropped) == entry["params"]


def test_a_tensor_too_few_or_too_many_is_refused() -> None:
    name = "fan_tiny_8_p4_hybrid/segformer"
    given = {key: torch.zeros(shape) for key, shape in dense_keys(SEGMENTERS[name]).items()}
    with refused(CheckpointError, "decode_head.extra"):
        rv.from_official(name, {**given, "decode_head.extra": torch.zeros(1)})
    del given["decode_head.linear_c2.proj.weight"]
    with refused(CheckpointError, "embeds.1.weight"):
        rv.from_official(name, given)


@pytest.mark.parametrize("size", [(64, 96), (50, 70)])
@pytest.mark.parametrize("name", FAMILIES)
def test_every_pixel_gets_logits_at_any_size(name: str, size: tuple[int, int]) -> None:
    network = segmenter(name)
    with torch.inference_mode():
        assert network(torch.randn(1, 3, *size)).shape == (1, CLASSES, *size)
        assert len(network.forward_features(torch.randn(1, 3, *size))) == 4


@pytest.mark.parametrize("name", FAMILIES)
def test_every_parameter_learns_and_checkpointing_changes_nothing(name: str) -> None:
    network, images = segmenter(name).train(), torch.randn(2, 3, 64, 64)
    for module in network.modules():
        if isinstance(module, torch.nn.Dropout2d | timm.layers.DropPath):
            module.eval()
    gradients = []
    for enable in (False, True):
        network.set_grad_checkpointing(enable)
        network.zero_grad()
        sum(logits.square().mean() for logits in network.forward_all(images)).backward()
        gradients.append([p.grad for p in network.parameters()])
    assert all(gradient is not None for gradient in gradients[0])
    for plain, checkpointed in zip(*gradients, strict=True):
        torch.testing.assert_close(plain, checkpointed, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("name", ["fan_hybrid_nano/segformer", "rvt_nano/setr_pup"])
def test_fused_exported_and_half_precision_copies_agree(name: str, tmp_path: Path) -> None:
    network, images = segmenter(name), torch.randn(1, 3, 64, 96)
    with torch.inference_mode():
        logits = network(images)
        torch.testing.assert_close(rv.fuse(network)(images), logits, rtol=1e-4, atol=1e-4)
    assert export_program(network, tmp_path / "network.pt2", images).max_difference < 1e-5
    with torch.inference_mode():
        torch.testing.assert_close(network.bfloat16()(images.bfloat16()).float(), logits, rtol=0.1, atol=0.1)


@pytest.mark.parametrize(("name", "blocks"), [("fan_hybrid_nano/segformer", 3), ("vit_nano/segformer", 6)])
def test_the_tape_has_the_attention_of_the_backbone(name: str, blocks: int) -> None:
    network = segmenter(name)
    with rv.record(network) as tape:
        network(torch.randn(2, 3, 64, 96))
    assert len(tape.attention) == len(tape.features) == blocks
    assert tape.grid == ((4, 6) if "hybrid" in name else (16, 24))


def test_tap_and_the_levels_of_hybrids_are_arguments() -> None:
    tapped = segmenter("fan_hybrid_nano/segformer", tap=4)
    assert any(".tap." in name for name in tapped.state_dict())
    strides = {
        level: segmenter("fan_hybrid_nano/segformer", last_level=level).strides[-1] for level in ("same", "pool", "conv")
    }
    assert strides == {"same": 16, "pool": 32, "conv": 32}


def test_a_classifier_initialises_the_backbone_and_what_is_left_over_is_said(tmp_path: Path) -> None:
    classifier = rv.create_model("fan_hybrid_nano", num_classes=10, token_head=True)
    network = segmenter("fan_hybrid_nano/segformer", tap=4)
    left = network.initialise_backbone(classifier.state_dict())
    assert {name.split(".")[2] for name in left.missing} == {"tap"}
    assert {"head.weight", "token_head.weight", "cls_token"} <= set(left.unused)
    torch.testing.assert_close(network.backbone.blocks[0].attn.qkv.weight, classifier.blocks[0].attn.qkv.weight)
    with refused(CheckpointError, "another network"):
        network.initialise_backbone(rv.create_model("rvt_nano").state_dict())
    torch.save(classifier.state_dict(), tmp_path / "classifier.pth")
    started = rv.create_model("fan_hybrid_nano/segformer", backbone_weights=tmp_path / "classifier.pth")
    torch.testing.assert_close(started.backbone.blocks[0].attn.qkv.weight, classifier.blocks[0].attn.qkv.weight)


def test_timms_weights_initialise_timms_backbones() -> None:
    classifier = timm.create_model("resnet18", num_classes=10)
    network = segmenter("resnet18/segformer")
    left = network.initialise_backbone(classifier.state_dict())
    assert left.missing == ()
    assert set(left.unused) == {"fc.weight", "fc.bias"}


def test_a_file_of_a_segmenter_brings_its_classes(tmp_path: Path) -> None:
    network = segmenter("fan_hybrid_nano/segformer")
    torch.save(network.state_dict(), tmp_path / "segmenter.pth")
    loaded = rv.create_model(f"fan_hybrid_nano/segformer={tmp_path / 'segmenter.pth'}").eval()
    images = torch.randn(1, 3, 32, 32)
    with torch.inference_mode():
        torch.testing.assert_close(loaded(images), network(images))
    name = "fan_tiny_8_p4_hybrid/segformer"
    torch.save({"state_dict": dense_weights(SEGMENTERS[name]), "meta": {}}, tmp_path / "published.pth")
    assert rv.create_model(f"{name}={tmp_path / 'published.pth'}").num_classes == 19


def test_fresh_classifiers_have_the_classes_asked_for() -> None:
    network = segmenter("vit_nano/setr_pup")
    network.reset_classifier(3)
    assert network.num_classes == 3
    assert [logits.shape[1] for logits in network.forward_all(torch.randn(2, 3, 32, 32))] == [3] * 4


def test_dense_names_are_listed_on_request_only() -> None:
    assert "fan_hybrid_tiny/segformer" in rv.list_models("fan_hybrid_*/*")
    assert not any("/" in name for name in rv.list_models())


@pytest.mark.parametrize(
    ("name", "options", "named"),
    [
        ("fan_hybrid_nano/segfromer", {}, "segformer"),
        ("fan_hybrid_nan/segformer", {}, "fan_hybrid_nano"),
        ("fan_hybrid_nano/segformer", {"num_classes": 0}, "num_classes=0"),
        ("fan_hybrid_nano/segformer", {"token_head": True}, "token_head"),
        ("fan_hybrid_nano/segformer", {"features_only": True}, "forward_features"),
    ],
)
def test_what_cannot_be_built_is_refused(name: str, options: dict[str, object], named: str) -> None:
    with refused(ValueError, named):
        rv.create_model(name, **options)


def test_the_head_is_the_published_one_with_its_products_in_another_order() -> None:
    torch.manual_seed(0)
    head = SegFormerHead((6, 7, 8, 8), 5, embed_dim=12, drop_rate=0.0).double().train()
    levels = [torch.randn(2, C, side, side + 2).double() for C, side in ((6, 16), (7, 8), (8, 4), (8, 4))]
    wide = []
    for embed, level in zip(head.embeds, levels, strict=True):
        z = embed(level.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        wide.append(F.interpolate(z, levels[0].shape[2:], mode="bilinear", align_corners=False))
    published = head.classifier(head.fuse(torch.cat(wide[::-1], 1)))
    found = []
    for logits in (published, head(levels)):
        gradients = torch.autograd.grad(logits.square().mean(), list(head.parameters()))
        found.append([logits.detach(), *gradients])
    torch.testing.assert_close(*found, rtol=1e-9, atol=1e-12)
