"""Speed and memory of our networks against the plain transcription of their formulas in `plain.py`.

    python benchmarks/networks.py                          evaluation, training step, peak memory, cost of TAP
    python benchmarks/networks.py --networks fan_vit_tiny --compile

Both sides compute the same logits from the same weights (checked first), take turns in one process, a new one for each
network and mode, and are compared by the median of their times: what else runs on the machine slows both. The share of the
matmul rate says how much of the rate at which this machine multiplies matrices, measured in turn with them, the network's own
operations reach. Peak memory is how much the resident set grows at most during one evaluation or training step, in a process
of its own (Linux only).
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

import plain
import robustvit
from measuring import Step, medians, memory_in_process, print_memory_of

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from reference_weights import published_weights

PUBLISHED = {
    "fan_vit_tiny": "fan_tiny_12_p16_224",
    "fan_hybrid_tiny": "fan_tiny_8_p4_hybrid",
    "fan_swin_tiny": "fan_swin_tiny_patch4_window7_224",
    "rvt_tiny": "rvt_tiny",
}
BATCH, SIZE = 16, 224
_FIXED = ("running_mean", "running_var", "attn_mask")


def matmul() -> tuple[Step, int]:
    """A matrix product like those of the networks, and its floating-point operations."""
    a, b = torch.randn(BATCH * 196, 384), torch.randn(384, 1536)

    def run() -> None:
        for _ in range(20):
            torch.mm(a, b)

    return run, 20 * 2 * a.shape[0] * a.shape[1] * b.shape[1]


def build(name: str) -> tuple[dict[str, Tensor], nn.Module]:
    """The same weights for both sides, which are checked to agree."""
    weights = published_weights(PUBLISHED[name])
    model = robustvit.from_official(PUBLISHED[name], weights).eval()
    images = torch.randn(1, 3, SIZE, SIZE)
    with torch.inference_mode():
        torch.testing.assert_close(model(images), plain.forward(PUBLISHED[name], weights, images)[0], rtol=1e-4, atol=1e-4)
    return weights, model


def evaluate(forward: Callable[[Tensor], object], images: Tensor) -> Step:
    def run() -> None:
        with torch.inference_mode():
            forward(images)

    return run


def evaluation_steps(name: str, images: Tensor) -> dict[str, Step]:
    weights, model = build(name)
    return {
        "plain": evaluate(lambda x: plain.forward(PUBLISHED[name], weights, x), images),
        "ours": evaluate(model, images),
        "ours, fuse()": evaluate(robustvit.fuse(model), images),
    }


def compiled_step(name: str, images: Tensor) -> Step:
    return evaluate(torch.compile(build(name)[1]), images)


def training_steps(name: str, images: Tensor) -> dict[str, Step]:
    weights, model = build(name)
    model.train()
    trained = {
        n: w.clone().requires_grad_() if w.is_floating_point() and not n.endswith(_FIXED) else w for n, w in weights.items()
    }
    labels = torch.arange(images.shape[0])

    def train(forward: Callable[[Tensor], Tensor], parameters: list[Tensor]) -> Step:
        optimizer = torch.optim.SGD(parameters, lr=1e-6)

        def run() -> None:
            nn.functional.cross_entropy(forward(images), labels).backward()
            optimizer.step()
            optimizer.zero_grad()

        return run

    plain_parameters = [w for w in trained.values() if w.requires_grad]
    return {
        "plain": train(lambda x: plain.forward(PUBLISHED[name], trained, x, training=True)[0], plain_parameters),
        "ours": train(model, list(model.parameters())),
    }


def tap_steps(images: Tensor) -> dict[str, Step]:
    """`fan_vit_small` without and with TAP, K = 4."""
    return {
        "without TAP": evaluate(robustvit.create_model("fan_vit_small").eval(), images),
        "with TAP": evaluate(robustvit.create_model("fan_vit_small", tap=4).eval(), images),
    }


STEPS = {"evaluation": evaluation_steps, "training": training_steps}


def peak_memory_mb(name: str, mode: str, side: str) -> float:
    """Growth of the peak resident set over one step, in a process of its own."""
    return memory_in_process(__file__, [name, mode, side])


def measure_memory(name: str, mode: str, side: str) -> None:
    print_memory_of(STEPS[mode](name, torch.randn(BATCH, 3, SIZE, SIZE))[side])


def compare(name: str, mode: str, repeats: int, compiled: bool) -> None:
    """Times both sides of one network and prints how they compare."""
    images = torch.randn(BATCH, 3, SIZE, SIZE)
    model = build(name)[1].requires_grad_(False)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(images)
    flops = counter.get_total_flops() * (3 if mode == "training" else 1)
    steps = STEPS[mode](name, images)
    if compiled:
        steps["ours, torch.compile"] = compiled_step(name, images)
    product, product_flops = matmul()
    times = medians({**steps, "matmul": product}, repeats)
    report(f"{name} {mode}", times, flops, product_flops / times.pop("matmul"))


def report(title: str, times: dict[str, float], flops: int | None = None, rate: float = 1.0) -> None:
    base = next(iter(times.values()))
    for name, seconds in times.items():
        share = f"  {flops / seconds / rate:5.0%} of {rate / 1e9:.0f} GFLOP/s" if flops else ""
        print(f"{title:32} {name:20} {BATCH / seconds:7.1f} images/s  {base / seconds:5.2f}x{share}", flush=True)


def in_new_process(*arguments: str) -> None:
    """Runs this program with `arguments`: what a process did before (its allocator's state above all) does not count."""
    subprocess.run([sys.executable, __file__, *arguments], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", nargs="*", default=list(PUBLISHED), choices=PUBLISHED)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--compile", action="store_true", help="also measure torch.compile in evaluation")
    parser.add_argument("--skip", nargs="*", default=[], choices=["evaluation", "training", "memory", "tap"])
    parser.add_argument("--compare", nargs=2, metavar=("NETWORK", "MODE"), help=argparse.SUPPRESS)
    parser.add_argument("--measure-memory", nargs=3, metavar=("NETWORK", "MODE", "SIDE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    if options.measure_memory:
        measure_memory(*options.measure_memory)
        return
    if options.compare:
        name, mode = options.compare
        compare(name, mode, options.repeats, options.compile)
        return
    print(f"batch {BATCH}, {SIZE} px, {options.threads} threads; ratios against plain; shares of the machine's matmul rate\n")
    settings = ["--repeats", str(options.repeats), "--threads", str(options.threads)]
    for name in options.networks:
        if "evaluation" not in options.skip:
            in_new_process("--compare", name, "evaluation", *settings, *(["--compile"] if options.compile else []))
        if "training" not in options.skip:
            in_new_process("--compare", name, "training", *settings)
        if "memory" not in options.skip:
            for mode in STEPS:
                plain_mb, ours_mb = (peak_memory_mb(name, mode, side) for side in ("plain", "ours"))
                print(f"{name} peak memory, {mode}: plain {plain_mb:.0f} MB, ours {ours_mb:.0f} MB, {plain_mb / ours_mb:.2f}x")
    if "tap" not in options.skip:
        times = medians(tap_steps(torch.randn(BATCH, 3, SIZE, SIZE)), options.repeats)
        report("fan_vit_small evaluation", times)
        print(f"TAP (K = 4) adds {times['with TAP'] / times['without TAP'] - 1:.1%} to the evaluation of fan_vit_small")


if __name__ == "__main__":
    main()
