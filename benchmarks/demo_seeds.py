"""The claim of the demo over several seeds: paired differences between its two networks, with intervals over the seeds.

    python benchmarks/demo_seeds.py --seeds 0 1 2 3 4

Every seed is `robustvit demo --seed SEED`, measured on the same images. The intervals on the page of a demo cover the choice
of images; those here, of Student's t, cover the chance of training. What was measured is a small file per seed in --records; a
seed that has its file is not run again, and an interrupted one is resumed in --output.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import torch

from gains_analysis import holm, paired, spread, told, verdict
from method_gains import write_record
from robustvit.demo.contest import CONTESTS, demonstrate

Numbers = Mapping[str, Mapping[str, float]]
"""Network -> key of a measure -> its value, in percent; the plain network first."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="classification", choices=list(CONTESTS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--output", type=Path, default=Path("runs/demo-seeds"))
    parser.add_argument("--records", type=Path, default=Path("benchmarks/records/demo"), help="what was measured")
    parser.add_argument("--threads", type=int, default=0, help="of PyTorch; 0: as many as it likes")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    found = {seed: measured(options.task, seed, options) for seed in options.seeds}
    print("\n".join(table(found, CONTESTS[options.task].compared)))


def measured(task: str, seed: int, options: argparse.Namespace) -> Numbers:
    """What an earlier call has measured, or what this one does."""
    record = options.records / f"{task}-{seed}.json"
    if not record.exists():
        results = demonstrate(options.output / f"{task}-{seed}", task, seed=seed)
        keys = CONTESTS[task].compared
        percents = {m.name: {key: round(100 * m.summary[key].value, 4) for key in keys} for m in results.models}
        write_record(record, {"task": task, "seed": seed, "numbers": percents, "versions": results.versions})
    numbers: Numbers = json.loads(record.read_text())["numbers"]
    return numbers


def table(found: Mapping[int, Numbers], measures: Sequence[str] | Mapping[str, str]) -> Iterator[str]:
    """One row per measure: both networks with their spread, and the robust one minus the plain one."""
    plain, robust = next(iter(found.values()))
    differences = {}
    for key in measures:
        ours, theirs = ({seed: numbers[name][key] for seed, numbers in found.items()} for name in (robust, plain))
        differences[key] = (spread([*theirs.values()]), spread([*ours.values()]), paired(ours, theirs))
    corrected = holm([difference.p for *_, difference in differences.values()])
    yield f"| {len(found)} seeds | {plain} | {robust} | difference | |\n|---|---:|---:|---|---|"
    for (key, (*values, difference)), p in zip(differences.items(), corrected, strict=True):
        yield f"| {key} | {' | '.join(values)} | {told(difference)} | {verdict(p)} |"


if __name__ == "__main__":
    main()
