"""Writes report.html: the results as one page that needs nothing else."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from robustvit.corruptions.conditions import CLEAN
from robustvit.evaluation.results import CellResult, ModelResults, Results, WorstImage
from robustvit.metrics.measures import ACCURACY, MEAN_CORRUPTION_ERROR, base_key, measure_of
from robustvit.report import charts, comparison, differences, figures, numbers
from robustvit.report.attacks import AttackSection, attack_section
from robustvit.report.class_heat import ClassHeat, class_heats, compared_classes
from robustvit.report.classes import ClassTable, class_tables
from robustvit.report.compared_images import compared_images
from robustvit.report.conditions import cell_label, condition_panels, condition_tables
from robustvit.report.curve_figures import CurveFigure, compared_traces, curve_figures
from robustvit.report.grids import Grid, further_measures, grids_of, other_cells, sequence_cells
from robustvit.report.headline import headline
from robustvit.report.scatter import compared_scatters
from robustvit.runtime import colours
from robustvit.runtime.files import write_whole
from robustvit.tasks.per_class import CORRUPTED

__all__ = ["Chapter", "page_environment", "render_page", "write_page"]

MOST_SKIPPED = 500
"""More skipped images than this are counted, not named."""


@dataclass(frozen=True)
class Chapter:
    """Something to tell before the numbers.

    Attributes:
        title: of the chapter.
        paragraphs: plain text.
        picture: a PNG below them, if any.
        dark_image: the same for dark pages.
        caption: what the image shows, for readers who cannot see it.
    """

    title: str
    paragraphs: tuple[str, ...]
    picture: bytes | None = None
    dark_image: bytes | None = None
    caption: str = ""

    @property
    def source(self) -> str:
        """The image as an address that holds it."""
        return _png_source(self.picture)

    @property
    def dark_source(self) -> str:
        """Likewise, for dark pages."""
        return _png_source(self.dark_image or self.picture)


def _png_source(png: bytes | None) -> str:
    return f"data:image/png;base64,{base64.b64encode(png or b'').decode()}"


@dataclass(frozen=True)
class GridFigures:
    """What the page shows of one grid."""

    grid: Grid
    panels: tuple[figures.Panel, ...]
    heat: figures.Heat
    curves: Markup
    extremes: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]


@dataclass(frozen=True)
class ModelSection:
    """What the page shows of one network."""

    place: int
    model: ModelResults
    cards: tuple[comparison.Card, ...]
    conditions: tuple[figures.Panel, ...]
    grids: tuple[GridFigures, ...]
    sequences: Markup | None
    attacks: AttackSection | None
    classes: tuple[ClassTable, ...]
    heats: tuple[ClassHeat, ...]
    curves: tuple[CurveFigure, ...]
    worst: tuple[tuple[str, tuple[WorstImage, ...]], ...]
    facts: dict[str, Any]
    runs: tuple[tuple[str, dict[str, Any]], ...]


def write_page(results: Results, path: Path, *, chapters: Sequence[Chapter] = ()) -> None:
    """Writes the report.

    Args:
        results: of one or several networks.
        path: the HTML file; appears whole or not at all.
        chapters: to stand before the numbers.
    """
    with write_whole(path) as file:
        file.write_text(render_page(results, chapters), encoding="utf-8", errors="backslashreplace")


def render_page(results: Results, chapters: Sequence[Chapter] = ()) -> str:
    """The report as HTML."""
    environment = page_environment()
    environment.filters["condition"] = partial(numbers.condition_label, suites=results.suites)
    return environment.get_template("page.html.j2").render(_contents(results), chapters=chapters)


def page_environment() -> Environment:
    """What all pages are rendered with: the templates and the filters that write numbers and names."""
    environment = Environment(
        loader=PackageLoader("robustvit.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"colours": colours, "series_key": charts.key}
    environment.filters |= {
        "percent": numbers.percent,
        "interval": numbers.interval,
        "count": numbers.count,
        "duration": numbers.duration,
        "words": numbers.words,
        "condition": numbers.words,
        "minus": numbers.with_minus_signs,
        "quantity": numbers.quantity,
        "moment": numbers.moment,
        "breakable": numbers.breakable,
        "fact": fact,
        "picture": picture,
    }
    return environment


def _contents(results: Results) -> dict[str, Any]:
    top = figures.heat_top(results)
    several = len(results.models) > 1
    sequenced = [model for model in results.models if sequence_cells(model)]
    attacked = list(dict.fromkeys(name for model in results.models for m in model.measurements for name in m.attacks))
    return {
        "attacked": attacked,
        "attacked_only": bool(attacked) and not any(grids_of(model) for model in results.models),
        "results": results,
        "headline": headline(results),
        "remarks": results.remarks(),
        "untrained": [model.name for model in results.models if model.is_untrained],
        "several": several,
        "key": charts.key,
        "sections": [_section(place, model, top) for place, model in enumerate(results.models)],
        "ranking": comparison.ranking(results.models),
        "overview": comparison.overview(results.models) if several else (),
        "group_tables": differences.group_tables(results.models) if several else [],
        "condition_tables": condition_tables(results.models) if several else [],
        "compared_images": compared_images(results.models) if several else (),
        "meanings": _told_once(results),
        "difference_tables": differences.difference_tables(results) if several else [],
        "compared_curves": comparison.compared_curves(results.models) if several else [],
        "compared_classes": compared_classes(results.models) if several else [],
        "compared_traces": compared_traces(results.models) if several else (),
        "compared_scatters": compared_scatters(results.models) if several else (),
        "details": comparison.detail_table(results.models),
        "compared_heats": comparison.compared_heats(results, top) if several else [],
        "sequences": comparison.compared_sequences(results.models) if several else [],
        "is_drawn": any(model.legend or model.worst or class_heats(model) for model in results.models),
        "others": [(model, cell, cell_label(cell, model)) for model in results.models for cell in other_cells(model)],
        "pictures": _images(results),
        "skipped": list(_skipped(results)),
        "no_answers": [(m.name, lost) for m in results.models if (lost := sum(cell.no_answer for cell in m.cells))],
        "most_skipped": MOST_SKIPPED,
        "definitions": _definitions(results),
        "primary": measure_of(results.primary).label,
        "noun": measure_of(results.primary).words,
        "further": [measure_of(key) for key in further_measures(results.models)],
        "sequence_measure": figures.sequence_measure(sequenced) if sequenced else None,
    }


NO_CORRUPTION_ERROR = (
    "Not given here. It divides the errors by those of AlexNet on ImageNet-C, so it means something only for all 15 "
    "corruptions and 5 severities of the suite imagenet-c and a network with ImageNet's 1000 classes."
)


def _images(results: Results) -> int:
    """How many there were, of the set that the headline speaks of."""
    cells = [cell for model in results.models for cell in model.cells]
    clean = [cell.images for cell in cells if cell.suite == "clean"]
    return max(clean or [cell.images for cell in cells], default=0)


def _section(place: int, model: ModelResults, top: float) -> ModelSection:
    shown = tuple(
        GridFigures(
            grid, figures.bar_panels(grid), figures.grid_heat(grid, top), figures.severity_curves(grid), figures.extremes(grid)
        )
        for grid in grids_of(model)
    )
    facts = {"parameters": numbers.count(model.parameters), "took": numbers.duration(model.seconds)}
    runs = tuple((", ".join(m.suites), {**m.data, **m.protocol, **m.corruption}) for m in model.measurements)
    prepared = runs or (("", model.protocol),)
    classes = (class_tables(model), class_heats(model))
    rest = (figures.sequence_bars(model), attack_section(model, place), *classes, curve_figures(model, place), _worst(model))
    return ModelSection(place, model, comparison.cards(model), condition_panels(model, place), shown, *rest, facts, prepared)


def _worst(model: ModelResults) -> tuple[tuple[str, tuple[WorstImage, ...]], ...]:
    """(title, images) of the images that went worst, by each number that they are ranked by; none of them twice."""
    titles = {CLEAN.name: "The worst images", CORRUPTED: "The worst images under corruption"}
    plain = {one.example.id for one in model.worst if one.ranked == CLEAN.name}
    images = [one for one in model.worst if one.ranked == CLEAN.name or one.example.id not in plain]
    found = ((title, tuple(one for one in images if one.ranked == ranked)) for ranked, title in titles.items())
    return tuple((title, shown) for title, shown in found if shown)


def _skipped(results: Results) -> Iterator[tuple[str, tuple[tuple[str, str], ...]]]:
    """(networks, images that they did not see), networks with the same images together."""
    found: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for model in results.models:
        if model.skipped:
            found.setdefault(model.skipped, []).append(model.name)
    for skipped, names in found.items():
        yield ("" if len(names) == len(results.models) else ", ".join(names)), skipped


def _definitions(results: Results) -> list[tuple[str, str]]:
    """(label, meaning) of every kind of number on the page."""
    names = comparison.summary_names(results.models)
    cells = [cell for model in results.models for cell in model.cells]
    labels = {measure_of(name).label for name in names}
    names += comparison.detail_names(results.models)
    names += [key for key in further_measures(results.models) if measure_of(key).label not in labels]
    meanings = _told_once(results)
    known = [(measure_of(name).label, meanings.get(base_key(name), "")) for name in dict.fromkeys(names)]
    if any(m.group_accuracies for model in results.models for m in model.measurements):
        known.append(("Mean of a group", results.definitions.get("group_accuracies", "")))
    has_grids = any(grids_of(model) for model in results.models)
    if has_grids and results.primary == ACCURACY.key and MEAN_CORRUPTION_ERROR.key not in names:
        known.append((MEAN_CORRUPTION_ERROR.label, NO_CORRUPTION_ERROR))
    if any(m.attacks for model in results.models for m in model.measurements):
        known.append(("Mean perturbation", results.definitions.get("mean_perturbation", "")))
    if results.differences:
        known.append(("Difference", results.definitions.get("differences", "")))
    if _has_intervals(results, cells):
        known.append(("Interval", results.definitions.get("interval", "")))
    return known


def _told_once(results: Results) -> dict[str, str]:
    """Key -> meaning, where that of the primary measure stands only in the first of those that begin with it."""
    meanings, primary = dict(results.definitions), measure_of(results.primary).meaning
    names = dict.fromkeys(map(base_key, comparison.summary_names(results.models)))
    for name in [name for name in names if meanings.get(name, "").startswith(f"{primary} ")][1:]:
        meanings[name] = meanings[name].removeprefix(f"{primary} ")
    return {name: numbers.with_minus_signs(text) for name, text in meanings.items()}


def _has_intervals(results: Results, cells: list[CellResult]) -> bool:
    values = [cell.main for cell in cells] + [value for model in results.models for value in model.summary.values()]
    return any(value is not None and value.low is not None for value in values)


def fact(value: Any) -> str:
    """A value of the protocol or the data, as a reader would write it."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{numbers.words(str(k))}: {fact(v)}" for k, v in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(fact(v) for v in value) or "none"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def picture(source: str) -> str:
    """The data URI of an image; empty for anything that the page would have to fetch."""
    return source if source.startswith("data:image/") else ""
