"""A second task of one file is measured, compared, drawn, interrupted and spread over processes by the same runner."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from refusals import refused
from torch import nn

import robustvit as rv
from robustvit.cli import main
from robustvit.report.classes import class_tables
from robustvit.training.config_io import load_config

DATA, SUITES = "scenes:12", ["clean", "noise", "fog"]


class Averaging(nn.Module):
    """Answers with the mean colour of its input, as a share of it."""

    pretrained_cfg = dict(input_size=(3, 32, 32), mean=(0.0,) * 3, std=(1.0,) * 3, crop_pct=1.0)

    def __init__(self, share: float = 1.0) -> None:
        super().__init__()
        self.share = nn.Parameter(torch.tensor(share))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mean((2, 3)) * self.share


@pytest.mark.usefixtures("site")
def test_cells_summaries_and_differences_are_those_of_the_measure() -> None:
    networks: dict[str, Any] = {"exact": Averaging(), "dark": Averaging(0.5)}
    results = rv.evaluate(networks, DATA, SUITES, task="mean_colour", examples=1)
    assert (results.task, results.primary) == ("mean_colour", "colour_likeness")
    exact, dark = results.models
    assert exact.clean is not None
    assert exact.clean.value == pytest.approx(1, abs=1e-6)
    assert results.clean == exact.clean.value
    noise = [c.number("colour_likeness") for c in exact.cells if c.condition == "gaussian_noise"]
    assert len(noise) == 5
    assert 0.8 < noise[-1] < noise[0] < 1  # clipping at black and white shifts the mean
    mean = np.mean([c.number("colour_likeness") for c in exact.cells if c.severity])
    assert exact.summary["mean_colour_likeness"].value == pytest.approx(mean)
    assert exact.summary["retention"].value == pytest.approx(mean / exact.clean.value)
    difference = results.between("exact", "dark")[0].summary["clean_colour_likeness"]
    assert difference.low is not None
    assert 0 < difference.low < difference.value
    assert exact.examples[0].pictures[0].right is None
    assert dark.examples[0].pictures[0].answer != exact.examples[0].pictures[0].answer


@pytest.mark.usefixtures("site")
def test_the_page_and_the_table_speak_of_the_measure(tmp_path: Path) -> None:
    rv.evaluate({"exact": Averaging(), "dark": Averaging(0.5)}, DATA, SUITES, task="mean_colour", output=tmp_path)
    page = (tmp_path / "report.html").read_text()
    assert "Colour likeness" in page
    assert "Calibration" not in page
    assert "Accuracy" not in page
    assert (
        (tmp_path / "results.csv")
        .read_text()
        .splitlines()[0]
        .startswith("model,suite,condition,severity,images,colour_likeness,low,high")
    )
    again = rv.Results.load(tmp_path)
    assert again.models[0].cells[0].values.keys() == {"colour_likeness"}


@pytest.mark.usefixtures("site")
def test_classes_are_stored_and_shown_in_measures_of_the_task(tmp_path: Path) -> None:
    results = rv.evaluate(Averaging(0.5), DATA, SUITES, task="mean_colour", examples=0, output=tmp_path)
    [measured] = results.models[0].measurements
    assert [one.name for one in measured.class_accuracies] == ["red", "green", "blue"]
    assert np.mean([one.clean for one in measured.class_accuracies]) == pytest.approx(results.models[0].clean.value)
    assert measured.class_accuracies[0].values["corrupted"].keys() == {"channel_likeness"}
    assert rv.Results.load(tmp_path).models[0].measurements[0].class_accuracies == measured.class_accuracies
    assert "channel_likeness" in json.loads((tmp_path / "results.json").read_text())["measures"]
    [table] = class_tables(results.models[0])
    assert table.headings == ("Class", "Images", "Clean", "Corrupted")
    assert "Channel likeness in percent" in (tmp_path / "report.html").read_text()


@pytest.mark.usefixtures("site")
def test_an_interrupted_run_goes_on_with_the_same_numbers(tmp_path: Path) -> None:
    def stop(what: str, done: int, total: int) -> None:
        if done > total / 2:
            raise KeyboardInterrupt

    settings: Any = dict(task="mean_colour", batch_size=4, examples=0)
    whole = rv.evaluate(Averaging(), DATA, SUITES, **settings)
    with pytest.raises(KeyboardInterrupt):
        rv.evaluate(Averaging(), DATA, SUITES, output=tmp_path, report=stop, **settings)
    seen: list[int] = []
    resumed = rv.evaluate(
        Averaging(), DATA, SUITES, output=tmp_path, resume=True, report=lambda _, done, total: seen.append(done), **settings
    )
    assert seen[0] > 0, "what was done is not done again"
    assert resumed.models[0].cells == whole.models[0].cells
    assert resumed.models[0].summary == whole.models[0].summary


@pytest.mark.usefixtures("site")
@pytest.mark.parametrize(
    ("options", "named"),
    [
        (dict(attacks="fgsm"), ("attacks", "mean_colour")),
        (dict(suite="imagenet-a"), ("imagenet-a", "classification", "mean_colour")),
        (dict(class_map={"a": 0}), ("mean_colour", "class_map")),
        (dict(predictions=True), ("mean_colour",)),
    ],
)
def test_what_another_task_has_not_is_refused(options: dict[str, Any], named: tuple[str, ...]) -> None:
    with refused(ValueError, *named):
        rv.evaluate(Averaging(), DATA, **{"suite": "clean", "task": "mean_colour", "examples": 0, **options})


@pytest.mark.slow
def test_a_trained_network_knows_its_task_and_two_processes_measure_it_alike(tmp_path: Path, site: Path) -> None:
    changes = ["task=mean_colour", "data.train=scenes:16", "data.val=scenes:8", "loss.smoothing=0", "loop.batch_size=8"]
    changes += ["model.name=vit_nano", "model.options={embed_dim: 32, depth: 2, num_heads: 2}", "loop.max_updates=1"]
    rv.train(load_config(None, changes), tmp_path / "run")
    line = ["eval", f"local-dir:{tmp_path}/run/weights", "--data", DATA, "--suite", "noise", "--batch-size", "4"]
    assert main([*line, "--output", str(tmp_path / "one")]) == 0
    start = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m", "robustvit"]
    path = os.pathsep.join([str(site), *os.environ.get("PYTHONPATH", "").split(os.pathsep)])
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path}
    done = subprocess.run(
        [*start, *line, "--output", str(tmp_path / "two")], env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]
    one, two = (json.loads((tmp_path / name / "results.json").read_text()) for name in ("one", "two"))
    assert one["task"] == two["task"] == "mean_colour"
    numbers = ([cell["values"]["colour_likeness"]["value"] for cell in r["models"][0]["cells"]] for r in (one, two))
    assert next(numbers) == pytest.approx(next(numbers), abs=1e-5)
