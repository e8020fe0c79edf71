"""What an analysis will do: which studies of which networks, and what is not possible, found out before the work starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any

from robustvit.analysis.known_images import show_known
from robustvit.analysis.registry import STUDIES, chosen_studies, study_of
from robustvit.analysis.shared_options import SHOWN, Options
from robustvit.analysis.study import Study
from robustvit.analysis.subject import Subject
from robustvit.data.normalisation import Normalisation
from robustvit.data.sample_digest import add_samples
from robustvit.evaluation.network_outputs import outputs_part
from robustvit.runtime.fingerprint import VERSION, Digest, fingerprint
from robustvit.runtime.memory import fits_memory

__all__ = ["Plan", "PlannedStudy", "make_plan"]


@dataclass(frozen=True)
class PlannedStudy:
    """A study with its options."""

    study: Study[Any]
    options: Options

    def obstacle(self, subject: Subject) -> str | None:
        return self.study.obstacle(subject, self.options)

    @property
    def covers_patches(self) -> bool:
        return self.study.covers_patches(self.options)


@dataclass(frozen=True)
class Plan:
    """What there is to do.

    Attributes:
        subjects: name -> network, with its images.
        studies: name -> study, in order.
        options: of all studies.
        left_out: study -> network -> why it is not possible.
        figures: which images the figures show, in words.
    """

    subjects: Mapping[str, Subject]
    studies: Mapping[str, PlannedStudy]
    options: Options
    left_out: Mapping[str, Mapping[str, str]]
    figures: str

    def subjects_of(self, study: str) -> dict[str, Subject]:
        """Those that the study is made of."""
        reasons = self.left_out.get(study, {})
        return {name: subject for name, subject in self.subjects.items() if name not in reasons}

    def fingerprint(self) -> str:
        """Changes when anything changes that a finding depends on: version, networks, images, options."""
        known: dict[object, bytes] = {}
        networks, samples, how = Digest(known), Digest(known), Digest(known)
        for name, planned in self.studies.items():
            how.add(name, replace(planned.options, batch_size=1))  # which changes nothing but rounding
            if (further := planned.study.depends_on(planned.options)) is not None:
                how.add(further)
        for name, subject in self.subjects.items():
            networks.add(name, astuple(Normalisation.of(subject.network)))
            networks.add_network(subject.network)
            how.add(subject.protocol, subject.targets)
            add_samples(samples, subject.pictures)
        outputs = outputs_part([(s.task, s.network, s.protocol.size) for s in self.subjects.values()])
        parts: dict[str, Digest | str] = {
            "networks": networks,
            "network outputs": outputs,
            "images": samples,
            "settings": how,
        }
        return fingerprint({**VERSION, **parts})


def make_plan(subjects: Mapping[str, Subject], what: Sequence[str], options: Options) -> Plan:
    """Finds before the work what would fail in it.

    Args:
        subjects: name -> network, with its images.
        what: names of studies; with "all", what a network cannot do is left out.
        options: of all studies.

    Raises:
        ValueError, OSError: a study that was asked for by name is not possible with a network; an option does not fit one,
            or these images; no image can be read.
    """
    studies = {name: PlannedStudy(study, study.own_options(vars(options))) for name, study in chosen_studies(what).items()}
    left_out: dict[str, dict[str, str]] = {}
    for name, subject in subjects.items():
        with fits_memory(1, subject.protocol.size):
            reasons = {study: reason for study, planned in studies.items() if (reason := planned.obstacle(subject))}
            if reasons and "all" not in what:
                study, reason = next(iter(reasons.items()))
                raise ValueError(f"{study} of {name}: {reason}; it supports {', '.join(_supported(subject, options))}")
            for study, reason in reasons.items():
                left_out.setdefault(study, {})[name] = reason
            _check(subject, [planned for study, planned in studies.items() if study not in reasons])
    made = [planned for study, planned in studies.items() if len(left_out.get(study, {})) < len(subjects)]
    shows_images = any(planned.study.shows_images for planned in made)
    figures = show_known(subjects, getattr(options, "shown", SHOWN)) if shows_images else ""
    return Plan(subjects, studies, options, left_out, figures)


def _supported(subject: Subject, options: Options) -> list[str]:
    """The studies that are possible with this network."""
    studies = {name: study_of(name) for name in STUDIES}
    return [name for name, study in studies.items() if study.obstacle(subject, study.own_options(vars(options))) is None]


def _check(subject: Subject, planned: Sequence[PlannedStudy]) -> None:
    for one in planned:
        one.study.check(subject, one.options)
    if any(one.study.needs for one in planned):
        subject.try_out()
