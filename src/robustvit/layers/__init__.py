"""The parts that the networks are made of, one idea a file.

Plain token attention (FAN Eq. 1) and the attention inside a class-attention block are timm's `Attention` and `ClassAttn`.
"""
