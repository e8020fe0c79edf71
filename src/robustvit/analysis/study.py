"""What a study is: one way to look into networks, whole in one file.

A study says what it needs of a network and which options it has, turns a subject (a network with its images) into a finding,
and draws the findings of all networks. `analyze`, the command line, the page and the docs read all of that here and name no
study. In order:

    obstacle(subject, options)    # why a network cannot be studied
    check(subject, options)       # refuses settings that do not fit it, before the work starts
    run(subject, options)         # numbers and arrays, one finding per network
    plates(findings, options)     # figures with captions, all networks together

The file of a study imports torch and what computes in `run`, not at its top: help and wrong arguments need neither.
"""

from __future__ import annotations

import importlib.util
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from robustvit.analysis.finding import Finding
from robustvit.analysis.shared_options import Options

if TYPE_CHECKING:
    from robustvit.analysis.drawing import Plate
    from robustvit.analysis.subject import Subject

__all__ = ["ANY_NETWORK", "ATTENTION", "BLOCKS", "SCIKIT_LEARN", "TOKEN_HEAD", "Findings", "Need", "Study", "quoted"]

Findings = Mapping[str, Finding]
"""Network -> what was found."""
OwnOptions = TypeVar("OwnOptions", bound=Options)


@dataclass(frozen=True)
class Need:
    """Something that a study needs.

    Attributes:
        text: what, in the table of the docs.
        obstacle: subject -> why it is missing; None where it is there.
    """

    text: str
    obstacle: Callable[[Subject], str | None]


def _token_head_obstacle(subject: Subject) -> str | None:
    from robustvit.models.heads.token_head import has_token_head  # imports torch

    if has_token_head(subject.network):
        return None
    kind = type(subject.network).__name__
    return f"{kind} has no token head; build one with token_head=True and train it with STL (docs/stl.md)"


def _scikit_learn_obstacle(subject: Subject) -> str | None:
    is_there = importlib.util.find_spec("sklearn") is not None
    return None if is_there else "scikit-learn is not installed: pip install 'robustvit[analysis]'"


ANY_NETWORK = Need("any network", lambda subject: None)
ATTENTION = Need("attention", lambda subject: subject.trouble_with_attention)
"""Maps among tokens."""
BLOCKS = Need("blocks", lambda subject: subject.trouble_with_blocks)
"""With attention, or residual ones."""
TOKEN_HEAD = Need("a token head ([STL](stl.md))", _token_head_obstacle)
SCIKIT_LEARN = Need("`pip install 'robustvit[analysis]'`", _scikit_learn_obstacle)


class Study(ABC, Generic[OwnOptions]):
    """One study; without state.

    Attributes:
        name: in `--what`, in results, and its key in the registry.
        summary: what it shows, in the table of the docs.
        tasks: names of the tasks whose networks it looks at; empty for all, because it reads no answers.
        needs: what must be there; () for a study that needs not even a network, and is made once for all of them.
        options: the dataclass of its options.
        shows_images: whether its figures show images, which then are ones that the networks know.
        is_spoiled: whether it compares clean images with corrupted ones.
        last_entry: what the last entry of its curves is, for tables that show no more.
        costly: its options that make it take longer.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    tasks: ClassVar[tuple[str, ...]] = ()
    needs: ClassVar[tuple[Need, ...]] = (ANY_NETWORK,)
    options: type[OwnOptions]
    shows_images: ClassVar[bool] = False
    is_spoiled: ClassVar[bool] = False
    last_entry: ClassVar[str] = "last block"
    costly: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def run(self, subject: Subject, options: OwnOptions) -> Finding:
        """Looks into one network."""

    @abstractmethod
    def plates(self, findings: Findings, options: OwnOptions) -> list[Plate]:
        """The figures, from what `run` returned for each network."""

    def needed(self, options: OwnOptions) -> tuple[Need, ...]:
        """What must be there with these options."""
        return self.needs

    def covers_patches(self, options: OwnOptions) -> bool:
        """Whether it covers patches of the size of the network's tokens, which then must tile the input."""
        return False

    def obstacle(self, subject: Subject, options: OwnOptions) -> str | None:
        """Why this network cannot be studied; None where it can."""
        if self.tasks and subject.task.name not in self.tasks:
            return f"it reads what networks answer in {' and '.join(self.tasks)}, and this one is for {subject.task.name}"
        reasons = (need.obstacle(subject) for need in self.needed(options))
        first = next((reason for reason in reasons if reason is not None), None)
        return _tiling_obstacle(subject) if first is None and self.covers_patches(options) else first

    def check(self, subject: Subject, options: OwnOptions) -> None:
        """Finds before the work what would fail in it.

        Raises:
            ValueError, OSError: an option does not fit this network or these images.
        """

    def depends_on(self, options: OwnOptions) -> object:
        """What findings depend on besides network, images and options, such as the contents of a file; None for nothing."""
        return None

    def at_once(self, images: int, options: OwnOptions) -> int:
        """How many of the images are worked on at the same time."""
        return min(options.batch_size, images)

    def passes(self, images: int, options: OwnOptions) -> int:
        """How many images the network sees in all; learning from one counts as three."""
        return images

    def for_trial(self, size: int, options: OwnOptions) -> OwnOptions:
        """The options of a short trial with `size` images, for an estimate of the cost."""
        return options

    def lead(self, findings: Findings, options: OwnOptions) -> str | None:
        """The number that a reader would quote first, as a sentence; None for no such number."""
        return None

    def remarks(self, findings: Findings) -> Sequence[str]:
        """What a reader of the numbers must know about single networks."""
        return ()

    def own_options(self, values: Mapping[str, Any]) -> OwnOptions:
        """Its options out of those of all studies, which may come from JSON; what is not there has its default."""
        given: dict[str, Any] = {field.name: values[field.name] for field in fields(self.options) if field.name in values}
        given = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
        return self.options(**given)

    @classmethod
    def option_names(cls) -> tuple[str, ...]:
        """Of its options, besides those that every study has."""
        common = {field.name for field in fields(Options)}
        return tuple(field.name for field in fields(cls.options) if field.name not in common)


def _tiling_obstacle(subject: Subject) -> str | None:
    H, W = subject.protocol.size
    try:
        side = subject.patch_side
    except ValueError as error:
        return str(error)
    if H % side or W % side:
        return f"patches of {side} pixels do not tile the {H}x{W} of its input; give another --img-size"
    return None


def quoted(text: str, findings: Findings, key: str, form: str) -> str | None:
    """A sentence for `Study.lead`: the text, then the number of each network that has one; None where none has.

    Args:
        text: what the number is.
        findings: of all networks.
        key: of the number.
        form: how it is written, such as ".2f".
    """
    values = {name: one.numbers[key] for name, one in findings.items()}
    told = ", ".join(f"{value:{form}} ({name})" for name, value in values.items() if value is not None)
    return f"{text} {told}." if told else None
