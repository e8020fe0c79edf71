"""The networks. Importing this package registers them with timm."""

from robustvit.models import fan, fan_swin, rvt, vit_nano

__all__ = ["fan", "fan_swin", "rvt", "vit_nano"]
