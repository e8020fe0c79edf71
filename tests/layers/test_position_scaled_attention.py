"""RVT's masks: the attention they scale, and how they follow the grid."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

import robustvit as rv
from robustvit.layers.position_scaled_attention import PositionScaledAttention, resize_mask

SIDES = st.integers(2, 7)


def test_attention_is_the_formula() -> None:
    attention = PositionScaledAttention(12, 3, grid=(2, 3)).eval()
    torch.nn.init.normal_(attention.mask, std=4)
    x = torch.randn(2, 6, 12)
    with torch.no_grad():
        out = attention(x)
        q, k, v = attention.qkv(x).chunk(3, -1)
        parts = []
        for h in range(3):
            part = slice(4 * h, 4 * h + 4)
            scores = q[..., part] @ k[..., part].transpose(1, 2) / 2 * attention.mask[h].sigmoid()
            parts.append(scores.softmax(-1) @ v[..., part])
        expected = attention.proj(torch.cat(parts, -1))
    torch.testing.assert_close(out, expected)


def test_the_same_grid_keeps_the_mask_as_it_is() -> None:
    mask = torch.randn(2, 12, 12)
    assert torch.equal(resize_mask(mask, (3, 4), (3, 4)), mask)


@settings(max_examples=20, deadline=None)
@given(before=st.tuples(SIDES, SIDES), after=st.tuples(SIDES, SIDES), value=st.floats(-5, 5))
def test_a_constant_mask_stays_constant(before: tuple[int, int], after: tuple[int, int], value: float) -> None:
    N, M = before[0] * before[1], after[0] * after[1]
    resized = resize_mask(torch.full((2, N, N), value), before, after)
    torch.testing.assert_close(resized, torch.full((2, M, M), value), rtol=1e-5, atol=1e-5)


def along(grid: tuple[int, int], axis: int) -> torch.Tensor:
    """[N]: the coordinate of each position on one axis, 0 and 1 being the edges of the picture."""
    H, W = grid
    coordinates = torch.meshgrid((torch.arange(H) + 0.5) / H, (torch.arange(W) + 0.5) / W, indexing="ij")
    return coordinates[axis].flatten()


@pytest.mark.parametrize("after", [(12, 20), (16, 10)], ids=str)
@pytest.mark.parametrize("axis", [0, 1], ids=["rows", "columns"])
@pytest.mark.parametrize("side", ["query", "key"])
def test_a_ramp_over_queries_or_keys_stays_that_ramp(side: str, axis: int, after: tuple[int, int]) -> None:
    """A mask that depends linearly on the place of the query (or of the key) says the same on the other grid."""
    before = (8, 10)

    def ramp(grid: tuple[int, int]) -> torch.Tensor:
        place = along(grid, axis)
        N = len(place)
        return (place[:, None] if side == "query" else place[None]).expand(1, N, N).contiguous()

    resized, expected = resize_mask(ramp(before), before, after), ramp(after)
    borders = along(after, axis)
    inside = ((borders > 0.25) & (borders < 0.75)).nonzero().flatten()  # the picture ends at the edge
    pick = (slice(None), inside) if side == "query" else (slice(None), slice(None), inside)
    torch.testing.assert_close(resized[pick], expected[pick], rtol=0, atol=0.01)  # PyTorch's cubic (a = -0.75) bends a line


@pytest.mark.parametrize("after", [(12, 20), (3, 7)], ids=str)
def test_a_mask_of_queries_or_keys_alone_is_resized_as_a_image_is(after: tuple[int, int]) -> None:
    before = (4, 5)
    picture = torch.randn(1, 1, *before)
    expected = F.interpolate(picture, size=after, mode="bicubic", align_corners=False).flatten()
    M = len(expected)
    of_query = picture.reshape(1, 20, 1).expand(1, 20, 20)
    torch.testing.assert_close(resize_mask(of_query, before, after)[0], expected[:, None].expand(M, M), rtol=1e-5, atol=1e-5)
    of_key = of_query.transpose(1, 2)
    torch.testing.assert_close(resize_mask(of_key, before, after)[0], expected[None].expand(M, M), rtol=1e-5, atol=1e-5)


def test_heads_are_resized_apart() -> None:
    mask = torch.randn(3, 9, 9)
    resized = resize_mask(mask, (3, 3), (4, 2))
    for head in range(3):
        torch.testing.assert_close(resized[head : head + 1], resize_mask(mask[head : head + 1], (3, 3), (4, 2)))


def test_low_precision_masks_keep_their_type() -> None:
    assert resize_mask(torch.randn(1, 4, 4, dtype=torch.bfloat16), (2, 2), (3, 3)).dtype == torch.bfloat16


def test_set_input_size_resizes_the_masks_only() -> None:
    model = rv.create_model("rvt_nano", masked_blocks=2).eval()
    before = {n: v.clone() for n, v in model.state_dict().items()}
    model.set_input_size((48, 32))
    grid = model.patch_embed.grid_of((48, 32))
    for name, value in model.state_dict().items():
        if name.endswith(".mask_grid"):
            expected = torch.tensor(grid)
        else:
            expected = resize_mask(before[name], (8, 8), grid) if name.endswith(".mask") else before[name]
        assert torch.equal(value, expected), name
    with torch.no_grad():
        assert model(torch.randn(1, 3, 48, 32)).shape == (1, 10)
        with pytest.raises(ValueError, match="set_input_size"):
            model(torch.randn(1, 3, 32, 48))


def test_a_zero_mask_halves_the_logits() -> None:
    attention = PositionScaledAttention(8, 2, grid=(2, 2)).eval()
    torch.nn.init.zeros_(attention.mask)
    x = torch.randn(1, 4, 8)
    with torch.no_grad():
        masked = attention(x)
        attention.mask.fill_(1e4)  # sigmoid = 1: no mask
        attention.scale /= 2
        torch.testing.assert_close(attention(x), masked)
