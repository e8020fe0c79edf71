"""The page as a reader of its HTML finds it."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from fake_results import (
    around,
    corruption_cells,
    fake_cell,
    fake_model,
    fake_results,
    three_models,
    with_differences,
    with_groups,
)

from robustvit.evaluation.results import Example, ExampleImage, ModelResults, Results, Value
from robustvit.report.grids import grids_of
from robustvit.report.numbers import change, percent
from robustvit.report.page import render_page, write_page

VOID = {"meta", "link", "img", "br", "wbr", "line", "rect", "path", "circle"}
NASTY = "<script>alert('x')</script>&\"net\""


class Reader(HTMLParser):
    """Checks that tags close in order; keeps the visible text, the cells of tables, and all attributes."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.cells: Counter[str] = Counter()
        self.attributes: list[tuple[str, str, str]] = []
        self.tags: Counter[str] = Counter()
        self._cell: list[str] | None = None
        self.feed(html)
        self.close()
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)
        if tag == "td":
            self._cell = []

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open[-1] == tag, f"</{tag}> closes <{self.open[-1]}>"
        self.open.pop()
        if tag == "td" and self._cell is not None:
            self.cells["".join(self._cell).replace("★", "").strip()] += 1
            self._cell = None

    def handle_data(self, data: str) -> None:
        if not {"style", "script"} & set(self.open):
            self.texts.append(data)
            if self._cell is not None:
                self._cell.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"[ \n]+", " ", "".join(self.texts))


def read(results: Results) -> Reader:
    return Reader(render_page(results))


def nothing_measured() -> Results:
    cell = fake_cell("clean", "clean", 0, 0, Value(math.nan), calibration_error=math.nan)
    model = ModelResults("net", 1, {}, {"clean_accuracy": Value(math.nan, math.nan, math.nan)}, (cell,))
    return fake_results(replace(model, skipped=(("a.jpg", "not an image"),)), suites=("clean",))


def imagenet_a_only() -> Results:
    cell = fake_cell("imagenet-a", "clean", 0, 7500, around(0.071), calibration_error=0.3)
    model = ModelResults("net", 5, {}, {"imagenet_a_accuracy": around(0.071)}, (cell,))
    return fake_results(model, suites=("imagenet-a",))


def nan_cells() -> Results:
    model = fake_model()
    spoiled = tuple(
        replace(cell, values={**cell.values, "accuracy": Value(math.nan)}) if cell.severity == 5 else cell
        for cell in model.cells
    )
    return fake_results(replace(model, cells=spoiled, summary={**model.summary, "retention": Value(math.nan)}))


def gaps() -> Results:
    model = fake_model()
    first = replace(model, cells=model.cells[:9], summary={})
    return fake_results(first, replace(fake_model("other", suite="blur"), summary={}))


CASES = {
    "one": lambda: fake_results(fake_model(examples=1, extras=True)),
    "three": lambda: three_models(extras=True),
    "compared": lambda: with_differences(three_models()),
    "ten": lambda: fake_results(*(fake_model(f"net_{k}", clean=0.6 + 0.02 * k, suite="all19") for k in range(10))),
    "clean": lambda: fake_results(fake_model(suite="clean"), suites=("clean",)),
    "one severity": lambda: fake_results(fake_model(suite="noise", severities=(3,)), suites=("noise",)),
    "imagenet-a": imagenet_a_only,
    "nothing": nothing_measured,
    "nan": nan_cells,
    "gaps": gaps,
    "no cells": lambda: fake_results(ModelResults("net", 0, {}, {}, ())),
    "nasty": lambda: fake_results(fake_model(NASTY), fake_model(NASTY + "2")),
}


@pytest.fixture(scope="module", params=CASES)
def results(request: pytest.FixtureRequest) -> Results:
    return CASES[request.param]()


@pytest.fixture(scope="module")
def html(results: Results) -> str:
    return render_page(results)


@pytest.fixture(scope="module")
def page(html: str) -> Reader:
    return Reader(html)


def test_every_page_is_well_formed_and_needs_no_network(html: str, page: Reader) -> None:
    assert not re.search(r"https?://", html)
    sources = [value for _, name, value in page.attributes if name in ("src", "href", "srcset", "action", "poster")]
    assert all(source.startswith("data:") for source in sources)
    assert "url(" not in html
    assert "@import" not in html
    ids = [value for _, name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    assert "nan" not in re.findall(r"[a-z]+", page.text.lower())
    assert not any("nan" in value for tag, name, value in page.attributes if name in ("x", "y", "width", "x1", "y1", "style"))


def test_every_summary_number_and_its_interval_is_shown(results: Results, page: Reader) -> None:
    text = page.text
    for value in (value for model in results.models for value in model.summary.values()):
        assert percent(value.value) in text
        if value.low is not None and value.high is not None and math.isfinite(value.low):
            assert f"{percent(value.low, sign=False)} to {percent(value.high)}" in text


def test_every_cell_is_shown(results: Results, page: Reader) -> None:
    wanted: Counter[str] = Counter()
    for cell in (cell for model in results.models for cell in model.cells):
        if cell.flip_probability is not None:
            assert percent(cell.flip_probability) in page.text
        else:
            wanted[percent(cell.accuracy.value if cell.accuracy else None, sign=cell.severity == 0)] += 1
    assert not wanted - page.cells


def test_every_shown_number_is_defined(results: Results, page: Reader) -> None:
    text = page.text
    shown = {name for model in results.models for name in model.summary}
    if "mean_accuracy_15" in shown or "mean_accuracy_19" in shown:
        shown.discard("mean_accuracy")  # shown under its more exact name
    for name in shown:
        assert results.definitions[name] in text
    if any(value.low is not None for model in results.models for value in model.summary.values()):
        assert results.definitions["interval"] in text


def test_protocol_data_versions_and_date_are_shown() -> None:
    text = read(fake_results(fake_model())).text
    for wanted in (
        "bicubic",
        "0.485, 0.456, 0.406",
        "every 10th",
        "seed 0",
        "2.8.0",
        "31 January 2026, 12:00 UTC",
        "7,345,678",
    ):
        assert wanted in text


def test_text_of_users_is_escaped() -> None:
    shot = ExampleImage("clean", 0, "data:image/png;base64,AAAA", NASTY, 0.5, right=False)
    model = replace(
        fake_model(NASTY, suite="clean"),
        examples=(Example(NASTY, NASTY, (shot,)),),
        skipped=((NASTY, NASTY),),
        protocol={NASTY: NASTY},
        cells=(fake_cell(NASTY, NASTY, 1, 3, Value(0.5)), fake_cell("p", NASTY, 0, 3, flip_probability=0.1)),
    )
    results = fake_results(model, replace(model, name=NASTY + "2"), suites=(NASTY,))
    page = read(replace(results, data={"name": NASTY}, versions={NASTY: NASTY}, created=NASTY))
    assert page.tags["script"] == 1  # the page's own
    assert page.text.count("<script>alert('x')</script>") >= 12
    assert not any(name.startswith("on") for _, name, _ in page.attributes)


def test_images_that_would_be_fetched_are_left_out() -> None:
    shot = ExampleImage("fog", 2, "https://example.org/x.png", "cat", 0.5, right=True)
    html = render_page(fake_results(replace(fake_model(suite="clean"), examples=(Example("a", "cat", (shot,)),))))
    assert "example.org" not in html
    assert "no image" in html


def test_right_and_wrong_answers_differ_in_more_than_colour() -> None:
    text = read(fake_results(fake_model(suite="clean", examples=1))).text
    assert "✓ right: disc" in text
    assert "✗ wrong: golden retriever" in text


def test_skipped_images_are_named_once_for_networks_that_skipped_the_same() -> None:
    skipped = (("a/1.jpg", "truncated"), ("a/2.jpg", "not an image"))
    models = [replace(fake_model(name, suite="clean"), skipped=skipped) for name in ("a", "b")]
    text = read(fake_results(*models)).text
    assert text.count("a/1.jpg") == 1
    assert "2 images skipped" in text


def test_suites_that_measured_the_same_cells_get_a_heat_map_each() -> None:
    model = fake_model()
    files = corruption_cells("imagenet-c", 0.7, 1.3, 5000, (1, 2, 3, 4, 5))
    results = fake_results(replace(model, cells=(*model.cells, *files)))
    assert "Every corruption at every severity: common15" in read(results).text
    assert "Every corruption at every severity: imagenet-c" in read(results).text
    same = [replace(cell, suite="imagenet-c") for cell in model.cells if cell.suite == "common15"]
    agreeing = fake_results(replace(model, cells=(*model.cells, *same)))  # equal results make no difference
    assert "Every corruption at every severity: imagenet-c" in read(agreeing).text


def test_writing_replaces_the_page_whole(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text("old")
    results = fake_results(fake_model())
    write_page(results, path)
    assert path.read_text(encoding="utf-8") == render_page(results)
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]


def test_saved_results_give_the_same_page_when_loaded(tmp_path: Path) -> None:
    results = three_models(extras=True)
    folder = results.save(tmp_path / "out")
    assert render_page(Results.load(folder)) == (folder / "report.html").read_text(encoding="utf-8")


def test_means_of_groups_have_intervals() -> None:
    model = with_groups(fake_model())
    text = read(fake_results(model)).text
    for group, value in model.measurements[0].group_accuracies.items():
        reach = f"({percent(value.low, sign=False)} to {percent(value.high)})"
        assert re.search(f"{group} mean {re.escape(percent(value.value))} {re.escape(reach)}", text)
    whiskers = render_page(fake_results(model)).count('class="whisker"')
    assert whiskers - render_page(fake_results(fake_model())).count('class="whisker"') == 3 * 15  # one a corruption


def test_networks_are_compared_by_group_and_by_paired_differences() -> None:
    results = with_differences(three_models(), half=0.02)
    page = read(results)
    assert "fan_hybrid_small-last.safetensors minus the others" in page.text
    best = results.models[2].name
    for other in (results.models[0].name, results.models[1].name):
        (difference,) = results.between(best, other)
        for value in (*difference.summary.values(), *difference.group_accuracies.values()):
            assert change("mean_accuracy", value.value) in page.text
    assert "+0.8 to +4.8" in page.text  # of the mean, 52.7 against 55.5
    assert "may be chance" in page.text  # of the share that is kept
    assert results.definitions["differences"] in page.text
    for model in results.models:
        for value in model.measurements[0].group_accuracies.values():
            assert f"{percent(value.value)}{percent(value.low, sign=False)} to {percent(value.high)}" in page.cells


def test_grids_of_different_measurements_are_not_mixed() -> None:
    model = with_groups(fake_model(suite="extra4"))
    files = corruption_cells("noise", 0.7, 1.3, 5000, (1, 2, 3, 4, 5))
    other = replace(model.measurements[0], suites=("noise",), group_accuracies={}, corruption_accuracies={})
    mixed = replace(model, cells=(*model.cells, *files), measurements=(*model.measurements, other))
    assert [grid.suites for grid in grids_of(mixed)] == [("extra4",), ("noise",)]
