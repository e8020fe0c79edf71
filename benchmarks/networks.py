"""Speed and memory of our networks against the plain transcription of their formulas in `plain.py`.

    python benchmarks/networks.py                    # what the README quotes: evaluation, training step, memory, TAP
    python benchmarks/networks.py --compile          # with torch.compile as well (slow to start)
    python benchmarks/networks.py fan_vit_tiny --repeats 15

Both sides compute the same logits from the same weights (checked first), take turns in one process, and are compared by the median
of their times: other work on the machine slows both. `matmul` is the share of the rate at which this machine multiplies
matrices of the network's own kind, measured in the same run. Memory is the growth of the process's peak in a process of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

import plain

PUBLISHED = {
    "fan_vit_tiny": "fan_tiny_12_p16_224",
    "fan_hybrid_tiny": "fan_tiny_8_p4_hybrid",
    "fan_swin_tiny": "fan_swin_tiny_patch4_window7_224",
    "rvt_tiny": "rvt_tiny",
}
SIZE = 224


@dataclass
class Row:
    network: str
    mode: str
    plain_images_per_s: float
    ours_images_per_s: float
    ratio: float
    matmul_share: float


def medians(candidates: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Median seconds of each candidate; they take turns, so that noise meets all alike."""
    times: dict[str, list[float]] = {name: [] for name in candidates}
    for run in candidates.values():
        run()
    for _ in range(repeats):
        for name, run in candidates.items():
            start = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - start)
    return {name: median(values) for name, values in times.items()}


def matmul_rate(repeats: int = 15) -> float:
    """Floating-point operations per second of a matrix product of the size of a small network's MLP."""
    a, b = torch.randn(16 * 196, 384), torch.randn(384, 1536)
    seconds = medians({"matmul": lambda: a @ b}, repeats)["matmul"]
    return 2 * a.shape[0] * a.shape[1] * b.shape[1] / seconds


def published_weights(model: nn.Module, name: str) -> dict[str, Tensor]:
    """The state dict of `model` under the published names: what `from_official` reads, the other way round."""
    from robustvit.models.official import to_official

    return to_official(model.state_dict(), model)


def flops(model: nn.Module, images: Tensor) -> int:
    with torch.inference_mode(), FlopCounterMode(display=False) as counter:
        model(images)
    return counter.get_total_flops()


def check_equal(name: str, model: nn.Module, weights: dict[str, Tensor]) -> None:
    images = torch.randn(1, 3, SIZE, SIZE)
    with torch.inference_mode():
        torch.testing.assert_close(
            model.eval()(images), plain.forward(PUBLISHED[name], weights, images)[0], rtol=1e-4, atol=1e-4
        )


def training_step(forward: Callable[[Tensor], Tensor], parameters: list[Tensor], images: Tensor, labels: Tensor) -> None:
    loss = nn.functional.cross_entropy(forward(images), labels)
    loss.backward()
    with torch.no_grad():
        for p in parameters:
            if p.grad is not None:
                p.sub_(p.grad, alpha=1e-6)
                p.grad = None
