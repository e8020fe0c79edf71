"""A sweep never goes on with other images or weights than it was begun with, and repairs what is damaged or missing."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from refusals import refused
from safetensors.torch import save_file
from tiny_sweeps import TINY, tiny_sweep

from robustvit.evaluation.results import Results
from robustvit.models.registry import create_model
from robustvit.sweeping.plan import SweepSettingsError
from robustvit.sweeping.sweep import SweepProgress

ONE = dict(vary=["optimizer.lr=0.02"], seeds=(0,))
RUN = Path("runs", "lr-0.02_seed-0")


def folder_of(root: Path) -> Path:
    generator = np.random.default_rng(0)
    for name in ("a", "b"):
        (root / name).mkdir(parents=True)
        for i in range(8):
            Image.fromarray(generator.integers(0, 255, (32, 32, 3), np.uint8)).save(root / name / f"{i}.png")
    return root


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A sweep of one run on images on disk."""
    root = tmp_path_factory.mktemp("stale")
    train, test = folder_of(root / "train"), folder_of(root / "test")
    weights = root / "start.safetensors"
    network = create_model("fan_vit_nano", num_classes=2, embed_dims=[32], depths=[1], num_heads=[2])
    save_file(network.state_dict(), weights)
    changes = (*TINY, f"data.train={train}", f"model.checkpoint={weights}")
    options: dict[str, Any] = dict(**ONE, changes=changes, data=test, limit=None)
    tiny_sweep(root / "sweep", **options)
    return dict(options=options, folder=root / "sweep", train=train, test=test, start=weights)


@pytest.fixture
def touched(made: dict[str, Any], request: pytest.FixtureRequest) -> Iterator[str]:
    """One of the inputs is another one during the test."""
    file: Path = {
        "training images": made["train"] / "a" / "0.png",
        "measured images": made["test"] / "b" / "3.png",
        "starting weights": made["start"],
        "weights": made["folder"] / RUN / "weights" / "model.safetensors",
        "config.json": made["folder"] / RUN / "weights" / "config.json",
    }[request.param]
    content, status = file.read_bytes(), file.stat()
    file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns + 10**9))
    yield request.param
    file.write_bytes(content)
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(
    "touched", ["training images", "measured images", "starting weights", "weights", "config.json"], indirect=True
)
def test_changed_images_and_weights_are_refused(touched: str, made: dict[str, Any]) -> None:
    before = {path: path.stat().st_mtime_ns for path in made["folder"].rglob("*")}
    changed = "weights" if touched == "config.json" else touched  # which says what network they are of
    with refused(SweepSettingsError, changed, RUN):
        tiny_sweep(made["folder"], **made["options"], resume=True)
    assert {path: path.stat().st_mtime_ns for path in made["folder"].rglob("*")} == before


@pytest.mark.usefixtures("undrawn")
def test_what_has_not_changed_goes_on(made: dict[str, Any]) -> None:
    events: list[SweepProgress] = []
    assert tiny_sweep(made["folder"], **made["options"], resume=True, report=events.append).is_finished
    assert events == []


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("name", ["cell.json", "../../sweep.json", "evaluation/results.json"])
@pytest.mark.parametrize("text", ["[]", "[" * 100_000])
def test_damaged_records_are_named_and_made_again(name: str, text: str, made: dict[str, Any]) -> None:
    whole = tiny_sweep(made["folder"], **made["options"], resume=True)
    path = (made["folder"] / RUN / name).resolve()
    stored = json.loads(path.read_text())
    path.write_text(text)
    with pytest.warns(UserWarning, match=rf"{path.name} is"):
        again = tiny_sweep(made["folder"], **made["options"], resume=True)
    assert again == whole
    assert json.loads(path.read_text()).keys() == stored.keys()


def test_missing_tables_and_reports_are_made_again(made: dict[str, Any]) -> None:
    evaluation = made["folder"] / RUN / "evaluation"
    missing = [
        made["folder"] / "sweep.csv",
        made["folder"] / "sweep.md",
        evaluation / "report.html",
        evaluation / "results.csv",
    ]
    tiny_sweep(made["folder"], **made["options"], resume=True)
    before = [path.read_bytes() for path in missing]
    for path in missing:
        path.unlink()
    events: list[SweepProgress] = []
    tiny_sweep(made["folder"], **made["options"], resume=True, report=events.append)
    assert [path.read_bytes() for path in missing] == before
    assert events == []


@pytest.mark.usefixtures("undrawn")
def test_a_run_without_its_record_is_measured_again_on_the_images_of_now(made: dict[str, Any]) -> None:
    (made["folder"] / RUN / "cell.json").unlink()
    file = made["test"] / "a" / "1.png"
    Image.new("RGB", (32, 32)).save(file)
    events: list[SweepProgress] = []
    tiny_sweep(made["folder"], **made["options"], resume=True, report=events.append)
    assert "evaluating" in {event.stage for event in events}
    assert not [event for event in events if event.stage == "training" and event.done]
    assert Results.load(made["folder"] / RUN / "evaluation").models[0].cells[0].images == 16
