"""What the input pipeline and the methods cost a training step.

    python benchmarks/training.py                      all four comparisons, 224 pixels, 2 threads
    python benchmarks/training.py --only pipeline

Both sides of a comparison are updates of the real loop (`training.run.Run`) in one process. They take turns, and the medians
of their times are compared: what else runs on the machine slows both.

pipeline  fan_vit_nano on generated pictures, read and augmented beside the network, against the same updates on batches that
          were made before
adl       fan_vit_small with ADL, against the same network with explicit attention recorded and no ADL
afat      a network with AFAT against a plain update, with each way to train the patch corruption network
stl       the student's update against a plain update of the network with its token head plus an evaluation pass of the labeler
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import cycle

import torch

import robustvit as rv
from measuring import Step, medians
from robustvit.methods.base import Method, Needs
from robustvit.training.batches import Batch
from robustvit.training.distributed import Workers
from robustvit.training.run import Run

CLASSES = 1000
"""Of the networks of `stl`, whose cost grows with the labels of the tokens."""


def run_of(*changes: str) -> Run:
    return Run(rv.load_config(None, ["loop.device=cpu", "data.val=", *changes]), Workers(), torch.device("cpu"))


def at_224(network: str, batch: int, *changes: str) -> Run:
    return run_of(
        f"model.name={network}", "model.img_size=224", f"loop.batch_size={batch}", f"data.train=scenes:{batch}", *changes
    )


def batches_of(run: Run, epochs: int) -> Iterator[list[Batch]]:
    return run.data.batches(run.config.loop.batch_size, epochs=epochs)


def same_batch(run: Run) -> Step:
    """An update on one batch that is in memory."""
    batch = next(batches_of(run, 1))
    return lambda: run.advance(batch)


class Watcher(Method):
    """Records what ADL reads, and does nothing with it."""

    name = "watcher"
    needs = Needs(attention=True)


def pipeline(repeats: int) -> None:
    run, memory = (run_of("data.train=scenes:4096", "loop.batch_size=128") for _ in range(2))
    fresh = batches_of(run, epochs=10_000)
    made = cycle([update for update, _ in zip(batches_of(memory, 1), range(8), strict=False)])
    for _ in range(run.updates_per_epoch):  # the pictures are drawn once, in the first epoch
        next(fresh)
    found = medians({"pipeline": lambda: run.advance(next(fresh)), "memory": lambda: memory.advance(next(made))}, 4 * repeats)
    share = found["memory"] / found["pipeline"]
    print(f"pipeline: fan_vit_nano on scenes runs at {share:.2f}x the speed of data in memory (target at least 0.9)")


def adl(repeats: int, batch: int) -> None:
    plain, with_adl = at_224("fan_vit_small", batch), at_224("fan_vit_small", batch, "methods.adl={}")
    plain.methods = [Watcher()]
    plain.forward.needs = Watcher.needs
    found = medians({"explicit": same_batch(plain), "adl": same_batch(with_adl)}, repeats)
    print(
        f"adl: a step of fan_vit_small takes {found['adl'] / found['explicit']:.2f}x explicit attention (target at most 1.15)"
    )


def afat(repeats: int, batch: int, network: str) -> None:
    ways = {
        "default": "methods.afat={}",
        "one after the other": "methods.afat={joint_batch: false}",
        "joint batch, total": "methods.afat={joint_batch: true, corruption_objective: total}",
        "joint batch, align": "methods.afat={joint_batch: true}",
    }
    steps = {"plain": same_batch(at_224(network, batch))}
    steps |= {name: same_batch(at_224(network, batch, change)) for name, change in ways.items()}
    found = medians(steps, repeats)
    told = ", ".join(f"{name} {found[name] / found['plain']:.2f}x" for name in ways)
    print(f"afat: a step of {network} against a plain one: {told} (target at most 2.2)")


def stl(repeats: int, batch: int) -> None:
    network, head = "fan_hybrid_tiny", "model.token_head=true"
    student = f"methods.stl_student={{labeler: {network}, untrained: true, options: {{img_size: 224}}}}"
    classes = f"model.num_classes={CLASSES}"
    plain = at_224(network, batch, head, classes, "methods.stl_labeler={}")
    taught = at_224(network, batch, head, classes, student)
    labeler = rv.create_model(network, num_classes=CLASSES, token_head=True).eval()
    images = torch.randn(batch, 3, 224, 224)

    def label() -> None:
        with torch.no_grad():
            labeler.forward_tokens(images)

    found = medians({"plain": same_batch(plain), "labeler": label, "student": same_batch(taught)}, repeats)
    ratio = found["student"] / (found["plain"] + found["labeler"])
    print(f"stl: the student's step takes {ratio:.2f}x a plain step plus a labeler pass (target at most 1.10)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--only", nargs="+", choices=("pipeline", "adl", "afat", "stl"), default=["pipeline", "adl", "afat", "stl"]
    )
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--afat-networks", nargs="+", default=["fan_vit_small", "deit_small_patch16_224"])
    options = parser.parse_args()
    if "pipeline" in options.only:
        pipeline(options.repeats)
    if "adl" in options.only:
        adl(options.repeats, options.batch)
    for network in options.afat_networks if "afat" in options.only else ():
        afat(options.repeats, options.batch, network)
    if "stl" in options.only:
        stl(options.repeats, options.batch)


if __name__ == "__main__":
    main()
