"""The page in a real browser: it shows its numbers, logs nothing, and fits a phone."""

from __future__ import annotations

import re
import shutil
import subprocess
from html import escape
from pathlib import Path

import pytest
from fake_results import three_models

from robustvit.evaluation.results import Results
from robustvit.report.numbers import percent
from robustvit.report.page import render_page, write_page

BROWSER = next(filter(None, map(shutil.which, ("chromium", "google-chrome", "chromium-browser"))), None)
QUIET = "--disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-component-update --disable-sync"
FRAME = """<!doctype html><title>not loaded</title><iframe style="border:0;width:{}px;height:800px" srcdoc="{}"></iframe>
<script>
const frame = document.querySelector("iframe");
frame.onload = () => {{
  const root = frame.contentDocument.documentElement;
  document.title = root.scrollWidth + " of " + root.clientWidth;
}};
</script>"""

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no chromium or google-chrome is installed")


def dump(page: Path) -> tuple[str, str]:
    """(the document after its scripts ran, what the browser logged)."""
    command = [BROWSER or "", "--headless", "--no-sandbox", *QUIET.split(), f"--user-data-dir={page.parent / 'profile'}"]
    command += ["--window-size=1300,900", "--enable-logging=stderr", "--v=0", "--dump-dom", page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout, done.stderr


@pytest.fixture(scope="module")
def results() -> Results:
    return three_models(examples=1, extras=True)


def test_the_page_shows_its_numbers_and_logs_nothing(tmp_path: Path, results: Results) -> None:
    page = tmp_path / "report.html"
    write_page(results, page)
    document, log = dump(page)
    assert "CONSOLE" not in log
    text = document.replace("&nbsp;", "\N{NO-BREAK SPACE}")
    for value in (value for model in results.models for value in model.summary.values()):
        assert percent(value.value) in text
    assert 'class="chooser"' in document  # the script ran


@pytest.mark.parametrize("width", [320, 360, 768, 1200])
def test_the_page_does_not_scroll_sideways(tmp_path: Path, results: Results, width: int) -> None:
    page = tmp_path / "framed.html"  # windows have a least width, frames do not
    page.write_text(FRAME.format(width, escape(render_page(results))), encoding="utf-8")
    document, _ = dump(page)
    found = re.search(r"<title>(\d+) of (\d+)</title>", document)
    assert found is not None
    assert width - 20 <= int(found[2]) <= width
    assert int(found[1]) <= int(found[2])
