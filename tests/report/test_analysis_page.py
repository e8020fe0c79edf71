"""The page of an analysis, in a real browser and as text."""

from __future__ import annotations

import itertools
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from PIL import Image

import robustvit as rv
from robustvit.analysis.analyze import Analysis, analyze
from robustvit.analysis.drawing import LONGEST, WIDEST, Plate, broken, counted, encode, short
from robustvit.analysis.finding import Finding
from robustvit.analysis.options import AnalysisOptions
from robustvit.analysis.registry import study_of
from robustvit.report.analysis_page import KINDS, plates_of, write_analysis
from robustvit.report.dark_figures import darken

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


def test_long_names_lose_their_middle_and_break_after_separators() -> None:
    name = "swin_base_patch4_window12_384.ms_in22k_ft_in1k"
    kept = short(name)
    assert len(kept) == LONGEST == 28
    assert (kept[:9], kept[-7:]) == ("swin_base", "ft_in1k")
    assert short("deit_tiny_patch16_224") == "deit_tiny_patch16_224"
    assert broken("deit_tiny_patch16_224", 18) == "deit_tiny_\npatch16_224"
    assert broken("vit_nano", 14) == "vit_nano"
    assert max(map(len, broken("x" * 40, 9).split("\n"))) <= 9
    assert broken("a$b", 9) == r"a\$b"


def drawn(study: str, findings: dict[str, Finding]) -> list[Plate]:
    return study_of(study).plates(findings, study_of(study).own_options({}))


def attention_finding(heads: int, strength: float = 1.0) -> Finding:
    """Two blocks of four tokens; the corrupted image has `strength` times the attention to the first token."""
    even = np.full((4, 4), 0.25)
    arrays = {f"{state}/picture": np.zeros((8, 8, 3), np.uint8) for state in ("clean", "spoiled")}
    for state, peak in (("clean", 0.3), ("spoiled", 0.3 * strength)):
        seen = np.array([[peak, 0.2], [0.2, 0.2]])
        arrays |= {f"{state}/heads": np.stack([even] * heads)}
        arrays |= {f"{state}/layer {layer}": even for layer in (0, 1)} | {f"{state}/query {layer}": seen for layer in (0, 1)}
    return Finding("", {"layers": [0, 1], "query": [0.5, 0.5], "heads": heads}, arrays)


def test_maps_say_where_their_colours_end_and_what_even_attention_is() -> None:
    plates = {plate.name: plate for plate in drawn("attention", {"a": attention_finding(2, 3.0)})}
    panels = [axis for axis in plates["attention-query"].figure.axes if len(axis.images) == 2]
    assert [axis.images[1].get_clim()[1] for axis in panels] == pytest.approx([0.9] * 4)  # clean and corrupted alike
    assert panels[0].get_title() == "block 1\n0 to 0.9, even 0.25"
    assert plates["attention-layers"].figure.axes[0].get_title() == "block 1\n0 to 0.25, even 0.25"
    assert "0 to 0.25\neven 0.25" in plates["attention-heads"].figure.axes[0].get_ylabel()
    bar = plates["attention"].figure.axes[-1]
    assert bar.get_ylabel() == "attention\n(gamma 0.4)"
    places = sorted((tick / 0.25) ** 0.4 for tick in bar.get_yticks())
    assert min(b - a for a, b in itertools.pairwise(places)) > 0.05


def test_figures_of_many_heads_and_networks_stay_as_wide_as_the_page() -> None:
    found = {f"deit_base_distilled_patch16_{i}": attention_finding(12) for i in range(3)}
    for plate in drawn("attention", found):
        assert plate.figure.get_figwidth() <= WIDEST + 1e-6


def test_even_attention_is_dotted_where_it_is_known() -> None:
    numbers = {"top_share": [0.5, 0.4], "crowded": [3.0, 2.0], "row_similarity": [0.9, 1.0]}
    (plain,) = drawn("overfocus", {"a": Finding("", numbers, {})})
    (dotted,) = drawn("overfocus", {"a": Finding("", {**numbers, "even_share": [0.1, 0.1]}, {})})
    assert [len(plate.figure.axes[0].lines) for plate in (plain, dotted)] == [1, 2]
    assert "dotted" not in plain.reading
    assert "dotted" in dotted.reading
    assert dotted.figure.axes[1].get_title(loc="left") in dotted.reading


def test_the_figures_of_cosines_end_at_1(analysis: Analysis) -> None:
    plates = {plate.name: plate for _, group in plates_of(analysis) for plate in group}
    left, *by_block = plates["stability"].figure.axes
    assert (left.get_xlabel(), left.get_xlim()[1]) == ("cosine", 1)
    assert len(by_block) == 2  # as they are, and centred
    assert all(axes.get_ylim()[1] <= 1 for axes in by_block)


def test_readers_see_corrupted_images_blocks_from_1_and_only_settings_that_were_made(
    analysis: Analysis, written: Path
) -> None:
    readings = " ".join(plate.reading for _, group in plates_of(analysis) for plate in group)
    assert "spoil" not in readings
    assert "layer" not in readings
    page = written.read_text()
    method = page[page.index("How it was made") :]
    assert "<dt>blocks</dt><dd>1, last</dd>" in method
    assert "corruption model" not in method  # None
    assert method.count("<h4>Protocol</h4>") == len(analysis.networks)
    assert (counted(1, "image"), counted(2, "image")) == ("1 image", "2 images")


def test_labels_of_a_single_image_say_that_cutmix_had_no_partner(analysis: Analysis) -> None:
    ((name, found),) = analysis.findings["token-labels"].items()
    assert "no partner" not in drawn("token-labels", {name: found})[0].reading
    alone = replace(found, numbers={**found.numbers, "without_cutmix": True})
    assert "CutMix had no partner" in drawn("token-labels", {name: alone})[0].reading


def test_every_finding_has_a_figure_and_every_figure_says_how_to_read_it(analysis: Analysis) -> None:
    plates = dict(plates_of(analysis))
    assert plates.keys() == analysis.findings.keys()
    names = [plate.name for group in plates.values() for plate in group]
    assert len(set(names)) == len(names) >= 15
    assert all(len(plate.reading) > 30 for group in plates.values() for plate in group)


def test_every_figure_is_written_for_screens_and_for_print(written: Path) -> None:
    figures = sorted(file.name for file in (written.parent / "figures").iterdir())
    names = [{Path(name).stem for name in figures if name.endswith(kind)} for kind in KINDS]
    assert names[0] == names[1]
    assert len(names[0]) >= 15
    with Image.open(written.parent / "figures" / "stability.png") as image:
        assert image.width > 1000


def test_the_page_needs_nothing_else_and_escapes_names(analysis: Analysis, written: Path) -> None:
    page = written.read_text()
    assert "http" not in re.sub(r"data:image/png;base64,[\w+/=]+", "", page)
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
def test_the_page_opens_without_errors_and_shows_every_image(analysis: Analysis, written: Path, tmp_path: Path) -> None:
    page = tmp_path / "analysis.html"
    check = """<script>window.onload = () => {
      const broken = [...document.images].filter(image => !image.complete || !image.naturalWidth).length;
      const root = document.documentElement;
      document.title = `${document.images.length} images, ${broken} broken, ${root.scrollWidth} of ${root.clientWidth}`;
    };</script>"""
    page.write_text(written.read_text().replace("</body>", f"{check}</body>"))
    command = [BROWSER or "", *QUIET.split(), f"--user-data-dir={tmp_path / 'profile'}", "--window-size=700,900"]
    command += ["--enable-logging=stderr", "--v=0", "--dump-dom", page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert "CONSOLE" not in done.stderr
    found = re.search(r"<title>(\d+) images, (\d+) broken, (\d+) of (\d+)</title>", done.stdout)
    assert found is not None
    pictures, broken, needed, given = map(int, found.groups())
    assert pictures == sum(len(plates) for _, plates in plates_of(analysis))
    assert broken == 0
    assert needed <= given


def test_the_label_of_the_colours_lies_within_the_figure_of_one_network() -> None:
    figure = drawn("attention", {"a": attention_finding(2, 3.0)})[0].figure
    encode(figure, "png")
    box, paper = figure.axes[-1].yaxis.label.get_window_extent(), figure.bbox
    assert paper.x0 <= box.x0 < box.x1 <= paper.x1
    assert paper.y0 <= box.y0 < box.y1 <= paper.y1


def test_dark_figures_have_dark_paper_light_letters_and_the_same_images() -> None:
    figure = drawn("attention", {"a": attention_finding(2, 3.0)})[0].figure
    before = [image.get_array().copy() for axis in figure.axes for image in axis.images]
    darken(figure)
    assert max(figure.get_facecolor()[:3]) < 0.2
    titles = [axis.title for axis in figure.axes if axis.get_title()]
    assert titles
    assert all(min(to_rgb(title.get_color())) > 0.8 for title in titles)
    after = [image.get_array() for axis in figure.axes for image in axis.images]
    assert all((a == b).all() for a, b in zip(before, after, strict=True))
