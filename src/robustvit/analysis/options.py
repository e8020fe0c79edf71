"""The options of all studies as one object: what `analyze` takes, and what the command line shows."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import field, fields, make_dataclass
from typing import Any, get_type_hints

from robustvit.analysis.registry import STUDIES, chosen_studies, study_of
from robustvit.analysis.shared_options import Options
from robustvit.analysis.study import Study
from robustvit.runtime.docstrings import attribute_texts

__all__ = ["AnalysisOptions", "check_used", "options_class"]  # noqa: F822 (made when it is asked for)


def __getattr__(name: str) -> Any:
    """`AnalysisOptions`: the class of all options of the studies that are known at that time."""
    if name == "AnalysisOptions":
        return options_class()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def options_class() -> type[Options]:
    """A dataclass with the options of all studies, each once.

    Raises:
        ValueError: two studies mean different things by an option of the same name.
    """
    return _joined(tuple((name, STUDIES[name].options) for name in STUDIES))


@functools.cache  # so that the options of the same studies are of the same class
def _joined(studies: tuple[tuple[str, type[Any]], ...]) -> type[Options]:
    found: dict[str, tuple[Any, Any, str]] = {}  # name -> type, default, study
    texts: dict[str, str] = {}
    for name, own in studies:
        hints, texts = get_type_hints(own), {**attribute_texts(own), **texts}
        for entry in fields(own):
            known = found.setdefault(entry.name, (hints[entry.name], entry.default, name))
            if known[:2] != (hints[entry.name], entry.default):
                raise ValueError(
                    f"the studies {known[2]} and {name} both have an option {entry.name}, with another type or default; give "
                    "it another name in one of them"
                )
    made = make_dataclass(
        "AnalysisOptions",
        [(name, kind, field(default=default)) for name, (kind, default, _) in found.items()],
        bases=(Options,),
        namespace={"__post_init__": _check_all, "__module__": __name__},
        frozen=True,
    )
    lines = "\n".join(f"    {name}: {texts[name]}." for name in found if name in texts)
    made.__doc__ = f"Options of all studies; each uses those that concern it.\n\nAttributes:\n{lines}\n"
    return made


def _check_all(options: Options) -> None:
    for name in STUDIES:
        study_of(name).own_options(vars(options))


def check_used(options: Options, what: Sequence[str]) -> None:
    """Refuses what somebody chose that would change nothing.

    Args:
        options: as given.
        what: names of studies, or "all".

    Raises:
        ValueError: an option other than its default concerns none of them, or has no effect beside the others.
    """
    chosen = chosen_studies(what)
    for name in _given(options):
        owners = [one for one in STUDIES if name in STUDIES[one].option_names()]
        users = [study for one, study in chosen.items() if one in owners]
        if not users:
            raise ValueError(
                f"{_flag(name)} belongs to {', '.join(owners)}, and the analysis is {', '.join(what)}; leave it out, or add "
                "that to --what"
            )
        reasons = [_reason(study, options, name) for study in users]
        if all(reasons):
            others = [one for one in owners if one not in chosen and not _reason(study_of(one), options, name)]
            raise ValueError(f"{_flag(name)} {reasons[0]}{'; it concerns ' + ', '.join(others) if others else ''}")


def _given(options: Options) -> list[str]:
    """Options other than their defaults, without those that every study has."""
    common = {entry.name for entry in fields(Options)}
    return [f.name for f in fields(options) if f.name not in common and getattr(options, f.name) != f.default]


def _reason(study: Study[Any], options: Options, name: str) -> str | None:
    return study.own_options(vars(options)).without_effect().get(name)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
