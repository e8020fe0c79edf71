"""RandAugment: the two views of a sample share what is spatial."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from refusals import refused

from robustvit.training.augment.keyed_timm import keyed_copy
from robustvit.training.augment.views import SPATIAL_OPERATIONS, RandAugmentPair, jitter_colors

RECIPE = "rand-m9-mstd0.5-inc1"
IMAGE = Image.fromarray(np.random.RandomState(0).randint(0, 256, (24, 32, 3), np.uint8))


FILL = np.array([124, 116, 104])


def pair(recipe: str = RECIPE, interpolation: str = "random") -> RandAugmentPair:
    return RandAugmentPair(recipe, fill=tuple(FILL.tolist()), size=(24, 32), interpolation=interpolation)


def drawn_names(seed: int, monkeypatch: pytest.MonkeyPatch, recipe: str = RECIPE) -> list[str]:
    """The operations that touch the image of a sample, in order."""
    names: list[str] = []
    table = keyed_copy("auto_augment").AugmentOp
    plain = table.__call__

    def noting(self: object, image: Image.Image) -> Image.Image:
        result = plain(self, image)
        if result is not image:
            names.append(self.name)  # type: ignore[attr-defined]
        return result

    monkeypatch.setattr(table, "__call__", noting)
    pair(recipe)(IMAGE, seed, with_view=False)
    monkeypatch.undo()
    return names


def test_the_views_are_equal_where_only_spatial_operations_were_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    spatial = changed = 0
    for seed in range(300):
        names = drawn_names(seed, monkeypatch)
        if names and set(names) <= SPATIAL_OPERATIONS:
            student, view = pair()(IMAGE, seed, with_view=True)
            assert view is not None
            assert student.tobytes() == view.tobytes()
            changed += student.tobytes() != IMAGE.tobytes()
            spatial += 1
    assert spatial > 20
    assert changed == spatial


def test_the_view_has_the_spatial_operations_of_a_mixed_draw_and_no_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    recipe, orders = "rand-m9-mstd0.5-p1.0-inc1", []
    for seed in range(600):
        names = drawn_names(seed, monkeypatch, recipe)
        if names.count("Invert") != 1 or not set(names) & SPATIAL_OPERATIONS:
            continue
        student, view = (np.asarray(image).astype(int) for image in pair(recipe)(IMAGE, seed, with_view=True))
        seen = (view != FILL).any(-1) & (student != FILL).any(-1)
        # inverting can be undone, up to the rounding of the filter if that came later, and must then give the view
        assert abs(255 - student - view)[seen].max() <= (names[0] == "Invert")
        orders.append(names.index("Invert"))
    assert set(orders) == {0, 1}


def test_the_view_of_a_draw_of_colours_is_the_image(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = [seed for seed in range(60) if not set(drawn_names(seed, monkeypatch)) & SPATIAL_OPERATIONS]
    assert all(pair()(IMAGE, seed, with_view=True)[1] == IMAGE for seed in drawn)
    assert len(drawn) > 20


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**64 - 1))
def test_a_sample_is_augmented_alike_with_and_without_a_view(seed: int) -> None:
    alone, nothing = pair()(IMAGE, seed, with_view=False)
    student, _ = pair()(IMAGE, seed, with_view=True)
    assert nothing is None
    assert alone.tobytes() == student.tobytes()


def test_the_shared_generators_are_left_alone() -> None:
    random.seed(4)
    np.random.seed(4)
    pair()(IMAGE, 1, with_view=True)
    jitter_colors(IMAGE, 1, 0.4)
    assert random.random() == random.Random(4).random()
    assert np.random.rand() == np.random.RandomState(4).rand()


def test_the_greatest_magnitude_of_posterize_keeps_a_bit() -> None:
    pair()
    operation = keyed_copy("auto_augment").NAME_TO_OP["PosterizeIncreasing"]
    assert set(np.unique(np.asarray(operation(IMAGE, 0)))) == {0, 128}
    for seed in range(200):  # magnitude 10: every posterizing asks for 0 bits
        pair("rand-m10-p1.0-inc1")(IMAGE, seed, with_view=False)


def test_what_comes_in_from_outside_has_the_fill_colour() -> None:
    corners = {
        pair("rand-m10-n1-p1.0-inc1", "bilinear")(IMAGE, seed, with_view=True)[1].getpixel((0, 0))  # type: ignore[union-attr]
        for seed in range(60)
    }
    assert (124, 116, 104) in corners


@pytest.mark.parametrize("recipe", ["augmix-m5", "rand-m9-z3", "rand-mfast9"])
def test_a_recipe_that_timm_does_not_know_is_refused(recipe: str) -> None:
    with refused(ValueError, recipe, "rand-m9-mstd0.5-inc1"):
        pair(recipe)


def test_colour_jitter_is_a_function_of_the_seed_and_bounded_by_its_strength() -> None:
    grey = Image.new("RGB", (4, 4), (100, 100, 100))
    levels = [jitter_colors(grey, seed, 0.3).getpixel((0, 0))[0] for seed in range(50)]  # type: ignore[index]
    assert levels == [jitter_colors(grey, seed, 0.3).getpixel((0, 0))[0] for seed in range(50)]  # type: ignore[index]
    assert 69 <= min(levels) < 80
    assert 120 < max(levels) <= 130
