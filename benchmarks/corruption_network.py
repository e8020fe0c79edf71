"""Whether AFAT's corruption network C climbs on a frozen network: L_align of its patches over that of random ones.

    python benchmarks/corruption_network.py
    python benchmarks/corruption_network.py --data FOLDER --scales 1 10 327.68 --clips 0 1 --rates 1e-4 3e-2

The shipped networks are frozen and C is trained by the very method of a training run (`Afat`), in batches of 16 generated
images. The ratio is measured on images that C has not seen, with the same noise for both choices: 1 means that C does as well
as chance. Mean and standard deviation over seeds. Without --scales, the rows are

paper, released   the two variants of `AfatConfig`
released, faster  the released one with the rate of the paper's: then scale and clip alone differ
fitted            how the attack patches-adversarial trains C (`fit_scorer`), which needs no gradient of the network
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from statistics import mean, stdev
from typing import Any

import torch
from torch import nn

import robustvit as rv
from robustvit.attacks.chosen_patches import fit_scorer
from robustvit.attacks.pixel_network import PixelNetwork
from robustvit.data.normalisation import Normalisation
from robustvit.methods.afat import STRENGTHS, Afat, AfatConfig, Strength, alignment_of_choices
from robustvit.methods.base import MethodContext, Needs, Step
from robustvit.runtime.evaluation_mode import evaluation_mode
from robustvit.tasks.classification import Classification
from robustvit.training.batches import TrainingData
from robustvit.training.config import AugmentConfig, DataConfig
from robustvit.training.forward import Forward, TrainedNetwork
from robustvit.training.training_sets import training_samples

NETWORKS = ("vit_nano", "fan_vit_nano")
ROWS: dict[str, Strength | None] = {
    "paper": STRENGTHS["paper"],
    "released": STRENGTHS["released"],
    "released, faster": STRENGTHS["released"]._replace(lr=STRENGTHS["paper"].lr),
    "fitted": None,
}
"""Label -> how C climbs; None for the fitting of the attack."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="scenes-easy:4000", help="training images; generated ones by default")
    parser.add_argument("--networks", nargs="+", default=list(NETWORKS), help="as create_model takes them, with weights")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--updates", type=int, default=100)
    parser.add_argument("--every", type=int, default=50, help="updates between measurements")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--held-out", type=int, default=64, help="images to measure on")
    parser.add_argument("--scales", type=float, nargs="+", default=[], help="strengths instead of the two variants")
    parser.add_argument("--clips", type=float, nargs="+", default=[0.0, 1.0])
    parser.add_argument("--rates", type=float, nargs="+", default=[1e-2])
    parser.add_argument("--threads", type=int, default=1, help="of PyTorch")
    parser.add_argument("--only", nargs="+", choices=list(ROWS), default=list(ROWS), help="rows, without --scales")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    rows = {label: ROWS[label] for label in options.only}
    if options.scales:
        grid = itertools.product(options.scales, options.clips, options.rates)
        rows = {f"scale {s:g}, clip {c:g}, lr {r:g}": Strength(s, c, r) for s, c, r in grid}
    places = range(options.every, options.updates + 1, options.every)
    print(f"| network | C | {' | '.join(f'{place} updates' for place in places)} |\n|---|---|" + "---:|" * len(places))
    for name in options.networks:
        curves: dict[str, list[list[float]]] = {label: [] for label in rows}
        for seed in options.seeds:
            network = rv.create_model(name, pretrained=True).eval().requires_grad_(False)
            count = options.updates + options.held_out // options.batch
            steps = list(itertools.islice(steps_of(network, seed, count, options), count))
            for label, strength in rows.items():
                climbed = climb(network, strength, seed, steps, options) if strength else fitted(network, seed, steps, options)
                curves[label].append(climbed)
        for label, found in curves.items():
            cells = [spread([curve[i] for curve in found]) for i in range(len(places))]
            print(f"| `{name}` | {label} | {' | '.join(cells)} |", flush=True)


def spread(values: Sequence[float]) -> str:
    return f"{mean(values):.2f}" + (f" ± {stdev(values):.2f}" if len(values) > 1 else "")


def climb(
    network: nn.Module, strength: Strength, seed: int, steps: Sequence[Step], options: argparse.Namespace
) -> list[float]:
    """L_align(C) / L_align(random) on the held-out images, after every `options.every` updates of C."""
    config = AfatConfig(corruption_grad_scale=strength.scale, corruption_grad_clip=strength.clip, lr=strength.lr)
    load: Any = rv.create_model  # which AFAT does not call
    outputs: Any = network.num_classes
    H, W = steps[0].images.shape[2:]
    method = config.build(MethodContext(network, outputs, (H, W), torch.device("cpu"), seed, load))
    held_out, found = steps[options.updates :], []
    for update, step in enumerate(steps[: options.updates], start=1):
        train_scorer(method, replace(step))  # what the network answers is not kept
        if update % options.every == 0:
            found.append(mean(method.diagnose(step)["chosen_over_random"] for step in held_out))
    return found


def fitted(network: nn.Module, seed: int, steps: Sequence[Step], options: argparse.Namespace) -> list[float]:
    """The same of C as `fit_scorer` trains it, in `options.every`, 2 * `options.every`, ... steps."""
    model = PixelNetwork(network)
    pixels = [Normalisation(model.mean, model.std).inverse(step.images).clamp(0, 1) for step in steps[: options.updates]]
    found = []
    for update in range(options.every, options.updates + 1, options.every):
        scorer = fit_scorer(model, pixels, steps=update, seed=seed)
        with evaluation_mode(network):
            losses = [alignment_of_choices(step, scorer, AfatConfig()) for step in steps[options.updates :]]
        found.append(mean(chosen / random for chosen, random in losses))
    return found


def train_scorer(method: Afat, step: Step) -> None:
    """One update of C, as the training loop makes it; the network is frozen."""
    companion = method.companion(step)
    if companion is not None:
        step.outputs, step.companions = step.forward(step.images), {method.name: step.forward(companion)}
    else:
        step.outputs = step.forward(step.images)
    torch.stack(list(method.terms(step).values())).sum().backward()
    method.after_backward(step, 1.0)
    method.update(lambda tensors: None)


def steps_of(network: nn.Module, seed: int, count: int, options: argparse.Namespace) -> Iterator[Step]:
    """Batches of the first epoch of a training, all of different images; `count` are wanted."""
    size = tuple(network.pretrained_cfg["input_size"][1:])  # type: ignore[index]
    task, normalisation = Classification(), Normalisation.of(network)
    samples = training_samples(task, DataConfig(train=options.data), seed=seed)
    data = TrainingData(task, samples, DataConfig(), AugmentConfig(crop="none", flip=0.0), size, seed=seed)
    forward = Forward(TrainedNetwork(network, task, token_logits=False), network, task, Needs(features=True))
    if data.updates_per_epoch(options.batch) < count:
        raise SystemExit(f"{data.length} images make fewer than {count} batches of {options.batch}; give more with --data")
    for (batch,) in data.batches(options.batch, epochs=1):
        yield Step(
            task=task,
            network=network,
            forward=partial(forward, targets=batch.targets),
            images=normalisation(batch.images),
            targets=batch.targets,
            seeds=batch.seeds,
            share=1.0,
            epoch=0.0,
            mean=normalisation.mean,
            std=normalisation.std,
        )


if __name__ == "__main__":
    main()
