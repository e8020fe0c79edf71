"""Real small sweeps: two rates, two seeds, two updates."""

from __future__ import annotations

import json
import os
import signal
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from refusals import refused
from tiny_sweeps import RATES, TINY, tiny_sweep

from robustvit.evaluation.results import Results
from robustvit.models.registry import create_model
from robustvit.runtime.interruption import catching_signals
from robustvit.sweeping.plan import SweepSettingsError
from robustvit.sweeping.result import SweepResult
from robustvit.sweeping.sweep import SweepProgress
from robustvit.training.config_io import ConfigError, load_config

FILES = ("sweep.json", "sweep.csv", "sweep.md")

pytestmark = pytest.mark.usefixtures("undrawn")
"""Only the sweep that the tests share, which is made before that, draws its figures."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, SweepResult]:
    folder = tmp_path_factory.mktemp("whole") / "sweep"
    return folder, tiny_sweep(folder)


def seen(events: list[SweepProgress]) -> list[tuple[int, str]]:
    return list(dict.fromkeys((event.number, event.stage) for event in events))


def test_every_cell_is_trained_with_its_settings_and_measured(whole: tuple[Path, SweepResult]) -> None:
    folder, result = whole
    assert result.is_finished
    assert [(cell.settings["optimizer.lr"], cell.seed) for cell in result.cells] == [
        (0.001, 0),
        (0.001, 1),
        (0.02, 0),
        (0.02, 1),
    ]
    for cell in result.cells:
        config = load_config(folder / cell.folder / "config.yaml")
        assert (config.optimizer.lr, config.loop.seed) == (cell.settings["optimizer.lr"], cell.seed)
        stored = Results.load(folder / cell.folder / "evaluation").models[0]
        assert cell.numbers == {name: value.value for name, value in stored.summary.items()}
        assert stored.cells[0].images == 6
        create_model(f"local-dir:{folder / cell.folder / 'weights'}", pretrained=True)
    assert len({cell.numbers["expected_calibration_error"] for cell in result.cells}) == 4  # four different networks


def test_the_files_say_what_the_result_says(whole: tuple[Path, SweepResult]) -> None:
    folder, result = whole
    assert json.loads((folder / "sweep.json").read_text()) == json.loads(json.dumps(result.to_json()))
    assert {path.name for path in folder.iterdir()} == {*FILES, "sweep.png", "sweep.svg", "runs"}


@pytest.mark.parametrize("stage", ["training", "evaluating"])
def test_a_sweep_interrupted_in_the_middle_and_resumed_gives_the_same_table(
    stage: str, whole: tuple[Path, SweepResult], tmp_path: Path
) -> None:
    done = {"training": 1, "evaluating": 2}[stage]

    def interrupt(progress: SweepProgress) -> None:
        if (progress.number, progress.stage, progress.done) != (2, stage, done):
            return
        if stage == "evaluating":
            raise KeyboardInterrupt  # as Python does; a shell's background job would not get the signal
        os.kill(os.getpid(), signal.SIGINT)  # which training takes as a wish

    with catching_signals(), pytest.raises(KeyboardInterrupt):
        tiny_sweep(tmp_path, report=interrupt)
    left = json.loads((tmp_path / "sweep.json").read_text())
    assert [cell["state"] for cell in left["cells"]] == ["done", "waiting", "waiting", "waiting"]
    events: list[SweepProgress] = []
    assert tiny_sweep(tmp_path, resume=True, report=events.append) == whole[1]
    assert seen(events)[0] == (2, "training")
    if stage == "training":
        assert [event.done for event in events if (event.number, event.stage) == (2, "training")] == [0, 2]  # 1 was kept
    for name in FILES:
        assert (tmp_path / name).read_bytes() == (whole[0] / name).read_bytes()


def test_the_files_are_written_after_every_cell(tmp_path: Path) -> None:
    done = []

    def look(progress: SweepProgress) -> None:
        if progress.stage == "training" and progress.done == 1:
            done.append([cell["state"] for cell in json.loads((tmp_path / "sweep.json").read_text())["cells"]])

    tiny_sweep(tmp_path, seeds=(0,), report=look)
    assert done == [["waiting", "waiting"], ["done", "waiting"]]


def test_a_finished_sweep_is_shown_again_and_takes_further_seeds_and_values(
    whole: tuple[Path, SweepResult], tmp_path: Path
) -> None:
    events: list[SweepProgress] = []
    tiny_sweep(tmp_path, seeds=(0,), vary=["optimizer.lr=0.001"])
    tiny_sweep(tmp_path, seeds=(0,), vary=["optimizer.lr=1e-3"], resume=True, report=events.append)
    assert events == []
    assert tiny_sweep(tmp_path, resume=True, report=events.append).rows == whole[1].rows
    assert {event.number for event in events} == {2, 3, 4}


def test_a_cell_that_fails_is_recorded_and_the_others_go_on(tmp_path: Path) -> None:
    result = tiny_sweep(tmp_path, vary=["model.options.num_heads=[5],[2]", "optimizer.lr=0.001,1e30"], seeds=(0,))
    assert [cell.state for cell in result.cells] == ["failed", "failed", "done", "failed"]
    assert "divisible by num_heads" in result.cells[0].reason
    assert "not a number at update 2" in result.cells[3].reason
    assert "failure.json" in result.cells[3].reason
    assert not result.is_finished
    stored = json.loads((tmp_path / "sweep.json").read_text())
    assert [cell["reason"] for cell in stored["cells"]] == [cell.reason for cell in result.cells]
    record = json.loads((tmp_path / result.cells[0].folder / "cell.json").read_text())
    assert "Traceback" in record["traceback"]


def test_resuming_tries_a_failed_cell_again(tmp_path: Path) -> None:
    start = tmp_path / "start.safetensors"
    options: dict[str, Any] = dict(vary=[f"model.checkpoint='',{start}"], seeds=(0,))
    first = tiny_sweep(tmp_path / "sweep", **options)
    assert [cell.state for cell in first.cells] == ["done", "failed"]
    assert "there are no weights" in first.cells[1].reason
    start.write_bytes((tmp_path / "sweep" / first.cells[0].folder / "weights" / "model.safetensors").read_bytes())
    again = tiny_sweep(tmp_path / "sweep", resume=True, **options)
    assert [cell.state for cell in again.cells] == ["done", "done"]
    assert again.cells[0] == first.cells[0]
    assert again.makers == [version("robustvit")]


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    (tmp_path / "recipe.yaml").write_text("optimizer: {weight_decay: 0.05}\n")
    return tmp_path / "recipe.yaml"


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        (dict(resume=False), ("--resume",)),
        (dict(limit=5), ("limit", "6", "5")),
        (dict(suite=("clean", "blur")), ("suites", "blur")),
        (dict(data="scenes-easy:11"), ("data", "'scenes-easy:12'", "'scenes-easy:11'")),
        (dict(vary=["optimizer.weight_decay=0,1"]), ("varied", "weight_decay")),
        (dict(changes=(*TINY, "augment.flip=0.1")), ("augment.flip", "0.5", "0.1")),
        (dict(changes=(*TINY, "loop.max_updates=1")), ("loop.max_updates", "2", "1")),
    ],
)
def test_other_settings_in_the_same_folder_are_refused(
    changed: dict[str, Any], named: tuple[str, ...], whole: tuple[Path, SweepResult]
) -> None:
    before = {path: path.stat().st_mtime_ns for path in whole[0].rglob("*")}
    with refused(SweepSettingsError, *named):
        tiny_sweep(whole[0], **{"resume": True, **changed})
    assert {path: path.stat().st_mtime_ns for path in whole[0].rglob("*")} == before


def test_a_changed_recipe_is_refused_not_reused(recipe: Path, tmp_path: Path) -> None:
    tiny_sweep(tmp_path / "sweep", recipe=recipe, seeds=(0,))
    recipe.write_text("optimizer: {weight_decay: 0.5}\n")
    with refused(SweepSettingsError, "optimizer.weight_decay", "0.05", "0.5", "--output"):
        tiny_sweep(tmp_path / "sweep", recipe=recipe, seeds=(0,), resume=True)


def test_without_its_summary_a_sweep_measures_anew_what_was_measured_otherwise(tmp_path: Path) -> None:
    one: dict[str, Any] = dict(vary=["optimizer.lr=0.02"], seeds=(0,))
    tiny_sweep(tmp_path, **one)
    (tmp_path / "sweep.json").unlink()
    events: list[SweepProgress] = []
    tiny_sweep(tmp_path, **one, limit=3, report=events.append)
    assert Results.load(tmp_path / "runs" / "lr-0.02_seed-0" / "evaluation").models[0].cells[0].images == 3
    assert not [event for event in events if event.stage == "training" and event.done]  # the weights are kept


Mistake = tuple[dict[str, Any], type[Exception], str]
MISTAKES: list[Mistake] = [
    (dict(vary=["methods.adl.tua=1,2"]), ConfigError, "methods.adl.tua"),
    (dict(vary=["methods.adl.tau=1,x"]), ConfigError, "methods.adl.tau"),
    (dict(vary=["model.tap=1,4", "methods.adl={tau: 2},{tau: 2.0}"]), ValueError, "tau"),
    (dict(suite=("clean", "storm")), ValueError, "'storm'"),
    (dict(limit=0), ValueError, "limit=0"),
    (dict(data="/nowhere"), FileNotFoundError, "/nowhere"),
    (dict(data=None), ValueError, "--data"),
    (dict(seeds=(0, 0)), ValueError, "0 "),
    (dict(changes=(*TINY, "data.train=/nowhere")), FileNotFoundError, "/nowhere"),
    (dict(suite=("imagenet-a",)), ValueError, "10"),
]


@pytest.mark.parametrize(("options", "kind", "named"), MISTAKES, ids=lambda value: value if isinstance(value, str) else "")
def test_mistakes_are_found_before_any_training(
    options: dict[str, Any], kind: type[Exception], named: str, tmp_path: Path
) -> None:
    with refused(kind, named):
        tiny_sweep(tmp_path / "sweep", **options)
    assert not (tmp_path / "sweep").exists()


def test_without_data_the_recipes_own_validation_images_are_measured(tmp_path: Path) -> None:
    own = tuple(change if change != "data.val=" else "data.val=scenes-easy:7" for change in TINY)
    result = tiny_sweep(tmp_path, vary=["optimizer.lr=0.02"], seeds=(0,), data=None, limit=None, changes=own)
    assert result.is_finished
    assert Results.load(tmp_path / result.cells[0].folder / "evaluation").models[0].cells[0].images == 7


def test_a_disk_that_cannot_be_written_stops_the_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: Any, **options: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("robustvit.sweeping.cell_run.train", full)
    with refused(OSError, "No space left"):
        tiny_sweep(tmp_path, RATES)
    assert [cell["state"] for cell in json.loads((tmp_path / "sweep.json").read_text())["cells"]] == ["waiting"] * 4
