"""GELU for channels-last maps."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

__all__ = ["MapGELU"]


class MapGELU(nn.Module):
    """GELU of a channels-last [B, C, H, W], given to PyTorch as the contiguous [B, H, W, C] that it is.

    The same numbers: PyTorch's CPU kernel is vectorised for contiguous tensors only, forward and backward.
    """

    def forward(self, x: Tensor) -> Tensor:
        return F.gelu(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
