"""Writes the figures of an analysis, and analysis.html: one page with all of them that needs nothing else."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from robustvit.analysis.drawing import Plate, encode, short
from robustvit.analysis.registry import STUDIES, study_of
from robustvit.report.dark_figures import darken
from robustvit.report.page import page_environment
from robustvit.runtime.files import write_whole

if TYPE_CHECKING:
    from robustvit.analysis.analyze import Analysis

__all__ = ["plates_of", "render_analysis", "write_analysis"]

KINDS: tuple[Literal["png", "svg"], ...] = ("png", "svg")


@dataclass(frozen=True)
class Section:
    """What the page shows of one study: its figures as (plate, light and dark address of it), and who was left out."""

    what: str
    definition: str
    plates: tuple[tuple[Plate, str, str], ...]
    left_out: tuple[tuple[str, str], ...]


def plates_of(analysis: Analysis) -> Iterator[tuple[str, list[Plate]]]:
    """(study, its figures)."""
    names = _told_apart(list(analysis.networks))
    for what, found in analysis.findings.items():
        study = study_of(what)
        shown = {names.get(name, name): one for name, one in found.items()}
        yield what, study.plates(shown, study.own_options(analysis.about["options"]))


def _told_apart(names: list[str]) -> dict[str, str]:
    """Names that stay different when they are shortened."""
    return {
        name: f"{name} ({i + 1})" if [short(other) for other in names].count(short(name)) > 1 else name
        for i, name in enumerate(names)
    }


def write_analysis(analysis: Analysis, folder: Path) -> list[str]:
    """Writes figures/NAME.png, figures/NAME.svg and analysis.html into `folder`, each whole or not at all; returns which."""
    (folder / "figures").mkdir(exist_ok=True)
    sections, written = [], ["analysis.html"]
    for what, plates in plates_of(analysis):
        shown = []
        for plate in plates:
            for kind in KINDS:
                content = encode(plate.figure, kind)
                written.append(f"figures/{plate.name}.{kind}")
                with write_whole(folder / written[-1]) as file:
                    file.write_bytes(content)
                if kind == "png":
                    light = _source(content)
            darken(plate.figure)  # last: it changes the figure
            shown.append((plate, light, _source(encode(plate.figure, "png"))))
        definition = next(iter(analysis.findings[what].values())).definition
        sections.append(Section(what, definition, tuple(shown), tuple(analysis.left_out.get(what, {}).items())))
    with write_whole(folder / "analysis.html") as file:
        file.write_text(render_analysis(analysis, sections), encoding="utf-8", errors="backslashreplace")
    return written


def _source(png: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"


def render_analysis(analysis: Analysis, sections: list[Section]) -> str:
    """The page as HTML."""
    missing = [(what, tuple(names.items())) for what, names in analysis.left_out.items() if what not in analysis.findings]
    skipped = {name: why for facts in analysis.networks.values() for name, why in facts["skipped"].items()}
    return (
        page_environment()
        .get_template("analysis.html.j2")
        .render(
            analysis=analysis,
            sections=sections,
            missing=missing,
            skipped=skipped,
            untrained=[name for name, facts in analysis.networks.items() if facts.get("is_untrained")],
            spoiled_by=_spoiled_by(analysis),
            leads=list(_leads(analysis)),
            settings=_settings(analysis),
        )
    )


def _spoiled_by(analysis: Analysis) -> str:
    """The corruption in words; empty where no study compared clean images with corrupted ones."""
    studies = [study_of(what) for what in analysis.findings]
    options = [study.own_options(analysis.about["options"]) for study in studies if study.is_spoiled]
    return options[0].spoiled_by if options else ""


def _settings(analysis: Analysis) -> dict[str, Any]:
    """What was chosen, without what was left to each study."""
    stored = analysis.about["options"]
    return {name: value for what in STUDIES for name, value in study_of(what).own_options(stored).facts().items()}


def _leads(analysis: Analysis) -> Iterator[str]:
    """The numbers that a reader would quote first, in words."""
    for what, found in analysis.findings.items():
        study = study_of(what)
        lead = study.lead(found, study.own_options(analysis.about["options"]))
        if lead is not None:
            yield lead
