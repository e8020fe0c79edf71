"""Linear layers whose products oneDNN computes, as convolutions of 1x1, on the CPU in float32.

PyTorch gives the products of `nn.Linear` to MKL and convolutions to oneDNN. On AMD's processors with AVX-512 the latter is as
fast or faster, by how much depends on the processor; elsewhere linear layers stay as they are. Tokens [B, N, C] are, read as
[B, 1, N, C], a channels-last map, so that nothing is copied. `benchmarks/networks.py --sides plain mkl ours` measures it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

__all__ = ["Linear", "linear", "plain_linear", "quicken", "quickened"]

FEWEST_ROWS = 32
"""In an image of the convolution; below, the call costs more than the product."""
FEWEST_IMAGES = 16
"""Below, PyTorch does not give a convolution of 1x1 to oneDNN, if there is one thread only."""


@cache
def onednn_is_faster() -> bool:
    """Whether the processor is one of those. By its name and not by a measurement: what a network computes, to the last bit,
    must not depend on the load of the machine."""
    if torch.backends.cpu.get_cpu_capability() != "AVX512" or not torch.backends.mkldnn.is_available():
        return False
    about = Path("/proc/cpuinfo")
    return about.is_file() and "AuthenticAMD" in about.read_text()


class Linear(nn.Linear):
    """`nn.Linear`, see `linear`."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002, as nn.Linear has it
        if torch.jit.is_scripting():
            return F.linear(input, self.weight, self.bias)
        return linear(input, self.weight, self.bias)


@torch.fx.wrap
def linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """`F.linear` to rounding.

    Args:
        x: [..., in].
        weight: [out, in].
        bias: [out].

    Returns:
        [..., out].
    """
    images = _images(x) if _are_plain(x, weight, bias) else 0
    if not images:
        return F.linear(x, weight, bias)
    maps = x.reshape(images, 1, -1, x.shape[-1]).permute(0, 3, 1, 2)  # ... C -> B C 1 N, channels-last
    z = F.conv2d(maps, weight[:, :, None, None], bias)
    return z.permute(0, 2, 3, 1).reshape(*x.shape[:-1], weight.shape[0])


def _are_plain(x: Tensor, weight: Tensor, bias: Tensor | None) -> bool:
    """Whether a convolution takes these tensors: in float32 on the CPU, and not quantised, distributed or nested ones.
    Exported, traced and compiled networks have linear layers, which their readers look for."""
    if torch.jit.is_tracing() or torch.compiler.is_compiling() or torch.compiler.is_exporting():
        return False
    if torch.is_autocast_enabled("cpu") or not torch.backends.mkldnn.enabled:
        return False
    given = [x, weight] if bias is None else [x, weight, bias]
    if any(type(tensor) not in (Tensor, nn.Parameter) or tensor.is_nested for tensor in given):
        return False
    return all(tensor.device.type == "cpu" and tensor.dtype == torch.float32 for tensor in given) and weight.numel() > 0


def _images(x: Tensor) -> int:
    """Into how many images of a convolution the rows of x are split; 0 where a linear layer is better."""
    rows = x.numel() // max(1, x.shape[-1])
    fewest = 1 if torch.get_num_threads() > 1 else FEWEST_IMAGES
    of_batch = x.shape[0] if x.dim() > 2 else 1
    most = rows // FEWEST_ROWS
    if fewest <= of_batch <= most:
        return of_batch
    return next((images for images in range(fewest, min(most, 4 * fewest) + 1) if rows % images == 0), 0)


def quicken(network: nn.Module) -> None:
    """Makes every `nn.Linear` of a network a `Linear`, in place, where that is faster: the same parameters by the same names.

    Subclasses of `nn.Linear`, which may compute something else, stay as they are.
    """
    if onednn_is_faster():
        _replace(network, nn.Linear, Linear)


def plain_linear(network: nn.Module) -> None:
    """Undoes `quicken`, for programs that look for `nn.Linear` itself, as `torch.ao.quantization.quantize_dynamic` does."""
    _replace(network, Linear, nn.Linear)


@contextmanager
def quickened(network: nn.Module) -> Iterator[None]:
    """A network of whatever origin is as after `quicken` for a while, and then as it was."""
    replaced = _replace(network, nn.Linear, Linear) if onednn_is_faster() else []
    try:
        yield
    finally:
        for module, name, layer in replaced:
            setattr(module, name, layer)


def _replace(network: nn.Module, kind: type[nn.Linear], by: type[nn.Linear]) -> list[tuple[nn.Module, str, nn.Linear]]:
    """Puts layers of one class in the place of those of exactly another, with their parameters and hooks; a layer in several
    places stays one. Gives (module, name in it, layer) of what was there."""
    replaced, made = list[tuple[nn.Module, str, nn.Linear]](), dict[nn.Linear, nn.Linear]()
    for module in list(network.modules()):
        for name, child in list(module._modules.items()):
            if type(child) is not kind:
                continue
            if child not in made:
                made[child] = by.__new__(by)
                made[child].__dict__.update(child.__dict__)  # which shares parameters and hooks
            setattr(module, name, made[child])
            replaced.append((module, name, child))
    return replaced
