"""Reports and figures take longer than the cases themselves, which look at neither."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _undrawn(undrawn: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("robustvit.report.analysis_page.write_analysis", lambda *_: [])
