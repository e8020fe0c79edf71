"""The parts that the networks are made of, one idea per file.

Plain token attention (FAN Eq. 1) and the attention inside a class-attention block are timm's `Attention` and `ClassAttn`.
"""

import timm  # noqa: F401  # before any layer: importing timm imports our networks, and those import the layers
