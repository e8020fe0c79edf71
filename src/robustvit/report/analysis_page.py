"""Writes the figures of an analysis, and analysis.html: one page with all of them that needs nothing else."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from robustvit.report import analysis_curves as curves
from robustvit.report import analysis_pictures as pictures
from robustvit.report.analysis_drawing import Plate, encode, short
from robustvit.report.dark_figures import darken
from robustvit.report.numbers import words
from robustvit.report.page import page_environment
from robustvit.runtime.files import write_whole

if TYPE_CHECKING:
    from robustvit.analysis.analyze import Analysis

__all__ = ["plates_of", "render_analysis", "write_analysis"]

KINDS: tuple[Literal["png", "svg"], ...] = ("png", "svg")


@dataclass(frozen=True)
class Section:
    """What the page shows of one analysis: its figures as (plate, light and dark address of it), and who was left out."""

    what: str
    definition: str
    plates: tuple[tuple[Plate, str, str], ...]
    left_out: tuple[tuple[str, str], ...]


def plates_of(analysis: Analysis) -> Iterator[tuple[str, list[Plate]]]:
    """(analysis, its figures)."""
    spoiled_by = spoiling(analysis)
    drawers: dict[str, Any] = {
        "attention": lambda found: pictures.attention_plates(found, spoiled_by),
        "stability": lambda found: curves.stability_plates(found, spoiled_by),
        "occlusion": curves.occlusion_plates,
        "head-diversity": curves.head_diversity_plates,
        "overfocus": curves.overfocus_plates,
        "eigenvalues": curves.eigenvalue_plates,
        "noise-decay": curves.noise_decay_plates,
        "clusters": lambda found: pictures.cluster_plates(found, spoiled_by),
        "token-labels": pictures.token_label_plates,
        "patch-corruption": pictures.patch_corruption_plates,
        "bottleneck": curves.bottleneck_plates,
    }
    names = _told_apart(list(analysis.networks))
    for what, found in analysis.findings.items():
        yield what, drawers[what]({names.get(name, name): one for name, one in found.items()})


def _told_apart(names: list[str]) -> dict[str, str]:
    """Names that stay different when they are shortened."""
    return {
        name: f"{name} ({i + 1})" if [short(other) for other in names].count(short(name)) > 1 else name
        for i, name in enumerate(names)
    }


def spoiling(analysis: Analysis) -> str:
    """The corruption in words."""
    options = analysis.about["options"]
    return (
        "patches of noise" if options["corruption"] == "patches" else f"{words(options['corruption'])} {options['severity']}"
    )


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
            spoiled_by=spoiling(analysis),
            is_spoiled=any(what in analysis.findings for what in ("attention", "stability", "clusters")),
            leads=list(_leads(analysis)),
            settings=_settings(analysis.about["options"]),
        )
    )


def _settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """What was chosen, without what was left to each analysis; blocks as the figures count them."""
    settings = {"blocks" if name == "layers" else name: value for name, value in options.items() if value is not None}
    if "blocks" in settings:
        settings["blocks"] = [_block(place) for place in settings["blocks"]]
    return settings


def _block(place: int) -> str:
    if place >= 0:
        return str(place + 1)
    return "last" if place == -1 else f"{-place} from the end"


def _leads(analysis: Analysis) -> Iterator[str]:
    """The numbers that a reader would quote first, in words."""
    sentences = {
        "stability": ("mean", f"Under {spoiling(analysis)}, attention stays alike to a cosine of", ".2f"),
        "occlusion": ("mean_accuracy", "With random patches covered, accuracy is", ".1%"),
        "head-diversity": ("mean", "Heads of a block are alike to a cosine of", ".2f"),
    }
    for what, (key, text, form) in sentences.items():
        found = analysis.findings.get(what, {})
        told = ", ".join(f"{one.numbers[key]:{form}} ({name})" for name, one in found.items() if one.numbers[key] is not None)
        if told:
            yield f"{text} {told}."
