"""Detectors: BACKBONE/HEAD for every family, with torchvision's interface."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from refusals import refused
from torch import Tensor

import robustvit as rv
from robustvit.models.dense_names import DETECTION_HEADS
from robustvit.models.exporting import ExportError, export_program
from robustvit.models.heads.roi_pooling import pool_regions
from robustvit.models.saved_folder import save_weights

FAMILIES = ["fan_hybrid_nano", "fan_vit_nano", "fan_swin_nano", "rvt_nano", "vit_nano", "resnet18"]
CLASSES = 5
SMALL: dict[str, Any] = dict(width=16, hidden=32, anchor_scale=4, region_samples=32)


def detector(name: str, **options: Any) -> Any:
    torch.manual_seed(0)
    return rv.create_model(name, num_classes=CLASSES, **SMALL, **options).eval()


def targets(count: int = 2, size: int = 64) -> list[dict[str, Tensor]]:
    boxes = torch.tensor([[4.0, 6, 30, 40], [30, 20, 60, 62]])
    masks = torch.zeros(2, size, size, dtype=torch.bool)
    for mask, (x1, y1, x2, y2) in zip(masks, boxes.int().tolist(), strict=True):
        mask[y1:y2, x1:x2] = True
    return [{"boxes": boxes, "labels": torch.tensor([1, 4]), "masks": masks} for _ in range(count)]


@pytest.mark.parametrize("head", DETECTION_HEADS)
@pytest.mark.parametrize("backbone", FAMILIES)
def test_every_backbone_detects_and_learns_with_every_head(backbone: str, head: str) -> None:
    network = detector(f"{backbone}/{head}", score_threshold=0.0)
    images = torch.randn(2, 3, 64, 64)
    with torch.inference_mode():
        for found in network(images):
            assert len(found["boxes"]) == len(found["scores"]) == len(found["labels"]) == 100
            assert set(found["labels"].tolist()) <= set(range(CLASSES))
            assert ("masks" in found) == ("mask" in head)
    losses = network.train()(images, targets())
    stages = 3 if head.startswith("cascade") else 1
    assert len(losses) == 2 + stages * (3 if "mask" in head else 2)
    torch.stack(list(losses.values())).sum().backward()
    without = [name for name, p in network.named_parameters() if p.requires_grad and p.grad is None]
    assert not without


@pytest.mark.parametrize("head", ["mask_rcnn", "cascade_mask_rcnn"])
def test_images_of_several_sizes_are_padded_and_answered_in_their_own_pixels(head: str) -> None:
    network = detector(f"fan_hybrid_nano/{head}", score_threshold=0.0)
    images = [torch.randn(3, 50, 70), torch.randn(3, 64, 40)]
    with torch.inference_mode():
        found = network(images)
    for image, own in zip(images, found, strict=True):
        h, w = image.shape[1:]
        assert own["masks"].shape[2:] == (h, w)
        assert (own["boxes"][:, 2] <= w).all()
        assert (own["boxes"][:, 3] <= h).all()


def test_an_image_without_objects_teaches_the_background() -> None:
    network = detector("fan_hybrid_nano/cascade_mask_rcnn").train()
    empty = {"boxes": torch.zeros(0, 4), "labels": torch.zeros(0, dtype=torch.long), "masks": torch.zeros(0, 64, 64)}
    losses = network(torch.randn(2, 3, 64, 64), [empty, empty])
    torch.stack(list(losses.values())).sum().backward()
    losses = {name: loss.detach() for name, loss in losses.items()}
    assert all(loss.isfinite() for loss in losses.values())
    assert float(losses["loss_mask_1"]) == float(losses["loss_box_reg_1"]) == 0
    assert float(losses["loss_classifier_1"]) > 0


def test_losses_of_images_add_up_to_those_of_the_batch() -> None:
    network = detector("fan_hybrid_nano/mask_rcnn").train()
    network.backbone.eval()
    torch.manual_seed(1)
    images = torch.randn(2, 3, 64, 64)
    torch.manual_seed(2)
    together = network(images, targets())
    torch.manual_seed(2)
    parts = network.image_losses(images, targets())
    for name, loss in together.items():
        total, count = parts[name].sum(0)
        torch.testing.assert_close(loss, total / count)


def test_stages_of_the_cascade_have_the_published_thresholds() -> None:
    from robustvit.models.detector import CASCADE

    assert [stage.assigner.positive for stage in CASCADE] == [0.5, 0.6, 0.7]
    assert [stage.weight for stage in CASCADE] == [1.0, 0.5, 0.25]
    assert CASCADE[2].coder.stds == (0.033, 0.033, 0.067, 0.067)


def test_a_saved_detector_is_the_same_detector(tmp_path: Path) -> None:
    network = detector("fan_hybrid_nano/cascade_rcnn", score_threshold=0.0)
    torch.save(network.state_dict(), tmp_path / "weights.pt")
    again = rv.create_model(f"fan_hybrid_nano/cascade_rcnn={tmp_path / 'weights.pt'}", score_threshold=0.0, **SMALL)
    assert again.num_classes == CLASSES
    images = torch.randn(1, 3, 64, 64)
    with torch.inference_mode():
        torch.testing.assert_close(network(images), again.eval()(images))


def test_fusing_changes_no_answer() -> None:
    network = detector("fan_hybrid_nano/cascade_mask_rcnn", score_threshold=0.0)
    images = torch.randn(1, 3, 64, 64)
    with torch.inference_mode():
        (plain,), (fused,) = network(images), rv.fuse(network)(images)
    torch.testing.assert_close(plain["scores"], fused["scores"], rtol=1e-3, atol=1e-4)


def test_a_fresh_classifier_has_other_classes() -> None:
    network = detector("fan_hybrid_nano/mask_rcnn", score_threshold=0.0)
    network.reset_classifier(2)
    with torch.inference_mode():
        (found,) = network(torch.randn(1, 3, 64, 64))
    assert set(found["labels"].tolist()) <= {0, 1}


def test_tokens_of_a_detector_are_recorded() -> None:
    network = detector("fan_hybrid_nano/faster_rcnn", tap=4)
    with rv.record(network) as tape, torch.inference_mode():
        network(torch.randn(1, 3, 64, 96))
    assert tape.grid == (4, 6)
    assert tape.attention[0].shape[-1] == 24


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"labels": torch.tensor([1, 5])}, "without background"),
        ({"boxes": torch.tensor([[4.0, 6, 4, 40], [30, 20, 60, 62]])}, "without area"),
        ({"boxes": torch.zeros(3, 4)}, "expected [m, 4] and [m]"),
        ({"masks": torch.zeros(1, 64, 64)}, "no masks"),
    ],
)
def test_wrong_targets_are_refused(change: dict[str, Tensor], told: str) -> None:
    network = detector("fan_hybrid_nano/mask_rcnn").train()
    with refused(ValueError, told):
        network(torch.randn(1, 3, 64, 64), [{**targets(1)[0], **change}])


@pytest.mark.parametrize("count", [None, 1])
def test_training_needs_a_target_for_each_image(count: int | None) -> None:
    with refused(ValueError, "eval()"):
        detector("fan_hybrid_nano/faster_rcnn").train()(torch.randn(2, 3, 64, 64), None if count is None else targets(count))


@pytest.mark.parametrize("images", [torch.randn(3, 64, 64), [], [torch.randn(1, 3, 64, 64)]])
def test_what_is_no_batch_is_refused(images: Any) -> None:
    with refused(ValueError, "[3, h, w]"):
        detector("fan_hybrid_nano/faster_rcnn")(images)


def test_targets_can_say_what_is_padding() -> None:
    network, images = detector("fan_hybrid_nano/faster_rcnn").train(), torch.randn(1, 3, 64, 64)
    given, losses = [{**targets(1)[0], "boxes": torch.tensor([[4.0, 6, 20, 30], [2, 2, 30, 20]])}], []
    for sizes, extra in (([(32, 32)], {}), (None, {"size": torch.tensor([32, 32])})):
        torch.manual_seed(0)
        losses.append(network(images, [{**given[0], **extra}], sizes=sizes))
    torch.testing.assert_close(*losses)


def test_half_precision_reads_regions_where_they_are() -> None:
    edge = (torch.arange(304) >= 297).float().expand(1, 1, 200, 304).contiguous()  # 0 and 1 are exact in any precision
    boxes = [torch.tensor([[1177.3, 100.2, 1201.3, 130.7]])]
    exact, half = (pool_regions([edge.to(dtype)], [4], boxes, 7) for dtype in (torch.float32, torch.bfloat16))
    assert half.dtype == torch.bfloat16
    torch.testing.assert_close(half.float(), exact, rtol=2**-8, atol=2**-8)


def test_detectors_run_in_bfloat16() -> None:
    network = detector("fan_hybrid_nano/cascade_mask_rcnn", score_threshold=0.0).bfloat16()
    with torch.inference_mode():
        (found,) = network(torch.randn(1, 3, 64, 64, dtype=torch.bfloat16))
    assert len(found["boxes"]) == 100
    assert found["boxes"].isfinite().all()


@pytest.mark.parametrize(("backbone", "width"), [("mobilenetv3_small_050", 256), ("fan_hybrid_nano", 64)])
def test_only_nano_sizes_have_narrow_heads(backbone: str, width: int) -> None:
    with torch.device("meta"):
        network = rv.create_model(f"{backbone}/faster_rcnn", num_classes=2)
    assert network.pyramid.laterals[0].out_channels == width


def test_fewer_proposals_are_the_best_of_all() -> None:
    torch.manual_seed(0)
    network = detector("fan_hybrid_nano/faster_rcnn").eval()
    few = detector("fan_hybrid_nano/faster_rcnn", proposals=7).eval()
    few.load_state_dict(network.state_dict())
    with torch.no_grad():
        pyramid = network.forward_pyramid(network.forward_features(torch.rand(1, 3, 64, 64)))
        (every, some) = (one.proposals.proposals(*one.forward_rpn(pyramid), [(64, 64)])[0][0] for one in (network, few))
    assert len(every) > len(some) == 7
    assert torch.equal(every[:7], some)


@pytest.mark.parametrize("options", [{"width": 0}, {"anchor_scale": -1}, {"score_threshold": 1.0}, {"head_drop_rate": 0.1}])
def test_impossible_options_are_refused(options: dict[str, Any]) -> None:
    with refused(ValueError, next(iter(options))):
        rv.create_model("fan_hybrid_nano/faster_rcnn", **options)


def test_a_misspelt_head_is_named() -> None:
    with refused(ValueError, "cascade_mask_rcnn"):
        rv.create_model("fan_hybrid_nano/cascade_mask_rcn")


def test_nan_pixels_give_no_detections_instead_of_an_error() -> None:
    network = detector("resnet18/faster_rcnn")
    with torch.inference_mode():
        (found,) = network(torch.full((1, 3, 64, 64), float("nan")))
    assert len(found["boxes"]) == 0


def test_exporting_says_to_export_the_backbone(tmp_path: Path) -> None:
    with refused(ExportError, "backbone"):
        export_program(detector("fan_hybrid_nano/faster_rcnn"), tmp_path / "x.pt2", torch.randn(1, 3, 64, 64))
    assert not list(tmp_path.iterdir())


def test_a_saved_folder_keeps_the_size_that_images_fit_into(tmp_path: Path) -> None:
    network = detector("fan_hybrid_nano/faster_rcnn", fit=(128, 64))
    options = dict(num_classes=CLASSES, fit=(128, 64), **SMALL)
    save_weights(network, network.state_dict(), tmp_path, options, {}, "detection")
    again = rv.create_model(f"local-dir:{tmp_path}", pretrained=True)
    assert again.fit == (128, 64)
    assert again.task == "detection"
