"""Methods on detectors: those that read attention and features train them, those that read classes refuse."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from refusals import refused
from steps import context_of, make_step
from torch import Tensor

import robustvit as rv
from robustvit.data.object_layouts import open_objects
from robustvit.methods import alignment_loss
from robustvit.methods.adl import AdlConfig
from robustvit.methods.afat import AfatConfig
from robustvit.methods.registry import METHODS
from robustvit.recording.tape import NothingRecordedError
from robustvit.tasks.detection import Detection
from robustvit.training.checks import check_combination
from robustvit.training.config_io import ConfigError, load_config
from robustvit.training.metrics_log import read_metrics

SIDE = 64
HEAD: Any = dict(anchor_scale=4, region_samples=16, proposals=30, width=16, hidden=32)
RUN = ("task=detection", "data.train=scenes-easy:4", "data.val=scenes-easy:2", "model.img_size=64", "loss.smoothing=0")
RUN += ("loop.batch_size=2", "loop.device=cpu", "loop.log_every=1", "schedule.epochs=1", "schedule.warmup_epochs=0")
RUN += (f"model.options={HEAD}",)
ALLOWED = {
    "adl": ["methods.adl={chunk: 50}"],
    "tap": ["model.tap=4"],
    "afat": ["methods.afat={joint_batch: false}"],
    "adl on whole maps, afat in one batch, tap": [
        "model.tap=4",
        "methods.adl={variant: released}",
        "methods.afat={joint_batch: true, corruption_objective: ce}",
    ],
}


def detector(head: str = "mask_rcnn", **options: Any) -> Any:
    """In training mode, with attention that is far from uniform."""
    torch.manual_seed(0)
    network = rv.create_model(f"fan_hybrid_nano/{head}", num_classes=10, **{**HEAD, **options}).train()
    with torch.no_grad():
        for key, parameter in network.named_parameters():
            if key.endswith("qkv.weight"):
                parameter.add_(0.3 * torch.randn_like(parameter))
    return network


def batch(B: int) -> tuple[Tensor, list[dict[str, Tensor]]]:
    """Noise with the objects of scenes."""
    samples = open_objects(f"scenes-easy:{B}", scene_size=(SIDE, SIDE))
    images = torch.randn(B, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(1))
    return images, Detection().collate([sample.target() for sample in samples])


@pytest.mark.parametrize("method", ALLOWED)
@pytest.mark.parametrize("name", ["fan_hybrid_nano/mask_rcnn", "vit_nano/cascade_rcnn"])
def test_allowed_methods_train_detectors(name: str, method: str, tmp_path: Path) -> None:
    run = rv.train(load_config(None, [*RUN, f"model.name={name}", *ALLOWED[method]]), tmp_path)
    entries = [entry for entry in read_metrics(tmp_path / "metrics.jsonl") if "terms" in entry]
    assert len(entries) == 2
    assert all(math.isfinite(value) for entry in entries for value in entry["terms"].values())
    expected = {term for term in ("adl", "afat") if term in method}
    losses = {"loss_mask"} if "mask" in name else {"loss_classifier_3"}
    assert expected | losses | {"loss_objectness"} <= entries[0]["terms"].keys()
    assert math.isfinite(run.best_score)


def test_adl_changes_gradients_of_the_backbone_and_is_the_same_in_chunks() -> None:
    network, (images, targets) = detector().double(), batch(1)
    gradients = []
    for chunk in (0, 3):
        network.zero_grad()
        method = AdlConfig(chunk=chunk).build(context_of(network))
        step = make_step(network, images.double(), method, targets=targets, task=Detection())
        term = method.terms(step)["adl"]
        assert 0.01 < term.item() <= 1
        term.backward()
        gradients.append([term.detach(), *(p.grad for n, p in network.named_parameters() if n.endswith("qkv.weight"))])
        assert all(p.grad is None for n, p in network.named_parameters() if not n.startswith("backbone."))
    torch.testing.assert_close(*gradients, rtol=1e-8, atol=1e-12)
    assert all(gradient.abs().max() > 0 for gradient in gradients[0][1:-1])


def test_tap_changes_what_the_blocks_compute_and_has_gradients() -> None:
    network, (images, targets) = detector(tap=4), batch(1)
    own = network.state_dict().keys() - detector().state_dict().keys()
    assert own
    sum(network(images, targets).values()).backward()
    pooling = [p for name, p in network.named_parameters() if name in own]
    assert any(p.grad is not None and p.grad.abs().max() > 0 for p in pooling)


@pytest.mark.parametrize("joint_batch", [False, True])
def test_afat_aligns_the_features_of_the_backbone(joint_batch: bool) -> None:
    network, (images, targets) = detector(), batch(2)
    method = AfatConfig(joint_batch=joint_batch).build(context_of(network, img_size=(SIDE, SIDE)))
    step = make_step(network, images, method, targets=targets, task=Detection())
    assert {tuple(value.shape) for value in step.outputs.answer.values()} == {(2, 2)}
    (term,) = method.terms(step).values()
    assert term.item() > 0
    if joint_batch:
        tapes = step.outputs.tape, step.companions["afat"].tape
        assert tapes[0] is not None
        assert tapes[1] is not None
        expected = 0.005 * alignment_loss(tapes[0].features, tapes[1].features, prefix_tokens=tapes[0].prefix_tokens)
        torch.testing.assert_close(term, expected)
    (step.loss(step.outputs) + term).backward()
    method.after_backward(step, 1.0)
    assert set(method.update(lambda tensors: None))  # the patch corruption network has moved
    assert all(p.grad is not None and p.grad.isfinite().all() for p in network.parameters())


def test_losses_of_a_part_of_the_batch_are_those_of_these_images() -> None:
    network, (images, targets), task = detector("faster_rcnn", region_samples=4000).eval(), batch(2), Detection()
    network.proposals.settings = type(network.proposals.settings)(samples=4000)  # nothing is drawn
    both = task.forward(network, torch.cat([images, images]), task.repeat(targets, 2))
    halves = [task.loss(task.part(both, rows), targets) for rows in (slice(0, 2), slice(2, 4))]
    torch.testing.assert_close(*halves)
    torch.testing.assert_close(task.loss(both, task.repeat(targets, 2)), halves[0])


@pytest.mark.parametrize("method", [name for name in METHODS if METHODS[name].tasks])
def test_methods_about_classes_refuse_and_name_the_task(method: str) -> None:
    options = "{teacher: vit_nano, options: {pretrained: true}}" if method == "distillation" else "{}"
    config = [*RUN, "model.name=fan_hybrid_nano/mask_rcnn", f"methods.{method}={options}"]
    with refused(ConfigError, method, "classification", "detection"):
        check_combination(load_config(None, config))


def test_afat_refuses_images_of_many_sizes() -> None:
    config = [*RUN, "model.name=fan_hybrid_nano/mask_rcnn", "methods.afat={}", "augment.crop=multiscale"]
    with refused(ConfigError, "afat", "multiscale"):
        check_combination(load_config(None, config))


def test_a_backbone_without_attention_is_refused_by_name(tmp_path: Path) -> None:
    with refused(NothingRecordedError, "resnet18/faster_rcnn", "attention"):
        rv.train(load_config(None, [*RUN, "model.name=resnet18/faster_rcnn", "methods.adl={}"]), tmp_path)


def test_a_detector_has_no_token_head() -> None:
    with refused(ValueError, "token_head"):
        rv.create_model("fan_hybrid_nano/mask_rcnn", token_head=True)
