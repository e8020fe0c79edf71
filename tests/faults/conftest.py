"""What every case gets: no reports and figures, which take longer than the case, and how to repeat it when it fails."""

from __future__ import annotations

import pytest
from fault_cases import SEED


@pytest.fixture(autouse=True)
def _undrawn(undrawn: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("robustvit.report.analysis_page.write_analysis", lambda *_: [])


@pytest.fixture(autouse=True)
def _repeatable(request: pytest.FixtureRequest) -> None:
    request.node.add_report_section("call", "how to repeat it", f"FAULTS_SEED={SEED} pytest '{request.node.nodeid}'\n")
