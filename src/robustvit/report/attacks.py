"""What the page shows of attacks: accuracies beside the clean one, how far each attack went, its settings, and images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from robustvit.attacks.attack import score_key
from robustvit.attacks.options import grey
from robustvit.attacks.registry import ATTACKS
from robustvit.evaluation.attacking import ATTACK_SUITE
from robustvit.evaluation.results import AttackedImage, AttackExample, CellResult, ModelResults
from robustvit.metrics.measures import measure_of
from robustvit.report.charts import PLAIN, Bar, bars
from robustvit.report.numbers import MISSING, change, interval, percent

__all__ = ["AttackRow", "AttackSection", "attack_label", "attack_section", "mean_changes"]


@dataclass(frozen=True)
class AttackRow:
    """One attack on one network.

    Attributes:
        label: what the page calls it.
        accuracy, interval: under the attack.
        lost: against the clean accuracy, in points.
        largest, norm, share: the mean perturbation.
        settings: as a reader would write them.
        strips: (image of the set, what the attack made of it).
        remark: why a strip shows an image that withstood, if one does.
    """

    label: str
    accuracy: str
    interval: str
    lost: str
    largest: str
    norm: str
    share: str
    settings: dict[str, Any]
    strips: tuple[tuple[AttackExample, AttackedImage], ...]
    remark: str = ""


@dataclass(frozen=True)
class AttackSection:
    """The attacks on one network: a chart of the accuracies, and a row each."""

    chart: Markup
    rows: tuple[AttackRow, ...]


def attack_section(model: ModelResults, place: int) -> AttackSection | None:
    """What there is to show of a network; None without attacks.

    Args:
        model: the network.
        place: number of its colour.
    """
    settings = {name: about for measurement in model.measurements for name, about in measurement.attacks.items()}
    names = [name for name in settings if score_key(name, model.primary) in model.summary]
    if not names:
        return None
    clean = model.clean
    rows = [] if clean is None else [Bar("Clean", clean.value, clean.low, clean.high, series=PLAIN)]
    for name in names:
        value = model.summary[score_key(name, model.primary)]
        reference = clean.value if clean else None
        rows.append(Bar(attack_label(name), value.value, value.low, value.high, reference, place))
    told = ", ".join(f"{row.label} {percent(row.value)}" for row in rows)
    chart = bars(rows, f"{measure_of(model.primary).label} under attacks: {told}", top=1.0)
    return AttackSection(chart, tuple(_row(model, name, settings[name]) for name in names))


def _row(model: ModelResults, name: str, settings: dict[str, Any]) -> AttackRow:
    key = score_key(name, model.primary)
    value, clean, changes = model.summary[key], model.clean, mean_changes(model, name)
    sizes = (MISSING,) * 3 if changes is None else (grey(changes[0]), f"{changes[1]:.2f}", percent(changes[2]))
    strips = [(e, a) for e in model.attack_examples for a in e.attacked if a.attack == name]
    lost = MISSING if clean is None else change(key, value.value - clean.value)
    told = ATTACKS[name].shown(settings) if name in ATTACKS else settings  # of a plug-in that is not installed here
    shown = (attack_label(name), percent(value.value), interval(value), lost, *sizes)
    return AttackRow(*shown, told, tuple(strips), _remark(strips))


def _remark(strips: Sequence[tuple[AttackExample, AttackedImage]]) -> str:
    """Every attack shows images that it fooled, as long as there are any."""
    if any(example.clean.right is None for example, _ in strips):
        return ""
    fooled = sum(bool(example.clean.right) and not attacked.shown.right for example, attacked in strips)
    if not strips or fooled == len(strips):
        return ""
    return "It turned no image from right to wrong." if not fooled else f"It turned only {fooled} from right to wrong."


def attack_label(name: str) -> str:
    """What the page calls an attack, or one of its rows: "patches-random (2)" -> "Random patches (2)"."""
    known, bracket, row = name.partition(" (")
    label = ATTACKS[known].label if known in ATTACKS else known
    return label + bracket + row


def mean_changes(model: ModelResults, attack: str) -> tuple[float, float, float] | None:
    """(largest change, L2 norm, share of changed pixels), averaged over images and rows; None where it was not made."""
    cells = _cells(model, attack)
    if not cells:
        return None
    sizes = [(cell.largest_change or 0.0, cell.change_norm or 0.0, cell.changed_pixels or 0.0) for cell in cells]
    largest, norm, share = (sum(column) / len(sizes) for column in zip(*sizes, strict=True))
    return largest, norm, share


def _cells(model: ModelResults, attack: str) -> list[CellResult]:
    return [c for c in model.cells if c.suite == ATTACK_SUITE and c.condition.partition(" (")[0] == attack]
