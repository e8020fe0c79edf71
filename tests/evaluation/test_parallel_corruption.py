"""Where a network leaves the cores free, its images are corrupted on several of them, and nothing else changes."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch
from torch import Tensor

import robustvit as rv
from robustvit.corruptions.conditions import apply_condition
from robustvit.evaluation import passes


@pytest.fixture
def on_another_device(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """As if the network were not on the CPU; the names of the threads that corrupt."""
    names: set[str] = set()

    def noted(*arguments: Any, **options: Any) -> Tensor:
        names.add(threading.current_thread().name)
        return apply_condition(*arguments, **options)

    monkeypatch.setattr(passes, "free_cores", lambda device: 3)
    monkeypatch.setattr(passes, "apply_condition", noted)
    return names


def test_an_evaluation_has_the_same_numbers(request: pytest.FixtureRequest) -> None:
    torch.manual_seed(0)
    model = rv.create_model("vit_nano", num_classes=10, depth=1).eval()

    def measured() -> list[dict[str, object]]:
        results = rv.evaluate(model, "scenes:20", "all19", severity=(1, 5), batch_size=8, examples=0)
        return [cell.values for cell in results.models[0].cells]

    alone = measured()
    names = request.getfixturevalue("on_another_device")
    assert measured() == alone
    assert len(names) > 1
