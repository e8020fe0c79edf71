"""A study is one object: `analyze`, the page, `--resume`, the command line and the docs take everything from it."""

from __future__ import annotations

import importlib
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import robustvit as rv
from robustvit.analysis.analyze import analyze
from robustvit.analysis.drawing import Plate, new_figure
from robustvit.analysis.finding import Finding
from robustvit.analysis.options import options_class
from robustvit.analysis.registry import STUDIES, study_of
from robustvit.analysis.shared_options import Options
from robustvit.analysis.study import ANY_NETWORK, Findings, Study
from robustvit.analysis.subject import Subject
from robustvit.cli import main

DOCS = Path(__file__).parents[2] / "docs" / "analyzing.md"


@dataclass(frozen=True)
class BrightnessOptions(Options):
    """How bright.

    Attributes:
        brightness_scale: what white is.
    """

    brightness_scale: float = 1.0


class Brightness(Study[BrightnessOptions]):
    """How bright the images are."""

    name = "brightness"
    summary = "how bright the images are"
    needs = (ANY_NETWORK,)
    options = BrightnessOptions

    def run(self, subject: Subject, options: BrightnessOptions) -> Finding:
        values = [float(x.mean()) for batch in subject.batches() for x in subject.unit(batch.pixels)]
        return Finding("mean of all pixels", {"mean": options.brightness_scale * sum(values) / len(values)})

    def plates(self, findings: Findings, options: BrightnessOptions) -> list[Plate]:
        figure = new_figure(4, 3)
        figure.subplots().bar(list(findings), [one.numbers["mean"] for one in findings.values()])
        return [Plate("brightness", "How bright", "Higher bars are brighter images.", figure)]

    def lead(self, findings: Findings, options: BrightnessOptions) -> str | None:
        return f"White is {options.brightness_scale:g}."


@pytest.fixture
def brightness(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(STUDIES.own, "brightness", Brightness)  # type: ignore[arg-type]


@pytest.mark.usefixtures("brightness")
def test_a_new_study_goes_through_analyze_the_page_and_resume(tmp_path: Path) -> None:
    models = {"vit": rv.create_model("vit_nano", pretrained=True)}
    options = options_class()(brightness_scale=2.0)  # type: ignore[call-arg]
    calls: list[str] = []
    how: dict[str, Any] = dict(output=tmp_path, report=lambda name, *_: calls.append(name))
    first = analyze(models, "scenes-easy:3", ["brightness"], options, **how)
    assert 0 < first.findings["brightness"]["vit"].numbers["mean"] < 2
    assert json.loads((tmp_path / "analysis.json").read_text())["options"]["brightness_scale"] == 2
    page = (tmp_path / "analysis.html").read_text()
    assert all(text in page for text in ("How bright", "Higher bars", "White is 2.", "mean of all pixels", "brightness scale"))
    assert calls == ["brightness: vit"]
    (tmp_path / "figures" / "brightness.svg").unlink()
    again = analyze(models, "scenes-easy:3", ["brightness"], options, **how, resume=True)
    assert again.findings["brightness"]["vit"].numbers == first.findings["brightness"]["vit"].numbers
    assert (tmp_path / "figures" / "brightness.svg").exists()
    assert calls == ["brightness: vit"]


@pytest.mark.usefixtures("brightness")
def test_a_new_study_is_on_the_command_line_with_its_options(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from robustvit.cli import analyze as command

    importlib.reload(command)  # which was imported before the study was there
    try:
        arguments = ["analyze", "vit_nano", "--limit", "2", "--output", str(tmp_path), "--brightness-scale", "3"]
        assert main([*arguments, "--what", "overfocus"]) == 2
        assert "--brightness-scale belongs to brightness" in capsys.readouterr().err
        assert main([*arguments, "--what", "brightness"]) == 0
        assert "brightness" in capsys.readouterr().out
        with pytest.raises(SystemExit):
            main(["analyze", "--help"])
        shown = capsys.readouterr().out
        assert "what white is" in shown
        assert "bottleneck, brightness, or all" in " ".join(shown.replace("│", " ").split())
    finally:
        del STUDIES.own["brightness"]  # type: ignore[attr-defined]
        importlib.reload(command)


@dataclass(frozen=True)
class OtherMasks(Options):
    masks: int = 7


@dataclass(frozen=True)
class OtherLimit(Options):
    limit: int = 7


def test_an_option_that_means_something_else_elsewhere_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    other = type("OtherStudy", (Brightness,), {"name": "other", "options": OtherMasks})
    monkeypatch.setitem(STUDIES.own, "other", other)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"occlusion.*other.*masks"):
        options_class()
    other.options = OtherLimit  # type: ignore[attr-defined]
    monkeypatch.delitem(sys.modules, "robustvit.cli.analyze", raising=False)
    with pytest.raises(ValueError, match="limit"):
        importlib.import_module("robustvit.cli.analyze")


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_is_registered_under_its_name_and_has_described_options(name: str) -> None:
    study = study_of(name)
    assert study.name == name
    assert study.own_options({}) == study.options()
    for option in study.option_names():
        assert f"    {option}: " in (options_class().__doc__ or "")


def test_the_table_in_the_docs_is_that_of_the_studies() -> None:
    rows = []
    for name in STUDIES:
        study = study_of(name)
        needs = "; ".join(need.text for need in study.needs) or "nothing"
        flags = ", ".join(f"`--{option.replace('_', '-')}`" for option in study.option_names())
        rows.append(f"| `{name}` | {study.summary} | {needs} | {flags} |")
    assert [line for line in DOCS.read_text().splitlines() if line.startswith("| `") and "`--what`" not in line] == rows
