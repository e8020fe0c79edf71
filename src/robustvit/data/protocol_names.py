"""The protocols by name, without the code that applies them: help pages name them before torch is imported."""

from __future__ import annotations

__all__ = ["INTERPOLATIONS", "PROTOCOLS"]

INTERPOLATIONS = ("nearest", "bilinear", "bicubic", "lanczos")
"""How images are resized, by the names that timm gives Pillow's filters."""

PROTOCOLS = {
    "model": "what the network was published with: short side to size / crop_pct, centre crop",
    "imagenet-c": "how ImageNet-C was made: short side to 256 pixels (in proportion for sizes other than 224), bilinear; "
    "centre crop",
    "crop": "centre crop only: for files that are already at their final size, as the published ImageNet-C",
    "squash": "the whole image, squeezed to the input size",
    "none": "the image as it is; it must have the size of the input",
    "native": "the image as it is, whatever its size: for networks that take any",
}
"""Name -> how an image becomes the input."""
