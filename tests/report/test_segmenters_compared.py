"""Several segmenters side by side, and what the page of segmenters leaves out: repetitions, absent classes, empty stars."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from segmented import segmented
from test_page import Reader

from robustvit.corruptions.conditions import CLEAN
from robustvit.evaluation.definitions import definitions
from robustvit.evaluation.results import Measurement, ModelResults, Results, Value
from robustvit.evaluation.shown_images import drop_empty
from robustvit.metrics.iou import MIOU
from robustvit.metrics.measures import DISTANCE
from robustvit.report.class_heat import class_heats, compared_classes
from robustvit.report.classes import class_tables
from robustvit.report.compared_images import compared_images
from robustvit.report.comparison import marked, stars
from robustvit.report.page import Chapter, render_page
from robustvit.tasks.per_class import ClassResult


@pytest.fixture(scope="module")
def results() -> Results:
    return segmented()


def one(name: str, images: int, clean: float | None, fog: float) -> ClassResult:
    values = {"corrupted": {"class_iou": fog}, **({} if clean is None else {"clean": {"class_iou": clean}})}
    return ClassResult(name, images, values, corruptions={"fog": {"class_iou": fog}})


def network(name: str, *classes: ClassResult) -> ModelResults:
    measured = Measurement(("fog",), {}, {}, {}, {}, class_accuracies=classes)
    return ModelResults(name, 1, {}, {}, (), measurements=(measured,), primary="miou")


def with_scores(model: ModelResults, scores: Mapping[tuple[str, str], float]) -> ModelResults:
    """The examples with these scores, by image and condition; 0.5 elsewhere."""
    examples = []
    for example in model.examples:
        shown = (replace(p, score=scores.get((example.id, p.condition), 0.5)) for p in example.pictures)
        examples.append(replace(example, pictures=tuple(shown)))
    return replace(model, examples=tuple(examples))


def test_networks_are_shown_on_the_same_image_clean_and_corrupted(results: Results) -> None:
    shown = compared_images(results.models)
    assert len(shown) == 3
    for image in shown:
        clean, corrupted = image.shots
        assert (clean.condition, corrupted.severity > 0) == (CLEAN.name, True)
        for shot in image.shots:
            assert [name for _, name, _ in shot.answers] == [model.name for model in results.models]
            for (_, _, answer), model in zip(shot.answers, results.models, strict=True):
                [example] = [example for example in model.examples if example.id == image.id]
                assert answer in example.pictures
                assert shot.seen == answer.seen
    text = Reader(render_page(results)).text
    assert text.index("By class") < text.index("The same images, network by network")


def test_images_and_corruptions_where_networks_differ_most_are_chosen(results: Results) -> None:
    first, second = results.models
    last = first.examples[-1]
    condition = last.pictures[-1].condition
    shown = compared_images([with_scores(first, {}), with_scores(second, {(last.id, condition): 0.1})])
    assert shown[0].id == last.id
    assert shown[0].shots[1].condition == condition
    assert shown[0].shots[1].spread == pytest.approx(0.4)
    assert [image.id for image in shown[1:]] == [example.id for example in first.examples[:2]]


def test_only_images_that_all_networks_have_are_compared(results: Results) -> None:
    first, second = results.models
    fewer = replace(second, examples=second.examples[:1])
    assert [image.id for image in compared_images([first, fewer])] == [second.examples[0].id]
    assert compared_images([first, replace(second, examples=())]) == ()


def test_answers_in_words_are_not_compared_as_images(results: Results) -> None:
    first, second = results.models
    words = [replace(e, pictures=tuple(replace(p, seen="") for p in e.pictures)) for e in second.examples]
    models = (first, replace(second, examples=tuple(words)))
    assert compared_images(models) == ()
    assert "network by network" not in render_page(replace(results, models=models, differences=()))


def test_the_score_of_an_example_is_the_number_beside_it(results: Results) -> None:
    pictures = [p for model in results.models for example in model.examples for p in example.pictures]
    assert all(picture.answer == f"mIoU {MIOU.text(picture.score)}" for picture in pictures)


def test_a_score_of_zero_is_kept_in_the_file() -> None:
    plain = {"image": "x", "seen": "", "score": 0.0}
    network = {"legend": (), "worst": (), "attack_examples": (), "examples": [{"pictures": [plain], "target": ""}]}
    drop_empty(network)
    assert plain == {"image": "x", "score": 0.0}
    assert network == {"attack_examples": (), "examples": [{"pictures": [plain]}]}


def test_classes_without_an_image_are_left_out_and_counted() -> None:
    known = (one("safe", 5, 0.5, 0.5), one("lost", 2, 0.8, 0.1))
    absent = (one("building", 0, None, 0.0), one("wall", 0, 0.0, 0.0))
    [heat] = class_heats(network("net", *absent, *known))
    assert [row.label for row in heat.rows] == ["lost", "safe"]
    assert heat.caption.endswith("2 classes that no image has are left out.")
    assert "left out" not in class_heats(network("net", *known))[0].caption
    [(_, caption, compared)] = compared_classes([network("a", *absent, *known), network("b", *absent, *known)])
    assert [row.label for row in compared.groups[0][1]] == ["lost", "safe"]
    assert caption.endswith("2 classes that no image has are left out.")


def test_classes_without_an_image_are_not_the_hardest() -> None:
    classes = [ClassResult(name, images, {"clean": {"class_iou": v}}) for name, images, v in (("a", 0, 0.0), ("b", 3, 0.4))]
    [table] = class_tables(network("net", *classes))
    assert [row[0] for row in table.rows if row] == ["b", "a"]


def test_no_mean_over_classes_stands_beside_the_miou(results: Results) -> None:
    assert [heat.foot for _, _, heat in compared_classes(results.models)] == [None]
    page = render_page(results)
    of_classes = page[page.index(">By class<") : page.index(">The same images, network by network<")]
    assert "<tfoot>" not in of_classes


def test_numbers_that_look_equal_have_no_star() -> None:
    assert stars([0.0851, 0.0849]) == (False, False)
    assert stars([0.00001, 0.0, None]) == (False, False, False)
    assert stars([0.0851, 0.0849, 0.03]) == (True, True, False)
    assert stars([0.5, 0.6, float("nan")]) == (False, True, False)
    assert stars([0.5, 0.6], higher=False) == (True, False)
    assert stars([1.234, 1.236], DISTANCE) == (False, True)
    assert [entry.is_best for entry in marked([Value(0.9), None, Value(0.2)])] == [True, False, False]


def test_the_legend_stands_wherever_something_is_drawn(results: Results) -> None:
    [first] = [replace(results, models=results.models[:1], differences=())]
    page = render_page(first)
    for title in ("The worst images", "The worst images under corruption", "As the network saw them"):
        after = page[page.index(f"<h3>{title}</h3>") :]
        assert after.index('class="palette"') < after.index("<img")
        assert "<h3>" not in after[4 : after.index('class="palette"')]
    both = render_page(results)
    after = both[both.index("network by network</h3>") :]
    assert after.index('class="palette"') < after.index("<img")


def test_the_worst_images_under_corruption_are_others_than_the_worst_ones(results: Results) -> None:
    for model in results.models:
        clean, corrupted = ([w.example.id for w in model.worst if w.ranked == kind] for kind in ("clean", "corrupted"))
        assert len(clean) == len(corrupted) == 3
        assert not set(clean) & set(corrupted)


def test_a_page_of_results_with_the_same_worst_images_twice_shows_them_once(results: Results) -> None:
    model = results.models[0]
    clean, corrupted = model.worst[0], model.worst[-1]
    again = replace(corrupted, example=replace(corrupted.example, id=clean.example.id))
    shown = replace(results, models=(replace(model, worst=(clean, again)),), differences=())
    assert "The worst images under corruption" not in render_page(shown)


@pytest.mark.parametrize(("networks", "columns"), [(2, 4), (4, 6), (5, 4), (7, 5)])
def test_many_networks_stand_in_lines_of_equal_length(results: Results, networks: int, columns: int) -> None:
    models = [replace(results.models[i % 2], name=str(i)) for i in range(networks)]
    assert {image.columns for image in compared_images(models)} == {columns}


def test_the_meaning_of_the_primary_measure_stands_once_in_a_list(results: Results) -> None:
    page = Reader(render_page(results)).text
    assert page.count(MIOU.meaning) == 2  # below the table of networks, and at the end
    alone = Reader(render_page(replace(results, models=results.models[:1], differences=()))).text
    assert alone.count(MIOU.meaning) == 2  # on a card, and at the end
    assert "Averaged over what was measured." in alone


def test_negative_numbers_have_minus_signs_and_zero_has_no_sign(results: Results) -> None:
    model = results.models[0]
    summary = {**model.summary, "relative_degradation": Value(-0.072, -0.1, -0.00001), "retention": Value(-0.00001)}
    chapter = Chapter("Results in words", ("It loses -4.4 points (-6.3 to -3.1), see runs/x-3 and 2026-01-31, or -0.0.",))
    page = Reader(render_page(replace(results, models=(replace(model, summary=summary),), differences=()), [chapter])).text
    for wanted in (
        "\N{MINUS SIGN}7.2",
        "\N{MINUS SIGN}10.0 to 0.0",
        "1 \N{MINUS SIGN} retention",
        "x-3 and 2026-01-31, or 0.0.",
    ):
        assert wanted in page
    assert "\N{MINUS SIGN}4.4 points (\N{MINUS SIGN}6.3 to \N{MINUS SIGN}3.1)" in page
    for wrong in ("-7.2", "-10", "-4.4", "-0.0", "\N{MINUS SIGN}0.0"):
        assert wrong not in page


def test_definitions_are_those_of_what_was_measured(results: Results) -> None:
    found = definitions(MIOU, results.models)
    summary = {key for model in results.models for key in model.summary}
    assert summary <= found.keys()
    assert {"miou", "class_iou", "class_accuracies", "group_accuracies", "interval", "differences"} <= found.keys()
    foreign = (
        "mean_corruption_error",
        "top5_distance",
        "clean_accuracy",
        "mean_perturbation",
        "corruption_errors",
        "acdc_miou",
    )
    assert not set(foreign) & found.keys()
    assert "differences" not in definitions(MIOU, results.models[:1])
    assert found.items() <= definitions(MIOU).items()
    assert render_page(replace(results, definitions=found)) == render_page(results)
