"""What the page says in words."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from fake_results import around, fake_model, fake_results, three_models, with_differences

from robustvit.evaluation.results import ModelResults, Results, Value
from robustvit.report.headline import headline
from robustvit.report.numbers import change, duration, moment, percent, quantity_interval


def said(results: Results) -> str:
    found = headline(results)
    return " ".join([found.subject, found.claim, *found.lines]).replace("\N{NO-BREAK SPACE}", " ")


def with_mean(name: str, mean: Value, retention: float = 0.7) -> ModelResults:
    model = fake_model(name)
    return replace(model, summary={"mean_accuracy_15": mean, "retention": around(retention), "clean_accuracy": around(0.8)})


def test_one_network_keeps_a_share_of_its_accuracy() -> None:
    text = said(fake_results(with_mean("net", around(0.5), 0.714)))
    assert "net keeps 71 % of its accuracy under common corruptions" in text
    assert "71.4 % (70.2 to 72.6 %) of its accuracy is left" in text


def test_corruptions_do_not_hide_the_strongest_attack() -> None:
    attacked = {"pgd_accuracy": around(0.2), "fgsm_accuracy": around(0.3)}
    model = with_mean("net", around(0.5))
    text = said(fake_results(replace(model, summary=model.summary | attacked)))
    assert "Under PGD, the strongest of 2 attacks, it gets 20.0 % (18.8 to 21.2 %) right." in text


@pytest.mark.parametrize(
    ("suite", "severities", "words"),
    [
        ("noise", (3,), "under noise at severity 3"),
        ("digital", (1,), "under digital damage"),
        ("extra4", (1,), "under 4 corruptions"),
    ],
)
def test_the_corruptions_are_named_as_measured(suite: str, severities: tuple[int, ...], words: str) -> None:
    assert words in said(fake_results(fake_model(suite=suite, severities=severities)))


def test_overlapping_intervals_are_called_chance() -> None:
    close = fake_results(with_mean("a", around(0.50)), with_mean("b", around(0.51)))
    assert "b is the most accurate of 2 networks" in said(close)
    assert headline(close).claim.endswith("but its lead over a may be chance")
    assert "the intervals overlap" in said(close)
    far = fake_results(with_mean("a", around(0.40)), with_mean("b", around(0.51)))
    assert "the intervals do not overlap" in said(far)
    assert "chance" not in said(far)


def test_networks_that_saw_the_same_images_are_told_apart_by_their_difference() -> None:
    close = fake_results(fake_model("a", clean=0.80), fake_model("b", clean=0.81))
    narrow, wide = said(with_differences(close, half=0.003)), said(with_differences(close, half=0.03))
    assert "the difference on the same images is +0.6 points (+0.3 to +0.9)" in narrow  # though the intervals overlap
    assert "on the same images the difference is between \N{MINUS SIGN}2.4 and +3.6 points" in wide
    assert "chance" not in narrow
    assert headline(with_differences(close, half=0.03)).claim.endswith("but its lead over a may be chance")


def test_networks_with_the_same_number_have_no_winner() -> None:
    equal = [with_mean(name, around(0.5)) for name in ("a", "b")]
    for models in (equal, equal[::-1]):
        text = said(fake_results(*models))
        assert " and ".join(model.name for model in models) + " are equal under common corruptions: 50.0 %" in text
        assert "most accurate" not in text
    text = said(fake_results(with_mean("c", around(0.4)), *equal))
    assert "a and b are the best of 3 networks, and equal under common corruptions: 50.0 %" in text
    assert "Next is c with 40.0 %" in text
    many = [replace(fake_model(n), summary={"clean_accuracy": around(0.25)}) for n in "abcd"]
    assert "4 networks are equal: each recognises 25.0 % of the images" in said(fake_results(*many))
    assert "They are a, b, c and d." in said(fake_results(*many))


def test_another_network_that_keeps_a_larger_share_is_mentioned() -> None:
    results = fake_results(with_mean("a", around(0.6), 0.7), with_mean("b", around(0.5), 0.8))
    assert "b keeps the largest share, 80.0 %" in said(results)


def test_checkpoints_are_called_by_their_file() -> None:
    assert headline(three_models()).subject == "fan_hybrid_small-last.safetensors"


def test_fewer_flips_are_better() -> None:
    models = [replace(fake_model(n), summary={"mean_flip_probability": Value(p)}) for n, p in (("a", 0.2), ("b", 0.1))]
    assert "b is the best of 2 networks: it changes its answer at 10.0 % of the frames" in said(fake_results(*models))


def test_nan_comes_last_and_alone_says_that_nothing_was_measured() -> None:
    broken, good = with_mean("a", Value(math.nan)), with_mean("b", around(0.3))
    assert headline(fake_results(broken, good)).subject == "b"
    empty = replace(broken, summary={"clean_accuracy": Value(math.nan)})
    assert said(fake_results(empty)).strip().startswith("Nothing could be measured")


def test_numbers_are_written_for_people() -> None:
    assert percent(0.7149).replace("\N{NO-BREAK SPACE}", " ") == "71.5 %"
    assert percent(math.nan) == percent(None) == "\N{EN DASH}"
    assert duration(4021).replace("\N{NO-BREAK SPACE}", " ") == "1 h 7 min"
    assert moment("yesterday") == "yesterday"
    assert (change("mean_accuracy", -0.0321), change("mean_accuracy", -0.0001)) == ("\N{MINUS SIGN}3.2", "0.0")
    assert change("mean_top5_distance", 1.234) == "+1.23"
    assert quantity_interval("mean_top5_distance", Value(1.2, 1.0, 1.5)) == "1.00 to 1.50"


def test_the_headline_of_attacks_is_about_the_strongest_one() -> None:
    attacked = {"clean_accuracy": around(0.8), "autoattack_accuracy": around(0.4), "patch_fool_accuracy": around(0.1)}
    one = fake_results(replace(fake_model("net"), summary=attacked))
    assert headline(one).claim == "gets 10.0\N{NO-BREAK SPACE}% right under Patch-Fool"
    assert "Of the 2 attacks that were made, the strongest is Patch-Fool." in said(one)
    other = replace(fake_model("other"), summary={**attacked, "patch_fool_accuracy": around(0.3)})
    assert headline(fake_results(one.models[0], other)).subject == "other"


def test_some_corruptions_of_a_group_are_named_one_by_one() -> None:
    model = fake_model(suite="weather")
    some = replace(model, cells=tuple(cell for cell in model.cells if cell.condition in ("clean", "fog", "snow")))
    assert "under fog and snow" in said(fake_results(some))
