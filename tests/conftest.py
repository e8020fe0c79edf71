"""What every test gets: one thread, one seed, `benchmarks/plain.py` as the independent oracle, and the counts of faults."""

from __future__ import annotations

import signal
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from robustvit.runtime.kept_memory import keep_memory

keep_memory()

import torch  # noqa: E402, after memory is kept
from torch import nn  # noqa: E402

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
torch.set_num_threads(1)
for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) == signal.SIG_IGN:  # as jobs in the background of a shell, and below nohup, inherit it
        signal.signal(number, usual)


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs leave no figures and report pages, which take longer than a tiny run: for tests that look at neither."""
    for name in ("training_figure.save_training_figure", "sweep_figure.save_sweep_figure", "page.write_page"):
        monkeypatch.setattr(f"robustvit.report.{name}", lambda *arguments, **options: None)


@pytest.fixture
def shake() -> Callable[[nn.Module], nn.Module]:
    """Gives every parameter and running statistic a value of its own, so that nothing hides behind its initial 0 or 1."""

    @torch.no_grad()
    def shaken(model: nn.Module) -> nn.Module:
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
        for module in model.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.running_mean.normal_(std=0.5)
                module.running_var.uniform_(0.5, 2.0)
        return model.eval()

    return shaken


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How many faults of which kind were tried, and what came of them. Here, because only this file is known to the process
    that prints when others run the tests."""
    reports = [r for found in terminalreporter.stats.values() for r in found if getattr(r, "when", "") == "call"]
    faults = Counter(value for r in reports for name, value in r.user_properties if name == "fault")
    if faults:
        terminalreporter.section(f"faults: {sum(faults.values())}")
        for line, count in sorted(faults.items()):
            terminalreporter.line(f"{count:4} {line}")
