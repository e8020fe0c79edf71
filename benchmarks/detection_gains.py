"""What a FAN backbone buys in detection on real images: the same updates from random weights, over several seeds.

    python benchmarks/detection_gains.py FOLDER --output runs/detection_gains --seeds 0 1 --updates 800

FOLDER is a dataset with boxes (docs/detection-data.md). The networks of a seed are trained one after the other and then
measured together on the same images, so that differences have intervals. Runs are resumable: a second call does what is
missing. Results and report of each seed are in OUTPUT/seed-N, the tables in OUTPUT/gains.md. Two calls beside each other, each
with `--threads 1` and a seed of its own, use two cores better than one call does; a last call with all seeds joins them.
Networks see the images at half their size (`--short`, `--long`); the 15 common corruptions are made in memory at full size.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import torch

import robustvit as rv
from robustvit.evaluation.results import Results
from robustvit.runtime.files import write_whole
from robustvit.training.train import Progress, train
from segmentation_gains import differences, scores

BASE = (
    "task=detection",
    "loss.smoothing=0",
    "augment.crop=multiscale",
    "augment.photometric=true",
    "optimizer.lr=1e-3",
    "optimizer.weight_decay=0.05",
    "optimizer.clip_grad=5.0",
    "optimizer.no_decay=layer_norms",
    "schedule.name=cosine",
    "schedule.warmup_updates=50",
    "schedule.warmup_ratio=0.001",
    "schedule.min_lr=1e-5",
    "loop.ema_decay=0.99",
    "loop.ema_warmup=true",
    "loop.device=cpu",
    "loop.freeze_batchnorm=false",
    "loop.checkpoint_every=100",
    "model.options.width=64",
    "model.options.hidden=256",
    "model.options.anchor_scale=4",
    "model.options.region_samples=128",
    "data.val=",
)
VARIANTS: dict[str, tuple[str, ...]] = {
    "FAN, Faster R-CNN": ("model.name=fan_hybrid_nano/faster_rcnn",),
    "ResNet-18, Faster R-CNN": ("model.name=resnet18/faster_rcnn",),
    "FAN, Cascade R-CNN": ("model.name=fan_hybrid_nano/cascade_rcnn",),
    "ResNet-18, Cascade R-CNN": ("model.name=resnet18/cascade_rcnn",),
}
"""Name -> changes: the same heads on backbones of 1 and 11 million parameters. The others are compared with the first."""
SHOWN = {"clean_box_ap": "clean AP", "mean_box_ap": "15 corruptions", "retention": "retention"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder with images and boxes")
    parser.add_argument("--output", type=Path, default=Path("runs/detection_gains"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--updates", type=int, default=800)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--short", type=int, default=240, help="shorter side at which networks see images")
    parser.add_argument("--long", type=int, default=400, help="longer side at most")
    parser.add_argument("--severities", type=int, nargs="+", default=[3], help="of the corruptions")
    parser.add_argument("--limit", type=int, default=None, help="validation images to measure on; all by default")
    parser.add_argument("--threads", type=int, default=0, help="of PyTorch; 0: as many as it likes")
    parser.add_argument("--only", nargs="+", default=list(VARIANTS), choices=list(VARIANTS))
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    found = {}
    for seed in options.seeds:
        found[seed] = measured(options.output / f"seed-{seed}", seed, options)
        text = "\n".join([*scores(found, SHOWN, "mean_box_ap"), "", *differences(found, SHOWN, options.only)]) + "\n"
        with write_whole(options.output / "gains.md") as file:
            file.write_text(text)
        print(text, flush=True)


def measured(folder: Path, seed: int, options: argparse.Namespace) -> Results:
    """Trains and evaluates the variants with one seed, or takes what an earlier call has found."""
    networks = {}
    for name in options.only:
        run = folder / name.lower().replace(", ", "_").replace(" ", "-")
        trained(run, VARIANTS[name], seed, options)
        networks[name] = rv.create_model(f"local-dir:{run / 'weights'}", pretrained=True).eval()
    return rv.evaluate(
        networks,
        options.data,
        ["clean", "common15"],
        task="detection",
        severity=tuple(options.severities),
        limit=options.limit,
        output=folder / "evaluation",
        resume=True,
    )


def trained(folder: Path, changes: Sequence[str], seed: int, options: argparse.Namespace) -> None:
    short = options.short
    run = [
        f"data.train={options.data}",
        f"augment.short_sides={[round(short * share) for share in (0.8, 0.9, 1.0, 1.1, 1.2)]}",
        f"augment.long_side={round(1.2 * options.long)}",
        f"augment.first_short_sides={[round(short * share) for share in (0.8, 1.0, 1.2)]}",
        f"augment.crop_range={[round(0.6 * short), round(1.2 * short)]}",
        f"model.options.fit={[options.long, short]}",
        f"schedule.updates={options.updates}",
        f"loop.batch_size={options.batch}",
        f"loop.seed={seed}",
    ]

    def told(progress: Progress) -> None:
        if progress.update % 100 == 0:
            print(f"  {folder}: update {progress.update} of {progress.updates}", flush=True)

    train(rv.load_config(None, [*BASE, *run, *changes]), folder, resume=True, report=told).check_finished()


if __name__ == "__main__":
    main()
