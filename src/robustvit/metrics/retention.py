"""Retention: which share of the clean score survives. The same rule for accuracy, mIoU and AP (where it is called rPC)."""

from __future__ import annotations

__all__ = ["retention"]


def retention(corrupted: float, clean: float) -> float:
    """`R = corrupted / clean`, both in the same unit; above 1 when corruption helps."""
    if not clean > 0 or not corrupted >= 0:
        raise ValueError(f"retention of {corrupted:g} from {clean:g} is not defined; give a clean score above 0")
    return corrupted / clean
