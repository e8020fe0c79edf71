"""SETR's heads for one map: progressive upsampling (PUP) and the naive form, which differ in units and enlargement."""

from __future__ import annotations

from torch import Tensor, nn

from robustvit.models.heads.conv_unit import ConvUnit

__all__ = ["SETRHead"]


class SETRHead(nn.Module):
    """LayerNorm, then units of convolution and bilinear enlargement, then a classifier.

    Args:
        dim: channels of the map.
        num_classes: of the logits.
        units: how many.
        kernel: side of their convolutions: 3 for PUP, 1 for the naive form.
        enlarge: factor by which each unit enlarges the map.
        width: channels of the units.
    """

    def __init__(
        self, dim: int, num_classes: int, *, units: int = 4, kernel: int = 3, enlarge: int = 2, width: int = 256
    ) -> None:
        super().__init__()
        self.width = width
        self.norm = nn.LayerNorm(dim, eps=1e-6)
        self.units = nn.ModuleList(ConvUnit(width if i else dim, width, kernel) for i in range(units))
        self.enlarge = nn.Upsample(scale_factor=enlarge, mode="bilinear", align_corners=False)
        self.reset_classifier(num_classes)

    def reset_classifier(self, num_classes: int) -> None:
        """A fresh classifier."""
        self.classifier = nn.Conv2d(self.width, num_classes, 1)
        nn.init.normal_(self.classifier.weight, std=0.01)
        nn.init.zeros_(self.classifier.bias)  # type: ignore[arg-type]

    def forward(self, x: Tensor) -> Tensor:
        """[B, C, H, W] -> logits [B, K, H', W']."""
        z = self.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)  # over the channels of B C H W
        for unit in self.units:
            z = self.enlarge(unit(z))
        return self.classifier(z)
