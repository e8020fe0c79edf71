"""The page of an analysis, in a real browser and as text."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

import robustvit as rv
from robustvit.analysis.analyze import Analysis, analyze
from robustvit.analysis.options import AnalysisOptions
from robustvit.report.analysis_drawing import encode
from robustvit.report.analysis_page import KINDS, plates_of, write_analysis

BROWSER = next(filter(None, map(shutil.which, ("chromium", "google-chrome", "chromium-browser"))), None)
QUIET = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-sync"


@pytest.fixture(scope="module")
def written(analysis: Analysis, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("analysis")
    write_analysis(analysis, folder)
    return folder / "analysis.html"


@pytest.fixture(scope="module")
def analysis() -> Analysis:
    """All analyses of a network with a token head and of one without, and of a name that is long."""
    options = AnalysisOptions(masks=2, fit_steps=2, shown=2, layers=(0, -1))
    models = {
        "vit_nano": rv.create_model("vit_nano", pretrained=True),
        "local-dir:runs/some/long/folder/with <b> in it": rv.create_model("fan_vit_nano", num_classes=10, token_head=True),
    }
    return analyze(models, "scenes-easy:3", ["all"], options)


def test_odd_and_long_names_stay_apart_in_figures() -> None:
    names = ["local-dir:runs/a/fan_hybrid_base_tap_adl/best", "local-dir:runs/b/fan_hybrid_base_tap_adl/best", "_$x\\y$"]
    model = rv.create_model("vit_nano", pretrained=True)
    found = analyze(dict.fromkeys(names, model), "scenes-easy:2", ["head-diversity"])
    ((_, (plate,)),) = plates_of(found)
    labels = [line.get_label() for line in plate.figure.axes[0].lines]
    assert len(set(labels)) == 3
    assert all(label.strip() and not label.startswith("_") for label in labels)
    assert encode(plate.figure, "svg")


def test_every_finding_has_a_figure_and_every_figure_says_how_to_read_it(analysis: Analysis) -> None:
    plates = dict(plates_of(analysis))
    assert plates.keys() == analysis.findings.keys()
    names = [plate.name for group in plates.values() for plate in group]
    assert len(set(names)) == len(names) >= 15
    assert all(len(plate.reading) > 30 for group in plates.values() for plate in group)


def test_the_page_needs_nothing_else_and_escapes_names(analysis: Analysis, written: Path) -> None:
    page = written.read_text()
    assert "with <b> in it" not in page
    assert "&lt;b&gt;" in page
    assert not re.search(r'(src|href)="(?!data:|#)', page)
    for what, names in analysis.left_out.items():
        assert all(why in page.replace("&#39;", "'") for why in names.values()), what
    for found in analysis.findings["stability"].values():
        assert f"{found.numbers['mean']:.3f}" in page


def test_the_same_findings_give_the_same_files(analysis: Analysis) -> None:
    few = replace(analysis, findings={what: analysis.findings[what] for what in ("clusters", "stability")})
    first, second = ([plate for _, plates in plates_of(few) for plate in plates] for _ in range(2))
    for a, b in zip(first, second, strict=True):
        for kind in KINDS:
            assert encode(a.figure, kind) == encode(b.figure, kind)


@pytest.mark.skipif(BROWSER is None, reason="no chromium or google-chrome is installed")
def test_the_page_opens_without_errors_and_shows_every_picture(analysis: Analysis, written: Path, tmp_path: Path) -> None:
    page = tmp_path / "analysis.html"
    check = """<script>window.onload = () => {
      const broken = [...document.images].filter(image => !image.complete || !image.naturalWidth).length;
      const root = document.documentElement;
      document.title = `${document.images.length} pictures, ${broken} broken, ${root.scrollWidth} of ${root.clientWidth}`;
    };</script>"""
    page.write_text(written.read_text().replace("</body>", f"{check}</body>"))
    command = [BROWSER or "", *QUIET.split(), f"--user-data-dir={tmp_path / 'profile'}", "--window-size=700,900"]
    command += ["--enable-logging=stderr", "--v=0", "--dump-dom", page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert "CONSOLE" not in done.stderr
    found = re.search(r"<title>(\d+) pictures, (\d+) broken, (\d+) of (\d+)</title>", done.stdout)
    assert found is not None
    pictures, broken, needed, given = map(int, found.groups())
    assert pictures == sum(len(plates) for _, plates in plates_of(analysis))
    assert broken == 0
    assert needed <= given
