"""`analyze`: any analyses of one or several networks on the same images -> `Analysis`, with files and figures."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from torch import nn

from robustvit.analysis.cost import estimated_seconds
from robustvit.analysis.finding import Finding
from robustvit.analysis.image_size import at_size_of_images, warn_of_few_tokens
from robustvit.analysis.options import options_class
from robustvit.analysis.plan import Plan, PlannedStudy, make_plan
from robustvit.analysis.precision_check import half_precision_changes
from robustvit.analysis.registry import chosen_studies
from robustvit.analysis.result import Analysis
from robustvit.analysis.shared_options import Options
from robustvit.analysis.subject import Subject, make_subject
from robustvit.evaluation.unfinished import begin_work, check_owner, end_work, stored_json, title_of
from robustvit.runtime.damage import set_aside
from robustvit.runtime.interruption import check_interrupted
from robustvit.runtime.locking import locking_output
from robustvit.runtime.memory import fits_memory
from robustvit.runtime.precision import agreed_precision, answering_in
from robustvit.runtime.processes import Processes
from robustvit.runtime.stored_work import StoredWork

__all__ = ["SHARED", "Analysis", "analyze"]

SHARED = "all networks"
"""Stands for the network in studies that need none."""
Report = Callable[[str, int, int], None]
"""Called with (what is being done, images done, in all)."""
Estimated = Callable[[Mapping[str, float]], None]
"""Called with the seconds that each study will take."""


@locking_output
def analyze(
    models: Mapping[str, nn.Module],
    images: Any,
    what: Sequence[str] = ("all",),
    options: Options | None = None,
    *,
    limit: int | None = None,
    size: tuple[int, int] | None = None,
    class_map: dict[str, int] | None = None,
    ignore_orientation: bool = False,
    output: str | Path | None = None,
    resume: bool = False,
    report: Report | None = None,
    estimated: Estimated | None = None,
) -> Analysis:
    """Looks into networks.

    Args:
        models: name -> network, all of one task; left as it was. Of segmenters and detectors, the backbone is looked
            at; studies of a classifier's answers refuse them.
        images: an image, a folder of images or of class folders, or what else `Task.open` takes.
        what: of `STUDIES`, or "all": then what a network cannot do is left out, with the reason.
        options: of all studies, `AnalysisOptions`; each uses those that concern it.
        limit: look only at the first so many images.
        size: (H, W) of the input; by default the networks' own, and of segmenters and detectors that of the first image,
            within bounds (`at_size_of_images`).
        class_map: class name -> output, where they are not in the same order.
        ignore_orientation: take pixels as they are stored, whatever the EXIF tag of cameras says.
        output: folder for the result, see `Analysis.save`; meanwhile for what is done so far. Another analysis there is not
            replaced; this very one is.
        resume: go on with what is in `output`. An analysis that is finished there is not repeated; a page or figures that are
            missing are drawn again.
        report: called with the progress.
        estimated: called with the seconds that each study will take, before the work starts; that takes a short trial of each.

    Raises:
        ValueError: an unknown analysis, or one that a network does not support; an unfinished run in `output`
            (UnfinishedRunError), or another one that is finished (FinishedRunError).
    """
    settings = options_class()(**vars(options)) if options is not None else options_class()()
    chosen_studies(what)  # before images are opened
    _check(models, limit, output, resume)
    settings = replace(settings, precision=agreed_precision(settings.precision, models.values(), Processes()))
    how: dict[str, Any] = dict(limit=limit, size=size, class_map=class_map, ignore_orientation=ignore_orientation)
    subjects = {name: make_subject(name, network, images, settings, **how) for name, network in models.items()}
    subjects = at_size_of_images(subjects) if size is None else subjects
    warn_of_few_tokens(subjects)
    plan = make_plan(subjects, what, settings)
    if output is not None:
        return _analyze_into(Path(output), plan, resume, report, estimated)
    _tell_cost(estimated, plan)
    return _analysis(plan, _run(plan, None, report), "")


def _analyze_into(
    folder: Path,
    plan: Plan,
    resume: bool,
    report: Report | None,
    estimated: Estimated | None,
) -> Analysis:
    own = plan.fingerprint()
    finished = _finished(folder, own)
    if resume and finished is not None:
        finished.complete(folder)
        end_work(folder)
        return finished
    title = title_of(plan.subjects, next(iter(plan.subjects.values())).pictures.name, list(plan.studies))
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


def _tell_cost(estimated: Estimated | None, plan: Plan) -> None:
    if estimated is not None:
        estimated(estimated_seconds(plan))


def _check(models: Mapping[str, nn.Module], limit: int | None, output: str | Path | None, resume: bool) -> None:
    if not models:
        raise ValueError("there is no network to look into; give at least one, such as fan_vit_nano")
    tasks = sorted({getattr(network, "task", None) or "classification" for network in models.values()})
    if len(tasks) > 1:
        raise ValueError(
            f"these networks are for {' and '.join(tasks)}, and see other images; analyze those of one task at a time"
        )
    if limit is not None and limit < 1:
        raise ValueError(f"limit={limit} is not possible; give at least 1")
    if output is None and resume:
        raise ValueError("resume=True needs the output folder of the run to go on with")


def _run(plan: Plan, stored: StoredWork | None, report: Report | None) -> dict[str, dict[str, Finding]]:
    findings: dict[str, dict[str, Finding]] = {}
    places = {name: place for place, name in enumerate(plan.subjects)}
    for what, planned in plan.studies.items():
        needs_network = bool(planned.study.needs)
        for name, subject in [*plan.subjects_of(what).items()][: None if needs_network else 1]:
            check_interrupted()
            part = f"{what}-{places[name]}"
            finding = stored.load(part, Finding.from_part) if stored else None
            if finding is None:
                finding = _made(planned, subject, report)
                if stored is not None:
                    stored.save(part, finding.to_part())
            findings.setdefault(what, {})[name if needs_network else SHARED] = finding
    return findings


def _made(planned: PlannedStudy, subject: Subject, report: Report | None) -> Finding:
    study, options = planned.study, planned.options
    subject.progress = (lambda done, total: report(f"{study.name}: {subject.name}", done, total)) if report else None
    with fits_memory(study.at_once(len(subject.pictures), options), subject.protocol.size):
        with answering_in(options.precision, subject.network):
            finding = study.run(subject, options)
        changes = half_precision_changes(planned, subject) if study.needs else {}
    return replace(finding, skipped=dict(subject.skipped), half_precision=changes)


def _analysis(plan: Plan, findings: Mapping[str, Mapping[str, Finding]], fingerprint: str) -> Analysis:
    return Analysis(findings, plan.left_out, _networks(plan, findings), {**_about(plan), "fingerprint": fingerprint})


def _networks(plan: Plan, findings: Mapping[str, Mapping[str, Finding]]) -> dict[str, dict[str, Any]]:
    def made(name: str) -> list[str]:
        return [what for what, found in findings.items() if name in found]

    def skipped(name: str) -> dict[str, str]:
        return {sample: why for what in made(name) for sample, why in findings[what][name].skipped.items()}

    return {
        name: {
            "parameters": sum(p.numel() for p in subject.network.parameters()),
            "is_untrained": getattr(subject.network, "is_untrained", None),
            "input": list(subject.protocol.size),
            "protocol": subject.protocol.describe(),
            "truth": subject.truth,
            "patch_side": subject.patch_side if any(plan.studies[what].covers_patches for what in made(name)) else None,
            "skipped": skipped(name),
            "enlarged": len(subject.enlarged),
        }
        for name, subject in plan.subjects.items()
    }


def _about(plan: Plan) -> dict[str, Any]:
    pictures = next(iter(plan.subjects.values())).pictures
    packages = ("robustvit", "torch", "timm", "numpy")
    return {
        "pictures": {"name": pictures.name, "count": len(pictures), "figures": plan.figures},
        "options": asdict(plan.options),
        "versions": {"python": platform.python_version(), **{name: version(name) for name in packages}},
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }
