"""TAP and token heads on timm's ViT, DeiT and Swin."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
import timm
import torch
from refusals import refused
from torch import nn

import robustvit as rv

VIT = ("deit_tiny_patch16_224", {"img_size": 64, "depth": 3, "num_classes": 10})
DISTILLED = ("deit_tiny_distilled_patch16_224", VIT[1])
AVERAGED = ("vit_tiny_patch16_224", VIT[1] | {"global_pool": "avg"})
SWIN = (
    "swin_tiny_patch4_window7_224",
    {"img_size": 64, "window_size": 4, "embed_dim": 24, "depths": (2, 2, 2), "num_heads": (1, 2, 4), "num_classes": 10},
)
NETWORKS = {"vit": VIT, "distilled": DISTILLED, "averaged": AVERAGED, "swin": SWIN}
TOKENS = {"vit": 16, "distilled": 16, "averaged": 16, "swin": 16}
IMAGES = torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(3))


def build(key: str, **more: Any) -> nn.Module:
    name, arguments = NETWORKS[key]
    return rv.create_model(name, **{**arguments, **more}).eval()


def parameters(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


def first_norm(key: str, model: nn.Module) -> nn.Module:
    return (model.layers[0].blocks[0] if key == "swin" else model.blocks[0]).norm1


# TAP


def test_tap_on_deit_base_has_the_parameters_of_the_paper() -> None:
    assert parameters(rv.create_model("deit_base_patch16_224", tap=4, device="meta")) == 86_901_256


def test_tap_on_swin_base_adds_what_the_paper_says() -> None:
    with_tap, without = (rv.create_model("swin_base_patch4_window7_224", tap=tap, device="meta") for tap in (4, 0))
    assert parameters(with_tap) - parameters(without) == 436_800


@pytest.mark.parametrize("key", NETWORKS)
def test_weights_of_timm_load_with_only_tap_missing(key: str) -> None:
    name, arguments = NETWORKS[key]
    weights = timm.create_model(name, **arguments).state_dict()
    result = build(key, tap=4).load_state_dict(weights, strict=False)
    assert result.unexpected_keys == []
    assert result.missing_keys
    assert all(".norm1.tap." in k for k in result.missing_keys)


@pytest.mark.parametrize("key", NETWORKS)
@pytest.mark.parametrize("tap", [None, 0, 1])
def test_without_tap_the_network_is_timms(key: str, tap: int | None) -> None:
    name, arguments = NETWORKS[key]
    theirs = timm.create_model(name, **arguments).eval()
    ours = build(key, tap=tap)
    assert type(ours) is type(theirs)
    ours.load_state_dict(theirs.state_dict())
    with torch.no_grad():
        assert torch.equal(ours(IMAGES), theirs(IMAGES))


@pytest.mark.parametrize(("key", "prefix"), [("vit", 1), ("distilled", 2)])
def test_prefix_tokens_are_neither_pooled_nor_seen(key: str, prefix: int, shake: Callable) -> None:
    model = shake(build(key, tap=4))
    norm = model.blocks[1].norm1
    x = torch.randn(2, prefix + 16, 192)
    with torch.no_grad():
        model(IMAGES)  # tells the grid
        before = norm(x)
        as_norm = nn.functional.layer_norm(x, (192,), norm.weight, norm.bias, norm.eps)
        x[:, :prefix] += torch.randn(2, prefix, 192)
        after = norm(x)
    torch.testing.assert_close(before[:, :prefix], as_norm[:, :prefix])
    assert torch.equal(before[:, prefix:], after[:, prefix:])
    assert not torch.allclose(before[:, prefix:], as_norm[:, prefix:], atol=1e-2)


def test_the_pooling_feeds_the_attention_and_not_the_residual(shake: Callable) -> None:
    model = shake(build("vit", tap=4))
    block = model.blocks[0]
    inputs = []
    hooks = [block.register_forward_pre_hook(lambda m, args: inputs.append(args[0]))]
    hooks.append(block.attn.register_forward_pre_hook(lambda m, args: inputs.append(args[0])))
    hooks.append(block.attn.register_forward_hook(lambda m, args, out: inputs.append(out)))
    hooks.append(block.norm2.register_forward_pre_hook(lambda m, args: inputs.append(args[0])))
    with torch.no_grad():
        model(IMAGES)
        x, attended, branch, residual = inputs
        pooled = torch.cat((x[:, :1], block.norm1.tap(x[:, 1:], (4, 4))), 1)
        expected = nn.functional.layer_norm(pooled, (192,), block.norm1.weight, block.norm1.bias, block.norm1.eps)
    for hook in hooks:
        hook.remove()
    torch.testing.assert_close(attended, expected)
    torch.testing.assert_close(residual, x + block.ls1(branch))


@pytest.mark.parametrize("key", ["vit", "swin"])
def test_tokens_are_mixed_equally_by_a_predictor_of_zeros(key: str) -> None:
    model = build(key, tap=2)
    norm = first_norm(key, model)
    nn.init.zeros_(norm.tap.predictor[2].weight)
    side, dim = (4, 192) if key == "vit" else (16, 24)
    z = torch.randn(1, dim, side, side)
    mixed = (z + nn.functional.avg_pool2d(z, 3, 1, 1)) / 2
    with torch.no_grad():
        if key == "swin":
            got, mixed = norm(z.permute(0, 2, 3, 1)), mixed.permute(0, 2, 3, 1)
        else:
            model(IMAGES)
            got = norm(torch.cat((torch.zeros(1, 1, dim), z.flatten(2).transpose(1, 2)), 1))[:, 1:]
            mixed = mixed.flatten(2).transpose(1, 2)
        torch.testing.assert_close(got, nn.functional.layer_norm(mixed, (dim,), norm.weight, norm.bias, norm.eps))


def test_the_pooling_of_swin_crosses_window_borders() -> None:
    """Without TAP the first block, which is not shifted, keeps a change inside its window of 4 x 4."""
    changed = {}
    for tap in (0, 3):
        block = build("swin", tap=tap).layers[0].blocks[0]
        x = torch.randn(1, 16, 16, 24)
        y = x.clone()
        y[0, 3, 3] += 5
        with torch.no_grad():
            changed[tap] = ((block(y) - block(x)).abs().amax(-1)[0] > 1e-6).nonzero()
    assert changed[0].max() < 4
    assert changed[3].max() >= 4
    assert changed[3].max() < 8  # two steps of dilation, and the window they reach


@pytest.mark.parametrize("tap", ["avg3x3", "conv3x3", "multi_kernel3"])
@pytest.mark.parametrize("key", ["vit", "swin"])
def test_the_alternatives_of_the_paper_work_too(key: str, tap: str) -> None:
    with torch.no_grad():
        assert build(key, tap=tap)(IMAGES).isfinite().all()


@pytest.mark.parametrize("key", ["vit", "swin"])
def test_tap_blocks_are_counted_over_all_stages(key: str) -> None:
    model = build(key, tap=2, tap_blocks=[0, -1])
    blocks = [b for stage in model.layers for b in stage.blocks] if key == "swin" else list(model.blocks)
    assert [hasattr(b.norm1, "tap") for b in blocks] == [i in (0, len(blocks) - 1) for i in range(len(blocks))]


def test_any_oblong_image_when_timm_allows_it(shake: Callable) -> None:
    model = shake(build("vit", tap=4, dynamic_img_size=True))
    with torch.no_grad():
        assert model(torch.randn(1, 3, 32, 96)).shape == (1, 10)
        square = model(IMAGES)
        model(torch.randn(1, 3, 96, 32))
        assert torch.equal(model(IMAGES), square)  # the grid is that of the image, not of the one before


def test_the_pooling_sees_rows_and_columns_the_right_way_round(shake: Callable) -> None:
    """Pooling is local: a token far away in the image, though near in the sequence, has no influence."""
    model = shake(build("vit", tap=2, dynamic_img_size=True))
    norm = model.blocks[0].norm1
    x = torch.randn(1, 1 + 12, 192)
    y = x.clone()
    y[0, 1 + 5] += 3  # row 0, column 5 of a grid of 2 x 6
    with torch.no_grad():
        model(torch.randn(1, 3, 32, 96))
        changed = ((norm(y) - norm(x)).abs().amax(-1)[0, 1:] > 1e-6).nonzero().flatten().tolist()
    reach = {row * 6 + column for row in range(2) for column in range(2, 6)}  # two 3x3 convolutions and a 3x3 mean
    assert 5 in changed
    assert set(changed) <= reach
    assert {10, 11} <= set(changed)


@pytest.mark.parametrize("key", ["vit", "swin"])
def test_tap_trains(key: str) -> None:
    model = build(key, tap=4).train()
    model(IMAGES).square().sum().backward()
    added = [p for n, p in model.named_parameters() if ".tap." in n]
    assert added
    assert all(p.grad.abs().max() > 0 for p in added if p.ndim == 4)


@pytest.mark.parametrize("option", [{"tap": 4}, {"token_head": True}])
def test_networks_that_cannot_have_it_are_refused(option: dict) -> None:
    with refused(TypeError, "FAN", "RVT", "ViT", "DeiT", "Swin", "ResNet"):
        rv.create_model("resnet18", **option)


def test_a_vit_that_normalises_after_the_attention_is_refused() -> None:
    """There, norm1 follows the attention: a pooling in front of it would pool the wrong tensor."""
    with pytest.raises(TypeError, match="TAP"):
        rv.create_model("vit_base_patch16_rpn_224", img_size=32, depth=1, tap=4)


# copies

OPTIONS = {"tap": {"tap": 3}, "token_head": {"token_head": True}, "both": {"tap": 3, "token_head": True}}


@pytest.mark.parametrize("key", NETWORKS)
@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("copy", [deepcopy, lambda m: pickle.loads(pickle.dumps(m))], ids=["deepcopy", "pickle"])
def test_copies_compute_the_same_and_stand_alone(key: str, option: str, copy: Callable, shake: Callable) -> None:
    model = shake(build(key, **OPTIONS[option]))
    with torch.no_grad():
        expected = model(IMAGES)
    twin = copy(model)
    for parameter in model.parameters():
        nn.init.constant_(parameter, torch.nan)
    with torch.no_grad():
        torch.testing.assert_close(twin(IMAGES), expected, rtol=0, atol=0)
        if "token_head" in OPTIONS[option]:
            assert twin.forward_tokens(IMAGES)[1].isfinite().all()


def test_a_copy_has_a_grid_of_its_own(shake: Callable) -> None:
    model = shake(build("vit", tap=3, dynamic_img_size=True))
    twin = deepcopy(model)
    with torch.no_grad():
        twin(torch.randn(1, 3, 32, 96))
        assert tuple(twin.patch_embed.token_grid) == (2, 6)
        model(IMAGES)
        assert tuple(twin.patch_embed.token_grid) == (2, 6)


@pytest.mark.parametrize("key", NETWORKS)
def test_state_dicts_go_round(key: str, shake: Callable) -> None:
    model = shake(build(key, tap=3, token_head=True))
    twin = build(key, tap=3, token_head=True)
    twin.load_state_dict(model.state_dict())
    with torch.no_grad():
        assert torch.equal(twin(IMAGES), model(IMAGES))


# the token head


@pytest.mark.parametrize("key", NETWORKS)
def test_token_logits_have_a_row_for_every_image_token(key: str) -> None:
    model = build(key, token_head=True)
    with torch.no_grad():
        class_logits, token_logits = model.forward_tokens(IMAGES)
    assert class_logits.shape == (2, 10)
    assert token_logits.shape == (2, TOKENS[key], 10)


@pytest.mark.parametrize("key", NETWORKS)
def test_the_token_head_leaves_forward_alone(key: str) -> None:
    name, arguments = NETWORKS[key]
    theirs = timm.create_model(name, **arguments).eval()
    ours = build(key, token_head=True)
    result = ours.load_state_dict(theirs.state_dict(), strict=False)
    assert result.unexpected_keys == []
    assert sorted(result.missing_keys) == ["token_head.bias", "token_head.weight"]
    with torch.no_grad():
        assert torch.equal(ours(IMAGES), theirs(IMAGES))
        assert torch.equal(ours.forward_tokens(IMAGES)[0], theirs(IMAGES))
    assert isinstance(ours, type(theirs))


@pytest.mark.parametrize("key", NETWORKS)
def test_fusion_adds_half_of_the_largest_token_logit(key: str) -> None:
    model = build(key, token_fusion=True)
    with torch.no_grad():
        class_logits, token_logits = model.forward_tokens(IMAGES)
        torch.testing.assert_close(model(IMAGES), class_logits + token_logits.max(1).values / 2)
        torch.testing.assert_close(rv.fuse_token_logits(class_logits, token_logits), model(IMAGES))


def test_averaged_token_logits_are_those_of_the_averaged_token() -> None:
    """Swin classifies the mean of its normalised tokens: with equal heads, the mean token logit is the class logit."""
    model = build("swin", token_head=True)
    model.token_head.load_state_dict(model.head.fc.state_dict())
    with torch.no_grad():
        class_logits, token_logits = model.forward_tokens(IMAGES)
    torch.testing.assert_close(token_logits.mean(1), class_logits, rtol=1e-4, atol=1e-5)


def test_the_token_head_of_an_averaging_vit_reads_normalised_tokens(shake: Callable) -> None:
    model = shake(build("averaged", token_head=True))
    with torch.no_grad():
        tokens = model.fc_norm(model.forward_features(IMAGES)[:, 1:])
        torch.testing.assert_close(model.forward_tokens(IMAGES)[1], model.token_head(tokens))
    assert isinstance(model.fc_norm, nn.LayerNorm)


@pytest.mark.parametrize("key", NETWORKS)
def test_reset_classifier_resets_both_heads(key: str) -> None:
    model = build(key, token_head=True)
    model.reset_classifier(7)
    with torch.no_grad():
        class_logits, token_logits = model.forward_tokens(IMAGES)
    assert class_logits.shape == (2, 7)
    assert token_logits.shape == (2, TOKENS[key], 7)


def test_a_network_without_token_head_says_how_to_get_one() -> None:
    model = rv.create_model("fan_vit_nano")
    with pytest.raises(ValueError, match="token_head=True"):
        model.forward_tokens(torch.zeros(1, 3, 32, 32))


@pytest.mark.parametrize("key", ["vit", "swin"])
def test_features_only_works_with_tap(key: str, shake: Callable) -> None:
    model = shake(build(key, tap=3, features_only=True))
    plain = build(key, features_only=True)
    plain.load_state_dict({n: v for n, v in model.state_dict().items() if ".tap." not in n})
    with torch.no_grad():
        assert [m.shape for m in model(IMAGES)] == [m.shape for m in plain(IMAGES)]
        assert not torch.allclose(model(IMAGES)[-1], plain(IMAGES)[-1], atol=1e-3)
