"""What FAN, TAP and ADL buy in segmentation on real images: the same updates from random weights, over several seeds.

    python benchmarks/segmentation_gains.py FOLDER --output runs/segmentation_gains --seeds 0 1 --updates 1500

FOLDER has images/{train,val} and labels/{train,val} (docs/segmentation-data.md). Runs are resumable: a second call does what
is missing. The table goes to OUTPUT/gains.md and gains.json, with mean and spread over the seeds. Two calls beside each other,
each with `--threads 1` and a seed of its own, use two cores better than one call does; a last call with all seeds joins them.
The corruptions are the 16 of Cityscapes-C (protocol kamann), made in memory.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

import robustvit as rv
from method_gains import report
from robustvit.training.train import Progress, train

BASE = (
    "task=segmentation",
    "loss.smoothing=0",
    "augment.crop=scene",
    "augment.ratio_range=[0.5, 2.0]",
    "augment.photometric=true",
    "optimizer.lr=5e-4",
    "optimizer.weight_decay=0.01",
    "optimizer.clip_grad=1.0",
    "optimizer.no_decay=layer_norms",
    "schedule.name=poly",
    "schedule.options={decay_rate: 1.0}",
    "schedule.warmup_updates=100",
    "schedule.min_lr=0",
    "loop.ema_decay=0.99",
    "loop.ema_warmup=true",
    "loop.device=cpu",
    "loop.freeze_batchnorm=false",
    "model.options.embed_dim=128",
)
HYBRID = "model.name=fan_hybrid_tiny/segformer"
VARIANTS: dict[str, tuple[str, ...]] = {
    "ResNet-18": ("model.name=resnet18/segformer",),
    "ViT": ("model.name=deit_tiny_patch16_224/segformer",),
    "FAN": (HYBRID,),
    "FAN + TAP": (HYBRID, "model.tap=4"),
    "FAN + ADL": (HYBRID, "methods.adl={}"),
}
"""Name -> changes: backbones of 5 to 11 million parameters with the same head."""
SHOWN = {"clean_miou": "clean", "cityscapes_c_miou": "16 corruptions", "retention": "retention"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder with images/ and labels/")
    parser.add_argument("--output", type=Path, default=Path("runs/segmentation_gains"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--updates", type=int, default=1500)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--crop", type=int, nargs=2, default=[192, 256], help="height and width of training crops")
    parser.add_argument("--limit", type=int, default=None, help="validation images to measure on; all by default")
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
    run = [
        f"data.train={options.data}",
        "data.val=",
        f"augment.crop_size={options.crop}",
        f"schedule.updates={options.updates}",
        f"loop.batch_size={options.batch}",
        f"loop.seed={seed}",
        "loop.checkpoint_every=100",
    ]

    def told(progress: Progress) -> None:
        if progress.update % 100 == 0:
            print(f"  {folder.name}: update {progress.update} of {progress.updates}", flush=True)

    train(rv.load_config(None, [*BASE, *run, *VARIANTS[name]]), folder, resume=True, report=told)
    network = rv.create_model(f"local-dir:{folder / 'weights'}", pretrained=True).eval()
    results = rv.evaluate(
        {name: network},
        options.data,
        "cityscapes-c",
        limit=options.limit,
        batch_size=4,
        output=folder / "evaluation",
        resume=True,
    )
    return {key: results.models[0].summary[key].value for key in SHOWN}


if __name__ == "__main__":
    main()
