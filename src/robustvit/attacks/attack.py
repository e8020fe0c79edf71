"""What an attack is: an object that is complete in its own file, from its name to its measures."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, ClassVar, Self

from torch import Tensor

from robustvit.attacks.options import Option, grey, options_of
from robustvit.attacks.pixel_network import PixelNetwork, Targets, check_pixels
from robustvit.metrics.measures import ACCURACY, Measure, register
from robustvit.runtime.randomness import keyed_seed

__all__ = ["FIT_BATCH", "Attack", "Batches", "SampleIds", "accuracy_measure", "score_key"]

SampleIds = Sequence[int | str]

FIT_BATCH = 16
"""Images of a step in which an attack learns, whatever the batch size of the evaluation."""

Batches = Iterator[Tensor]
"""Pixels float [16, 3, H, W] in 0 .. 1, without end."""


def score_key(attack: str, primary: str) -> str:
    """The key of the primary measure of a task, such as "accuracy", under an attack of this name."""
    return f"{attack.replace('-', '_')}_{primary}"


@dataclass(frozen=True)
class Attack(ABC):
    """What changes images so that a network errs. A call takes and gives pixels [B, 3, H, W] in 0 .. 1.

    A subclass is a frozen dataclass. Its settings, another one, are its options in Python and on the command line.

    Attributes:
        name: on the command line and in results.
        tasks: names of the tasks whose targets and answers it understands; empty for all that can be attacked, because it
            asks them for their losses.
        label: in pages and tables.
        summary: what it does, in a line.
        needs: what a network must have, in a line.
        settings_class: of `settings`; says in its docstring what each attribute means.
        presets: name -> settings to start from, the first by default; {} for an attack without.
        measures: of its results on classifiers: `accuracy_measure`, and what else it is measured by.
        fit_remedy: what to do where the images it learns from (`ready`) do not fit memory.
        settings: of this attack.
    """

    name: ClassVar[str]
    tasks: ClassVar[tuple[str, ...]] = ("classification",)
    label: ClassVar[str]
    summary: ClassVar[str]
    needs: ClassVar[str] = "nothing"
    settings_class: ClassVar[type[Any]]
    presets: ClassVar[Mapping[str, Any]] = {}
    measures: ClassVar[tuple[Measure, ...]]
    fit_remedy: ClassVar[str] = ""

    settings: Any

    @classmethod
    def options(cls) -> tuple[Option, ...]:
        """What `from_options` takes."""
        own = tuple(options_of(cls.settings_class))
        if not cls.presets:
            return own
        told = ", ".join(f"{name} ({_told(preset)})" for name, preset in cls.presets.items())
        text = f"{told}; {next(iter(cls.presets))} by default, and other options win over it"
        return (*own, Option("preset", "preset", str, "NAME", text))

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Self:
        """The attack with these options; others have their defaults.

        Args:
            options: of the names in `options`. `preset` is one of `presets`; other values win over it.

        Raises:
            ValueError: there is no such option or preset, or a value is not possible.
        """
        known = [option.name for option in cls.options()]
        if wrong := [name for name in options if name not in known]:
            raise ValueError(f"{cls.name} has no option {wrong[0]!r}; it has {', '.join(known)}")
        given = dict(options)
        preset = given.pop("preset", None)
        if preset is not None and preset not in cls.presets:
            raise ValueError(f"there is no preset {preset!r}; choose one of {', '.join(cls.presets)}")
        start = cls.presets[preset or next(iter(cls.presets))] if cls.presets else cls.settings_class()
        return cls(replace(start, **given))

    @property
    def key(self) -> str:
        """Its name in the names of numbers: "patch_fool" of "patch_fool_accuracy"."""
        return self.name.replace("-", "_")

    @classmethod
    def score_measure(cls, primary: Measure) -> Measure:
        """The primary measure of a task under this attack, registered."""
        key = score_key(cls.name, primary.key)
        own = next((measure for measure in cls.measures if measure.key == key), None)
        return own or register(
            Measure(
                key,
                f"{primary.label} under {cls.label}",
                f"{primary.meaning} Under {cls.label}: {cls.summary}.",
                unit=primary.unit,
                higher_is_better=primary.higher_is_better,
                family="attack",
                ranks=True,
                claim=f"has {{}} {primary.words} under {cls.label}",
                under=cls.label,
                order=cls.measures[0].order,
            )
        )

    @property
    def worst_key(self) -> str:
        """Of attacks with several rows: the measure of samples that are right in all of them."""
        return f"{self.key}_worst"

    @property
    def spread_key(self) -> str:
        """Of attacks with several rows: the measure of how much they differ."""
        return f"{self.key}_spread"

    @property
    def rows(self) -> tuple[str, ...]:
        """What its results are called, one row of results each."""
        return (self.name,)

    @property
    def learns_from(self) -> int:
        """How many images it sees before the first attack (`ready`)."""
        return 0

    def describe(self) -> dict[str, Any]:
        """All settings, for the results."""
        return asdict(self.settings)

    @classmethod
    def shown(cls, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Settings from `describe` as a reader would write them, without those that are not set."""
        lengths = [option.name for option in cls.options() if option.is_length]
        return {
            name: grey(value) if name in lengths and isinstance(value, float) and value <= 1 else value
            for name, value in settings.items()
            if value is not None
        }

    def remarks(self) -> Iterator[str]:
        """What to know about these settings before the numbers are used."""
        return iter(())

    def check(self, model: PixelNetwork, size: tuple[int, int]) -> None:
        """Raises ValueError or RuntimeError if this network cannot be attacked so, with images of `size`."""
        return

    def ready(self, model: PixelNetwork, batches: Batches, seed: int) -> Attack:
        """The attack to run against this network, after whatever has to be learned before."""
        return self

    def row_seed(self, seed: int, row: int) -> int:
        """The seed of a row; the first one has the seed of the run."""
        return seed if row == 0 else keyed_seed(seed, row, self.name) >> 1

    def __call__(
        self, model: PixelNetwork, images: Tensor, labels: Targets, *, seed: int = 0, sample_ids: SampleIds | None = None
    ) -> Tensor:
        """Attacked images [B, 3, H, W].

        Args:
            model: the network to mislead; left as it was.
            images: float [B, 3, H, W] in 0 .. 1.
            labels: the truth, see `Targets`.
            seed, sample_ids: what happens to an image depends on (seed, its id) alone; ids are 0, 1, ... by default.
        """
        return self.run(model, images, labels, seed, check_pixels(images, labels, sample_ids))

    @abstractmethod
    def run(self, model: PixelNetwork, images: Tensor, labels: Any, seed: int, ids: SampleIds) -> Tensor:
        """As `__call__`, of arguments that were checked."""


def accuracy_measure(name: str, label: str, meaning: str, under: str, order: int = 100) -> Measure:
    """The accuracy under an attack, registered.

    Args:
        name: of the attack.
        label, meaning, order: see `Measure`.
        under: what the images are under, for headlines: "PGD".
    """
    key, claim = score_key(name, ACCURACY.key), f"gets {{}} right under {under}"
    return register(Measure(key, label, meaning, family="attack", ranks=True, claim=claim, under=under, order=order))


def _told(preset: Any) -> str:
    """ "eps 1/255, step 0.5/255, steps 5, random start"."""
    lengths = [option.name for option in options_of(type(preset)) if option.is_length]
    values = {one.name: getattr(preset, one.name) for one in fields(preset)}
    words = [
        name.replace("_", " ") if value is True else f"{name} {grey(value) if name in lengths else value}"
        for name, value in values.items()
        if value is not False
    ]
    return ", ".join(words)
