"""What goes wrong on the way: full disks, broken images; and what is only switched on by few."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from PIL import Image
from tiny_runs import VIT, tiny_config

from robustvit.runtime.checkpoints import Checkpoints
from robustvit.training.train import train

pytestmark = pytest.mark.usefixtures("undrawn")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two classes of six images, one of which is cut off."""
    for i in range(12):
        path = tmp_path / "data" / f"class{i % 2}" / f"{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (40, 36), (20 * i, 100, 255 - 20 * i)).save(path)
    broken = tmp_path / "data" / "class0" / "4.png"
    broken.write_bytes(broken.read_bytes()[:60])
    return tmp_path / "data"


def test_a_image_that_cannot_be_read_is_named_and_the_run_goes_on(folder: Path, tmp_path: Path) -> None:
    changes = [f"data.train={folder}", "data.val=", "loop.batch_size=4", "schedule.epochs=2", "augment.crop=resized"]
    result = train(tiny_config(changes), tmp_path / "run")
    assert result.is_finished
    assert [Path(name).name for name in result.unreadable] == ["4.png"]
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["unreadable"].keys() == result.unreadable.keys()


def test_worker_processes_give_the_run_of_the_thread(folder: Path, tmp_path: Path) -> None:
    changes = [f"data.train={folder}", f"data.val={folder}", "loop.batch_size=4", "augment.rand_augment=rand-m9-mstd0.5-inc1"]
    for workers in (0, 2):
        train(tiny_config([*changes, "schedule.epochs=1", f"data.workers={workers}"]), tmp_path / str(workers))
    one, two = ((tmp_path / str(workers) / "metrics.jsonl").read_text() for workers in (0, 2))
    assert one == two


def test_tensorboard_gets_the_numbers(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    train(tiny_config(["schedule.epochs=1", "loop.tensorboard=true"]), tmp_path / "run")
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    events.Reload()
    assert {"loss", "lr", "terms/ce", "val_accuracy"} <= set(events.Tags()["scalars"])
    assert [event.step for event in events.Scalars("loss")] == list(range(1, 7))


def test_a_checkpoint_of_the_last_update_is_kept_whatever_the_interval(tmp_path: Path) -> None:
    train(tiny_config(["schedule.epochs=1", "loop.checkpoint_every=4", "loop.keep=1"]), tmp_path / "run")
    assert [file.name for file in Checkpoints(tmp_path / "run" / "checkpoints", 1).files()] == ["checkpoint-00000006.pt"]


@pytest.mark.slow
def test_a_compiled_network_trains_as_the_plain_one(tmp_path: Path) -> None:
    changes = [*VIT, "optimizer.name=sgd", "schedule.epochs=1", "data.val="]
    for compiled in ("false", "true"):
        train(tiny_config([*changes, f"loop.compile={compiled}"]), tmp_path / compiled)
    plain, other = (torch.load(next((tmp_path / c / "checkpoints").iterdir()), weights_only=True) for c in ("false", "true"))
    weights = plain["network"]
    assert all(torch.allclose(weights[name], other["network"][name], atol=1e-5) for name in weights)


def test_deepaugment_trains_and_resumes_exactly(tmp_path: Path) -> None:
    changes = ["augment.deepaugment=noise2net", "loop.checkpoint_every=2", "loop.keep=9", "schedule.epochs=1", "data.val="]
    train(tiny_config(changes), tmp_path / "run")
    whole = (tmp_path / "run" / "metrics.jsonl").read_text()
    for file in Checkpoints(tmp_path / "run" / "checkpoints", 9).files()[:2]:
        file.unlink()
    train(None, tmp_path / "run", resume=True)
    assert (tmp_path / "run" / "metrics.jsonl").read_text() == whole
