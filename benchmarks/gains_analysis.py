"""What the records of `method_gains.py` show: tables with seeds, spread and intervals of paired differences.

    python benchmarks/gains_analysis.py benchmarks/records/method_gains --figure docs/images/gains.png

Runs of the same seed are paired. Differences have 95 % intervals of Student's t over the seeds. "Decided" means that p,
two-sided and corrected for all comparisons of a column by Holm's procedure, is below 0.05; anything else is "not decided":
these seeds cannot tell, which does not mean that there is no effect.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from method_gains import VARIANTS

LEVEL = 0.95
LINES = {"FAN": ("FAN", "FAN, twice as long"), "ViT": ("ViT",)}
"""Network -> the variants whose checkpoints make its line."""
Records = Mapping[str, Mapping[int, Mapping[str, Any]]]
"""Variant -> seed -> record."""


class Difference(NamedTuple):
    """The mean of paired differences, its interval, its p value, and the number of pairs."""

    mean: float
    low: float
    high: float
    p: float
    pairs: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", type=Path, help="folder of the records")
    parser.add_argument("--figure", type=Path, help="draws corrupted over clean accuracy during the trainings")
    options = parser.parse_args()
    records = read_records(options.records)
    for part in (scores(records), compared(records), at_equal_clean(records)):
        print("\n".join(part) + "\n")
    if options.figure:
        draw(records, options.figure)


def read_records(folder: Path) -> Records:
    """Raises SystemExit where there are none, or where they are of different settings."""
    found: dict[str, dict[int, dict[str, Any]]] = {name: {} for name in VARIANTS}
    settings = set()
    for path in sorted(folder.glob("*.json")):
        record = json.loads(path.read_text())
        found[record["variant"]][record["seed"]] = record
        settings.add(json.dumps(record["setting"], sort_keys=True))
    if len(settings) != 1:
        raise SystemExit(
            f"{folder} has records of {len(settings)} settings ({'; '.join(sorted(settings))}); give those of one"
        )
    return {name: dict(sorted(runs.items())) for name, runs in found.items() if runs}


def last(records: Records, name: str, key: str) -> dict[int, float]:
    """Seed -> the number of the last point, in percent."""
    return {seed: 100 * record["points"][-1][key] for seed, record in records[name].items()}


def scores(records: Records) -> Iterator[str]:
    yield "| network | clean | 15 corruptions | seeds |\n|---|---:|---:|---:|"
    for name in records:
        cells = [spread([*last(records, name, key).values()]) for key in ("clean", "corrupted")]
        yield f"| {name} | {' | '.join(cells)} | {len(records[name])} |"


def compared(records: Records) -> Iterator[str]:
    """Every variant against what it is compared with."""
    pairs = [(name, other) for name in records for other in VARIANTS[name].reference if other in records]
    columns = {key: [paired(last(records, a, key), last(records, b, key)) for a, b in pairs] for key in ("clean", "corrupted")}
    yield "| difference | clean | | 15 corruptions | |\n|---|---|---|---|---|"
    yield from rows([f"{a} - {b}" for a, b in pairs], columns)


def at_equal_clean(records: Records) -> Iterator[str]:
    """How far the corrupted accuracy of a variant lies above the line that its network without a method moves along while it
    trains."""
    names, found = list[str](), list[Difference]()
    for base, of_line in LINES.items():
        own = [name for name in records if network_of(name) == base]
        if base not in own:
            continue
        line = clean_to_corrupted(records, of_line)
        beyond = {name: above(records, name, line) for name in own}
        names += [f"{name}, beyond {base}'s line" for name in own if name != base]
        found += [paired(beyond[name], beyond[base]) for name in own if name != base]
    yield "| corrupted accuracy at equal clean accuracy | 15 corruptions | |\n|---|---|---|"
    yield from rows(names, {"corrupted": found})


def network_of(variant: str) -> str:
    """ "ViT + TAP" -> "ViT"."""
    return variant.split(" +")[0].split(",")[0]


def rows(names: Sequence[str], columns: Mapping[str, Sequence[Difference]]) -> Iterator[str]:
    corrected = {key: holm([one.p for one in found]) for key, found in columns.items()}
    for i, name in enumerate(names):
        cells = (f"{told(found[i])} | {verdict(corrected[key][i])}" for key, found in columns.items())
        yield f"| {name} | {' | '.join(cells)} |"


def paired(ours: Mapping[int, float], theirs: Mapping[int, float]) -> Difference:
    """Of the seeds that both have."""
    values = [ours[seed] - theirs[seed] for seed in ours if seed in theirs]
    n = len(values)
    if n < 2:
        return Difference(mean(values) if values else np.nan, np.nan, np.nan, 1.0, n)
    error = stdev(values) / n**0.5
    if error == 0:
        return Difference(values[0], values[0], values[0], float(values[0] == 0), n)
    half = stats.t.ppf((1 + LEVEL) / 2, n - 1) * error
    return Difference(
        mean(values), mean(values) - half, mean(values) + half, 2 * stats.t.sf(abs(mean(values)) / error, n - 1), n
    )


def holm(p: Sequence[float]) -> list[float]:
    """Holm's corrected p values: the smallest of m times m, the next times m - 1, ..., never below the one before."""
    corrected = [1.0] * len(p)
    largest = 0.0
    for rank, i in enumerate(sorted(range(len(p)), key=lambda i: p[i])):
        largest = max(largest, min(1.0, (len(p) - rank) * p[i]))
        corrected[i] = largest
    return corrected


def clean_to_corrupted(records: Records, names: Sequence[str]) -> np.ndarray:
    """Slope and height of the line through all points of all trainings of some variants, in percent."""
    points = [point for name in names if name in records for record in records[name].values() for point in record["points"]]
    return np.polyfit([100 * point["clean"] for point in points], [100 * point["corrupted"] for point in points], 1)


def above(records: Records, name: str, line: np.ndarray) -> dict[int, float]:
    """Seed -> corrupted accuracy beyond the line, at the end."""
    clean, corrupted = last(records, name, "clean"), last(records, name, "corrupted")
    return {seed: corrupted[seed] - float(np.polyval(line, clean[seed])) for seed in clean}


def spread(values: Sequence[float]) -> str:
    return f"{mean(values):.1f}" + (f" ± {stdev(values):.1f}" if len(values) > 1 else "")


def told(found: Difference) -> str:
    return f"{found.mean:+.1f} ({found.low:+.1f} to {found.high:+.1f}; {found.pairs} pairs)"


def verdict(p: float) -> str:
    return f"decided (p {p:.3f})" if p < 1 - LEVEL else f"not decided (p {p:.2f})"


def draw(records: Records, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6.4, 4.8), layout="constrained")
    for name, runs in records.items():
        curve = 100 * np.mean([[(p["clean"], p["corrupted"]) for p in record["points"]] for record in runs.values()], axis=0)
        axes.plot(*curve.T, marker="o", markersize=3, linewidth=1, label=f"{name} ({len(runs)})")
    axes.set(xlabel="clean accuracy (%)", ylabel="accuracy under 15 corruptions, severity 3 (%)")
    axes.legend(title="network (seeds)", fontsize=8)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
