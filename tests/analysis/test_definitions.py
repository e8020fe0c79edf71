"""Each analysis on a case that can be computed by hand."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import robustvit as rv
from robustvit.analysis.attention_stability import Stability, attention_cosines
from robustvit.analysis.bottleneck import attention_step, bottleneck_step, group_points
from robustvit.analysis.eigenvalues import count_above, largest_eigenvalue, significant_eigenvalues
from robustvit.analysis.head_diversity import head_similarity
from robustvit.analysis.noise_decay import noise_decay
from robustvit.analysis.overfocus import overfocus_of
from robustvit.recording.tape import Tape


def tape_of(*maps: Tensor, prefix: int = 0) -> Tape:
    """A tape of whole maps [B, heads, N, N]."""
    tape = Tape(prefix)
    tape.attention = list(maps)
    tape.grids = [(1, m.shape[-1] - prefix) for m in maps]
    tape.windows = [None for _ in maps]
    return tape


def padded_tape(maps: Tensor, real: int) -> Tape:
    """One window [1, heads, M, M] of which the first `real` places are tokens."""
    tape = tape_of(maps)
    tape.grids, tape.windows = [(1, real)], [torch.tensor([[*range(real)] + [-1] * (maps.shape[-1] - real)])]
    return tape


def test_what_pads_a_window_takes_no_part_in_a_statistic() -> None:
    generator = torch.Generator().manual_seed(0)
    maps = torch.rand(2, 1, 2, 6, 6, generator=generator)
    other = maps.clone()
    other[..., 4:, :], other[..., :, 4:] = 9.0, 9.0
    for of_tape in (
        lambda first, second: attention_cosines(first, second, 1)[0],
        lambda first, second: head_similarity(first, 1),
        lambda first, second: torch.stack(list(vars(overfocus_of(first, 1)).values())),
    ):
        small = of_tape(tape_of(maps[0, ..., :4, :4]), tape_of(maps[1, ..., :4, :4]))
        torch.testing.assert_close(of_tape(padded_tape(maps[0], 4), padded_tape(maps[1], 4)), small)
        torch.testing.assert_close(of_tape(padded_tape(other[0], 4), padded_tape(other[1], 4)), small)


class Halving(nn.Module):
    """Two residual blocks, of which each halves what comes in."""

    class HalfBlock(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(3, 3, 1, bias=False)
            self.conv.weight.data = 0.5 * torch.eye(3)[:, :, None, None]

        def forward(self, x: Tensor) -> Tensor:
            return self.conv(x)

    def __init__(self) -> None:
        super().__init__()
        self.stages = nn.Sequential(self.HalfBlock(), self.HalfBlock())

    def forward(self, x: Tensor) -> Tensor:
        return self.stages(x).mean((2, 3))


def test_a_linear_network_keeps_the_share_of_the_noise_and_halves_noise_alone() -> None:
    images = 2 * torch.ones(3, 3, 16, 16)
    share = noise_decay(Halving(), [images], sigma=0.5)
    assert share[0] == pytest.approx(share[1])  # both are halved
    assert share.tolist() == pytest.approx([0.25] * 2, rel=0.05)  # ||0.5 n|| / ||2||, n ~ N(0, 1)
    assert noise_decay(Halving(), [images], kind="input").tolist() == pytest.approx([1.0, 0.5])
    by_id = [noise_decay(Halving(), [(names, images[:2])]) for names in (["a", "b"], ["b", "a"], ["a", "c"])]
    torch.testing.assert_close(by_id[0], by_id[1])
    assert not torch.equal(by_id[0], by_id[2])


def test_class_tokens_take_no_part_in_the_decay_of_noise() -> None:
    model = rv.create_model("vit_tiny_patch16_224", img_size=32, num_classes=2, depth=2)
    before = noise_decay(model, [torch.zeros(1, 3, 32, 32)])
    hook = model.blocks[1].register_forward_hook(
        lambda module, inputs, output: torch.cat([1e6 * torch.ones_like(output[:, :1]), output[:, 1:]], dim=1)
    )
    torch.testing.assert_close(noise_decay(model, [torch.zeros(1, 3, 32, 32)]), before)
    hook.remove()


def identity(heads: int = 1, N: int = 6) -> Tensor:
    return torch.eye(N).expand(1, heads, N, N)


def uniform(heads: int = 1, N: int = 6) -> Tensor:
    return torch.full((1, heads, N, N), 1 / N)


def test_equal_maps_have_cosine_1_and_identity_against_uniform_1_over_root_n() -> None:
    same = attention_cosines(tape_of(identity()), tape_of(identity()), 1)
    other = attention_cosines(tape_of(identity()), tape_of(uniform()), 1)
    assert same[0].item() == pytest.approx(1)
    assert other[0].item() == pytest.approx(1 / math.sqrt(6))  # <I, 1/N> = 1; |I| = sqrt N; |1/N| = 1


def test_centred_even_maps_have_cosine_0_and_equal_uneven_ones_1() -> None:
    def centred(a: Tensor, b: Tensor) -> float:
        return attention_cosines(tape_of(a), tape_of(b), 1, centred=True)[0].item()

    assert attention_cosines(tape_of(uniform()), tape_of(uniform()), 1)[0].item() == pytest.approx(1)
    assert centred(uniform(), uniform()) == 0
    assert centred(identity(), uniform()) == 0
    assert centred(identity(), identity()) == pytest.approx(1)
    half = (identity() + uniform()) / 2  # the same pattern on an even ground
    assert centred(identity(), half) == pytest.approx(1)
    assert centred(identity(), uniform() - 0.1 * identity()) == pytest.approx(-1, abs=1e-5)


def test_centred_cosines_are_those_of_maps_without_their_row_means() -> None:
    a, b = torch.rand(2, 2, 3, 6, 6)
    expected = torch.nn.functional.cosine_similarity(
        (a - a.mean(-1, keepdim=True)).flatten(2), (b - b.mean(-1, keepdim=True)).flatten(2), dim=-1
    )
    for rows in (None, 1, 4):
        found = attention_cosines(tape_of(a), tape_of(b), 2, centred=True, rows=rows)[0]
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_attention_that_class_tokens_leave_next_to_nothing_of_has_the_same_cosines() -> None:
    a, b = torch.rand(2, 1, 3, 5, 5, generator=torch.Generator().manual_seed(0))
    for scale in (1e-12, 1e-20, 1e-25):
        faint = (tape_of(a), tape_of(b * scale))
        torch.testing.assert_close(attention_cosines(*faint, 1), attention_cosines(tape_of(a), tape_of(b), 1))
        torch.testing.assert_close(head_similarity(faint[1], 1), head_similarity(tape_of(b), 1))
        similar, usual = overfocus_of(faint[1], 1).row_similarity, overfocus_of(tape_of(b), 1).row_similarity
        torch.testing.assert_close(similar, usual)


def test_prefix_tokens_take_no_part_in_a_statistic() -> None:
    a, b = torch.rand(2, 1, 2, 5, 5)
    spoiled = b.clone()
    spoiled[:, :, 0], spoiled[:, :, :, 0] = 9, 9
    plain = attention_cosines(tape_of(a[..., 1:, 1:]), tape_of(b[..., 1:, 1:]), 1)
    torch.testing.assert_close(attention_cosines(tape_of(a, prefix=1), tape_of(spoiled, prefix=1), 1), plain)


@settings(deadline=None, max_examples=10)
@given(rows=st.integers(1, 9))
def test_chunks_of_rows_give_what_whole_maps_give(rows: int) -> None:
    generator = torch.Generator().manual_seed(0)
    first, second = (tape_of(*torch.rand(3, 2, 4, 7, 7, generator=generator).softmax(-1)) for _ in range(2))
    torch.testing.assert_close(attention_cosines(first, second, 2, rows=rows), attention_cosines(first, second, 2))
    torch.testing.assert_close(head_similarity(first, 2, rows=rows), head_similarity(first, 2))
    some, whole = overfocus_of(first, 2, rows=rows), overfocus_of(first, 2)
    torch.testing.assert_close(vars(some), vars(whole))


def test_the_worst_twentieth_is_the_mean_of_the_smallest() -> None:
    stability = Stability(torch.arange(40.0), [], torch.arange(2.0), [])
    assert stability.worst == 0.5
    assert stability.mean == 19.5
    assert stability.centred == 0.5
    assert Stability(torch.tensor([0.3]), [], torch.tensor([0.1]), []).worst == pytest.approx(0.3)


def test_equal_heads_are_not_diverse_and_heads_that_share_nothing_are() -> None:
    split = torch.zeros(1, 2, 4, 4)
    split[:, 0, :, :2], split[:, 1, :, 2:] = 0.5, 0.5
    found = head_similarity(tape_of(uniform(3), split), 1)
    assert found[:, 0].tolist() == pytest.approx([1.0, 0.0])


def test_uniform_and_identity_attention_focus_on_nothing_and_one_column_on_one() -> None:
    column = torch.zeros(1, 1, 10, 10)
    column[..., 3] = 1
    found = overfocus_of(tape_of(uniform(N=10), identity(N=10), column), 1)
    assert found.top_share[:, 0].tolist() == pytest.approx([0.5, 0.5, 1.0])
    assert found.crowded[:, 0].tolist() == [0, 0, 1]
    assert found.row_similarity[:, 0].tolist() == pytest.approx([1, 1 / math.sqrt(10), 1])


@pytest.mark.parametrize("shape", [(20, 12), (12, 20)])
def test_counts_of_a_known_spectrum(shape: tuple[int, int]) -> None:
    generator = torch.Generator().manual_seed(0)
    N, C = shape
    left = torch.linalg.qr(torch.randn(N, 12, generator=generator, dtype=torch.float64)).Q
    right = torch.linalg.qr(torch.randn(C, 12, generator=generator, dtype=torch.float64)).Q
    singular = torch.tensor([10, 9, 8, 2, 1.1, 0.9, 0.5] + [0.0] * 5, dtype=torch.float64)  # squares: 1 % of 100 is 1
    Z = (left * singular) @ right.T
    assert significant_eigenvalues(Z[None]).tolist() == [5]
    assert significant_eigenvalues(Z[None], epsilon=0.5).tolist() == [3]
    assert significant_eigenvalues(100 * Z[None]).tolist() == [5]


@settings(deadline=None, max_examples=25)
@given(n=st.integers(1, 12), rank=st.integers(0, 12), seed=st.integers(0, 1000))
def test_inertia_and_lanczos_steps_agree_with_the_spectrum(n: int, rank: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    Z = torch.randn(2, n, rank, generator=generator, dtype=torch.float64)
    gram = Z @ Z.mT
    spectrum = torch.linalg.eigvalsh(gram)
    largest = largest_eigenvalue(gram)
    torch.testing.assert_close(largest, spectrum[:, -1], rtol=1e-3, atol=1e-12)
    threshold = torch.tensor([0.3, 2.0], dtype=torch.float64)
    assert count_above(gram, threshold).tolist() == (spectrum > threshold[:, None]).sum(1).tolist()


def test_groups_of_tokens_at_right_angles_are_counted_whatever_their_lengths() -> None:
    few_long, many_short = 2 * torch.eye(8)[:1].repeat(5, 1), torch.eye(8)[1:2].repeat(50, 1)
    Z = torch.cat([few_long, many_short])[None]  # eigenvalues 20 and 50: two perfect groups
    assert largest_eigenvalue(Z @ Z.mT).item() == pytest.approx(50, rel=1e-3)
    assert [significant_eigenvalues(Z, epsilon).item() for epsilon in (0.01, 0.39, 0.41)] == [2, 2, 1]
    third = 0.4 * torch.eye(8)[2:3]  # 0.16: below 0.01 of 50, above 0.01 of what the longest token has
    assert significant_eigenvalues(torch.cat([few_long, many_short, third])[None]).item() == 2
    assert significant_eigenvalues(torch.zeros(1, 5, 3)).item() == 0


def test_counts_do_not_depend_on_the_number_of_threads_which_stays() -> None:
    Z = torch.randn(5, 30, 20, generator=torch.Generator().manual_seed(0)) * torch.logspace(0, -2, 20)
    alone = significant_eigenvalues(Z)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        assert torch.equal(significant_eigenvalues(Z), alone)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert len(set(alone.tolist())) > 1 or alone[0] < 20


def gaussians() -> tuple[Tensor, Tensor]:
    """Points [90, 2] around three centres at equal distance from the origin."""
    generator = torch.Generator().manual_seed(0)
    angles = torch.tensor([0.3, 2.4, 4.5])
    centres = 3 * torch.stack([angles.cos(), angles.sin()], dim=1)
    points = centres.repeat_interleave(30, 0) + 0.3 * torch.randn(90, 2, generator=generator)
    return points, centres


@pytest.mark.parametrize("factor", ["printed", "magnitude", "mean"])
def test_the_bottleneck_step_is_attention_where_the_centres_have_one_norm(factor: str) -> None:
    points, _ = gaussians()
    covariance = torch.tensor([[0.5, 0.1], [0.1, 0.4]])
    root = torch.linalg.cholesky(covariance)
    directions = torch.nn.functional.normalize(torch.tensor([[1.0, 0.2], [-0.5, 1.0], [0.1, -1.0]]), dim=1)
    centres = directions @ root.T  # mu^T Sigma^-1 mu = 1
    shares = torch.tensor([0.2, 0.3, 0.5])
    step = bottleneck_step(points, centres, shares, covariance, factor)  # type: ignore[arg-type]
    torch.testing.assert_close(attention_step(points, centres, shares, covariance, factor), step)  # type: ignore[arg-type]
    unequal = centres * torch.tensor([[1.0], [2.0], [3.0]])
    one, other = (f(points, unequal, shares, covariance, factor) for f in (bottleneck_step, attention_step))  # type: ignore[arg-type]
    assert not torch.allclose(one, other, rtol=0.01)


def test_as_printed_the_factor_is_negative_and_flips_the_centres() -> None:
    points, centres = gaussians()
    shares, covariance = torch.full((3,), 1 / 3), torch.eye(2)
    printed = bottleneck_step(points, centres, shares, covariance, "printed")
    magnitude = bottleneck_step(points, centres, shares, covariance, "magnitude")
    torch.testing.assert_close(printed, -magnitude)


def test_steps_towards_the_means_find_the_groups() -> None:
    points, centres = gaussians()
    path = group_points(points, torch.tensor([[1.0, 0.0], [-1.0, 0.5], [0.0, -1.0]]), 0.5 * torch.eye(2), 12)
    assert len(path) == 13
    found = torch.cdist(path[-1], centres).min(0).values
    assert (found < 0.2).all()
