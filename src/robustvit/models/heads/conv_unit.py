"""Convolution, BatchNorm, ReLU: the unit that dense heads are made of."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

__all__ = ["ConvUnit"]


class ConvUnit(nn.Module):
    """A convolution without bias that keeps the size of its map, BatchNorm and ReLU.

    Args:
        dim, out_dim: channels.
        kernel: side of the convolution, odd.
    """

    def __init__(self, dim: int, out_dim: int, kernel: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(dim, out_dim, kernel, padding=kernel // 2, bias=False)
        self.norm: nn.Module = nn.BatchNorm2d(out_dim)
        self.act = nn.ReLU()
        nn.init.kaiming_normal_(self.conv.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        """[B, C, H, W] -> [B, C', H, W]."""
        return self.finish(self.conv(x))

    def finish(self, x: Tensor) -> Tensor:
        """What comes after the convolution."""
        return self.act(self.norm(x))

    def fold(self) -> None:
        if isinstance(self.norm, nn.BatchNorm2d):
            self.conv, self.norm = fuse_conv_bn_eval(self.conv, self.norm), nn.Identity()
