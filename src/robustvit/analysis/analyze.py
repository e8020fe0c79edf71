"""`analyze`: any analyses of one or several networks on the same pictures -> `Analysis`, with files and figures."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import platform
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from robustvit.analysis.attention_maps import block_positions
from robustvit.analysis.finding import Finding
from robustvit.analysis.options import AnalysisOptions
from robustvit.analysis.patch_corruption import chosen_patches
from robustvit.analysis.studies import STUDIES
from robustvit.analysis.subject import Subject, make_subject
from robustvit.block_outputs import blocks_of
from robustvit.corruptions.parameters import SMALLEST
from robustvit.data.protocols import normalisation_of
from robustvit.evaluation.processes import Processes
from robustvit.evaluation.unfinished import add_weights, unfinished_folder
from robustvit.files import write_whole
from robustvit.locking import locking_output
from robustvit.memory import fits_memory
from robustvit.models.names import nearest

__all__ = ["SHARED", "Analysis", "analyze", "supported"]

SHARED = "all networks"
"""Stands for the network in analyses that need none."""
Report = Callable[[str, int, int], None]
"""Told (what is being done, pictures done, in all)."""
SPOILING = ("attention", "stability", "clusters")
"""Analyses that compare clean pictures with corrupted ones."""
COVERING = ("occlusion", "patch-corruption")
"""Analyses that cover patches."""


@dataclass(frozen=True)
class Analysis:
    """What was found.

    Attributes:
        findings: analysis -> network -> finding.
        left_out: analysis -> network -> why it was not possible.
        networks: name -> parameters, input and what its labels are.
        about: pictures, settings, versions, when.
    """

    findings: Mapping[str, Mapping[str, Finding]]
    left_out: Mapping[str, Mapping[str, str]]
    networks: Mapping[str, Mapping[str, Any]]
    about: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """Everything but the arrays."""
        studies = {
            what: {
                "definition": next(iter(found.values())).definition,
                "networks": {name: dict(finding.numbers) for name, finding in found.items()},
            }
            for what, found in self.findings.items()
        }
        left_out = {what: dict(names) for what, names in self.left_out.items()}
        networks = {name: dict(facts) for name, facts in self.networks.items()}
        return {**self.about, "networks": networks, "analyses": studies, "left_out": left_out}

    def save(self, folder: str | Path) -> Path:
        """Writes analysis.json, arrays.npz, figures/*.png and *.svg, and analysis.html; returns the folder."""
        from robustvit.report.analysis_page import write_analysis

        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        arrays = {
            f"{what}/{name}/{key}": array
            for what, found in self.findings.items()
            for name, finding in found.items()
            for key, array in finding.arrays.items()
        }
        with write_whole(folder / "arrays.npz") as file, file.open("wb") as stream:
            np.savez_compressed(stream, **arrays)  # type: ignore[arg-type]
        with write_whole(folder / "analysis.json") as file:
            file.write_text(json.dumps(self.to_json(), indent=1, allow_nan=False))
        write_analysis(self, folder)
        return folder


@locking_output
def analyze(
    models: Mapping[str, nn.Module],
    images: Any,
    what: Sequence[str] = ("all",),
    options: AnalysisOptions | None = None,
    *,
    limit: int | None = None,
    size: tuple[int, int] | None = None,
    class_map: dict[str, int] | None = None,
    ignore_orientation: bool = False,
    output: str | Path | None = None,
    resume: bool = False,
    report: Report | None = None,
) -> Analysis:
    """Looks into networks.

    Args:
        models: name -> classifier; left as it was.
        images: a picture, a folder of pictures or of class folders, or what else `open_pictures` takes.
        what: of `STUDIES`, or "all": then what a network cannot do is left out, with the reason.
        options: of the analyses.
        limit: look only at the first so many pictures.
        size: (H, W) of the input, other than the networks' own.
        class_map: class name -> output, where they are not in the same order.
        ignore_orientation: take pixels as they are stored, whatever the EXIF tag of cameras says.
        output: folder for the result, see `Analysis.save`; meanwhile for what is done so far.
        resume: go on with what is in `output`.
        report: told about progress.

    Raises:
        ValueError: an unknown analysis, or one that a network does not support.
    """
    chosen = _chosen(what)
    settings = options or AnalysisOptions()
    _check(models, limit, output, resume)
    subjects = {
        name: make_subject(
            name,
            network,
            images,
            settings,
            limit=limit,
            size=size,
            class_map=class_map,
            ignore_orientation=ignore_orientation,
        )
        for name, network in models.items()
    }
    left_out: dict[str, dict[str, str]] = {}
    for subject in subjects.values():
        with fits_memory(1, subject.protocol.size):
            left_out = _with_left_out(left_out, subject, chosen, is_asked="all" not in what)
            _check_subject(subject, [name for name in chosen if subject.name not in left_out.get(name, {})])
    folder = None
    if output is not None:
        folder = unfinished_folder(Path(output), _fingerprint(subjects, chosen, settings), resume, Processes())
    try:
        findings = _run(subjects, chosen, left_out, folder, report)
    except BaseException:
        _remove_empty(folder)
        raise
    analysis = Analysis(findings, left_out, _networks(subjects, findings), _about(subjects, settings))
    if output is not None and folder is not None:
        analysis.save(output)
        shutil.rmtree(folder, ignore_errors=True)
    return analysis


def supported(subject: Subject) -> tuple[str, ...]:
    """The analyses that are possible with this network."""
    return tuple(name for name in STUDIES if _obstacle(subject, name) is None)


def _obstacle(subject: Subject, what: str) -> str | None:
    """Why an analysis is not possible with this network; None where it is."""
    needs, kind = STUDIES[what].needs, type(subject.network).__name__
    if needs == "attention" and subject.trouble_with_attention is not None:
        return subject.trouble_with_attention
    if needs == "token head" and getattr(subject.network, "token_head", None) is None:
        return f"{kind} has no token head; build one with token_head=True and train it with STL (docs/stl.md)"
    is_trained = what == "patch-corruption" and subject.options.corruption_model is not None
    if needs == "blocks" and not is_trained and subject.trouble_with_blocks is not None:
        return subject.trouble_with_blocks
    if what in COVERING or (what in SPOILING and subject.options.corruption == "patches"):
        try:
            _check_tiling(subject)
        except ValueError as error:
            return str(error)
    if what == "clusters" and importlib.util.find_spec("sklearn") is None:
        return "clusters need scikit-learn: pip install 'robustvit[analysis]'"
    return None


def _check_tiling(subject: Subject) -> None:
    size, side = subject.protocol.size, subject.patch_side
    if size[0] % side or size[1] % side:
        raise ValueError(f"patches of {side} pixels do not tile the {size[0]}x{size[1]} of its input; give another --img-size")


def _chosen(what: Sequence[str]) -> tuple[str, ...]:
    if not what:
        raise ValueError(f"there is no analysis to make; choose among {', '.join(STUDIES)}, or all")
    for name in what:
        if name not in (*STUDIES, "all"):
            hint = nearest(name, STUDIES) or f"; there are {', '.join(STUDIES)}, and all"
            raise ValueError(f"there is no analysis {name!r}{hint}")
    return tuple(STUDIES) if "all" in what else tuple(dict.fromkeys(what))


def _check(models: Mapping[str, nn.Module], limit: int | None, output: str | Path | None, resume: bool) -> None:
    if not models:
        raise ValueError("there is no network to look into; give at least one, such as fan_vit_nano")
    if limit is not None and limit < 1:
        raise ValueError(f"limit={limit} is not possible; give at least 1")
    if output is None and resume:
        raise ValueError("resume=True needs the output folder of the run to go on with")


def _with_left_out(
    known: Mapping[str, Mapping[str, str]], subject: Subject, chosen: Sequence[str], *, is_asked: bool
) -> dict[str, dict[str, str]]:
    """analysis -> network -> why it is not possible: what is `known`, and what this network cannot do.

    Raises:
        ValueError: what is not possible was asked for by name.
    """
    found = {what: dict(names) for what, names in known.items()}
    for what in chosen:
        reason = _obstacle(subject, what)
        if reason is not None and is_asked:
            raise ValueError(f"{what} of {subject.name}: {reason}; it supports {', '.join(supported(subject))}")
        if reason is not None:
            found.setdefault(what, {})[subject.name] = reason
    return found


def _check_subject(subject: Subject, chosen: Sequence[str]) -> None:
    """Finds before the work what would fail in it.

    Raises:
        ValueError, OSError: a setting that does not fit this network or these pictures; no picture that can be read.
    """
    options, name = subject.options, subject.name
    H, W = subject.protocol.size
    if min(H, W) < SMALLEST and any(what in SPOILING for what in chosen) and options.corruption != "patches":
        raise ValueError(
            f"corruptions need pictures of at least {SMALLEST}x{SMALLEST} pixels, and {name} takes {H}x{W}; give "
            "--corruption patches, or a larger --img-size"
        )
    if options.layers is not None and {"attention", "clusters"} & set(chosen):
        block_positions(options.layers, len(blocks_of(subject.network)))
    if "patch-corruption" in chosen:
        chosen_patches(options).check(subject.pixel_network, (H, W))
    if any(STUDIES[what].needs != "nothing" for what in chosen):
        subject.try_out()
        subject.only(options.picture if "attention" in chosen else 0)


def _remove_empty(folder: Path | None) -> None:
    """Removes the folder of a run that has not finished anything, so that it is in nobody's way."""
    if folder is not None and not list(folder.glob("*.npz")):
        shutil.rmtree(folder, ignore_errors=True)


def _run(
    subjects: Mapping[str, Subject],
    chosen: Sequence[str],
    left_out: Mapping[str, Mapping[str, str]],
    folder: Path | None,
    report: Report | None,
) -> dict[str, dict[str, Finding]]:
    findings: dict[str, dict[str, Finding]] = {}
    for what in chosen:
        needs_network = STUDIES[what].needs != "nothing"
        for place, (name, subject) in enumerate(subjects.items() if needs_network else [*subjects.items()][:1]):
            if name in left_out.get(what, {}):
                continue
            stored = folder / f"{what}-{place}.npz" if folder else None
            finding = _stored(stored) or _made(what, subject, report)
            if stored is not None and not stored.exists():
                finding.save(stored)
            findings.setdefault(what, {})[name if needs_network else SHARED] = finding
    return findings


def _stored(path: Path | None) -> Finding | None:
    return Finding.load(path) if path is not None and path.exists() else None


def _made(what: str, subject: Subject, report: Report | None) -> Finding:
    subject.progress = (lambda done, total: report(f"{what}: {subject.name}", done, total)) if report else None
    at_once = 1 if what == "attention" else min(subject.options.batch_size, len(subject.pictures))
    with fits_memory(at_once, subject.protocol.size):
        finding = STUDIES[what].run(subject)
    return replace(finding, skipped=dict(subject.skipped))


def _fingerprint(subjects: Mapping[str, Subject], chosen: Sequence[str], options: AnalysisOptions) -> str:
    """Changes when anything changes that a finding depends on: version, options, networks, pictures."""
    settings = replace(options, batch_size=1)  # which changes nothing but rounding
    digest = hashlib.blake2b(repr((version("robustvit"), tuple(chosen), settings)).encode(), digest_size=16)
    if options.corruption_model is not None:
        digest.update(repr(chosen_patches(options).describe()).encode())  # with its weights
    for name, subject in subjects.items():
        pictures = subject.pictures
        digest.update(repr((name, pictures.name, len(pictures), pictures.classes, subject.protocol, subject.targets)).encode())
        if hasattr(pictures, "at"):
            digest.update(repr([picture.id for picture in pictures]).encode())
        digest.update(repr(normalisation_of(subject.network)).encode())
        add_weights(digest, subject.network)
    return digest.hexdigest()


def _networks(subjects: Mapping[str, Subject], findings: Mapping[str, Mapping[str, Finding]]) -> dict[str, dict[str, Any]]:
    def skipped(name: str) -> dict[str, str]:
        own = [found[name].skipped for found in findings.values() if name in found]
        return {picture: why for one in own for picture, why in one.items()}

    return {
        name: {
            "parameters": sum(p.numel() for p in subject.network.parameters()),
            "is_untrained": getattr(subject.network, "is_untrained", None),
            "input": list(subject.protocol.size),
            "protocol": subject.protocol.describe(),
            "truth": subject.truth,
            "patch_side": subject.patch_side if _is_covered(subject, findings) else None,
            "skipped": skipped(name),
            "enlarged": len(subject.enlarged),
        }
        for name, subject in subjects.items()
    }


def _is_covered(subject: Subject, findings: Mapping[str, Mapping[str, Finding]]) -> bool:
    """Whether an analysis of this network covered patches."""
    made = [what for what, found in findings.items() if subject.name in found]
    return any(what in COVERING or (what in SPOILING and subject.options.corruption == "patches") for what in made)


def _about(subjects: Mapping[str, Subject], options: AnalysisOptions) -> dict[str, Any]:
    pictures = next(iter(subjects.values())).pictures
    packages = ("robustvit", "torch", "timm", "numpy")
    return {
        "pictures": {"name": pictures.name, "count": len(pictures)},
        "options": asdict(options),
        "versions": {"python": platform.python_version(), **{name: version(name) for name in packages}},
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }
