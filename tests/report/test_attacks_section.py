"""What the page says about attacks: numbers, settings, strips, and a headline for attacks alone."""

from __future__ import annotations

import re
from dataclasses import replace
from html import escape
from pathlib import Path

import pytest
from test_in_browser import BROWSER, FRAME, MEASURE, WIDTHS, dump

import robustvit as rv
from robustvit.attacks import build_attack
from robustvit.evaluation.results import Results, Value
from robustvit.report.headline import headline, ranking_measure
from robustvit.report.page import render_page, write_page


@pytest.fixture(scope="module")
def results() -> Results:
    networks = {name: rv.create_model(name, pretrained=True) for name in ("vit_nano", "fan_vit_nano")}
    made = ["fgsm", build_attack("patch-fool", {"iterations": 2}), build_attack("patches-random", {"masks": 2})]
    return rv.evaluate(networks, "scenes-easy:6", "clean", attacks=made, examples=2)


def plain(text: str) -> str:
    return text.replace("\N{NO-BREAK SPACE}", " ").replace("&nbsp;", " ")


def test_each_attack_has_its_accuracy_perturbation_settings_and_strips(results: Results) -> None:
    page = plain(render_page(results))
    for model in results.models:
        for key in ("fgsm_accuracy", "patch_fool_accuracy", "patches_random_accuracy"):
            assert f"{100 * model.summary[key].value:.1f} %" in page
    assert page.count('<tr><th scope="row">Patch-Fool</th>') == 2
    assert "eps: 1/255" in page
    assert "iterations: 2" in page
    assert "pixel choice" not in page  # has no effect where all pixels may change
    assert page.count('<ul class="strip three">') == 2 * 3 * 2  # networks, attacks, images
    assert "change, \N{MULTIPLICATION SIGN}100" in page
    assert "Mean perturbation" in page
    assert "clean, fgsm, patch-fool, patches-random" in page


def test_a_page_of_one_network_speaks_of_the_attack_and_of_the_clean_accuracy(results: Results) -> None:
    network = replace(results.models[0], summary={**results.models[0].summary, "fgsm_accuracy": Value(0.25, 0.2, 0.3)})
    found = headline(replace(results, models=(network,), differences=()))
    assert found.subject == "vit_nano"
    assert plain(found.claim) == "gets 25.0 % right under FGSM"
    assert "of the images right as they are, and 25.0 % (20.0 to 30.0 %) of them under FGSM." in plain(found.lines[0])


def test_networks_are_ranked_by_the_attack_and_by_corruptions_where_there_are_any(results: Results) -> None:
    assert ranking_measure(results.models) == "fgsm_accuracy"
    corrupted = replace(results.models[0], summary={**results.models[0].summary, "mean_accuracy": Value(0.5)})
    assert ranking_measure([corrupted, results.models[1]]) == "mean_accuracy"
    assert "Accuracy under FGSM" in render_page(results)


def test_rows_of_attacks_are_not_listed_among_other_sets(results: Results) -> None:
    others = render_page(results).partition('id="others"')[2].partition("</table>")[0]
    assert "<td>clean</td>" in others
    assert "mask 1" not in others


@pytest.mark.skipif(BROWSER is None, reason="no chromium or google-chrome is installed")
def test_the_page_opens_without_complaint_and_fits_a_phone(results: Results, tmp_path: Path) -> None:
    write_page(results, tmp_path / "report.html")
    document, log = dump(tmp_path / "report.html")
    assert "CONSOLE" not in log
    assert "What the attacks do" in document
    frames = "".join(FRAME.format(width, escape(render_page(results))) for width in WIDTHS)
    (tmp_path / "framed.html").write_text(f"<!doctype html><title>not loaded</title>{frames}{MEASURE}", encoding="utf-8")
    document, _ = dump(tmp_path / "framed.html")
    found = re.findall(r"(\d+) of (\d+)", document[: document.index("</title>")])
    assert len(found) == len(WIDTHS)
    assert all(int(needed) <= int(given) for needed, given in found)
