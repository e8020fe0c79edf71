"""What analyses cost beside the forward passes that they need.

    python benchmarks/analysis.py
    python benchmarks/analysis.py --network fan_vit_small --batch 8 --repeats 9

Stability of attention over a data set against two forward passes of the same pictures with explicit attention (target: at most
1.15), and counts of eigenvalues against one forward pass (target: at most 0.20 more). Both sides take turns; the median of the
ratios of neighbours.
"""

from __future__ import annotations

import argparse
from functools import partial

import torch
from torch import Tensor, nn

import robustvit
from measuring import median_ratio
from robustvit.analysis.attention_stability import attention_stability
from robustvit.analysis.eigenvalues import eigenvalue_counts
from robustvit.recording.tape import attention_blocks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", nargs="+", default=["fan_vit_tiny", "deit_small_patch16_224"])
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--repeats", type=int, default=15)
    options = parser.parse_args()
    print(f"{torch.get_num_threads()} threads, batch {options.batch}, {options.size} px, medians of {options.repeats} ratios")
    for name in options.network:
        network = robustvit.create_model(name).eval()
        generator = torch.Generator().manual_seed(0)
        images = torch.randn(2, options.batch, 3, options.size, options.size, generator=generator)
        report(name, network, images, options.repeats)


def report(name: str, network: nn.Module, images: Tensor, repeats: int) -> None:
    clean, spoiled = images

    def explicit_passes() -> None:
        forward(network, clean, explicit=True)
        forward(network, spoiled, explicit=True)

    stability = median_ratio(lambda: attention_stability(network, [(clean, spoiled)]), explicit_passes, repeats)
    print(f"{name}: stability {stability:.2f} of two explicit passes (target at most 1.15)")
    one_pass = partial(forward, network, clean, explicit=False)
    added = median_ratio(lambda: eigenvalue_counts(network, [clean]), one_pass, repeats) - 1
    print(f"{name}: eigenvalue counts add {added:.1%} to a forward pass (target at most 20 %)")


@torch.no_grad()
def forward(network: nn.Module, images: Tensor, *, explicit: bool) -> None:
    """A pass with the attention that the network has, or with attention written out."""
    blocks = attention_blocks(network)
    before = [block.attn.fused_attn for block in blocks]
    for block, was_fused in zip(blocks, before, strict=True):
        block.attn.fused_attn = was_fused and not explicit
    try:
        network(images)
    finally:
        for block, was_fused in zip(blocks, before, strict=True):
            block.attn.fused_attn = was_fused


if __name__ == "__main__":
    main()
