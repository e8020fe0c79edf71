"""What each method buys on real images: the same small network, images and updates, with and without it, over several seeds.

    python benchmarks/method_gains.py FOLDER --seeds 0 1 2 3 4
    python benchmarks/gains_analysis.py benchmarks/records/method_gains

FOLDER has train.tar and test.tar, or train/ and test/, with one folder per class. A run is one variant with one seed. Runs of
a seed start from the same weights where they have the same parts, and see the same images in the same order, so that they can
be compared in pairs. The averaged weights after each half of the updates are measured: clean, and under the 15 common
corruptions at severity 3. What was measured is a small file per run in --records, which the analysis reads; a run that has its
file is not made again, and an interrupted one is resumed in --output. Two calls beside each other, each with `--threads 1` and
seeds of its own, use two cores better than one call does.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import robustvit as rv
from robustvit.models.weights_into import load_weights
from robustvit.runtime.files import write_whole
from robustvit.training.metrics_log import read_metrics
from robustvit.training.train import Progress, train

BASE = (
    "model.name=fan_vit_nano",
    "model.drop_path=0.0",
    "augment.crop=padded",
    "optimizer.lr=2e-3",
    "optimizer.clip_grad=1.0",
    "schedule.min_lr=1e-5",
    "schedule.name=cosine",
    "schedule.warmup_updates=150",
    "schedule.warmup_ratio=0.001",
    "loop.batch_size=64",
    "loop.ema_decay=0.99",
    "loop.ema_warmup=true",
    "loop.device=cpu",
    "data.val=",
)
PARTS = 2
TAP, ADL, AFAT = "model.tap=4", "methods.adl={start: 0.5}", "methods.afat={weight: 2.0}"
HEAD = "model.token_head=true"


@dataclass(frozen=True)
class Variant:
    """What is trained.

    Attributes:
        changes: of `BASE`.
        length: of the training, in those of the others.
        is_student: whether it learns from the labeler of the same seed, which is trained first and is as long.
        reference: the variants that it is compared with.
    """

    changes: tuple[str, ...] = ()
    length: int = 1
    is_student: bool = False
    reference: tuple[str, ...] = ("FAN",)


VIT = "model.name=vit_nano"
VARIANTS = {
    "FAN": Variant(reference=()),
    "FAN, twice as long": Variant(length=2),
    "FAN + STL": Variant((HEAD,), is_student=True, reference=("FAN", "FAN, twice as long")),
    "FAN, all together": Variant(
        (TAP, ADL, AFAT, HEAD), is_student=True, reference=("FAN", "FAN, twice as long", "FAN + STL")
    ),
    "ViT": Variant((VIT,), length=2, reference=("FAN, twice as long",)),
    "ViT + TAP": Variant((VIT, TAP), length=2, reference=("ViT",)),
    "ViT + ADL": Variant((VIT, ADL), length=2, reference=("ViT",)),
    "ViT + AFAT": Variant((VIT, AFAT), length=2, reference=("ViT",)),
    "ViT + AFAT at 0.005": Variant((VIT, "methods.afat={weight: 0.005}"), length=2, reference=("ViT",)),
}
"""Each method on a network where it can act (docs/results.md): attention matters to `vit_nano` after 2400 updates
(`attention_gate.py`), and AFAT's corruption network finds patches that hurt it; STL teaches the network of its paper. ADL
begins late and AFAT has a lambda that acts, beside the published one (docs/adl.md, docs/afat.md)."""
LABELER = Variant((HEAD, "methods.stl_labeler={}"), reference=())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder with train.tar and test.tar, or train/ and test/")
    parser.add_argument("--output", type=Path, default=Path("runs/gains"), help="trained networks")
    parser.add_argument("--records", type=Path, default=Path("benchmarks/records/method_gains"), help="what was measured")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--updates", type=int, default=1_200, help="of a training; a multiple of 2")
    parser.add_argument("--precision", default="bf16", choices=["fp32", "bf16"], help="of the trainings; measured in fp32")
    parser.add_argument("--test-images", type=int, default=2_000)
    parser.add_argument("--threads", type=int, default=0, help="of PyTorch; 0: as many as it likes")
    parser.add_argument("--only", nargs="+", default=list(VARIANTS), choices=list(VARIANTS))
    options = parser.parse_args()
    if options.updates % PARTS:
        parser.error(f"--updates {options.updates} is no multiple of {PARTS}")
    if options.threads:
        torch.set_num_threads(options.threads)
    for seed in options.seeds:
        for name in options.only:
            record = options.records / f"{file_name(name)}-{seed}.json"
            if not record.exists():
                write_record(record, run(name, seed, options))
            print(f"{name}, seed {seed}: {record}", flush=True)


def run(name: str, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """Trains and measures one variant."""
    variant = VARIANTS[name]
    changes = [*variant.changes]
    if variant.is_student:
        labeler = options.output / f"labeler-{seed}"
        trained(labeler, LABELER, LABELER.changes, seed, options)
        student = f"{{labeler: fan_vit_nano, checkpoint: '{labeler / 'weights' / 'model.safetensors'}'}}"
        changes.append(f"methods.stl_student={student}")
    folder = options.output / f"{file_name(name)}-{seed}"
    trained(folder, variant, changes, seed, options)
    log = [entry["diagnostics"] for entry in read_metrics(folder / "metrics.jsonl") if entry.get("diagnostics")]
    return {
        "variant": name,
        "seed": seed,
        "setting": {"updates": options.updates, "precision": options.precision, "test_images": options.test_images},
        "version": rv.__version__,
        "points": measured(folder, options),
        "diagnostics": log[-1] if log else {},
    }


def trained(
    folder: Path, variant: Variant, changes: Sequence[str], seed: int, options: argparse.Namespace, parts: int = PARTS
) -> None:
    """Trains, with checkpoints after equal parts, or takes what an earlier call has trained."""
    updates = variant.length * options.updates
    config = rv.load_config(
        None,
        [
            *BASE,
            f"data.train={split_of(options.data, 'train')}",
            f"schedule.updates={updates}",
            f"loop.checkpoint_every={updates // parts}",
            f"loop.keep={parts}",
            f"loop.seed={seed}",
            f"loop.precision={options.precision}",
            *changes,
        ],
    )

    def told(progress: Progress) -> None:
        if progress.update % 500 == 0:
            speed = f"{progress.images_per_second:.0f} images/s"
            print(f"  {folder.name}: update {progress.update} of {progress.updates}, {speed}", flush=True)

    train(config, folder, resume=True, report=told).check_finished()


def measured(folder: Path, options: argparse.Namespace) -> list[dict[str, Any]]:
    """What the averaged weights of every checkpoint do, in the order of the training."""
    networks = {}
    for path in sorted((folder / "checkpoints").glob("checkpoint-*.pt")):
        state = torch.load(path, weights_only=True)
        networks[str(state["update"])] = network = rv.create_model(f"local-dir:{folder / 'weights'}", pretrained=True).eval()
        load_weights(network, state["ema"])
    results = rv.evaluate(
        networks,
        split_of(options.data, "test"),
        ["clean", "common15"],
        severity=(3,),
        limit=options.test_images,
        batch_size=100,
        output=folder / "evaluation",
        resume=True,
    )
    return [
        {
            "update": int(model.name),
            "clean": round(model.summary["clean_accuracy"].value, 6),
            "corrupted": round(model.summary["mean_accuracy"].value, 6),
        }
        for model in results.models
    ]


def split_of(data: Path, split: str) -> Path:
    return next((path for path in (data / f"{split}.tar", data / split) if path.exists()), data / split)


def file_name(variant: str) -> str:
    return variant.lower().replace(" + ", "_").replace(", ", "_").replace(" ", "_")


def write_record(path: Path, record: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with write_whole(path) as file:
        file.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
