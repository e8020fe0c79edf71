"""docs/metrics.md names every function that `robustvit.metrics` offers, and every file that defines a metric."""

from __future__ import annotations

import re
from pathlib import Path

from robustvit import metrics

PAGE = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text(encoding="utf-8")


def test_every_public_function_is_documented() -> None:
    named = set(re.findall(r"`(\w+)`", PAGE))
    assert set(metrics.__all__) <= named


def test_every_file_of_a_metric_is_documented() -> None:
    files = {path.name for path in Path(metrics.__file__).parent.glob("*.py")}
    plumbing = {"__init__.py", "arrays.py", "cells.py", "chance.py", "imagenet_classes.py"}
    assert files - plumbing == set(re.findall(r"metrics/(\w+\.py)", PAGE))
