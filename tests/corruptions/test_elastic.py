from __future__ import annotations

import golden
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from robustvit.corruptions.registry import corrupt


def test_the_published_stream_gives_the_published_images() -> None:
    cells = golden.files("seeded", "elastic_transform")
    assert len(cells) == 13
    for folder, name, severity in cells:
        family = golden.FAMILIES[folder]
        ours = corrupt(golden.picture(folder), name, severity, family=family, seed=1234 + severity, legacy_rng=True)
        largest, share = golden.difference(ours, golden.picture(folder, f"seeded/{name}_{severity}"))
        assert largest <= 1, (folder, severity)
        assert share <= (0.0 if family == "arbitrary" else 0.0015), (folder, severity)


@given(
    level=st.integers(0, 255), severity=st.integers(1, 5), size=st.sampled_from([(32, 32), (64, 64), (224, 224), (240, 330)])
)
@settings(max_examples=15, deadline=None)
def test_an_empty_image_stays_as_it_is(level: int, severity: int, size: tuple[int, int]) -> None:
    flat = torch.full((1, 3, *size), level, dtype=torch.uint8)
    assert torch.equal(corrupt(flat, "elastic_transform", severity), flat)


@given(severity=st.integers(1, 5), ids=st.permutations([4, 7, 9]), size=st.sampled_from([(32, 32), (48, 70), (230, 210)]))
@settings(max_examples=12, deadline=None)
def test_a_image_is_changed_alike_alone_and_in_a_batch(severity: int, ids: list[int], size: tuple[int, int]) -> None:
    images = torch.randint(0, 256, (3, 3, *size), dtype=torch.uint8)
    before = images.clone()
    together = corrupt(images, "elastic_transform", severity, sample_ids=ids)
    for image, out, sample_id in zip(images, together, ids, strict=True):
        assert torch.equal(corrupt(image, "elastic_transform", severity, sample_ids=sample_id), out)
    assert torch.equal(images, before)


def test_displacements_grow_with_the_severity_at_arbitrary_sizes() -> None:
    ramp = torch.arange(240, dtype=torch.uint8).expand(4, 3, 240, 240)
    moved = [(corrupt(ramp, "elastic_transform", s, seed=1).double() - ramp)[..., 40:200].std() for s in range(1, 6)]
    alphas = torch.tensor([12.5, 16.25, 21.25, 25, 30], dtype=torch.float64)
    # smoothed noise: (0.005 H / sqrt 3) / sqrt(4 pi sigma^2) pixels for each unit of alpha
    expected = alphas * 0.005 * 240 / 3**0.5 / (4 * torch.pi * 2.4**2) ** 0.5
    assert torch.allclose(torch.stack(moved), expected, rtol=0.15)
