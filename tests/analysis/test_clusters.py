"""Groups of tokens: perfect clusters are found, agreement and colours are as defined."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from refusals import refused

import robustvit as rv
from robustvit.analysis.clusters import Clustering, agreement, cluster_tokens, clusters_of, matched


def blocks_of_tokens(groups: int = 2) -> torch.Tensor:
    """[36, 12]: the tokens of a 6 x 6 grid, each column pair of which is one group with a channel of its own."""
    which = torch.arange(36) % 6 // (6 // groups)
    noise = 0.01 * torch.randn(36, 12, generator=torch.Generator().manual_seed(0))
    return 8 * torch.nn.functional.one_hot(which, 12).float() + noise


@pytest.mark.parametrize("groups", [2, 3])
@pytest.mark.parametrize("given", [True, False])
def test_perfect_clusters_are_found_with_their_number_given_or_from_the_eigengap(groups: int, given: bool) -> None:
    found = cluster_tokens(blocks_of_tokens(groups), (6, 6), groups if given else None)
    assert found.k == groups
    expected = np.tile(np.arange(6) // (6 // groups), (6, 1))
    assert agreement(found, Clustering(expected, found.eigenvalues)) == pytest.approx(1)


def test_agreement_is_1_for_renamed_groups_and_near_0_for_chance() -> None:
    first = Clustering(np.arange(64).reshape(8, 8) // 32, np.zeros(1))
    renamed = Clustering(1 - first.labels, np.zeros(1))
    chance = Clustering(np.random.RandomState(0).randint(0, 2, (8, 8)), np.zeros(1))
    assert agreement(first, renamed) == 1
    assert abs(agreement(first, chance)) < 0.2


def test_groups_get_the_numbers_of_those_they_overlap_most() -> None:
    first = Clustering(np.array([[0, 0, 1, 1, 2, 2]]), np.zeros(1))
    other = Clustering(np.array([[2, 2, 0, 0, 1, 0]]), np.zeros(1))
    assert matched(first, other).labels.tolist() == [[0, 0, 1, 1, 2, 1]]


def test_the_tokens_of_any_block_of_a_network_are_grouped() -> None:
    torch.manual_seed(0)
    model = rv.create_model("fan_vit_nano", num_classes=10)
    images = torch.randn(2, 3, 32, 32)
    found = clusters_of(model, images, k=3)
    assert [one.labels.shape for one in found] == [(8, 8)] * 2
    assert all(set(one.labels.ravel()) == {0, 1, 2} for one in found)
    sizes = np.bincount(found[0].labels.ravel())
    assert (np.diff(sizes) <= 0).all()  # the largest first
    assert np.array_equal(clusters_of(model, images[1:], k=3)[0].labels, found[1].labels)
    with pytest.raises(ValueError, match="this network has"):
        clusters_of(model, images, layer=99)
    with refused(ValueError, "5 groups"):
        cluster_tokens(torch.randn(4, 8), (2, 2), 5)


@pytest.mark.parametrize("channels", [3, 12, 40])
def test_groups_do_not_depend_on_which_gram_matrix_gives_the_eigenvectors(
    channels: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = torch.randn(36, channels, generator=torch.Generator().manual_seed(1))
    tokens[:18] += 3 * torch.arange(channels) / channels
    found = cluster_tokens(tokens, (6, 6), 3)
    z = tokens.double().softmax(-1)
    S = z @ z.T
    scale = S.sum(1).rsqrt()
    values = torch.linalg.eigvalsh(scale[:, None] * S * scale[None]).flip(0)
    expected = values[: len(found.eigenvalues)].clamp(min=0)
    np.testing.assert_allclose(np.maximum(found.eigenvalues, 0), expected, atol=1e-9)
    monkeypatch.setattr("robustvit.analysis.clusters.LEAST", 2.0)  # no eigenvalue is that large: the whole affinity is used
    assert agreement(found, cluster_tokens(tokens, (6, 6), 3)) == 1
