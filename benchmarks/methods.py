"""What ADL costs with whole attention maps and in chunks of rows, for a 1024x1024 picture (N = 4096 tokens).

    python benchmarks/methods.py                           one layer, and a small network; memory and time
    python benchmarks/methods.py --chunk 512 --skip time

The layer is one attention of `fan_vit_tiny`; the network is `fan_vit_tiny` with two blocks. A step is forward and backward.
Whole maps need explicit attention; chunks, and the step without ADL, keep fused attention. Losses and gradients of both forms
are checked to agree first. Extra memory is how much more the resident set grows at most during the step than during the same
step without ADL, each in a process of its own (Linux only); times are medians of steps that take turns.
"""

from __future__ import annotations

import argparse

import torch
from timm.layers import Attention
from torch import Tensor, nn

import robustvit
from measuring import Step, medians, memory_in_process, print_memory_of
from robustvit.methods import attention_diversification, chunked_attention_diversification

SIDE, DIM, HEADS = 1024, 192, 4
FORMS = ("without ADL", "whole maps", "chunks")


class OneLayer(nn.Module):
    """One attention over the tokens of a picture."""

    def __init__(self) -> None:
        super().__init__()
        self.attn = Attention(DIM, HEADS, qkv_bias=True)

    def forward(self, x: Tensor) -> Tensor:
        """[B, N, C] -> [B, N, C]."""
        return self.attn(x)


def build(target: str) -> tuple[nn.Module, Tensor]:
    """The module to measure, with attention sharp enough to pass ADL's threshold, and its input."""
    torch.manual_seed(0)
    module = OneLayer() if target == "layer" else robustvit.create_model("fan_vit_tiny", depths=(2,), img_size=SIDE)
    for attention in (m for m in module.modules() if isinstance(m, Attention)):
        nn.init.normal_(attention.qkv.weight, std=DIM**-0.5)
    x = torch.randn(1, (SIDE // 16) ** 2, DIM) if target == "layer" else torch.randn(1, 3, SIDE, SIDE)
    return module.train(), x


def loss_of(module: nn.Module, x: Tensor, form: str, chunk: int) -> Tensor:
    """ADL in one of its forms, plus something for the network's own gradient."""
    if form == "without ADL":
        return module(x).square().mean()
    with robustvit.record(module, attention=form == "whole maps") as tape:
        output = module(x)
    own = output.square().mean()
    if form == "whole maps":
        return own + attention_diversification(tape.attention)
    return own + chunked_attention_diversification(tape.rows, chunk=chunk)


def step_of(target: str, form: str, chunk: int) -> Step:
    module, x = build(target)

    def run() -> None:
        module.zero_grad()
        loss_of(module, x, form, chunk).backward()

    return run


def check_agreement(target: str, chunk: int) -> None:
    found = []
    for form in FORMS[1:]:
        module, x = build(target)
        loss = loss_of(module, x, form, chunk)
        loss.backward()
        found.append([loss.detach(), *(p.grad for p in module.parameters() if p.grad is not None)])
    torch.testing.assert_close(found[1], found[0], rtol=1e-4, atol=1e-5)


def peak_memory_mb(target: str, form: str, options: argparse.Namespace) -> float:
    """Growth of the peak resident set over one step, in a process of its own."""
    return memory_in_process(__file__, [target, form, "--chunk", str(options.chunk), "--threads", str(options.threads)])


def measure_memory(target: str, form: str, chunk: int) -> None:
    print_memory_of(step_of(target, form, chunk))


def compare_memory(target: str, options: argparse.Namespace) -> None:
    without, whole, chunks = (peak_memory_mb(target, form, options) for form in FORMS)
    print(f"{target} memory: {without:.0f} MB without ADL; ADL adds {whole - without:.0f} MB with whole maps, ", end="")
    print(f"{chunks - without:.0f} MB in chunks: {(chunks - without) / (whole - without):.2f}x", flush=True)


def compare_time(target: str, options: argparse.Namespace) -> None:
    times = medians({form: step_of(target, form, options.chunk) for form in FORMS}, options.repeats)
    for form, seconds in times.items():
        print(f"{target} time: {form:12} {seconds:6.2f} s  {seconds / times['whole maps']:5.2f}x of whole maps", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--targets", nargs="*", default=["layer", "network"], choices=["layer", "network"])
    parser.add_argument("--chunk", type=int, default=256, help="rows at a time")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--skip", nargs="*", default=[], choices=["memory", "time"])
    parser.add_argument("--measure-memory", nargs=2, metavar=("TARGET", "FORM"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.measure_memory:
        target, form = options.measure_memory
        measure_memory(target, form, options.chunk)
        return
    N = (SIDE // 16) ** 2
    print(f"1 picture, {SIDE} px, N = {N}, {HEADS} heads, {options.chunk} rows at a time, {options.threads} threads\n")
    for target in options.targets:
        check_agreement(target, options.chunk)
        if "memory" not in options.skip:
            compare_memory(target, options)
        if "time" not in options.skip:
            compare_time(target, options)


if __name__ == "__main__":
    main()
