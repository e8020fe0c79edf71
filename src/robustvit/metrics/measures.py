"""The table of all reported numbers: what each is called, its unit, whether more is better, and what it means.

Results, report, terminal, CSV, sweeps, demo and docs read it. A suite, an attack or a task with a number of its own registers
it in its own file:

    SKETCH = register(Measure("imagenet_sketch_accuracy", "ImageNet-Sketch accuracy", "Top-1 accuracy on ...", family="shift"))
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, get_args

from robustvit.runtime.measure_homes import import_measure_homes

__all__ = [
    "CELL_MEASURES",
    "DISTANCE",
    "NUMBER",
    "RATIO",
    "SHARE",
    "Family",
    "Measure",
    "Unit",
    "base_key",
    "corrupted_accuracies",
    "in_display_order",
    "in_ranking_order",
    "is_measure",
    "measure_of",
    "measures",
    "register",
    "register_stored",
    "to_json",
]


@dataclass(frozen=True)
class Unit:
    """How values are written: `factor` times the value, with so many digits, and the symbol."""

    name: str
    factor: float
    digits: int
    symbol: str = ""

    def text(self, value: float) -> str:
        """0.714 -> "71.4 %" (with a no-break space) in a share."""
        number = f"{self.factor * value:.{self.digits}f}"
        return f"{number}\N{NO-BREAK SPACE}{self.symbol}" if self.symbol else number


SHARE = Unit("share", 100, 1, "%")
"""Of images, frames or pixels, in 0 .. 1."""
RATIO = Unit("ratio", 100, 1, "%")
"""Of two numbers; may exceed 1."""
DISTANCE = Unit("distance", 1, 2)
NUMBER = Unit("number", 1, 0)

Family = Literal["retention", "clean", "corruption", "attack", "calibration", "shift", "sequence", "cell"]
_DISPLAYED: tuple[Family, ...] = get_args(Family)
_RANKED: tuple[Family, ...] = ("corruption", "retention", "attack", "clean", "shift", "sequence")


@dataclass(frozen=True)
class Measure:
    """One kind of reported number.

    Attributes:
        key: in results.json and results.csv.
        label: heading in pages and tables.
        meaning: its definition, in one or two sentences.
        short: its definition in a few words, for the terminal; by default the label in lower case.
        unit: of the values.
        higher_is_better: the direction.
        family: what it says something about; pages group and order numbers by it.
        ranks: whether networks are ranked by it, where it is the first of its family that was measured.
        claim: the headline about a network, where {} stands for the value: "recognises {} of the images".
        refines: key of the measure that this one is a special case of; where both have the same value, only this one is shown.
        under: of an accuracy under an attack, what the images are under: "PGD".
        order: within its family, the smallest first; equal ones by registration.
        is_detail: whether it only says more about another number, as AP of small objects does: tables of summaries leave it
            out, and those of details list it.
    """

    key: str
    label: str
    meaning: str
    short: str = ""
    unit: Unit = SHARE
    higher_is_better: bool = True
    family: Family = "cell"
    ranks: bool = False
    claim: str = ""
    refines: str = ""
    under: str = ""
    order: int = 0
    is_detail: bool = False

    @property
    def words(self) -> str:
        """What it is called within a sentence and in the terminal; AP and ImageNet-A keep their capitals."""
        is_word = self.label.partition(" ")[0][1:].islower()
        return self.short or (self.label[0].lower() + self.label[1:] if is_word else self.label)

    @property
    def heading(self) -> str:
        """The label with the unit: "Retention, %"."""
        return f"{self.label}, {self.unit.symbol}" if self.unit.symbol else self.label

    def text(self, value: float | None) -> str:
        """The value with its unit, or a dash."""
        return self.unit.text(value) if value is not None and math.isfinite(value) else "\N{EN DASH}"


_TABLE: dict[str, Measure] = {}


def register(measure: Measure) -> Measure:
    """Adds a measure to the table.

    Raises:
        ValueError: another one has that key.
    """
    if _TABLE.setdefault(measure.key, measure) != measure:
        raise ValueError(f"there are two measures {measure.key!r}; give one of them another key")
    return measure


def measures() -> Iterator[Measure]:
    """All of them, in the order of registration."""
    import_measure_homes()
    return iter(tuple(_TABLE.values()))


def base_key(key: str) -> str:
    """ "mean_accuracy (imagenet-c)" -> "mean_accuracy": a second measurement of a measure has its suite in brackets."""
    return key.partition(" (")[0]


def measure_of(key: str) -> Measure:
    """The measure with that key, which may have a suite in brackets.

    Raises:
        KeyError: nobody has registered it.
    """
    if base_key(key) not in _TABLE:
        import_measure_homes()
    measure, suite = _TABLE[base_key(key)], key.partition(" (")[2]
    if not suite:
        return measure
    short = f"{measure.short} ({suite}" if measure.short else ""
    return replace(measure, key=key, label=f"{measure.label} ({suite}", short=short)


def is_measure(key: str) -> bool:
    """Whether a measure of that key is registered."""
    if base_key(key) not in _TABLE:
        import_measure_homes()
    return base_key(key) in _TABLE


def to_json(keys: Iterable[str]) -> dict[str, dict[str, Any]]:
    """What readers of a file must know about the measures with these keys."""
    return {key: {**asdict(measure_of(key)), "unit": measure_of(key).unit.name} for key in dict.fromkeys(map(base_key, keys))}


def register_stored(stored: Mapping[str, Mapping[str, Any]]) -> None:
    """Registers those measures of a file that nobody has registered here, as the plug-in that did is not installed."""
    units = {unit.name: unit for unit in (SHARE, RATIO, DISTANCE, NUMBER)}
    for key, about in stored.items():
        if not is_measure(key):
            register(Measure(**{**about, "unit": units[about["unit"]]}))


def in_display_order(keys: Iterable[str]) -> list[str]:
    """Sorted by family, and in it by their order."""
    places = {m.key: (_DISPLAYED.index(m.family), m.order, i) for i, m in enumerate(measures())}
    return sorted(keys, key=lambda key: places[base_key(key)])


def in_ranking_order() -> list[Measure]:
    """Those that networks are ranked by; the first that was measured decides. Exact ones come before what they refine."""
    ranked = [measure for measure in measures() if measure.ranks]
    return sorted(ranked, key=lambda measure: (_RANKED.index(measure.family), measure.order, not measure.refines))


def corrupted_accuracies() -> list[str]:
    """Keys of the accuracies averaged over corruptions; the first that was measured stands for accuracy under corruption."""
    return [measure.key for measure in in_ranking_order() if measure.family == "corruption"]


RETENTION = register(
    Measure(
        "retention",
        "Retention",
        "The primary measure (of a classifier: accuracy) under corruption, divided by that on clean images: the share that "
        "survives. Over the 15 common corruptions where all of them were measured, else over those that were.",
        unit=RATIO,
        family="retention",
        ranks=True,
    )
)
RELATIVE_DEGRADATION = register(
    Measure(
        "relative_degradation",
        "Relative degradation",
        "The share of the clean score that corruption takes: 1 - retention.",
        unit=RATIO,
        higher_is_better=False,
        family="retention",
        order=1,
    )
)
CLEAN_ACCURACY = register(
    Measure(
        "clean_accuracy",
        "Clean accuracy",
        "Share of the images whose first answer is right (top-1), without any corruption.",
        family="clean",
        ranks=True,
        claim="recognises {} of the images",
    )
)
MEAN_ACCURACY_15 = register(
    Measure(
        "mean_accuracy_15",
        "Accuracy, 15 common corruptions",
        "Top-1 accuracy, averaged over the 15 common corruptions and their 5 severities.",
        short="mean accuracy, 15 corruptions",
        family="corruption",
        ranks=True,
        refines="mean_accuracy",
    )
)
MEAN_ACCURACY_19 = register(
    Measure(
        "mean_accuracy_19",
        "Accuracy, all 19 corruptions",
        "Top-1 accuracy, averaged over all 19 corruptions and their 5 severities.",
        short="mean accuracy, 19 corruptions",
        family="corruption",
        ranks=True,
        refines="mean_accuracy",
    )
)
MEAN_ACCURACY = register(
    Measure(
        "mean_accuracy",
        "Accuracy under corruption",
        "Top-1 accuracy, averaged over the corruptions and severities that were measured.",
        short="mean accuracy, corrupted",
        family="corruption",
        ranks=True,
    )
)
MEAN_CORRUPTION_ERROR = register(
    Measure(
        "mean_corruption_error",
        "mCE",
        "For each of the 15 common corruptions, the summed error over the 5 severities divided by that of AlexNet on "
        "ImageNet-C; then the mean. Only for the 1000 classes of ImageNet, where AlexNet's errors apply.",
        short="mCE (AlexNet = 100 %)",
        unit=RATIO,
        higher_is_better=False,
        family="corruption",
    )
)
MEAN_CORRUPTION_ERROR_WITHOUT_NOISE = register(
    Measure(
        "mean_corruption_error_without_noise",
        "mCE without noise",
        "As mCE, but the mean over the 12 common corruptions that are no noise (without gaussian_noise, shot_noise and "
        "impulse_noise), as AFAT prints it.",
        short="mCE without noise (AlexNet = 100 %)",
        unit=RATIO,
        higher_is_better=False,
        family="corruption",
    )
)
RELATIVE_MEAN_CORRUPTION_ERROR = register(
    Measure(
        "relative_mean_corruption_error",
        "Relative mCE",
        "As mCE, but of what each corruption adds to the clean error, for both networks (AlexNet's clean error 0.4348).",
        short="relative mCE (AlexNet = 100 %)",
        unit=RATIO,
        higher_is_better=False,
        family="corruption",
    )
)
EXPECTED_CALIBRATION_ERROR = register(
    Measure(
        "expected_calibration_error",
        "Calibration error",
        "Gap between confidence and accuracy, in 15 equal bins of confidence, weighted by size. "
        "Without an interval: bootstrap samples show larger gaps than the images themselves.",
        higher_is_better=False,
        family="calibration",
    )
)

ACCURACY = register(Measure("accuracy", "Accuracy", "Share of the images whose first answer is right (top-1)."))
CELL_MEASURES = tuple(
    register(measure)
    for measure in (
        Measure(
            "calibration_error",
            "Calibration error",
            "Gap between confidence and accuracy, in 15 equal bins of confidence, weighted by size.",
            higher_is_better=False,
        ),
        Measure(
            "flip_probability",
            "Flip probability",
            "Share of the frames of a sequence at which the answer changes.",
            higher_is_better=False,
        ),
        Measure(
            "top5_distance",
            "Top-5 distance",
            "uT5D: how far the five best answers move from frame to frame (0 to 18).",
            unit=DISTANCE,
            higher_is_better=False,
        ),
        Measure(
            "no_answer",
            "No answer",
            "Images for which the network gave numbers that are not finite; they count as wrong.",
            unit=NUMBER,
            higher_is_better=False,
        ),
        Measure(
            "largest_change",
            "Largest change",
            "Of an attack: the largest change of a value (1 is white), averaged over the images.",
            unit=DISTANCE,
            higher_is_better=False,
        ),
        Measure(
            "change_norm",
            "L2 norm of the change",
            "Of an attack: the L2 norm of the change over all values, averaged over the images.",
            unit=DISTANCE,
            higher_is_better=False,
        ),
        Measure(
            "changed_pixels",
            "Changed pixels",
            "Of an attack: the share of the pixels that changed, averaged over the images.",
            higher_is_better=False,
        ),
    )
)
"""Numbers of a single cell: one condition at one severity."""
