"""`robustvit analyze`: what networks do inside, as figures and numbers."""

from __future__ import annotations

import inspect
import json
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from robustvit.analysis.options import AnalysisOptions, check_used
from robustvit.analysis.registry import STUDIES, study_of
from robustvit.cli.console import going_on, note, note_untrained, print_json, progress_bar, tables
from robustvit.cli.measured import NAMES
from robustvit.cli.networks import load_networks

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.table import Table

    from robustvit.analysis.analyze import Analysis
    from robustvit.analysis.finding import Finding

__all__ = ["analyze"]

SHIPPED = ("vit_nano", "fan_vit_nano", "vit_pico")
GENERATED = "scenes-easy:64"
WHAT = f"{', '.join(STUDIES)}, or all."


def analyze(
    models: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="[MODEL ...]")] = SHIPPED,
    *,
    images: Annotated[str, tyro.conf.arg(metavar="PATH")] = GENERATED,
    name: Annotated[tuple[str, ...], NAMES] = (),
    what: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME [NAME ...]", help=WHAT)] = ("all",),
    output: Annotated[Path, tyro.conf.arg(metavar="FOLDER")] = Path("runs/analysis"),
    resume: bool = False,
    limit: Annotated[int | None, tyro.conf.arg(metavar="N")] = None,
    options: Annotated[AnalysisOptions, tyro.conf.arg(name="")],
    img_size: Annotated[tuple[int, int] | None, tyro.conf.arg(metavar="H W")] = None,
    class_map: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None,
    ignore_orientation: bool = False,
    device: str = "cpu",
    untrained: bool = False,
    as_json: Annotated[bool, tyro.conf.arg(name="json")] = False,
) -> None:
    """Look inside networks: every figure of the papers, for one network or several side by side.

    Without arguments: all analyses of the networks that come with the package, on generated images.

    Args:
        models: as in `robustvit eval`: NAME, NAME=FILE, FILE, hf-hub:ID or local-dir:FOLDER.
        name: short names for the networks, in order, for tables and reports; by default what was typed.
        images: an image, a folder of images or of class folders, a .tar file, scenes, ...; of segmenters also a dataset with
            label maps, of detectors one with annotations.
        what: see `WHAT`.
        output: folder for analysis.html, analysis.json, arrays.npz and figures/.
        resume: go on with an interrupted run in the output folder; a finished one is shown again.
        limit: look only at so many images, of class folders drawn by the seed.
        img_size: height and width of the input; by default the network's, and of segmenters and detectors that of the first
            image, made smaller where it would have more than 1024 tokens. FAN's clusters are shown at 448 448.
        class_map: JSON file from class names to outputs, where they are not in the same order.
        ignore_orientation: take pixels as they are stored, whatever the EXIF tag of cameras says.
        device: cpu, cuda, cuda:1, mps, ...
        untrained: random weights for networks given by NAME alone (to try things out).
        as_json: print JSON.
    """
    check_used(options, what)
    networks = load_networks(models or SHIPPED, untrained, {"img_size": img_size} if img_size else {}, device, name)
    from robustvit.tasks.class_matching import read_class_map

    mapping = read_class_map(class_map) if class_map is not None else None
    how = dict(limit=limit, size=img_size, class_map=mapping, ignore_orientation=ignore_orientation)
    analysis = _analysis(networks, images, what, options, output, resume, how)
    if as_json:
        print_json(json.loads((output / "analysis.json").read_text()))
        return
    _print(analysis, output)


if _taken := {field.name for field in fields(AnalysisOptions)} & set(inspect.signature(analyze).parameters):
    raise ValueError(f"the option {min(_taken)} of a study is one of the command itself; give it another name")


def _analysis(
    networks: dict[str, Any],
    images: str,
    what: tuple[str, ...],
    options: AnalysisOptions,
    output: Path,
    resume: bool,
    how: Mapping[str, Any],
) -> Analysis:
    """Runs it with a progress bar; `how` has further arguments of `analyze`."""
    from robustvit.analysis.analyze import analyze as run_analysis

    estimated = _tell_cost if "all" in what and not resume else None
    advice = f"what is done is kept in {output}, and the same command with --resume goes on from there"
    with going_on(advice), progress_bar() as report:
        running: dict[str, Any] = dict(output=output, resume=resume, report=report, estimated=estimated)
        return run_analysis(networks, images, what, options, **how, **running)


def _tell_cost(seconds: Mapping[str, float]) -> None:
    """What all analyses will take, the longest first."""
    from robustvit.report.numbers import duration

    longest = sorted(seconds.items(), key=lambda pair: -pair[1])
    named = ", ".join(f"{what} {duration(time)}" for what, time in longest[:3])
    shorter = ["limit", *(option for what in seconds for option in study_of(what).costly)]
    flags = [f"--{option.replace('_', '-')}" for option in shorter]
    which = f"{', '.join(flags[:-1])} and {flags[-1]} make" if len(flags) > 1 else f"{flags[0]} makes"
    note(
        f"all analyses will take about {duration(sum(seconds.values()))} on this machine, by a short trial ({named}); --what "
        f"chooses fewer, {which} them shorter"
    )


def _print(analysis: Analysis, output: Path) -> None:
    table = _table(analysis)
    if table.row_count:
        tables().print(table)
    note_untrained([name for name, facts in analysis.networks.items() if facts["is_untrained"]])
    for what, names in analysis.left_out.items():
        for name, why in names.items():
            note(f"{what} of {name} was left out: {why}")
    if analysis.about["pictures"]["figures"]:
        note(analysis.about["pictures"]["figures"])
    for name, facts in analysis.networks.items():
        _note_images(name, facts)
    for what, found in analysis.findings.items():
        for remark in study_of(what).remarks(found):
            note(remark)
    _note_precision(analysis)
    note(f"{output}/analysis.html shows it; numbers are in analysis.json, arrays in arrays.npz, figures in figures/")


def _table(analysis: Analysis) -> Table:
    """The numbers of all studies, one column per network; of curves, the last entry."""
    from rich.table import Table

    table = Table(header_style="bold", pad_edge=False)
    for heading in ("analysis", "number", *analysis.networks):
        table.add_column(heading, justify="left" if heading in ("analysis", "number") else "right")
    for what, found in analysis.findings.items():
        for key in _quoted(found, analysis):
            values = [_shown(found[name].numbers.get(key)) if name in found else "" for name in analysis.networks]
            is_curve = any(isinstance(one.numbers.get(key), list) for one in found.values())
            which = f", {study_of(what).last_entry}" if is_curve else ""
            table.add_row(what, key.replace("_", " ") + which, *values)
    return table


def _note_precision(analysis: Analysis) -> None:
    """By how much half precision moves the numbers of each study, of whichever network."""
    told = []
    for what, found in analysis.findings.items():
        changes = [(change, key) for one in found.values() for key, change in one.half_precision.items()]
        if changes:
            largest, key = max(changes)
            told.append(f"{what} {largest:.2g} ({key.replace('_', ' ')})")
    if told:
        precision = analysis.about["options"]["precision"]
        note(f"largest differences of {precision} from fp32, in a trial with the first images: {', '.join(told)}")


def _note_images(name: str, facts: Mapping[str, Any]) -> None:
    """What a reader must know about the images that a network saw."""
    if facts["enlarged"]:
        size = f"{facts['input'][0]}x{facts['input'][1]}"
        note(f"{_images(facts['enlarged'])} smaller than the input of {name} ({size}), and enlarged")
    if facts["skipped"]:
        note(f"{_images(len(facts['skipped']))} left out, which could not be read for {name}; analysis.json names them")


def _images(count: int) -> str:
    return "1 image is" if count == 1 else f"{count} images are"


def _quoted(found: Mapping[str, Finding], analysis: Analysis) -> list[str]:
    """The numbers that were found for networks, and curves over blocks; without settings."""
    numbers = [pair for name, one in found.items() if name in analysis.networks for pair in one.numbers.items()]
    settings = analysis.about["options"]
    return list(dict.fromkeys(key for key, value in numbers if isinstance(_last(value), float) and key not in settings))


def _last(value: object) -> object:
    return value[-1] if isinstance(value, list) and value else value


def _shown(value: object) -> str:
    """A number, or the last one of a curve."""
    number = _last(value)
    return f"{number:.3f}" if isinstance(number, float) else ""
