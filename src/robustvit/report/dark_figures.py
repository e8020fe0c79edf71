"""The same figure for pages that are dark: paper, letters and lines change, images and maps stay as they are."""

from __future__ import annotations

from typing import Any

from robustvit.runtime.colours import DARK_INK, DARK_PAPER, DARK_SERIES, SERIES

__all__ = ["darken"]

_DARK = dict(zip(SERIES, DARK_SERIES, strict=True))


def darken(figure: Any) -> None:
    """Recolours a figure of matplotlib in place."""
    from matplotlib.collections import Collection
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch
    from matplotlib.text import Text

    for artist in figure.findobj():
        if isinstance(artist, Text):
            artist.set_color(_dark(artist.get_color()))
        elif isinstance(artist, Line2D):
            artist.set_color(_dark(artist.get_color()))
            artist.set_markerfacecolor(_dark(artist.get_markerfacecolor()))
            artist.set_markeredgecolor(_dark(artist.get_markeredgecolor()))
        elif isinstance(artist, Patch):
            face, edge = artist.get_facecolor(), artist.get_edgecolor()
            artist.set_facecolor(_dark(face))
            artist.set_edgecolor(_dark(edge))
        elif isinstance(artist, Collection) and artist.get_array() is None:  # else its colours are values
            artist.set_facecolor([_dark(colour) for colour in artist.get_facecolor()])
            artist.set_edgecolor([_dark(colour) for colour in artist.get_edgecolor()])


def _dark(colour: Any) -> Any:
    """White paper -> dark, black letters -> light, the colour of a network -> its lighter one; others as they are."""
    from matplotlib.colors import to_hex, to_rgba

    if isinstance(colour, str) and colour in ("none", "auto"):
        return colour
    red, green, blue, alpha = to_rgba(colour)
    if min(red, green, blue) > 0.97:
        return _with_alpha(DARK_PAPER, alpha)
    if max(red, green, blue) < 0.15:
        return _with_alpha(DARK_INK, alpha)
    return _with_alpha(_DARK.get(to_hex(colour), (red, green, blue)), alpha)


def _with_alpha(colour: str | tuple[float, float, float], alpha: float) -> tuple[float, ...]:
    from matplotlib.colors import to_rgb

    return (*to_rgb(colour), alpha)
