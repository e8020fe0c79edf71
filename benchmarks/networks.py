"""Speed and memory of our networks against the plain transcription of their formulas in `plain.py`.

    python benchmarks/networks.py                              evaluation, training step, peak memory, cost of TAP
    python benchmarks/networks.py --networks fan_vit_tiny --sides plain ours compiled

Every measurement has a process of its own, in which nothing was computed before; the sides take turns, and are compared by the
medians over their processes. All of it is done twice: with the allocator as it is, and with memory that is kept
(`robustvit.keep_memory`), on both sides. Both sides compute the same logits from the same weights, which is checked first.

plain      `plain.py`: the released procedure, operation by operation
ours       the network that `create_model` gives
mkl        the same with `nn.Linear` for all linear layers (`layers.linear.plain_linear`)
fused      ours after `robustvit.fuse`
bf16       ours under `--precision bf16`; in training, as with `loop.precision=bf16`
compiled   ours under `torch.compile`, with freezing

The share of the matmul rate compares the operations of the network with the rate at which PyTorch multiplies matrices like
those of the networks in the same precision, measured in the same process. Peak memory is how much the resident set grows at
most during one evaluation or training step, in a process of its own (Linux only).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from statistics import median

from robustvit.runtime.kept_memory import keep_memory

if "--keep" in sys.argv:
    keep_memory()

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

import plain
import robustvit
from measuring import Step, medians, memory_in_process, print_memory_of
from robustvit.layers.linear import plain_linear
from robustvit.runtime.full_attention import full_attention
from robustvit.runtime.precision import answering_in

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from reference_weights import published_weights

PUBLISHED = {
    "fan_vit_tiny": "fan_tiny_12_p16_224",
    "fan_vit_small": "fan_small_12_p16_224",
    "fan_hybrid_tiny": "fan_tiny_8_p4_hybrid",
    "fan_swin_tiny": "fan_swin_tiny_patch4_window7_224",
    "rvt_tiny": "rvt_tiny",
}
SIDES = {"evaluation": ("plain", "ours", "mkl", "fused", "bf16", "compiled"), "training": ("plain", "ours", "mkl", "bf16")}
USUAL = ("plain", "ours", "fused", "bf16")
SIZE = 224
_FIXED = ("running_mean", "running_var", "attn_mask")


def matmul_rate(repeats: int, dtype: torch.dtype = torch.float32) -> float:
    """Floating-point operations per second of a matrix product like those of the networks, by the fastest way that PyTorch
    has: `torch.mm`, or a convolution of 1x1."""
    a, b = torch.randn(16 * 196, 384, dtype=dtype), torch.randn(384, 1536, dtype=dtype)
    maps, weight = a.view(16, 1, 196, 384).permute(0, 3, 1, 2), b.t().contiguous()[:, :, None, None]

    def products(step: Step) -> Step:
        def run() -> None:
            with torch.inference_mode():
                for _ in range(20):
                    step()

        return run

    ways = (lambda: torch.mm(a, b), lambda: torch.nn.functional.conv2d(maps, weight))
    fastest = min(median(seconds_of(products(way), repeats)) for way in ways)
    return 20 * 2 * a.shape[0] * a.shape[1] * b.shape[1] / fastest


def build(name: str) -> tuple[dict[str, Tensor], nn.Module]:
    """The same weights for both sides."""
    weights = published_weights(PUBLISHED[name])
    return weights, robustvit.from_official(PUBLISHED[name], weights).eval()


def check(name: str) -> None:
    """Both sides agree."""
    weights, model = build(name)
    images = torch.randn(2, 3, SIZE, SIZE)
    with torch.inference_mode():
        torch.testing.assert_close(model(images), plain.forward(PUBLISHED[name], weights, images)[0], rtol=1e-4, atol=1e-4)


def evaluate(forward: Callable[[Tensor], object], images: Tensor) -> Step:
    def run() -> None:
        with torch.inference_mode():
            forward(images)

    return run


def in_half(model: nn.Module) -> Callable[[Tensor], object]:
    def forward(images: Tensor) -> object:
        with answering_in("bf16", model):
            return model(images)

    return forward


def in_linear_layers(model: nn.Module) -> nn.Module:
    plain_linear(model)
    return model


def compiled(model: nn.Module) -> Callable[[Tensor], object]:
    """With constants folded and weights packed."""
    import torch._inductor.config

    torch._inductor.config.freezing = True
    made: Callable[[Tensor], object] = torch.compile(model)
    return made


def evaluation_step(name: str, side: str, images: Tensor) -> Step:
    weights, model = build(name)
    made: dict[str, Callable[[], Callable[[Tensor], object]]] = {
        "plain": lambda: lambda x: plain.forward(PUBLISHED[name], weights, x),
        "ours": lambda: model,
        "mkl": lambda: in_linear_layers(model),
        "fused": lambda: robustvit.fuse(model),
        "bf16": lambda: in_half(model),
        "compiled": lambda: compiled(model),
    }
    return evaluate(made[side](), images)


def training_step(name: str, side: str, images: Tensor) -> Step:
    weights, model = build(name)
    model.train()
    trained = {
        n: w.clone().requires_grad_() if w.is_floating_point() and not n.endswith(_FIXED) else w for n, w in weights.items()
    }
    labels = torch.arange(images.shape[0])

    def train(forward: Callable[[Tensor], Tensor], parameters: list[Tensor]) -> Step:
        optimizer = torch.optim.SGD(parameters, lr=1e-6)

        def run() -> None:
            with full_attention() if side == "bf16" else nullcontext():
                with torch.autocast("cpu", torch.bfloat16, enabled=side == "bf16"):
                    loss = nn.functional.cross_entropy(forward(images), labels)
                loss.backward()
            optimizer.step()
            optimizer.zero_grad()

        return run

    if side == "plain":
        parameters = [w for w in trained.values() if w.requires_grad]
        return train(lambda x: plain.forward(PUBLISHED[name], trained, x, training=True)[0], parameters)
    return train(in_linear_layers(model) if side == "mkl" else model, list(model.parameters()))


STEPS = {"evaluation": evaluation_step, "training": training_step}


def seconds_of(step: Step, repeats: int) -> list[float]:
    """After two steps that do not count: in the second one, memory that is kept has found its place."""
    times = []
    for _ in range(2 + repeats):
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    return times[2:]


def flops_of(name: str, mode: str) -> int:
    """Of an image; of a training step, three times those of its forward pass."""
    model = build(name)[1].requires_grad_(False)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(torch.randn(1, 3, SIZE, SIZE))
    total: int = counter.get_total_flops()
    return total * (3 if mode == "training" else 1)


def measure(name: str, mode: str, side: str, options: argparse.Namespace) -> None:
    """Prints what one process finds: seconds of a step, of the first step, and the rate of products."""
    repeats, step = options.repeats, STEPS[mode](name, side, torch.randn(options.batch, 3, SIZE, SIZE))
    start = time.perf_counter()
    step()
    first = time.perf_counter() - start
    rate = matmul_rate(repeats, torch.bfloat16 if side == "bf16" else torch.float32)
    found = {"seconds": median(seconds_of(step, repeats)), "first": first, "rate": rate}
    print(json.dumps(found))


def compare(name: str, mode: str, options: argparse.Namespace) -> Iterator[str]:
    """Rows of the table: every side in processes of its own, which take turns."""
    sides = [side for side in SIDES[mode] if side in options.sides]
    found: dict[tuple[str, bool], list[dict[str, float]]] = {}
    for _ in range(options.processes):
        for side in sides:
            for keeps in (False, True):
                found.setdefault((side, keeps), []).append(in_new_process(name, mode, side, keeps, options))
    flops = options.batch * flops_of(name, mode)
    seconds = {key: median(one["seconds"] for one in runs) for key, runs in found.items()}
    for side in sides:
        cells = [side]
        for keeps in (False, True):
            own = seconds[side, keeps]
            rate = median(flops / one["seconds"] / one["rate"] for one in found[side, keeps])
            ratio = f"{seconds['plain', keeps] / own:.2f}" if "plain" in sides else ""
            cells += [f"{options.batch / own:.1f}", ratio, f"{rate:.0%}"]
        yield f"| {name} | {mode} | {' | '.join(cells)} |"
    if "compiled" in sides:
        spent = median(one["first"] for one in found["compiled", True])
        yield f"compiling took {spent:.0f} s; {pays_after(spent, seconds, options.batch)}"


def pays_after(spent: float, seconds: dict[tuple[str, bool], float], batch: int) -> str:
    """After how many images the seconds of compiling have paid, where memory is kept."""
    saved = seconds.get(("ours", True), 0.0) - seconds["compiled", True]
    return f"it pays after {batch * spent / saved:.0f} images" if saved > 0 else "it does not pay"


def in_new_process(name: str, mode: str, side: str, keeps: bool, options: argparse.Namespace) -> dict[str, float]:
    command = [sys.executable, __file__, "--measure", name, mode, side, "--repeats", str(options.repeats)]
    command += ["--threads", str(options.threads), "--batch", str(options.batch), *(["--keep"] if keeps else [])]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found: dict[str, float] = json.loads(told.splitlines()[-1])
    return found


def peak_memory_mb(name: str, mode: str, side: str, options: argparse.Namespace) -> float:
    """Growth of the peak resident set over one step, in a process of its own."""
    how = ["--batch", str(options.batch), "--threads", str(options.threads)]
    return memory_in_process(__file__, [name, mode, side, *how])


def tap_steps(images: Tensor) -> dict[str, Step]:
    """`fan_vit_small` without and with TAP, K = 4."""
    return {
        "without TAP": evaluate(robustvit.create_model("fan_vit_small").eval(), images),
        "with TAP": evaluate(robustvit.create_model("fan_vit_small", tap=4).eval(), images),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", nargs="*", default=list(PUBLISHED), choices=PUBLISHED)
    parser.add_argument("--sides", nargs="+", default=list(USUAL), choices=SIDES["evaluation"])
    parser.add_argument("--processes", type=int, default=3, help="per side")
    parser.add_argument("--repeats", type=int, default=5, help="steps of a process")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--skip", nargs="*", default=[], choices=["evaluation", "training", "memory", "tap"])
    parser.add_argument("--keep", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--measure", nargs=3, metavar=("NETWORK", "MODE", "SIDE"), help=argparse.SUPPRESS)
    parser.add_argument("--measure-memory", nargs=3, metavar=("NETWORK", "MODE", "SIDE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    if options.measure_memory:
        name, mode, side = options.measure_memory
        print_memory_of(STEPS[mode](name, side, torch.randn(options.batch, 3, SIZE, SIZE)))
        return
    if options.measure:
        name, mode, side = options.measure
        measure(name, mode, side, options)
        return
    print_all(options)


def print_all(options: argparse.Namespace) -> None:
    rate = matmul_rate(options.repeats) / 1e9
    print(f"batch {options.batch}, {SIZE} px, {options.threads} threads; products: {rate:.0f} GFLOP/s\n")
    print("| network | mode | side | images/s | plain / it | of the rate | images/s, memory kept | plain / it | of the rate |")
    print("|---|---|---|" + "---:|" * 6)
    for name in options.networks:
        check(name)
        for mode in (mode for mode in STEPS if mode not in options.skip):
            for row in compare(name, mode, options):
                print(row, flush=True)
    if "memory" not in options.skip:
        for name in options.networks:
            for mode in STEPS:
                plain_mb, ours_mb = (peak_memory_mb(name, mode, side, options) for side in ("plain", "ours"))
                told = f"plain {plain_mb:.0f} MB, ours {ours_mb:.0f} MB, {plain_mb / ours_mb:.2f}x"
                print(f"{name} peak memory, {mode}: {told}", flush=True)
    if "tap" not in options.skip:
        times = medians(tap_steps(torch.randn(options.batch, 3, SIZE, SIZE)), options.repeats)
        print(f"TAP (K = 4) adds {times['with TAP'] / times['without TAP'] - 1:.1%} to the evaluation of fan_vit_small")


if __name__ == "__main__":
    main()
