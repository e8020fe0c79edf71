"""The colours of pages and figures: the one home that the style sheet, light figures and dark figures read."""

from __future__ import annotations

__all__ = ["DARK_INK", "DARK_PAPER", "DARK_SERIES", "SERIES"]

SERIES = ("#0072b2", "#c2570c", "#00876c", "#a4508b", "#8a6d00", "#3a86c8", "#6b4fa3")
"""Of networks and other series, on light paper; far apart for the colour-blind too."""
DARK_SERIES = ("#56a8e0", "#f08c48", "#3fbf9b", "#d98bc1", "#d8b53c", "#9cc9f0", "#ab93e0")
"""The same series on dark paper."""
DARK_PAPER, DARK_INK = "#1c2026", "#eceae5"
"""The cards and the letters of a dark page."""
