"""Token-aware pooling and its alternatives, against their definitions."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F

import robustvit as rv
from robustvit.layers import token_pooling
from robustvit.layers.token_pooling import TokenPooling, build_token_pooling, pooled_blocks

GRIDS = st.tuples(st.integers(1, 9), st.integers(1, 9))
BRANCHES = st.integers(2, 6)
WINDOWS = st.sampled_from(["dilated", "multi_kernel"])


def as_map(x: Tensor, grid: tuple[int, int]) -> Tensor:
    return x.transpose(1, 2).reshape(x.shape[0], -1, *grid)


def as_tokens(z: Tensor) -> Tensor:
    return z.flatten(2).transpose(1, 2)


def pooling_with_statistics(dim: int, branches: int, window: str) -> TokenPooling:
    pooling = TokenPooling(dim, branches, window=window)
    nn.init.normal_(pooling.predictor[0].weight)
    nn.init.normal_(pooling.predictor[2].weight)
    pooling.predictor[1].running_mean.normal_()
    pooling.predictor[1].running_var.uniform_(0.5, 2)
    return pooling.eval()


def by_unfolding(pooling: TokenPooling, x: Tensor, grid: tuple[int, int]) -> Tensor:
    """The definition: a weighted sum of means over unfolded neighbourhoods, padding counted."""
    z = as_map(x, grid)
    weights = pooling.predictor(z).softmax(1)
    pooled = weights[:, :1] * z
    for r in range(1, pooling.branches):
        if pooling.window == "dilated":
            neighbours = F.unfold(z, 3, dilation=r, padding=r)
        else:
            neighbours = F.unfold(z, 2 * r + 1, padding=r)
        mean = neighbours.reshape(*z.shape[:2], -1, z.shape[2] * z.shape[3]).mean(2).reshape(z.shape)
        pooled = pooled + weights[:, r : r + 1] * mean
    return as_tokens(pooled)


@settings(max_examples=25, deadline=None)
@given(grid=GRIDS, branches=BRANCHES, window=WINDOWS)
@pytest.mark.parametrize("limit", [0, 10**6], ids=["maps", "matrix"])
def test_both_paths_are_the_unfolding_definition(limit: int, grid: tuple[int, int], branches: int, window: str) -> None:
    pooling = pooling_with_statistics(5, branches, window)
    x = torch.randn(2, grid[0] * grid[1], 5)
    with pytest.MonkeyPatch.context() as patch, torch.no_grad():
        patch.setattr(token_pooling, "DENSE_LIMIT", limit)
        torch.testing.assert_close(pooling(x, grid), by_unfolding(pooling, x, grid), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("window", ["dilated", "multi_kernel"])
def test_both_paths_have_the_same_gradient(monkeypatch: pytest.MonkeyPatch, window: str) -> None:
    pooling = pooling_with_statistics(4, 4, window)
    gradients = []
    for limit in (0, 10**6):
        monkeypatch.setattr(token_pooling, "DENSE_LIMIT", limit)
        x = torch.arange(120.0).sin().reshape(1, 30, 4).requires_grad_()
        pooling.zero_grad()
        pooling(x, (5, 6)).square().sum().backward()
        gradients.append([x.grad, *(p.grad.clone() for p in pooling.parameters())])
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@settings(max_examples=25, deadline=None)
@given(branches=st.integers(2, 4), window=WINDOWS, value=st.floats(-10, 10))
def test_a_constant_map_is_unchanged_away_from_the_border(branches: int, window: str, value: float) -> None:
    pooling = pooling_with_statistics(3, branches, window)
    reach = branches - 1
    grid = (2 * reach + 3, 2 * reach + 2)
    with torch.no_grad():
        pooled = as_map(pooling(torch.full((1, grid[0] * grid[1], 3), value), grid), grid)
    interior = pooled[:, :, reach:-reach, reach:-reach]
    torch.testing.assert_close(interior, torch.full_like(interior, value), rtol=1e-4, atol=1e-5)


def test_padding_counts_in_the_mean() -> None:
    pooling = TokenPooling(1, 2).eval()
    for parameter in pooling.parameters():
        nn.init.zeros_(parameter)  # equal weights for both branches
    with torch.no_grad():
        corner = pooling(torch.ones(1, 9, 1), (3, 3))[0, 0, 0]
    assert corner.item() == pytest.approx(0.5 * 1 + 0.5 * 4 / 9)


def test_the_mixture_is_one_for_all_channels_and_differs_between_tokens() -> None:
    pooling = pooling_with_statistics(2, 2, "dilated")
    x = torch.randn(1, 49, 2)
    x[..., 1] = 2 * x[..., 0]
    with torch.no_grad():
        pooled = pooling(x, (7, 7))
        weights = pooling.predictor(as_map(x, (7, 7))).softmax(1)
    torch.testing.assert_close(pooled[..., 1], 2 * pooled[..., 0])
    assert weights.flatten(2).std(-1).min() > 0


@pytest.mark.parametrize("kernel", [3, 5])
def test_average_pooling_is_torchs(kernel: int) -> None:
    x = torch.randn(2, 35, 4)
    expected = as_tokens(F.avg_pool2d(as_map(x, (5, 7)), kernel, 1, kernel // 2))
    torch.testing.assert_close(build_token_pooling(4, f"avg{kernel}x{kernel}")(x, (5, 7)), expected)


@pytest.mark.parametrize("kernel", [3, 5])
def test_convolution_pooling_is_torchs(kernel: int) -> None:
    pooling = build_token_pooling(4, f"conv{kernel}x{kernel}")
    (weight,) = pooling.parameters()
    x = torch.randn(2, 35, 4)
    expected = as_tokens(F.conv2d(as_map(x, (5, 7)), weight, padding=kernel // 2))
    assert weight.shape == (4, 4, kernel, kernel)
    torch.testing.assert_close(pooling(x, (5, 7)), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("K", [2, 4, 5])
@pytest.mark.parametrize("C", [8, 192])
def test_parameters_follow_the_formula_of_the_paper(C: int, K: int) -> None:
    expected = 9 * C * K + 2 * K + 9 * K * K
    for tap in (K, f"multi_kernel{K}"):
        assert sum(p.numel() for p in build_token_pooling(C, tap).parameters()) == expected


@pytest.mark.parametrize("tap", [0, 1])
def test_one_branch_is_no_layer(tap: int) -> None:
    assert build_token_pooling(8, tap) is None
    with pytest.raises(ValueError, match="1 branch"):
        TokenPooling(8, 1)


@pytest.mark.parametrize("tap", [-1, True, 2.5, "avg4x4", "avg3x5", "conv7x7", "multi_kernel1", "multi_kernel", "", None])
def test_an_unknown_pooling_brings_the_choices(tap: object) -> None:
    with pytest.raises(ValueError, match=r"tap=.*avg3x3"):
        build_token_pooling(8, tap)


@pytest.mark.parametrize(
    ("tap_blocks", "depth", "expected"),
    [
        ("all", 12, range(12)),
        ("shallow", 12, range(4)),
        ("deep", 12, range(4, 12)),
        ("shallow", 10, range(3)),
        ("deep", 10, range(3, 10)),
        ([0, -1], 12, [0, 11]),
        ((2, 2), 12, [2]),
        ([], 12, []),
    ],
)
def test_tap_blocks_name_the_blocks(tap_blocks: object, depth: int, expected: object) -> None:
    assert pooled_blocks(4, tap_blocks, depth) == set(expected)


@settings(max_examples=30, deadline=None)
@given(depth=st.integers(1, 60))
def test_shallow_and_deep_share_all_blocks(depth: int) -> None:
    shallow, deep = pooled_blocks(4, "shallow", depth), pooled_blocks(4, "deep", depth)
    assert not shallow & deep
    assert shallow | deep == pooled_blocks(4, "all", depth)


@pytest.mark.parametrize(
    ("tap_blocks", "complaint"), [("middle", "middle"), ([12], "names block 12"), ([-13], "blocks 0 to 11")]
)
def test_blocks_that_do_not_exist_are_refused(tap_blocks: object, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        pooled_blocks(4, tap_blocks, 12)


@pytest.mark.parametrize("name", ["fan_vit_nano", "fan_swin_nano", "rvt_nano", "deit_tiny_patch16_224"])
def test_a_place_for_tap_without_tap_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="tap_blocks='deep' places token-aware pooling, but tap=0 builds none"):
        rv.create_model(name, tap_blocks="deep")


NANO = ["fan_vit_nano", "fan_hybrid_nano", "fan_swin_nano", "rvt_nano"]


def tapped(model: nn.Module) -> list[bool]:
    """Which blocks have a pooling."""
    blocks = [m for m in model.modules() if hasattr(m, "attn") and hasattr(m, "norm2") and "Class" not in type(m).__name__]
    return [any(isinstance(m, TokenPooling) for m in block.modules()) for block in blocks]


@pytest.mark.parametrize("name", NANO)
@pytest.mark.parametrize("tap_blocks", ["all", "shallow", "deep", [1]])
def test_networks_have_tap_where_they_are_told(name: str, tap_blocks: object) -> None:
    flags = tapped(rv.create_model(name, tap=4, tap_blocks=tap_blocks))
    assert {i for i, flag in enumerate(flags) if flag} == pooled_blocks(4, tap_blocks, len(flags))


def test_no_blocks_means_no_tap() -> None:
    assert not any(tapped(rv.create_model("fan_vit_nano", tap=4, tap_blocks=[])))


@pytest.mark.parametrize("name", NANO)
def test_one_branch_is_the_network_without_tap(name: str) -> None:
    torch.manual_seed(1)
    without = rv.create_model(name).eval()
    torch.manual_seed(1)
    one = rv.create_model(name, tap=1).eval()
    assert one.state_dict().keys() == without.state_dict().keys()
    x = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        torch.testing.assert_close(one(x), without(x), rtol=0, atol=0)


@pytest.mark.parametrize("name", NANO)
@pytest.mark.parametrize("tap", [4, "avg3x3", "avg5x5", "conv3x3", "conv5x5", "multi_kernel4"])
def test_every_pooling_trains_in_every_family(name: str, tap: object) -> None:
    model = rv.create_model(name, tap=tap)
    model(torch.randn(2, 3, 32, 32)).square().sum().backward()
    added = [p for n, p in model.named_parameters() if ".tap." in n]
    assert bool(added) == (tap not in ("avg3x3", "avg5x5"))
    assert all(p.grad is not None and p.grad.isfinite().all() for p in added)
    assert all(p.grad.abs().max() > 0 for p in added if p.ndim == 4)


@pytest.mark.parametrize("name", NANO)
def test_a_tap_that_keeps_every_token_changes_nothing(name: str) -> None:
    """The pooling sits before the norm, and identity weights give the network without TAP."""
    model = rv.create_model(name, tap=3).eval()
    for module in model.modules():
        if isinstance(module, TokenPooling):
            nn.init.zeros_(module.predictor[0].weight)
            nn.init.zeros_(module.predictor[2].weight)
            module.predictor[1].bias.data = torch.tensor([1.0, 0.0, 0.0])
            module.predictor[2].weight.data[0, 0] = 1000.0  # branch 0 wins everywhere
    plain = rv.create_model(name).eval()
    plain.load_state_dict({k: v for k, v in model.state_dict().items() if ".tap." not in k})
    x = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        torch.testing.assert_close(model(x), plain(x), rtol=1e-5, atol=1e-5)
