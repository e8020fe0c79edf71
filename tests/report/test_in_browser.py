"""The page in a real browser: it shows its numbers, logs nothing, and fits a phone."""

from __future__ import annotations

import re
import shutil
import subprocess
from html import escape
from pathlib import Path

import pytest
import torch
from detected import detected
from fake_results import three_models, with_differences
from segmented import segmented

import robustvit as rv
from robustvit.data.scenes.dataset import Scenes
from robustvit.evaluation.results import Results
from robustvit.report.numbers import percent
from robustvit.report.page import render_page, write_page

BROWSER = next(filter(None, map(shutil.which, ("chromium", "google-chrome", "chromium-browser"))), None)
QUIET = "--disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-component-update --disable-sync"
WIDTHS = (320, 360, 768, 1200)
FRAME = '<iframe style="border:0;width:{}px;height:800px" srcdoc="{}"></iframe>'
MEASURE = """<script>
window.onload = () => {
  const roots = [...document.querySelectorAll("iframe")].map(frame => frame.contentDocument.documentElement);
  document.title = roots.map(root => root.scrollWidth + " of " + root.clientWidth).join(", ");
};
</script>"""

LOOK = """<script>
window.onload = () => {
  const images = [...document.querySelectorAll("img")];
  const cells = [...document.querySelectorAll(".heat td[style]")].map(cell => getComputedStyle(cell));
  document.title = [
    getComputedStyle(document.body).backgroundColor,
    images.filter(image => image.naturalWidth > 0 && image.clientWidth >= 60).length + " of " + images.length,
    cells.filter(cell => cell.backgroundColor === cell.color).length,
  ].join("; ");
};
</script>"""
LINES = """<script>
window.onload = () => {
  const page = document.querySelector("iframe").contentDocument;
  const rows = [...page.querySelectorAll(".tiles li, .across")].map(row => [...row.querySelectorAll("img")].map(
    image => image.getBoundingClientRect()));
  const lines = rows.map(images => images.map(image => images.findIndex(first => Math.abs(first.top - image.top) < 1)));
  document.title = lines.map(line => line.join("")).join(" ");
};
</script>"""
"""For each row of images, the first image that stands beside each: "000" is three side by side."""
PHONE = 375
DARK = "--blink-settings=preferredColorScheme=0"

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no chromium or google-chrome is installed")


def dump(page: Path, *flags: str) -> tuple[str, str]:
    """(the document after its scripts ran, what the browser logged)."""
    command = [
        BROWSER or "",
        "--headless",
        "--no-sandbox",
        *QUIET.split(),
        *flags,
        f"--user-data-dir={page.parent / 'profile'}",
    ]
    command += ["--window-size=1300,900", "--enable-logging=stderr", "--v=0", "--dump-dom", page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout, done.stderr


def measured() -> Results:
    """What an evaluation of every kind of suite gives."""
    torch.manual_seed(0)
    networks = {name: rv.create_model(name, num_classes=10).eval() for name in ("fan_vit_nano", "rvt_nano")}
    return rv.evaluate(networks, Scenes("test", 2), ["clean", "noise", "patches", "imagenet-p"], examples=2)


@pytest.fixture(
    scope="module",
    params=[lambda: with_differences(three_models(examples=1, extras=True)), measured, segmented, detected],
    ids=["made up", "measured", "segmenters", "detectors"],
)
def results(request: pytest.FixtureRequest) -> Results:
    return request.param()


def test_the_page_shows_its_numbers_and_logs_nothing(tmp_path: Path, results: Results) -> None:
    page = tmp_path / "report.html"
    write_page(results, page)
    document, log = dump(page)
    assert "CONSOLE" not in log
    text = document.replace("&nbsp;", "\N{NO-BREAK SPACE}")
    for value in (value for model in results.models for value in model.summary.values()):
        assert percent(value.value) in text or f"{value.value:.2f}" in text
    assert 'class="chooser"' in document  # the script ran


def test_the_page_does_not_scroll_sideways_at_any_width(tmp_path: Path, results: Results) -> None:
    page = tmp_path / "framed.html"  # windows have a least width, frames do not
    frames = "".join(FRAME.format(width, escape(render_page(results))) for width in WIDTHS)
    page.write_text(f"<!doctype html><title>not loaded</title>{frames}{MEASURE}", encoding="utf-8")
    document, _ = dump(page)
    found = re.findall(r"(\d+) of (\d+)", document[: document.index("</title>")])
    assert len(found) == len(WIDTHS)
    for width, (needed, given) in zip(WIDTHS, found, strict=True):
        assert width - 20 <= int(given) <= width
        assert int(needed) <= int(given), f"{width} pixels"


@pytest.mark.parametrize(("flags", "background"), [((), "rgb(251, 250, 248)"), ((DARK,), "rgb(20, 23, 27)")])
def test_light_and_dark_pages_show_all_their_images(
    tmp_path: Path, results: Results, flags: tuple[str, ...], background: str
) -> None:
    page = tmp_path / "report.html"
    shown = render_page(results).replace("<details>", "<details open>")
    page.write_text(shown.replace("</body>", LOOK + "</body>"), encoding="utf-8")
    document, _ = dump(page, *flags)
    title = document[document.index("<title>") + 7 : document.index("</title>")]
    count = render_page(results).count("<img ")
    assert title == f"{background}; {count} of {count}; 0"


def test_images_to_be_compared_stand_side_by_side_on_a_phone(tmp_path: Path) -> None:
    results, page = segmented(), tmp_path / "framed.html"
    shown = render_page(results).replace("<details>", "<details open>")
    frame = FRAME.format(PHONE, escape(shown))
    page.write_text(f"<!doctype html><title>not loaded</title>{frame}{LINES}", encoding="utf-8")
    document, _ = dump(page)
    lines = document[document.index("<title>") + 7 : document.index("</title>")].split()
    assert set(lines) == {"00", "000", "0022"}  # answer and image; with the label; image and label above two networks
    assert lines.count("0022") == 6  # three images, clean and corrupted
