"""How long a small network must train until its attention matters: what even attention costs, over the training.

    python benchmarks/attention_gate.py FOLDER --networks vit_nano fan_vit_nano --updates 6000

TAP and ADL are about attention. Where a network answers as well when all its image tokens attend evenly, they cannot be judged
by accuracy, but by what they do to attention. FOLDER is as for `method_gains.py`, and so is the training. The averaged weights
are measured after every tenth of the updates on images of the test set: accuracy, accuracy with even attention, and how
attention is spread (`methods/attention_spread.py`). Numbers go to --records, a file per network and seed; runs are resumable.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import robustvit as rv
from method_gains import Variant, split_of, trained, write_record
from robustvit.analysis.even_attention import even_answers
from robustvit.data.layouts import open_samples
from robustvit.data.normalisation import Normalisation
from robustvit.methods.attention_spread import attention_spread
from robustvit.models.weights_into import load_weights
from robustvit.recording.tape import record

PARTS = 10
COST = 0.05
"""What even attention must cost for attention to matter."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder with train.tar and test.tar, or train/ and test/")
    parser.add_argument("--networks", nargs="+", default=["vit_nano", "fan_vit_nano"])
    parser.add_argument("--output", type=Path, default=Path("runs/gate"), help="trained networks")
    parser.add_argument("--records", type=Path, default=Path("benchmarks/records/attention_gate"), help="what was measured")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--updates", type=int, default=6_000, help="of a training; a multiple of 10")
    parser.add_argument("--precision", default="fp32", choices=["fp32", "bf16"], help="of the trainings; measured in fp32")
    parser.add_argument("--test-images", type=int, default=2_000)
    parser.add_argument("--threads", type=int, default=0, help="of PyTorch; 0: as many as it likes")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    for network in options.networks:
        for seed in options.seeds:
            points = list(gate(network, seed, options))
            write_record(options.records / f"{network}-{seed}.json", {"network": network, "seed": seed, "points": points})
            print("\n".join(table(network, points)) + "\n", flush=True)


def gate(name: str, seed: int, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Trains, and measures the weights after every part of the training."""
    folder = options.output / f"{name}-{seed}"
    variant = Variant((f"model.name={name}",))
    trained(folder, variant, variant.changes, seed, options, PARTS)
    images, labels = test_images(options)
    network = rv.create_model(f"local-dir:{folder / 'weights'}", pretrained=True).eval()
    for path in sorted((folder / "checkpoints").glob("checkpoint-*.pt")):
        state = torch.load(path, weights_only=True)
        load_weights(network, state["ema"])
        yield {"update": state["update"], **looked_at(network, Normalisation.of(network)(images), labels)}


def test_images(options: argparse.Namespace) -> tuple[torch.Tensor, torch.Tensor]:
    """uint8 [M, 3, H, W] and int64 [M]: every so many-th image, so that all classes are there."""
    samples = open_samples(split_of(options.data, "test"))
    chosen = list(itertools.islice(samples, 0, None, max(1, len(samples) // options.test_images)))
    images = [torch.from_numpy(np.array(sample.open())) for sample in chosen]
    return torch.stack(images).permute(0, 3, 1, 2), torch.tensor([sample.target() for sample in chosen])


@torch.no_grad()
def looked_at(network: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> dict[str, float]:
    """Accuracy with and without the network's own attention, and how that is spread, on the first 200 images."""
    found = even_answers(network, images.split(100))
    with record(network) as tape:
        network(images[:200])
    p = tape.prefix_tokens
    layers = [([A[:, :, p:, p:].mean(1)], regions) for A, regions in zip(tape.attention, tape.regions, strict=True)]
    usual, even = ((answers == labels).float().mean().item() for answers in (found.usual, found.even))
    return {"accuracy": usual, "even": even, **attention_spread(layers, tau=2.0)}


def table(network: str, points: list[dict[str, Any]]) -> Iterator[str]:
    yield f"| {network}, updates | accuracy | with even attention | costs | entropy | max x N | rows that ADL counts |"
    yield "|---:|---:|---:|---:|---:|---:|---:|"
    for at in points:
        cost = 100 * (at["accuracy"] - at["even"])
        spread = f"{at['entropy']:.3f} | {at['max_times_tokens']:.1f} | {100 * at['rows_counted']:.0f} %"
        yield f"| {at['update']} | {100 * at['accuracy']:.1f} | {100 * at['even']:.1f} | {cost:.1f} | {spread} |"
    first = next((at["update"] for at in points if at["accuracy"] - at["even"] >= COST), None)
    yield f"\nEven attention costs {100 * COST:.0f} points or more from update {first} on." if first else "\nIt never does."


if __name__ == "__main__":
    main()
