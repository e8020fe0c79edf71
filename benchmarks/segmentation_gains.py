"""What FAN, TAP and ADL buy in segmentation on real images: the same updates from random weights, over several seeds.

    python benchmarks/segmentation_gains.py FOLDER --output runs/segmentation_gains --seeds 0 1 --updates 1500

FOLDER has images/{train,val} and labels/{train,val} (docs/segmentation-data.md). The networks of a seed are trained one after
the other and then measured together on the same images, so that differences have intervals. Runs are resumable: a second call
does what is missing. Results and report of each seed are in OUTPUT/seed-N, the tables in OUTPUT/gains.md. Two calls beside
each other, each with `--threads 1` and a seed of its own, use two cores better than one call does; a last call with all seeds
joins them. Networks see the images at half their size (`--scale`), and the corruptions, the 16 of Cityscapes-C (protocol
kamann), are made in memory at full size.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev

import torch

import robustvit as rv
from robustvit.evaluation.results import Results, Value
from robustvit.runtime.files import write_whole
from robustvit.tasks.segmentation import Segmentation
from robustvit.tasks.windows import Inference
from robustvit.training.train import Progress, train

BASE = (
    "task=segmentation",
    "loss.smoothing=0",
    "augment.crop=scene",
    "augment.photometric=true",
    "augment.cat_max_ratio=0.75",
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
    "loop.checkpoint_every=100",
    "model.options.embed_dim=128",
    "data.val=",
)
HYBRID = "model.name=fan_hybrid_tiny/segformer"
VARIANTS: dict[str, tuple[str, ...]] = {
    "FAN": (HYBRID,),
    "ResNet-18": ("model.name=resnet18/segformer",),
    "ViT": ("model.name=deit_tiny_patch16_224/segformer",),
    "FAN + TAP": (HYBRID, "model.tap=4"),
    "FAN + ADL": (HYBRID, "methods.adl={}"),
}
"""Name -> changes: backbones of 5 to 11 million parameters with the same head. The others are compared with the first."""
SHOWN = {"clean_miou": "clean", "cityscapes_c_miou": "16 corruptions", "retention": "retention"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder with images/ and labels/")
    parser.add_argument("--output", type=Path, default=Path("runs/segmentation_gains"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--updates", type=int, default=1500)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--crop", type=int, nargs=2, default=[128, 160], help="height and width of training crops")
    parser.add_argument("--scale", type=float, default=0.5, help="at which networks see images, as a factor on their size")
    parser.add_argument("--size", type=int, nargs=2, default=[480, 360], help="longer and shorter side of the images")
    parser.add_argument("--limit", type=int, default=None, help="validation images to measure on; all by default")
    parser.add_argument("--threads", type=int, default=0, help="of PyTorch; 0: as many as it likes")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    found = {}
    for seed in options.seeds:
        found[seed] = measured(options.output / f"seed-{seed}", seed, options)
        text = "\n".join([*scores(found, SHOWN, "cityscapes_c_miou"), "", *differences(found, SHOWN, list(VARIANTS))]) + "\n"
        with write_whole(options.output / "gains.md") as file:
            file.write_text(text)
        print(text, flush=True)


def measured(folder: Path, seed: int, options: argparse.Namespace) -> Results:
    """Trains and evaluates the variants with one seed, or takes what an earlier call has found."""
    networks = {}
    for name, changes in VARIANTS.items():
        run = folder / name.lower().replace(" + ", "_")
        trained(run, changes, seed, options)
        networks[name] = rv.create_model(f"local-dir:{run / 'weights'}", pretrained=True).eval()
    seen = Inference(fit=tuple(round(options.scale * side) for side in options.size))
    return rv.evaluate(
        networks,
        options.data,
        ["clean", "cityscapes-c"],
        task=Segmentation(inference=seen),
        limit=options.limit,
        batch_size=4,
        output=folder / "evaluation",
        resume=True,
    )


def trained(folder: Path, changes: Sequence[str], seed: int, options: argparse.Namespace) -> None:
    run = [
        f"data.train={options.data}",
        f"augment.crop_size={options.crop}",
        f"augment.ratio_range={[0.5 * options.scale, 2.0 * options.scale]}",
        f"schedule.updates={options.updates}",
        f"loop.batch_size={options.batch}",
        f"loop.seed={seed}",
    ]

    def told(progress: Progress) -> None:
        if progress.update % 100 == 0:
            print(f"  {folder}: update {progress.update} of {progress.updates}", flush=True)

    train(rv.load_config(None, [*BASE, *run, *changes]), folder, resume=True, report=told).check_finished()


def scores(found: dict[int, Results], shown: Mapping[str, str], by_seed: str) -> Iterator[str]:
    """Mean and standard deviation over seeds, and of one number the interval over images of each seed."""
    yield f"| network | parameters | {' | '.join(shown.values())} | {shown[by_seed]}, by seed (95 % over images) |"
    yield "|---|---:|" + "---:|" * len(shown) + "---|"
    for models in zip(*(results.models for results in found.values()), strict=True):
        means = " | ".join(spread([model.summary[key].value for model in models]) for key in shown)
        seeds = "; ".join(interval(model.summary[by_seed]) for model in models)
        yield f"| {models[0].name} | {models[0].parameters / 1e6:.1f} M | {means} | {seeds} |"


def differences(found: dict[int, Results], shown: Mapping[str, str], variants: Sequence[str]) -> Iterator[str]:
    """Of every variant from the first, on the same images, by seed."""
    first, *others = variants
    keys = list(shown)
    yield f"| minus {first}, by seed | {' | '.join(shown.values())} |"
    yield "|---|" + "---|" * len(keys)
    for name in others:
        summaries = [results.between(name, first)[0].summary for results in found.values()]
        cells = ("; ".join(interval(summary[key], "+") for summary in summaries) for key in keys)
        yield f"| {name} | {' | '.join(cells)} |"


def spread(values: Sequence[float]) -> str:
    """Mean and standard deviation of shares, in percent."""
    percent = [100 * value for value in values]
    return f"{mean(percent):.1f}" + (f" ± {stdev(percent):.1f}" if len(percent) > 1 else "")


def interval(value: Value, sign: str = "") -> str:
    if value.low is None or value.high is None:
        return f"{100 * value.value:{sign}.1f}"
    return f"{100 * value.value:{sign}.1f} ({100 * value.low:{sign}.1f} to {100 * value.high:{sign}.1f})"


if __name__ == "__main__":
    main()
