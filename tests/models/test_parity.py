"""Our networks compute what the published ones compute.

Two oracles: values of the authors' implementations (`tests/reference/outputs.json`) and, for the networks that have none,
`benchmarks/plain.py`, which reproduces those values.
"""

from __future__ import annotations

import pytest
import torch
from reference_weights import OUTPUTS, STATE_DICTS, meta_weights, published_weights, reference_input, split_entry
from torch import Tensor

import plain
import robustvit as rv

PUBLISHED = [name for name in STATE_DICTS if not name.endswith("_afat")]
WITHOUT_VALUES = [name for name in PUBLISHED if name not in OUTPUTS]


def assert_agree(ours: Tensor, theirs: Tensor | list) -> None:
    torch.testing.assert_close(ours, torch.as_tensor(theirs), rtol=1e-4, atol=1e-4)


def parameters(model: torch.nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


def revealing_variant(name: str) -> str:
    """The fill that makes channel attention or masks visible in the logits."""
    return "sharp" if name.startswith(("fan", "tap_fan")) else "strongmask"


def assert_agrees_with_plain(name: str, H: int, W: int, batch: int = 1) -> None:
    weights = published_weights(name, revealing_variant(name))
    model = rv.from_official(name, weights).eval()
    images = reference_input(H, W, batch)
    with torch.inference_mode():
        logits, token_logits = plain.forward(name, weights, images)
        assert_agree(model(images), logits)
        if token_logits is not None:
            assert_agree(model.forward_tokens(images)[1], token_logits)


@pytest.mark.parametrize("entry", OUTPUTS)
def test_logits_are_those_of_the_published_implementation(entry: str) -> None:
    name, variant = split_entry(entry)
    expected = OUTPUTS[entry]
    model = rv.from_official(name, published_weights(name, variant)).eval()
    with torch.inference_mode():
        logits = model(reference_input(*expected["input"]))
    assert_agree(logits[:, :8], expected["logits"])
    assert parameters(model) == expected["params"]


@pytest.mark.parametrize("entry", [e for e in OUTPUTS if "token_logits" in OUTPUTS[e]])
def test_token_logits_are_those_of_the_published_implementation(entry: str) -> None:
    name, variant = split_entry(entry)
    expected = OUTPUTS[entry]
    model = rv.from_official(name, published_weights(name, variant), token_fusion=True).eval()
    images = reference_input(*expected["input"])
    with torch.inference_mode():
        class_logits, token_logits = model.forward_tokens(images)
        fused = model(images)
    assert token_logits.shape[1] == expected["token_count"]
    assert_agree(class_logits[:, :8], expected["logits"])
    assert_agree(token_logits[:, :2, :8], expected["token_logits"])
    assert_agree(token_logits[:, -1, :8], expected["last_token_logits"])
    assert_agree(token_logits.mean(1)[:, :8], expected["pooled_token_logits"])
    assert_agree(token_logits.amax(1)[:, :8], expected["max_token_logits"])
    assert token_logits.argmax(-1)[:, :8].tolist() == expected["token_argmax_first8"]
    assert_agree(fused[:, :8], expected["eval_logits"])


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=pytest.mark.slow) if any(part in n for part in ("base", "arge", "cifar100")) else n
        for n in WITHOUT_VALUES
    ],
)
def test_published_network_agrees_with_the_plain_transcription(name: str) -> None:
    fixed_size = "swin" in name or "plus" in name
    assert_agrees_with_plain(name, *((224, 224) if fixed_size else (80, 64)))


@pytest.mark.parametrize("size", [(50, 37), (33, 96)], ids="{0[0]}x{0[1]}".format)
@pytest.mark.parametrize(
    "name",
    [
        "fan_tiny_12_p16_224",
        "tap_fan_tiny_12_p16_224",
        "fan_tiny_8_p4_hybrid_token",
        "tap_fan_tiny_8_p4_hybrid",
        "rvt_tiny",
        "tap_rvt_tiny",
    ],
)
def test_odd_and_oblong_images_agree_with_the_plain_transcription(name: str, size: tuple[int, int]) -> None:
    assert_agrees_with_plain(name, *size, batch=2)


@pytest.mark.parametrize("name", ["tap_fan_tiny_12_p16_224", "tap_fan_tiny_8_p4_hybrid", "tap_rvt_tiny"])
def test_training_mode_and_its_gradient_agree_with_the_plain_transcription(name: str) -> None:
    weights = published_weights(name, revealing_variant(name))
    model = rv.from_official(name, weights, drop_path_rate=0.0).train()
    gradients = []
    for forward in (model, lambda x: plain.forward(name, weights, x, training=True)[0]):
        images = reference_input(48, 64).requires_grad_()
        logits = forward(images)
        logits[:, :8].square().sum().backward()
        gradients.append((logits.detach(), images.grad))
    (ours, our_gradient), (theirs, their_gradient) = gradients
    assert_agree(ours, theirs)
    scale = their_gradient.abs().max()
    assert scale > 0
    assert_agree(our_gradient / scale, their_gradient / scale)


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameter_count_is_the_published_one(name: str) -> None:
    assert parameters(rv.create_model(name, device="meta")) == STATE_DICTS[name]["params"]


@pytest.mark.parametrize("size", ["tiny", "small", "base", "large"])
def test_released_tap_swin_is_swin_without_tap(size: str) -> None:
    name = f"fan_swin_{size}_patch4_window7_224"
    model = rv.from_official(f"tap_{name}", meta_weights(name), device="meta")
    assert parameters(model) == STATE_DICTS[name]["params"]


def test_the_fill_reveals_a_transposed_mask() -> None:
    """Guards the oracle itself: with masks at 0.1 x a transposed mask would pass."""
    name = "rvt_tiny_plus"
    weights = published_weights(name, "strongmask")
    images = reference_input(224, 224, 1)
    transposed = {k: v.transpose(1, 2) if k.endswith("att_mask") else v for k, v in weights.items()}
    with torch.inference_mode():
        right, wrong = (rv.from_official(name, w).eval()(images)[:, :8] for w in (weights, transposed))
    assert (right - wrong).abs().max() > 5e-4
