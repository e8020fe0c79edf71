"""What each method buys on real images: the same small network and updates, with and without it, over several seeds.

    python benchmarks/method_gains.py FOLDER --output runs/gains --seeds 0 1

FOLDER has train.tar and test.tar, or train/ and test/, with one folder per class. Runs are resumable: a second call does
what is missing. The table goes to OUTPUT/gains.md and gains.json, with mean and spread over the seeds. Two calls beside each
other, each with `--threads 1` and a seed of its own, use two cores better than one call does; a last call with all seeds joins
them.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import torch

import robustvit as rv
from robustvit.runtime.files import write_whole
from robustvit.training.train import Progress, train

BASE = (
    "model.name=fan_vit_nano",
    "model.drop_path=0.0",
    "augment.crop=padded",
    "optimizer.lr=2e-3",
    "optimizer.clip_grad=1.0",
    "schedule.min_lr=1e-5",
    "schedule.warmup_epochs=1",
    "loop.batch_size=64",
    "loop.ema_decay=0.99",
    "loop.ema_warmup=true",
    "loop.validate_every=5",
    "loop.device=cpu",
)
TAP, ADL, AFAT = "model.tap=4", "methods.adl={}", "methods.afat={weight: 2.0}"
LABELER = ("model.token_head=true", "methods.stl_labeler={}")
VARIANTS: dict[str, tuple[str, ...]] = {
    "ViT": ("model.name=vit_nano",),
    "FAN": (),
    "FAN + TAP": (TAP,),
    "FAN + ADL": (ADL,),
    "FAN + TAP + ADL": (TAP, ADL),
    "FAN + AFAT": (AFAT,),
    "FAN + AFAT at 0.005": ("methods.afat={weight: 0.005}",),
    "FAN + STL": ("stl",),
    "all together": (TAP, ADL, AFAT, "stl"),
}
"""Name -> changes; "stl" stands for the student of a labeler that is trained first, with the same seed. AFAT has a lambda that
acts on this network, and for comparison the published one, which is as good as off here (docs/afat.md)."""
SHOWN = {"clean_accuracy": "clean", "mean_accuracy_15": "15 corruptions", "retention": "retention"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder with train.tar and test.tar, or train/ and test/")
    parser.add_argument("--output", type=Path, default=Path("runs/gains"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--train-images", type=int, default=10_000)
    parser.add_argument("--test-images", type=int, default=2_000)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--threads", type=int, default=0, help="of PyTorch; 0: as many as it likes")
    parser.add_argument("--only", nargs="+", default=list(VARIANTS), choices=list(VARIANTS))
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    options.output.mkdir(parents=True, exist_ok=True)
    found: dict[str, list[dict[str, float]]] = {name: [] for name in options.only}
    for seed in options.seeds:
        for name in options.only:
            found[name].append(measured(name, seed, options))
            report(found, options, SHOWN)


def measured(name: str, seed: int, options: argparse.Namespace) -> dict[str, float]:
    """Trains and evaluates one variant, or takes what an earlier call has found."""
    folder = options.output / f"{name.lower().replace(' + ', '_').replace(' ', '_')}-{seed}"
    changes = [*VARIANTS[name]]
    if "stl" in changes:
        labeler = options.output / f"labeler-{seed}"
        trained(labeler, LABELER, seed, options)
        student = f"{{labeler: fan_vit_nano, checkpoint: '{labeler / 'weights' / 'model.safetensors'}'}}"
        changes = [c for c in changes if c != "stl"] + ["model.token_head=true", f"methods.stl_student={student}"]
    trained(folder, changes, seed, options)
    network = rv.create_model(f"local-dir:{folder / 'weights'}", pretrained=True).eval()
    results = rv.evaluate(
        {name: network},
        split_of(options.data, "test"),
        ["clean", "common15"],
        limit=options.test_images,
        batch_size=100,
        output=folder / "evaluation",
        resume=True,
    )
    return {key: results.models[0].summary[key].value for key in SHOWN}


def trained(folder: Path, changes: Sequence[str], seed: int, options: argparse.Namespace) -> None:
    data = [f"data.train={split_of(options.data, 'train')}", f"data.train_limit={options.train_images}", "data.val="]
    run = [f"schedule.epochs={options.epochs}", f"loop.seed={seed}"]
    config = rv.load_config(None, [*BASE, *data, *run, *changes])

    def told(progress: Progress) -> None:
        if progress.update % 500 == 0:
            print(
                f"  {folder.name}: update {progress.update} of {progress.updates}, {progress.images_per_second:.0f} images/s"
            )

    train(config, folder, resume=True, report=told)


def split_of(data: Path, split: str) -> Path:
    return next((path for path in (data / f"{split}.tar", data / split) if path.exists()), data / split)


def report(found: dict[str, list[dict[str, float]]], options: argparse.Namespace, shown: dict[str, str]) -> None:
    """Writes and prints the table of what there is so far: `shown` has its columns."""
    with write_whole(options.output / "gains.json") as file:
        file.write_text(json.dumps({"seeds": options.seeds, "found": found}, indent=2) + "\n")
    text = "\n".join(table(found, shown)) + "\n"
    with write_whole(options.output / "gains.md") as file:
        file.write_text(text)
    print(text, flush=True)


def table(found: dict[str, list[dict[str, float]]], shown: dict[str, str]) -> Iterator[str]:
    yield f"| network | {' | '.join(shown.values())} | seeds |"
    yield "|---|" + "---:|" * (len(shown) + 1)
    for name, runs in found.items():
        if runs:
            yield f"| {name} | {' | '.join(spread([run[key] for run in runs]) for key in shown)} | {len(runs)} |"


def spread(values: Sequence[Any]) -> str:
    percent = [100 * value for value in values]
    return f"{mean(percent):.1f}" + (f" ± {stdev(percent):.1f}" if len(percent) > 1 else "")


if __name__ == "__main__":
    main()
