"""Methods on segmenters: those that read attention and features train them, those that read classes refuse."""

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
from robustvit.methods import alignment_loss
from robustvit.methods.adl import AdlConfig
from robustvit.methods.afat import AfatConfig
from robustvit.methods.registry import METHODS
from robustvit.recording.tape import NothingRecordedError
from robustvit.tasks.segmentation import Segmentation
from robustvit.training.checks import check_combination
from robustvit.training.config_io import ConfigError, load_config

CLASSES, SIDE = 5, 64
RUN = ("task=segmentation", "data.train=scenes:4", "data.val=scenes:2", "model.img_size=64", "loss.smoothing=0")
RUN += ("loop.batch_size=2", "loop.device=cpu", "loop.log_every=1", "schedule.epochs=1", "schedule.warmup_epochs=0")
ALLOWED = {
    "adl": ["methods.adl={chunk: 50}"],
    "adl on whole maps": ["methods.adl={variant: released}"],
    "tap": ["model.tap=4"],
    "afat": ["methods.afat={}"],
    "afat in one batch": ["methods.afat={joint_batch: true, corruption_objective: total}"],
    "all of them": ["model.tap=4", "methods.adl={chunk: 50}", "methods.afat={corruption_objective: ce}"],
}


def segmenter(name: str = "fan_hybrid_nano/segformer", **options: Any) -> Any:
    """In training mode, with attention that is far from uniform."""
    torch.manual_seed(0)
    network = rv.create_model(name, num_classes=CLASSES, **options).train()
    with torch.no_grad():
        for key, parameter in network.named_parameters():
            if key.endswith("qkv.weight"):
                parameter.add_(0.3 * torch.randn_like(parameter))
    return network


def batch(B: int) -> tuple[Tensor, Tensor]:
    drawn = torch.Generator().manual_seed(1)
    return torch.randn(B, 3, SIDE, SIDE, generator=drawn), torch.randint(0, CLASSES, (B, SIDE, SIDE), generator=drawn).byte()


@pytest.mark.parametrize("method", ALLOWED)
@pytest.mark.parametrize("name", ["fan_hybrid_nano/segformer", "vit_nano/segformer"])
def test_allowed_methods_train_segmenters(name: str, method: str, tmp_path: Path) -> None:
    run = rv.train(load_config(None, [*RUN, f"model.name={name}", *ALLOWED[method]]), tmp_path)
    logged = (tmp_path / "metrics.jsonl").read_text()
    assert logged.count('"loss"') >= 2
    assert "NaN" not in logged
    assert all(f'"{term}"' in logged for term in ("ce", "adl", "afat") if term in method or term == "ce")
    assert math.isfinite(run.best_score)


def test_adl_of_one_image_is_more_than_nothing_and_the_same_in_chunks() -> None:
    network, (images, labels) = segmenter().double(), batch(1)
    gradients = []
    for chunk in (0, 3):
        network.zero_grad()
        method = AdlConfig(chunk=chunk).build(context_of(network))
        for module in network.modules():
            if isinstance(module, torch.nn.Dropout2d):
                module.eval()
        step = make_step(network, images.double(), method, targets=labels, task=Segmentation())
        term = method.terms(step)["adl"]
        assert 0.01 < term.item() <= 1
        term.backward()
        gradients.append([term.detach(), *(p.grad for n, p in network.named_parameters() if n.endswith("qkv.weight"))])
    torch.testing.assert_close(*gradients, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("joint_batch", [False, True])
@pytest.mark.parametrize("name", ["fan_hybrid_nano/segformer", "fan_vit_nano/setr_naive"])
def test_afat_aligns_the_features_of_the_backbone(name: str, joint_batch: bool) -> None:
    network, (images, labels) = segmenter(name, img_size=SIDE), batch(2)
    method = AfatConfig(joint_batch=joint_batch).build(context_of(network, img_size=(SIDE, SIDE)))
    step = make_step(network, images, method, targets=labels, task=Segmentation())
    heads = 1 + len(network.auxiliary_heads)
    assert [list(logits.shape) for logits in step.outputs.answer] == [[2, CLASSES, SIDE, SIDE]] * heads
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


def test_logits_of_all_heads_are_cut_and_label_maps_repeated_together() -> None:
    network, (images, labels), task = segmenter("fan_vit_nano/setr_naive", img_size=SIDE).eval(), batch(2), Segmentation()
    both = task.forward(network, torch.cat([images, images]), None)
    halves = [task.part(both, rows) for rows in (slice(0, 2), slice(2, 4))]
    torch.testing.assert_close(*halves)
    assert len(halves[0]) == 4
    assert task.repeat(labels, 2).shape == (4, SIDE, SIDE)
    torch.testing.assert_close(task.loss(both, task.repeat(labels, 2)), task.loss(halves[0], labels))


@pytest.mark.parametrize("method", [name for name in METHODS if METHODS[name].tasks])
def test_methods_about_classes_refuse_and_name_the_task(method: str) -> None:
    options = "{teacher: vit_nano, options: {pretrained: true}}" if method == "distillation" else "{}"
    config = [*RUN, "model.name=fan_hybrid_nano/segformer", f"methods.{method}={options}"]
    with refused(ConfigError, method, "classification", "segmentation"):
        check_combination(load_config(None, config))


def test_methods_that_read_no_classes_are_adl_and_afat() -> None:
    assert [name for name in METHODS if not METHODS[name].tasks] == ["adl", "afat"]


@pytest.mark.parametrize("method", ["adl", "afat"])
def test_a_backbone_without_attention_is_refused_by_name(method: str, tmp_path: Path) -> None:
    with refused(NothingRecordedError, "resnet18/segformer", "attention"):
        rv.train(load_config(None, [*RUN, "model.name=resnet18/segformer", f"methods.{method}={{}}"]), tmp_path)


def test_a_segmenter_has_no_token_head(tmp_path: Path) -> None:
    with refused(ValueError, "token_head"):
        rv.create_model("fan_hybrid_nano/segformer", token_head=True)
