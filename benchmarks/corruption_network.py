"""Whether AFAT's corruption network C climbs on a frozen network: L_align of its patches over that of random ones.

    python benchmarks/corruption_network.py
    python benchmarks/corruption_network.py --data FOLDER --scales 1 10 327.68 --clips 0 1 --rates 1e-4 3e-2

The shipped networks are frozen and C is trained by the very method of a training run (`Afat`), in batches of 16 generated
images. The ratio is measured on images that C has not seen, with the same noise for both choices: 1 means that C does as well
as chance. Without --scales, the rows are the two variants of `AfatConfig`; mean and standard deviation over seeds.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator, Sequence
from functools import partial
from statistics import mean, stdev
from typing import Any

import torch
from torch import nn

import robustvit as rv
from robustvit.data.normalisation import Normalisation
from robustvit.methods.afat import STRENGTHS, Afat, AfatConfig, Strength
from robustvit.methods.base import MethodContext, Needs, Step
from robustvit.tasks.classification import Classification
from robustvit.training.batches import TrainingData
from robustvit.training.config import AugmentConfig, DataConfig
from robustvit.training.forward import Forward, TrainedNetwork
from robustvit.training.training_sets import training_samples

NETWORKS = ("vit_nano", "fan_vit_nano")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="scenes-easy:4000", help="training images; generated ones by default")
    parser.add_argument("--networks", nargs="+", default=list(NETWORKS), help="as create_model takes them, with weights")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--updates", type=int, default=200)
    parser.add_argument("--every", type=int, default=50, help="updates between measurements")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--held-out", type=int, default=256, help="images to measure on")
    parser.add_argument("--scales", type=float, nargs="+", default=[], help="strengths instead of the two variants")
    parser.add_argument("--clips", type=float, nargs="+", default=[0.0, 1.0])
    parser.add_argument("--rates", type=float, nargs="+", default=[3e-2])
    options = parser.parse_args()
    strengths = dict(STRENGTHS.items())
    if options.scales:
        grid = itertools.product(options.scales, options.clips, options.rates)
        strengths = {f"scale {s:g}, clip {c:g}, lr {r:g}": Strength(s, c, r) for s, c, r in grid}  # type: ignore[misc]
    places = range(options.every, options.updates + 1, options.every)
    print(f"| network | C | {' | '.join(f'{place} updates' for place in places)} |\n|---|---|" + "---|" * len(places))
    for name, (label, strength) in itertools.product(options.networks, strengths.items()):
        curves = [climb(name, strength, seed, options) for seed in options.seeds]
        cells = [spread([curve[i] for curve in curves]) for i in range(len(places))]
        print(f"| {name} | {label} | {' | '.join(cells)} |", flush=True)


def spread(values: Sequence[float]) -> str:
    return f"{mean(values):.2f}" + (f" ± {stdev(values):.2f}" if len(values) > 1 else "")


def climb(name: str, strength: Strength, seed: int, options: argparse.Namespace) -> list[float]:
    """L_align(C) / L_align(random) on the held-out images, after every `options.every` updates of C."""
    network = rv.create_model(name, pretrained=True).eval().requires_grad_(False)
    size = tuple(network.pretrained_cfg["input_size"][1:])
    config = AfatConfig(corruption_grad_scale=strength.scale, corruption_grad_clip=strength.clip, lr=strength.lr)
    load: Any = rv.create_model  # which AFAT does not call
    method = config.build(MethodContext(network, network.num_classes, size, torch.device("cpu"), seed, load))
    steps = steps_of(network, size, seed, options)
    held_out = [next(steps) for _ in range(options.held_out // options.batch)]
    found = []
    for update, step in enumerate(itertools.islice(steps, options.updates), start=1):
        train_scorer(method, step)
        if update % options.every == 0:
            found.append(mean(method.diagnose(step)["chosen_over_random"] for step in held_out))
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


def steps_of(network: nn.Module, size: tuple[int, int], seed: int, options: argparse.Namespace) -> Iterator[Step]:
    """Batches of the first epoch of a training, all of different images."""
    task, normalisation = Classification(), Normalisation.of(network)
    samples = training_samples(task, DataConfig(train=options.data), seed=seed)
    data = TrainingData(task, samples, DataConfig(), AugmentConfig(crop="none", flip=0.0), size, seed=seed)
    forward = Forward(TrainedNetwork(network, task, token_logits=False), network, task, Needs(features=True))
    count = options.updates + options.held_out // options.batch
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
