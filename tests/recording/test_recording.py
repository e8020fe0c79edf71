"""Recording looks at a network without changing what it computes, and leaves no trace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import timm
import torch
from refusals import refused
from torch import Tensor, nn

import robustvit as rv

SMALL_VIT = {"img_size": 64, "depth": 3, "num_classes": 10}
SMALL_SWIN = {
    "img_size": 64,
    "window_size": 4,
    "embed_dim": 24,
    "depths": (2, 2, 2),
    "num_heads": (1, 2, 4),
    "num_classes": 10,
}

# name, arguments, side of the images, grid of every block, prefix tokens
NETWORKS: dict[str, tuple[str, dict[str, Any], int, list[int], int]] = {
    "fan_vit": ("fan_vit_nano", {}, 32, [8] * 4, 0),
    "fan_vit_tap_ca": ("fan_vit_nano", {"tap": 3, "channel": "ca"}, 32, [8] * 4, 0),
    "fan_hybrid": ("fan_hybrid_nano", {"token_head": True}, 32, [2] * 3, 0),
    "fan_swin": ("fan_swin_nano", {}, 32, [8, 8, 4, 4, 2, 2, 1, 1], 0),
    "fan_swin_tap": ("fan_swin_nano", {"tap": 2, "token_head": True}, 32, [8, 8, 4, 4, 2, 2, 1, 1], 0),
    "rvt": ("rvt_nano", {"tap": 3}, 32, [8] * 6, 0),
    "rvt_masked": ("rvt_nano", {"masked_blocks": 2}, 32, [8] * 6, 0),
    "vit": ("vit_tiny_patch16_224", SMALL_VIT, 64, [4] * 3, 1),
    "vit_tap": ("vit_tiny_patch16_224", SMALL_VIT | {"tap": 3, "token_head": True}, 64, [4] * 3, 1),
    "deit": ("deit_tiny_patch16_224", SMALL_VIT, 64, [4] * 3, 1),
    "deit_distilled": ("deit_tiny_distilled_patch16_224", SMALL_VIT, 64, [4] * 3, 2),
    "swin": ("swin_tiny_patch4_window7_224", SMALL_SWIN, 64, [16, 16, 8, 8, 4, 4], 0),
    "swin_tap": ("swin_tiny_patch4_window7_224", SMALL_SWIN | {"tap": 3}, 64, [16, 16, 8, 8, 4, 4], 0),
}


def build(key: str, **more: Any) -> tuple[nn.Module, Tensor]:
    name, arguments, side, _, _ = NETWORKS[key]
    return rv.create_model(name, **{**arguments, **more}), torch.randn(2, 3, side, side)


def trace_of(model: nn.Module) -> dict[str, dict[str, Any]]:
    """Everything that a module holds: attributes, hooks, parameters and submodules, by identity where it is an object."""

    def freeze(value: Any) -> Any:
        if isinstance(value, dict):
            return {str(k): freeze(v) for k, v in value.items()}
        return value if isinstance(value, bool | int | float | str | tuple | type(None)) else id(value)

    return {name: {key: freeze(value) for key, value in vars(m).items()} for name, m in model.named_modules()}


@pytest.mark.parametrize("key", NETWORKS)
def test_logits_in_evaluation_are_those_without_recording(key: str) -> None:
    model, images = build(key)
    model.eval()
    with torch.no_grad():
        expected = model(images)
        with rv.record(model):
            logits = model(images)
        again = model(images)
    torch.testing.assert_close(logits, expected, rtol=1e-5, atol=1e-5)
    assert torch.equal(again, expected)


@pytest.mark.parametrize("key", NETWORKS)
def test_logits_and_gradients_in_training_are_those_without_recording(key: str) -> None:
    model, images = build(key, drop_path_rate=0.3)
    model.train()
    state = {n: v.clone() for n, v in model.state_dict().items()}
    results = []
    for recording in (False, True):
        model.load_state_dict(state)
        model.zero_grad()
        torch.manual_seed(5)
        if recording:
            with rv.record(model):
                logits = model(images)
        else:
            logits = model(images)
        logits.square().sum().backward()
        first = next(p for p in model.parameters() if p.grad is not None)
        results.append((logits.detach(), first.grad.clone(), {n: v.clone() for n, v in model.state_dict().items()}))
    (expected, gradient, after), (logits, recorded_gradient, recorded_after) = results
    assert model.training
    torch.testing.assert_close(logits, expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(recorded_gradient, gradient, rtol=1e-3, atol=1e-4)
    for name, value in after.items():  # running statistics among them
        torch.testing.assert_close(recorded_after[name], value, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("key", NETWORKS)
def test_every_block_is_on_the_tape_once(key: str) -> None:
    _, _, _, grids, prefix = NETWORKS[key]
    model, images = build(key)
    model.eval()
    with rv.record(model) as tape:
        model(images)
    assert len(tape.attention) == len(tape.features) == len(tape.grids) == len(grids)
    assert tape.grids == [(side, side) for side in grids]
    assert tape.grid == (grids[-1], grids[-1])
    assert tape.prefix_tokens == prefix
    assert len(tape.class_attention) == (2 if key.startswith("fan_") and "swin" not in key else 0)
    for attention, features, side in zip(tape.attention, tape.features, grids, strict=True):
        N = side * side + prefix
        assert features.shape[:2] == (2, N)
        assert attention.ndim == 4
        assert attention.shape[2] == attention.shape[3]
        if "swin" in key:  # windows of at most 4 x 4
            window = min(4, side) ** 2
            assert attention.shape[0] == 2 * side * side // window
            assert attention.shape[2] == window
        else:
            assert attention.shape[0] == 2
            assert attention.shape[2] == N
        torch.testing.assert_close(attention.sum(-1), torch.ones(attention.shape[:3]), rtol=1e-5, atol=1e-5)
        assert attention.min() >= 0
    for attention in tape.class_attention:
        assert attention.shape == (2, 4, 1, 1 + grids[-1] ** 2)
        torch.testing.assert_close(attention.sum(-1), torch.ones(attention.shape[:3]), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("key", ["vit", "fan_vit", "rvt_masked"])
def test_attention_is_the_matrix_that_multiplied_the_values(key: str) -> None:
    """Recomputed from the input of the second block, which is the recorded output of the first."""
    model, images = build(key)
    model.eval()
    with torch.no_grad(), rv.record(model) as tape:
        model(images)
    block = (model.blocks if hasattr(model, "blocks") else model.stages[0])[1]
    x = block.norm1(tape.features[0])
    B, N, _ = x.shape
    q, k, _ = block.attn.qkv(x).reshape(B, N, 3, block.attn.num_heads, -1).permute(2, 0, 3, 1, 4)
    scores = q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5
    if hasattr(block.attn, "mask"):
        scores = scores * block.attn.mask.sigmoid()
    torch.testing.assert_close(tape.attention[1], scores.softmax(-1), rtol=1e-4, atol=1e-6)


def test_features_are_the_outputs_of_the_blocks() -> None:
    model, images = build("vit")
    model.eval()
    with torch.no_grad():
        with rv.record(model) as tape:
            model(images)
        expected = model.forward_intermediates(images, intermediates_only=True, output_fmt="NLC")
    for features, patches in zip(tape.features, expected, strict=True):
        torch.testing.assert_close(features[:, 1:], patches, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("key", NETWORKS)
def test_gradients_flow_through_the_recorded_attention(key: str) -> None:
    model, images = build(key)
    with rv.record(model) as tape:
        model(images)
    attention = next(a for a in reversed(tape.attention) if a.shape[-1] > 1)
    attention.square().sum().backward()
    gradients = [p.grad for n, p in model.named_parameters() if n.endswith("qkv.weight") and p.grad is not None]
    assert gradients
    assert gradients[-1].abs().max() > 0


def test_no_gradients_are_kept_when_the_caller_wants_none() -> None:
    model, images = build("fan_vit")
    with torch.no_grad(), rv.record(model) as tape:
        model(images)
    assert not any(t.requires_grad for t in (*tape.attention, *tape.features))


@pytest.mark.parametrize("key", NETWORKS)
def test_no_trace_is_left(key: str) -> None:
    model, images = build(key)
    model.set_grad_checkpointing()
    model.eval()(images)
    before, keys = trace_of(model), list(model.state_dict())
    with rv.record(model):
        assert trace_of(model) != before
        model(images)
    assert trace_of(model) == before
    assert list(model.state_dict()) == keys


@pytest.mark.parametrize("key", ["fan_hybrid", "fan_swin", "rvt_masked", "deit_distilled", "swin_tap"])
def test_no_trace_is_left_by_an_error_in_the_body(key: str) -> None:
    model, images = build(key)
    model.eval()(images)
    before = trace_of(model)

    def fail(passes: int) -> None:
        with rv.record(model):
            for _ in range(passes):
                model(images)
            raise KeyError("mine")

    for passes in (1, 0):  # a tape that is still empty does not hide the error
        with pytest.raises(KeyError, match="mine"):
            fail(passes)
        assert trace_of(model) == before


def test_no_trace_is_left_by_an_error_in_the_network() -> None:
    model, _ = build("fan_vit")
    before = trace_of(model)
    with pytest.raises(ValueError, match="takes images"), rv.record(model):
        model(torch.zeros(1, 4, 32, 32))
    assert trace_of(model) == before


def test_a_further_forward_pass_replaces_the_tape() -> None:
    model, images = build("fan_hybrid")
    model.eval()
    with torch.no_grad(), rv.record(model) as tape:
        model(images)
        first = tape.attention[0]
        model(torch.randn(1, 3, 48, 32))
        assert len(tape.attention) == len(tape.features) == 3
        assert len(tape.class_attention) == 2
        assert tape.attention[0].shape[0] == 1
        assert tape.grid == (3, 2)
    assert first.shape[0] == 2


def test_recordings_nest() -> None:
    model, images = build("fan_vit")
    model.eval()
    before = trace_of(model)
    with torch.no_grad(), rv.record(model) as outer:
        with rv.record(model) as inner:
            model(images)
        assert torch.equal(outer.attention[0], inner.attention[0])
        model(images[:1])
        assert (outer.attention[0].shape[0], inner.attention[0].shape[0]) == (1, 2)
    assert trace_of(model) == before


def test_a_network_without_attention_is_refused() -> None:
    model = timm.create_model("resnet18")
    before = trace_of(model)
    with pytest.raises(rv.NothingRecordedError, match="ResNet"), rv.record(model):
        pytest.fail("the body must not run")
    assert trace_of(model) == before


def test_a_tape_that_nothing_ran_on_is_an_error() -> None:
    model, _ = build("fan_vit")
    with pytest.raises(rv.NothingRecordedError, match="did not run"), rv.record(model) as tape:
        pass
    with pytest.raises(rv.NothingRecordedError, match="nothing has been recorded"):
        tape.grid  # noqa: B018


@pytest.mark.parametrize(
    ("key", "size", "blocks"),
    [
        ("fan_vit", {"depths": (1,)}, 1),
        ("fan_swin", {"depths": (2, 1), "num_heads": (1, 2)}, 3),
        ("rvt", {"depths": (1,)}, 1),
        ("vit", {"depth": 1}, 1),
    ],
    ids=["fan_vit", "fan_swin", "rvt", "vit"],
)
def test_a_compiled_network_can_be_recorded_and_stays_compiled(key: str, size: dict[str, Any], blocks: int) -> None:
    model, images = build(key, **size)
    model.eval()
    calls = []

    def backend(graph: torch.fx.GraphModule, inputs: list[Tensor]) -> Callable:
        def run(*arguments: Any) -> Any:
            calls.append(1)
            return graph(*arguments)

        return run

    compiled = torch.compile(model, backend=backend)
    with torch.no_grad():
        expected = compiled(images)
        before = len(calls)
        assert before > 0
        with rv.record(compiled) as tape:
            logits = compiled(images)
        assert len(calls) == before
        assert len(tape.attention) == blocks
        torch.testing.assert_close(logits, expected, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(compiled(images), expected, rtol=1e-5, atol=1e-5)
        assert len(calls) > before


@pytest.mark.parametrize("key", ["fan_vit", "fan_hybrid", "fan_swin", "rvt", "vit", "swin"])
def test_gradient_checkpointing_does_not_disturb(key: str) -> None:
    model, images = build(key, drop_path_rate=0.0)
    model.set_grad_checkpointing()
    with rv.record(model) as tape:
        logits = model(images)
    (logits.square().sum() + tape.attention[0].square().sum()).backward()
    assert len(tape.attention) == len(tape.features) == len(NETWORKS[key][3])
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())
    assert any(getattr(m, "grad_checkpointing", False) for m in model.modules())


@pytest.mark.parametrize("key", ["fan_vit", "fan_hybrid", "fan_swin", "rvt", "vit", "swin"])
def test_features_and_rows_have_the_same_gradients_with_gradient_checkpointing(key: str) -> None:
    model, images = build(key, drop_path_rate=0.0)
    model.eval()  # batch statistics would be updated twice

    def gradients() -> list[torch.Tensor]:
        with rv.record(model, attention=False) as tape:
            logits = model(images)
        recorded = [rows.compute() for rows in tape.rows if rows is not None] + tape.features
        loss = logits.square().sum() + sum(value.square().mean() for value in recorded)
        parameters = list(model.parameters())
        return [g for g in torch.autograd.grad(loss, parameters, allow_unused=True) if g is not None]

    expected = gradients()
    model.set_grad_checkpointing()
    torch.testing.assert_close(gradients(), expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("key", ["fan_vit", "fan_hybrid", "fan_swin", "rvt", "vit", "swin"])
def test_a_network_for_features_only_can_be_recorded(key: str) -> None:
    model, images = build(key, features_only=True)
    model.eval()
    with torch.no_grad():
        expected = model(images)
        with rv.record(model) as tape:
            maps = model(images)
    assert len(tape.attention) == len(NETWORKS[key][3])
    assert tape.prefix_tokens == NETWORKS[key][4]
    assert tape.grids == [(side, side) for side in NETWORKS[key][3]]
    for one, other in zip(maps, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("key", "more", "size", "grids"),
    [
        ("fan_vit", {}, (20, 33), [(5, 9)] * 4),
        ("fan_hybrid", {}, (48, 32), [(3, 2)] * 3),
        ("fan_swin", {"img_size": (64, 32)}, (64, 32), [(16, 8)] * 2 + [(8, 4)] * 2 + [(4, 2)] * 2 + [(2, 1)] * 2),
        ("rvt", {}, (48, 32), [(12, 8)] * 6),
        ("vit", {"dynamic_img_size": True}, (48, 96), [(3, 6)] * 3),
        ("vit_tap", {"dynamic_img_size": True}, (48, 96), [(3, 6)] * 3),
    ],
)
def test_oblong_images_have_oblong_grids(key: str, more: dict, size: tuple[int, int], grids: list) -> None:
    model, _ = build(key, **more)
    model.eval()
    with torch.no_grad(), rv.record(model) as tape:
        model(torch.randn(1, 3, *size))
    assert tape.grids == grids
    assert [f.shape[1] - tape.prefix_tokens for f in tape.features] == [h * w for h, w in grids]


def test_windows_that_need_padding_keep_the_grid_of_the_image() -> None:
    model = rv.create_model("swin_tiny_patch4_window7_224", **SMALL_SWIN, strict_img_size=False).eval()
    with torch.no_grad(), rv.record(model) as tape:
        model(torch.randn(1, 3, 48, 80))
    assert tape.grids == [(12, 20)] * 2 + [(6, 10)] * 2 + [(3, 5)] * 2
    assert [f.shape[1] for f in tape.features] == [240, 240, 60, 60, 15, 15]


def test_the_second_stage_of_the_xl_hybrid_has_its_own_grid() -> None:
    sizes = {"embed_dims": (24, 48), "depths": (2, 1), "num_heads": (2, 4)}
    model = rv.create_model("fan_hybrid_nano", **sizes).eval()
    with torch.no_grad(), rv.record(model) as tape:
        model(torch.randn(1, 3, 96, 64))
    assert tape.grids == [(6, 4), (6, 4), (3, 2)]
    assert [f.shape[1:] for f in tape.features] == [(24, 24), (24, 24), (6, 48)]


def test_register_tokens_count_as_prefix() -> None:
    model = rv.create_model("vit_tiny_patch16_224", **SMALL_VIT, reg_tokens=3, tap=2).eval()
    with torch.no_grad(), rv.record(model) as tape:
        model(torch.randn(1, 3, 64, 64))
    assert tape.prefix_tokens == 4
    assert tape.attention[0].shape[-1] == 20


def test_regions_are_the_tokens_of_a_window_that_see_each_other() -> None:
    """Against the recorded attention: what a shift mask keeps apart has no weight. 11x11 tokens in windows of 4 are padded."""
    options = SMALL_SWIN | {"img_size": 44, "depths": (2, 2), "num_heads": (1, 2)}
    model = rv.create_model("swin_tiny_patch4_window7_224", **options).eval()
    with torch.no_grad(), rv.record(model) as tape:
        model(torch.randn(2, 3, 44, 44))
    assert [None if r is None else list(r.shape) for r in tape.regions] == [[9, 16], [9, 16], [4, 16], [4, 16]]
    for attention, regions, side in zip(tape.attention, tape.regions, (11, 11, 6, 6), strict=True):
        assert int((regions >= 0).sum()) == side * side  # every real token once
        apart = (regions[:, :, None] != regions[:, None, :]) & (regions[:, :, None] >= 0) & (regions[:, None, :] >= 0)
        together = (regions[:, :, None] == regions[:, None, :]) & (regions[:, :, None] >= 0)
        whole = attention.unflatten(0, (2, -1)).amax((0, 2))  # windows M M: of any image and head
        assert (whole[apart] < 1e-6).all()
        assert (whole[together] > 1e-3).all()
    assert [int(r.max()) > 0 for r in tape.regions] == [False, True, False, False]


def test_windows_whose_tokens_all_see_each_other_have_no_regions() -> None:
    model, images = build("fan_swin")
    with rv.record(model) as tape:
        model(images)
    assert [r is None for r in tape.regions] == [True, False] + [True] * 6
    assert tape.regions[1].unique().tolist() == [0, 2, 8, 10]  # the first tokens of four 2x2 regions
    model, images = build("vit")
    with rv.record(model) as tape:
        model(images)
    assert tape.regions == [None] * 3


@pytest.mark.parametrize("maps", [False, True])
@pytest.mark.parametrize("key", NETWORKS)
def test_rows_of_the_map_can_be_computed_without_it(key: str, maps: bool) -> None:
    model, images = build(key)
    model.eval()
    with rv.record(model) as expected:
        model(images)
    with rv.record(model, attention=maps) as tape:
        model(images)
    assert len(tape.attention) == (len(expected.attention) if maps else 0)
    for rows, attention in zip(tape.rows, expected.attention, strict=True):
        torch.testing.assert_close(rows.compute(), attention, rtol=1e-4, atol=1e-6)
        if attention.shape[2] > 3:
            parts = torch.cat([part.compute() for part in rows.split(2, skip=1)], dim=2)
            torch.testing.assert_close(parts, attention[:, :, 1:], rtol=1e-4, atol=1e-6)


def test_rows_are_kept_only_where_gradients_are() -> None:
    model, images = build("fan_vit")
    with torch.no_grad(), rv.record(model) as tape:
        model(images)
    assert tape.rows == []


def test_normalised_queries_are_recorded_as_attention_uses_them() -> None:
    model = rv.create_model("vit_tiny_patch16_224", **SMALL_VIT, qk_norm=True).eval()
    with rv.record(model) as tape:
        model(torch.randn(1, 3, 64, 64))
    torch.testing.assert_close(tape.rows[0].compute(), tape.attention[0], rtol=1e-4, atol=1e-6)


def test_attention_of_another_kind_has_no_rows() -> None:
    model, images = build("vit")

    class Rotary(type(model.blocks[0].attn)):  # may compute its map in any way
        pass

    model.blocks[0].attn.__class__ = Rotary
    with rv.record(model) as tape:
        model(images)
    assert [rows is None for rows in tape.rows] == [True, False, False]


@pytest.mark.parametrize("key", ["fan_vit", "fan_swin", "rvt_masked", "vit", "swin"])
def test_a_part_of_a_tape_is_the_tape_of_these_images(key: str) -> None:
    model, _ = build(key)
    model.eval()
    images = torch.randn(3, 3, NETWORKS[key][2], NETWORKS[key][2])
    with rv.record(model) as tape:
        model(images)
    part = tape.part(1, 3, 3)
    with rv.record(model) as expected:
        model(images[1:])
    close = dict(rtol=1e-4, atol=1e-5)
    for name in ("attention", "features", "class_attention"):
        torch.testing.assert_close(getattr(part, name), getattr(expected, name), **close)
    torch.testing.assert_close([r.compute() for r in part.rows], [r.compute() for r in expected.rows], **close)
    assert (part.grids, part.prefix_tokens) == (expected.grids, expected.prefix_tokens)
    for regions, other in zip(part.regions, expected.regions, strict=True):
        assert (regions is None and other is None) or torch.equal(regions, other)


def test_a_part_that_is_not_on_the_tape_is_refused() -> None:
    model, images = build("fan_vit")
    with rv.record(model) as tape:
        model(images)
    for start, stop, of in ((0, 1, 3), (1, 1, 2), (0, 3, 2), (-1, 1, 2)):
        with refused(ValueError, start, stop, of, 2):
            tape.part(start, stop, of)


def test_windows_say_which_token_stands_where() -> None:
    model, images = build("swin")
    model.eval()
    with torch.no_grad(), rv.record(model) as tape:
        model(images)
    for windows, (H, W) in zip(tape.windows, tape.grids, strict=True):
        assert sorted(windows[windows >= 0].tolist()) == list(range(H * W))
    assert tape.windows[0][0].tolist() == [16 * row + column for row in range(4) for column in range(4)]
    assert tape.windows[1][0].tolist() == [16 * row + column for row in range(2, 6) for column in range(2, 6)]  # shifted by 2
    other, images = build("vit")
    with torch.no_grad(), rv.record(other) as tape:
        other(images)
    assert tape.windows == [None] * len(tape.grids)
