"""The SVG charts alone."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from itertools import pairwise

import pytest

from robustvit.report.charts import Bar, Series, _luminance, bars, curves, gauge, heat_colours, key, nice_top


def widths(svg: str, kind: str) -> list[float]:
    return [float(r.attrib["width"].rstrip("%")) for r in ET.fromstring(svg).iter("rect") if kind in r.attrib["class"]]


def test_bars_are_as_long_as_their_values() -> None:
    half, full = widths(bars([Bar("a", 0.5), Bar("b", 1.0)], "title", top=1.0), "fill")
    assert full == pytest.approx(2 * half)


def test_charts_say_their_title_and_escape_it() -> None:
    title = '<b>"&'
    ticks = [(1, "1")]
    for svg in (bars([], title), gauge(0.5, 0.4, 0.6, title), curves([Series(title, ((1, 0.5),))], ticks, title)):
        assert ET.fromstring(svg).attrib["aria-label"] == title


def test_missing_values_draw_nothing() -> None:
    assert widths(bars([Bar("a", math.nan), Bar("b", None)], "title"), "fill") == []
    gap = curves([Series("a", ((1, 0.2), (2, None), (3, math.nan), (4, 0.1)))], [(k, str(k)) for k in range(1, 5)], "title")
    assert gap.count("<title>") == 2
    assert 'class="line' not in gap


def test_labels_at_the_ends_of_curves_do_not_overlap() -> None:
    lines = [Series(f"net {k}", ((1, 0.5), (2, 0.01 * k)), k, end=f"net {k}") for k in range(6)]
    texts = ET.fromstring(curves(lines, [(1, "1"), (2, "2")], "title")).iter("text")
    heights = sorted(float(t.attrib["y"]) for t in texts if "value" in t.attrib["class"])
    assert min(b - a for a, b in pairwise(heights)) >= 14
    assert heights[-1] <= 245


def test_series_differ_in_more_than_colour() -> None:
    drawn = [str(key(k)) for k in range(21)]
    assert len(set(drawn)) == 21
    colourless = [drawing.replace(f"s{k % 7}", "") for k, drawing in enumerate(drawn)]
    assert len(set(colourless[:5])) == 5


@pytest.mark.parametrize("value", [k / 40 for k in range(41)])
def test_text_on_the_heat_map_has_enough_contrast(value: float) -> None:
    background, letters = heat_colours(value, 1.0)
    back = _luminance(*(int(background[k : k + 2], 16) for k in (1, 3, 5)))
    front = 1.0 if letters == "#fff" else 0.0
    assert (max(back, front) + 0.05) / (min(back, front) + 0.05) >= 4.5


def test_axes_end_at_round_numbers() -> None:
    assert nice_top([0.07, None, math.nan]) == 0.1
    assert nice_top([]) == 1.0
    assert nice_top([1.3]) == 1.3
