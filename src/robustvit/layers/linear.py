"""Linear layers whose products oneDNN computes, as convolutions of 1x1, on the CPU in float32.

PyTorch gives the products of `nn.Linear` to MKL, which uses half of the vector width on processors of other makers than its
own; oneDNN, to which it gives convolutions, uses all of it. Tokens [B, N, C] are, read as [B, 1, N, C], a channels-last map,
so that nothing is copied. `docs/benchmarks.md` has the rates.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn import functional as F

__all__ = ["Linear", "linear", "quicken", "quickened"]

FEWEST_ROWS = 32
"""In an image of the convolution; below, the call costs more than the product."""
FEWEST_IMAGES = 16
"""Below, PyTorch does not give a convolution of 1x1 to oneDNN, if there is one thread only."""


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
    images = _images(x)
    if not images:
        return F.linear(x, weight, bias)
    maps = x.reshape(images, 1, -1, x.shape[-1]).permute(0, 3, 1, 2)  # ... C -> B C 1 N, channels-last
    z = F.conv2d(maps, weight[:, :, None, None], bias)
    return z.permute(0, 2, 3, 1).reshape(*x.shape[:-1], weight.shape[0])


def _images(x: Tensor) -> int:
    """Into how many images of a convolution the rows of x are split; 0 where a linear layer is better. Exported, traced and
    compiled networks have linear layers, which their readers look for."""
    if x.device.type != "cpu" or x.dtype != torch.float32 or torch.is_autocast_enabled("cpu"):
        return 0
    if torch.jit.is_tracing() or torch.compiler.is_compiling() or torch.compiler.is_exporting():
        return 0
    rows = x.numel() // max(1, x.shape[-1])
    fewest = 1 if torch.get_num_threads() > 1 else FEWEST_IMAGES
    of_batch = x.shape[0] if x.dim() > 2 else 1
    most = rows // FEWEST_ROWS
    if fewest <= of_batch <= most:
        return of_batch
    return next((images for images in range(fewest, min(most, 4 * fewest) + 1) if rows % images == 0), 0)


def quicken(network: nn.Module) -> None:
    """Makes every `nn.Linear` of a network a `Linear`, in place: the same parameters by the same names.

    Subclasses of `nn.Linear`, which may compute something else, stay as they are.
    """
    for module, name, layer in _plain_layers(network):
        setattr(module, name, _quick(layer))


@contextmanager
def quickened(network: nn.Module) -> Iterator[None]:
    """A network of whatever origin is as after `quicken` for a while, and then as it was."""
    layers = list(_plain_layers(network))
    quicken(network)
    try:
        yield
    finally:
        for module, name, layer in layers:
            setattr(module, name, layer)


def _plain_layers(network: nn.Module) -> Iterator[tuple[nn.Module, str, nn.Linear]]:
    """(module, name in it, layer)."""
    for module in list(network.modules()):
        for name, child in list(module.named_children()):
            if type(child) is nn.Linear:
                yield module, name, child


def _quick(layer: nn.Linear) -> Linear:
    quick = Linear.__new__(Linear)
    quick.__dict__.update(layer.__dict__)  # which shares parameters and hooks
    return quick
