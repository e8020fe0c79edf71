"""`analyze`: any analyses of one or several networks on the same pictures -> `Analysis`, with files and figures."""

from __future__ import annotations

import importlib.util
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from torch import nn

from robustvit.analysis.attention_maps import block_positions
from robustvit.analysis.cost import estimated_seconds
from robustvit.analysis.finding import Finding
from robustvit.analysis.known_pictures import show_known
from robustvit.analysis.options import AnalysisOptions
from robustvit.analysis.patch_corruption import chosen_patches
from robustvit.analysis.result import Analysis
from robustvit.analysis.studies import STUDIES
from robustvit.analysis.subject import Subject, make_subject
from robustvit.corruptions.parameters import SMALLEST
from robustvit.data.normalisation import Normalisation
from robustvit.data.sample_digest import add_samples
from robustvit.evaluation.network_outputs import outputs_part
from robustvit.evaluation.unfinished import begin_work, check_owner, end_work, stored_json, title_of
from robustvit.recording.block_outputs import blocks_of
from robustvit.runtime.damage import set_aside
from robustvit.runtime.fingerprint import VERSION, Digest, fingerprint
from robustvit.runtime.interruption import check_interrupted
from robustvit.runtime.locking import locking_output
from robustvit.runtime.memory import fits_memory
from robustvit.runtime.processes import Processes
from robustvit.runtime.spelling import nearest
from robustvit.runtime.stored_work import StoredWork

__all__ = ["SHARED", "Analysis", "analyze", "supported"]

SHARED = "all networks"
"""Stands for the network in analyses that need none."""
Report = Callable[[str, int, int], None]
"""Told (what is being done, pictures done, in all)."""
SPOILING = ("attention", "stability", "clusters")
"""Analyses that compare clean pictures with corrupted ones."""
SHOWING = ("attention", "clusters", "token-labels", "patch-corruption")
"""Analyses whose figures show pictures."""
COVERING = ("occlusion", "patch-corruption")
"""Analyses that cover patches."""


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
    estimated: Callable[[Mapping[str, float]], None] | None = None,
) -> Analysis:
    """Looks into networks.

    Args:
        models: name -> classifier; left as it was.
        images: a picture, a folder of pictures or of class folders, or what else `open_samples` takes.
        what: of `STUDIES`, or "all": then what a network cannot do is left out, with the reason.
        options: of the analyses.
        limit: look only at the first so many pictures.
        size: (H, W) of the input, other than the networks' own.
        class_map: class name -> output, where they are not in the same order.
        ignore_orientation: take pixels as they are stored, whatever the EXIF tag of cameras says.
        output: folder for the result, see `Analysis.save`; meanwhile for what is done so far. Another analysis there is not
            replaced; this very one is.
        resume: go on with what is in `output`. An analysis that is finished there is not repeated; a page or figures that are
            missing are drawn again.
        report: told about progress.
        estimated: told the seconds that each analysis will take, before the work starts; that takes a short trial of each.

    Raises:
        ValueError: an unknown analysis, or one that a network does not support; an unfinished run in `output`
            (UnfinishedRunError), or another one that is finished (FinishedRunError).
    """
    settings = options or AnalysisOptions()
    chosen = _chosen(what)
    _check(models, limit, output, resume)
    how: dict[str, Any] = dict(limit=limit, size=size, class_map=class_map, ignore_orientation=ignore_orientation)
    subjects = {name: make_subject(name, network, images, settings, **how) for name, network in models.items()}
    plan = _planned(subjects, chosen, settings, is_asked="all" not in what)
    if output is not None:
        return _analyze_into(Path(output), plan, resume, report, estimated)
    _tell_cost(estimated, plan)
    return _analysis(plan, _run(plan, None, report), "")


@dataclass(frozen=True)
class _Plan:
    """What there is to do.

    Attributes:
        subjects: name -> network, with its pictures.
        chosen: analyses.
        options: of them.
        left_out: analysis -> network -> why it is not possible.
        figures: which pictures the figures show.
    """

    subjects: Mapping[str, Subject]
    chosen: Sequence[str]
    options: AnalysisOptions
    left_out: Mapping[str, Mapping[str, str]]
    figures: str


def _planned(subjects: Mapping[str, Subject], chosen: Sequence[str], options: AnalysisOptions, *, is_asked: bool) -> _Plan:
    """Finds before the work what would fail in it."""
    left_out: dict[str, dict[str, str]] = {}
    for subject in subjects.values():
        with fits_memory(1, subject.protocol.size):
            left_out = _with_left_out(left_out, subject, chosen, is_asked=is_asked)
            _check_subject(subject, [name for name in chosen if subject.name not in left_out.get(name, {})])
    showing = [what for what in chosen if what in SHOWING and len(left_out.get(what, {})) < len(subjects)]
    return _Plan(subjects, chosen, options, left_out, show_known(subjects) if showing else "")


def _analyze_into(
    folder: Path,
    plan: _Plan,
    resume: bool,
    report: Report | None,
    estimated: Callable[[Mapping[str, float]], None] | None,
) -> Analysis:
    own = _fingerprint(plan)
    finished = _finished(folder, own)
    if resume and finished is not None:
        finished.complete(folder)
        end_work(folder)
        return finished
    title = title_of(plan.subjects, next(iter(plan.subjects.values())).pictures.name, plan.chosen)
    _tell_cost(estimated, plan)
    stored = begin_work(folder, own, title, resume, Processes())
    try:
        findings = _run(plan, stored, report)
    except BaseException:
        if not list(stored.folder.glob("*.npz")):
            end_work(folder)  # nothing is finished; it is in nobody's way
        raise
    analysis = _analysis(plan, findings, own)
    analysis.save(folder)
    end_work(folder)
    return analysis


def _finished(folder: Path, fingerprint: str) -> Analysis | None:
    """The analysis in `folder` if it is this very one; None where there is none, or a damaged one.

    Raises:
        FinishedRunError: it is another one.
        ForeignFileError: analysis.json is something else.
    """
    stored = stored_json(folder / "analysis.json")
    if stored is None:
        return None
    try:
        title = title_of(stored["networks"], stored["pictures"]["name"], stored["analyses"])
    except (KeyError, TypeError, AttributeError):
        title = "of which nobody knows what it is of"
    check_owner(folder, "analysis.json", f"{title}, {stored.get('created')}", stored["fingerprint"], fingerprint)
    try:
        return Analysis.load(folder)
    except Exception as error:  # damage has many faces: zip, zlib, NumPy's header, what is missing
        set_aside(folder / "arrays.npz", error)
        return None


def _tell_cost(estimated: Callable[[Mapping[str, float]], None] | None, plan: _Plan) -> None:
    if estimated is not None:
        estimated(estimated_seconds([*plan.subjects.values()], plan.chosen, plan.left_out))


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
        subject.only(options.picture if "attention" in chosen else None)


def _run(plan: _Plan, stored: StoredWork | None, report: Report | None) -> dict[str, dict[str, Finding]]:
    findings: dict[str, dict[str, Finding]] = {}
    for what in plan.chosen:
        needs_network = STUDIES[what].needs != "nothing"
        for place, (name, subject) in enumerate([*plan.subjects.items()][: None if needs_network else 1]):
            check_interrupted()
            if name in plan.left_out.get(what, {}):
                continue
            finding = stored.load(f"{what}-{place}", Finding.from_part) if stored else None
            if finding is None:
                finding = _made(what, subject, report)
                if stored is not None:
                    stored.save(f"{what}-{place}", finding.to_part())
            findings.setdefault(what, {})[name if needs_network else SHARED] = finding
    return findings


def _made(what: str, subject: Subject, report: Report | None) -> Finding:
    subject.progress = (lambda done, total: report(f"{what}: {subject.name}", done, total)) if report else None
    at_once = 1 if what == "attention" else min(subject.options.batch_size, len(subject.pictures))
    with fits_memory(at_once, subject.protocol.size):
        finding = STUDIES[what].run(subject)
    return replace(finding, skipped=dict(subject.skipped))


def _fingerprint(plan: _Plan) -> str:
    """Changes when anything changes that a finding depends on: version, networks, pictures, options."""
    known: dict[object, bytes] = {}
    networks, pictures, how = Digest(known), Digest(known), Digest(known)
    how.add(tuple(plan.chosen), replace(plan.options, batch_size=1))  # which changes nothing but rounding
    if plan.options.corruption_model is not None:
        how.add(chosen_patches(plan.options).describe())  # with its weights
    for name, subject in plan.subjects.items():
        networks.add(name, astuple(Normalisation.of(subject.network)))
        networks.add_network(subject.network)
        how.add(subject.protocol, subject.targets)
        add_samples(pictures, subject.pictures)
    outputs = outputs_part([(subject.network, subject.protocol.size) for subject in plan.subjects.values()])
    parts: dict[str, Digest | str] = {"networks": networks, "network outputs": outputs, "pictures": pictures, "settings": how}
    return fingerprint({**VERSION, **parts})


def _analysis(plan: _Plan, findings: Mapping[str, Mapping[str, Finding]], fingerprint: str) -> Analysis:
    about = {**_about(plan.subjects, plan.options, plan.figures), "fingerprint": fingerprint}
    return Analysis(findings, plan.left_out, _networks(plan.subjects, findings), about)


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


def _about(subjects: Mapping[str, Subject], options: AnalysisOptions, figures: str) -> dict[str, Any]:
    pictures = next(iter(subjects.values())).pictures
    packages = ("robustvit", "torch", "timm", "numpy")
    return {
        "pictures": {"name": pictures.name, "count": len(pictures), "figures": figures},
        "options": asdict(options),
        "versions": {"python": platform.python_version(), **{name: version(name) for name in packages}},
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }
