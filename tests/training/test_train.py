"""A run from its configuration to its folder."""

from __future__ import annotations

import errno
import io
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import timm
import torch
from image_folders import fill
from refusals import refused
from timm.layers import DropPath
from tiny_runs import VIT, tiny_config
from torch.nn import functional as F

import robustvit as rv
from robustvit.runtime.checkpoints import Checkpoints
from robustvit.runtime.weights import read_weights
from robustvit.tasks.registry import task_named
from robustvit.training.config import AugmentConfig, ModelConfig
from robustvit.training.config_io import ConfigError
from robustvit.training.metrics_log import read_metrics
from robustvit.training.networks import network_of
from robustvit.training.not_finite import NotFiniteError
from robustvit.training.run import Run
from robustvit.training.train import Progress, train


@pytest.fixture(autouse=True)
def _undrawn(request: pytest.FixtureRequest) -> None:
    """The figure takes longer than a tiny run, and one test looks at it."""
    if request.function is not test_a_run_leaves_all_its_files:
        request.getfixturevalue("undrawn")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of one epoch, to be read only."""
    folder = tmp_path_factory.mktemp("finished") / "run"
    train(tiny_config(["schedule.epochs=1"]), folder)
    return folder


def weights_of(folder: Path) -> dict[str, torch.Tensor]:
    return read_weights(folder / "weights" / "model.safetensors")


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def without_speed(folder: Path) -> list[dict[str, object]]:
    return read_metrics(folder / "metrics.jsonl")


def test_a_run_leaves_all_its_files(tmp_path: Path) -> None:
    reports: list[Progress] = []
    result = train(tiny_config(), tmp_path / "run", report=reports.append)
    files = {path.name for path in (tmp_path / "run").iterdir()}
    assert files == {"config.yaml", "metrics.jsonl", "checkpoints", "best", "weights", "training.png", "summary.json"}
    assert result.is_finished
    assert [progress.update for progress in reports] == list(range(1, 13))
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["finished"] is True
    entries = without_speed(tmp_path / "run")
    assert [entry["update"] for entry in entries if "loss" in entry] == list(range(1, 13))
    assert [entry["update"] for entry in entries if "val_accuracy" in entry] == [6, 12]


def test_a_trained_network_loads_into_timm_and_gives_its_answers(tmp_path: Path) -> None:
    train(tiny_config(["model.tap=2"]), tmp_path / "run")
    loaded = timm.create_model(f"local-dir:{tmp_path / 'run' / 'weights'}", pretrained=True).eval()
    assert same(dict(loaded.state_dict()), weights_of(tmp_path / "run"))
    assert loaded.num_classes == 10


def test_tap_on_a_timm_network_survives_saving(tmp_path: Path) -> None:
    changes = [*VIT, "model.tap=2"]
    train(tiny_config([*changes, "schedule.epochs=1"]), tmp_path / "run")
    place = f"local-dir:{tmp_path / 'run' / 'weights'}"
    loaded = rv.create_model(place, pretrained=True).eval()
    assert same(dict(loaded.state_dict()), weights_of(tmp_path / "run"))


def test_the_same_run_again_is_bit_identical_and_another_seed_is_another_run(finished: Path, tmp_path: Path) -> None:
    for name, seed in (("again", 0), ("other", 1)):
        train(tiny_config(["schedule.epochs=1", f"loop.seed={seed}"]), tmp_path / name)
    assert same(weights_of(finished), weights_of(tmp_path / "again"))
    assert without_speed(finished) == without_speed(tmp_path / "again")
    assert not same(weights_of(finished), weights_of(tmp_path / "other"))


def test_loss_falls_on_images_seen_again_and_again(tmp_path: Path) -> None:
    changes = ["data.train=scenes:8", "augment.crop=none", "augment.flip=0.0", "schedule.epochs=60", "data.val="]
    train(tiny_config([*changes, "loss.smoothing=0.0", "optimizer.lr=3e-3"]), tmp_path / "run")
    losses = [entry["loss"] for entry in without_speed(tmp_path / "run")]
    assert losses[-1] < 0.3 * losses[0]


@pytest.mark.parametrize("group", [0, 4])
def test_micro_batches_give_the_gradient_of_the_whole_batch(group: int, tmp_path: Path) -> None:
    """Without batch norm, which sees micro-batches one by one."""
    changes = [*VIT, "optimizer.name=sgd", "schedule.epochs=1", "augment.mixup=0.8", "augment.cutmix=1.0", "optimizer.lr=0.1"]
    changes += [f"augment.mix_group={group}"]
    train(tiny_config(changes), tmp_path / "whole")
    train(tiny_config([*changes, "loop.accumulate=4"]), tmp_path / "parts")
    whole, parts = weights_of(tmp_path / "whole"), weights_of(tmp_path / "parts")
    assert all(torch.allclose(whole[name], parts[name], atol=1e-5) for name in whole)


def test_a_group_of_the_whole_batch_is_no_group_and_smaller_ones_train_otherwise(tmp_path: Path) -> None:
    for group in (0, 8, 128, 4):
        changes = ["schedule.epochs=1", "data.val=", "augment.mixup=0.8", "augment.cutmix=1.0", f"augment.mix_group={group}"]
        train(tiny_config([*VIT, *changes]), tmp_path / str(group))
    whole = weights_of(tmp_path / "0")
    assert same(whole, weights_of(tmp_path / "8"))
    assert same(whole, weights_of(tmp_path / "128"))
    assert not same(whole, weights_of(tmp_path / "4"))


@pytest.mark.parametrize("precision", ["bf16", pytest.param("fp16", marks=pytest.mark.slow)])
def test_mixed_precision_trains(tmp_path: Path, precision: str) -> None:
    changes = [f"loop.precision={precision}", "schedule.epochs=1", "methods.afat={}", "methods.patch_augment={}"]
    result = train(tiny_config(changes), tmp_path / "run")
    assert result.is_finished
    norms = [entry["grad_norm"] for entry in without_speed(tmp_path / "run") if "loss" in entry]
    assert norms[-1] > 0
    assert precision == "fp16" or all(norms)  # the loss scaler leaves out the first updates, until it fits


def test_attention_has_full_precision_where_the_rest_has_half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own, seen = F.scaled_dot_product_attention, set[torch.dtype]()

    def watched(query: torch.Tensor, *args: Any, **options: Any) -> torch.Tensor:
        if query.requires_grad:
            seen.add(query.dtype)
        return own(query, *args, **options)

    monkeypatch.setattr(F, "scaled_dot_product_attention", watched)
    train(tiny_config(["loop.precision=bf16", "loop.max_updates=1"]), tmp_path / "run")
    assert seen == {torch.float32}


def test_averaged_weights_are_validated_saved_and_preferred_at_the_end(tmp_path: Path) -> None:
    train(tiny_config(["loop.ema_decay=0.5"]), tmp_path / "run")
    state = torch.load(Checkpoints(tmp_path / "run" / "checkpoints", 2).files()[0], weights_only=True)
    assert same(state["ema"], weights_of(tmp_path / "run"))
    assert not same(state["network"], state["ema"])
    assert all("val_accuracy_ema" in entry for entry in without_speed(tmp_path / "run") if "val_accuracy" in entry)


def test_channels_last_and_gradient_checkpointing_change_nothing(tmp_path: Path) -> None:
    plain = [*VIT, "optimizer.layer_decay=0.7", "optimizer.name=sgd", "optimizer.lr=0.1", "schedule.epochs=1"]
    train(tiny_config(plain), tmp_path / "plain")
    train(tiny_config([*plain, "loop.channels_last=true", "loop.grad_checkpointing=true"]), tmp_path / "other")
    one, other = weights_of(tmp_path / "plain"), weights_of(tmp_path / "other")
    assert all(torch.allclose(one[name], other[name], atol=1e-5) for name in one)


def test_gradient_checkpointing_changes_nothing_in_what_methods_read(tmp_path: Path) -> None:
    methods = ["methods.adl={chunk: 16}", "methods.afat={}", "model.drop_path=0.1", "schedule.epochs=1"]
    train(tiny_config([*VIT, *methods]), tmp_path / "plain")
    train(tiny_config([*VIT, *methods, "loop.grad_checkpointing=true"]), tmp_path / "other")
    assert same(weights_of(tmp_path / "plain"), weights_of(tmp_path / "other"))
    assert without_speed(tmp_path / "plain") == without_speed(tmp_path / "other")


def test_layer_decay_slows_early_blocks(tmp_path: Path) -> None:
    changes = [
        *VIT,
        "optimizer.name=sgd",
        "optimizer.weight_decay=0.0",
        "loop.max_updates=1",
    ]
    for decay in ("null", "0.1"):
        train(tiny_config([*changes, "optimizer.lr=0.1", f"optimizer.layer_decay={decay}"]), tmp_path / decay)
    train(tiny_config([*changes, "optimizer.lr=0.0", "schedule.min_lr=0.0"]), tmp_path / "start")
    start, plain, slowed = (weights_of(tmp_path / name) for name in ("start", "null", "0.1"))
    key = "blocks.0.attn.qkv.weight"
    ratio = (slowed[key] - start[key]).norm() / (plain[key] - start[key]).norm()
    assert 0.005 < float(ratio) < 0.05


def test_fine_tuning_takes_the_weights_of_a_run_with_another_head_and_size(tmp_path: Path) -> None:
    for changes in ((), VIT):
        name = "vit" if changes else "fan"
        train(tiny_config([*changes, "schedule.epochs=1"]), tmp_path / name)
        fine = [
            *changes,
            f"model.checkpoint={tmp_path / name}",
            "model.num_classes=12",
            "model.img_size=48",
            "optimizer.lr=0.0",
        ]
        train(tiny_config([*fine, "schedule.epochs=1", "optimizer.weight_decay=0.0"]), tmp_path / f"{name}-fine")
        before, after = weights_of(tmp_path / name), weights_of(tmp_path / f"{name}-fine")
        assert after["head.weight"].shape[0] == 12
        kept = [key for key in before if key.endswith("qkv.weight")]
        assert kept
        assert all(torch.allclose(before[key], after[key], atol=1e-5) for key in kept)


def test_foreign_weights_are_refused_before_the_work(finished: Path, tmp_path: Path) -> None:
    with refused(rv.CheckpointError, finished, "VisionTransformer"):
        train(tiny_config([f"model.checkpoint={finished}", "model.name=vit_nano", "model.options=null"]), tmp_path / "x")


def test_a_loss_that_is_not_a_number_stops_the_run_and_says_where(tmp_path: Path) -> None:
    changes = ["optimizer.name=sgd", "optimizer.lr=1e30", "loop.checkpoint_every=1"]
    with refused(NotFiniteError, "loss", "update", "ce"):
        train(tiny_config(changes), tmp_path / "run")
    failure = json.loads((tmp_path / "run" / "failure.json").read_text())
    assert len(failure["ids"]) == 8
    assert failure["terms"].keys() == {"ce"}
    assert Checkpoints(tmp_path / "run" / "checkpoints", 2).newest() is not None


def test_a_finished_folder_is_not_overwritten(finished: Path) -> None:
    with refused(FileExistsError, finished, "--resume"):
        train(tiny_config(["schedule.epochs=1"]), finished)


def test_a_resumed_run_may_not_change_its_configuration(finished: Path) -> None:
    with refused(ConfigError, "optimizer.lr", 0.001, 0.01):
        train(tiny_config(["schedule.epochs=1", "optimizer.lr=0.01"]), finished, resume=True)


def test_a_run_interrupted_at_any_checkpoint_ends_as_if_it_was_not(tmp_path: Path) -> None:
    changes = ["loop.checkpoint_every=5", "loop.keep=9", "loop.ema_decay=0.9", "methods.afat={}", "loop.log_every=4"]
    train(tiny_config(changes), tmp_path / "whole")
    for last in (5, 10):
        shutil.copytree(tmp_path / "whole", tmp_path / f"from{last}")
        for file in Checkpoints(tmp_path / f"from{last}" / "checkpoints", 9).files():
            if int(file.stem.split("-")[1]) > last:
                file.unlink()
        result = train(None, tmp_path / f"from{last}", resume=True)
        assert result.is_finished
        assert same(weights_of(tmp_path / "whole"), weights_of(tmp_path / f"from{last}"))
        assert without_speed(tmp_path / "whole") == without_speed(tmp_path / f"from{last}")


def test_a_damaged_or_foreign_checkpoint_is_named_and_the_one_before_it_used(tmp_path: Path) -> None:
    train(tiny_config(["loop.checkpoint_every=4", "loop.keep=3"]), tmp_path / "run")
    newest, middle, _ = Checkpoints(tmp_path / "run" / "checkpoints", 3).files()
    reference = weights_of(tmp_path / "run")
    data = bytearray(newest.read_bytes())
    data[len(data) // 2] ^= 255
    newest.write_bytes(data)
    torch.save({"weights": torch.zeros(3)}, middle)
    result = train(None, tmp_path / "run", resume=True)
    assert [note.split()[0] for note in result.notes] == [newest.name, middle.name]
    assert same(weights_of(tmp_path / "run"), reference)


def test_good_checkpoints_outlive_newer_ones_that_cannot_be_used(tmp_path: Path) -> None:
    config = ["loop.checkpoint_every=4", "loop.keep=1", "loop.max_updates=4"]
    train(tiny_config(config), tmp_path / "run")
    (tmp_path / "run" / "checkpoints" / "checkpoint-00000008.pt").write_bytes(b"damaged")
    train(tiny_config([*config, "loop.max_updates=6"]), tmp_path / "run", resume=True)
    result = train(tiny_config([*config, "loop.max_updates=7"]), tmp_path / "run", resume=True)
    assert result.updates_done == 7
    assert [note.split()[0] for note in result.notes] == ["checkpoint-00000008.pt"]


def test_a_checkpoint_of_another_run_is_passed_over(tmp_path: Path) -> None:
    train(tiny_config(["schedule.epochs=1"]), tmp_path / "run")
    train(tiny_config([*VIT, "schedule.epochs=2"]), tmp_path / "other")
    (foreign,) = (tmp_path / "other" / "checkpoints").glob("checkpoint-00000012.pt")
    shutil.copy(foreign, tmp_path / "run" / "checkpoints")
    result = train(None, tmp_path / "run", resume=True)
    assert result.notes == ("checkpoint-00000012.pt was passed over: it is of a run with another configuration",)


def test_a_run_from_pretrained_weights_saves_what_can_be_loaded_again(tmp_path: Path) -> None:
    start = ["model.options=null", "model.name=fan_vit_nano", "model.pretrained=true", "loop.max_updates=1", "data.val="]
    train(tiny_config(start), tmp_path / "run")
    network = rv.create_model(f"local-dir:{tmp_path / 'run' / 'weights'}", pretrained=True)
    assert same(dict(network.state_dict()), weights_of(tmp_path / "run"))
    assert not network.pretrained_cfg.get("tag")  # these are other weights than those it started from


def test_a_cnn_is_trained_at_a_size_of_your_own(tmp_path: Path) -> None:
    changes = ["model.name=test_resnet", "model.options=null", "model.img_size=48", "loop.max_updates=1", "data.val="]
    train(tiny_config(changes), tmp_path / "run")
    for create in (timm.create_model, rv.create_model):
        network = create(f"local-dir:{tmp_path / 'run' / 'weights'}", pretrained=True)
        assert same(dict(network.state_dict()), weights_of(tmp_path / "run"))
        assert tuple(network.pretrained_cfg["input_size"]) == (3, 48, 48)


def test_a_gradient_that_is_not_a_number_stops_the_run_before_it_is_applied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spoiled(self: Run, *arguments: Any) -> object:
        found = original(self, *arguments)
        if self.updates_done == 3:
            next(self.network.parameters()).grad[0] = float("nan")  # type: ignore[index]
        return found

    original = Run._backward
    monkeypatch.setattr(Run, "_backward", spoiled)
    with refused(NotFiniteError, "gradient", "update 4"):
        train(tiny_config(["loop.checkpoint_every=1"]), tmp_path / "run")
    assert len(json.loads((tmp_path / "run" / "failure.json").read_text())["ids"]) == 8
    found = Checkpoints(tmp_path / "run" / "checkpoints", 1).newest()
    assert found is not None
    assert found.state["update"] == 3
    assert all(value.isfinite().all() for value in found.state["network"].values())


@pytest.mark.parametrize("name", ["swin_tiny_patch4_window7_224", "fan_swin_nano"])
def test_stochastic_depth_of_0_is_none_and_null_is_the_network_s_own(name: str) -> None:
    def rates(drop_path: float | None) -> list[float]:
        network = network_of(task_named("classification"), ModelConfig(name, drop_path=drop_path), 10, AugmentConfig())
        return [m.drop_prob for m in network.modules() if isinstance(m, DropPath)]

    assert not any(rates(0.0))
    assert max(rates(None)) == pytest.approx(0.1)


def test_a_resumed_run_notices_that_its_images_changed(tmp_path: Path) -> None:
    fill(tmp_path / "data")
    changes = [f"data.train={tmp_path / 'data'}", "data.val=", "loop.batch_size=4", "schedule.epochs=1"]
    train(tiny_config([*changes, "loop.max_updates=1"]), tmp_path / "run")
    picture = next((tmp_path / "data").rglob("*.png"))
    picture.rename(picture.with_name("renamed.png"))
    with refused(ConfigError, tmp_path / "data"):
        train(tiny_config(changes), tmp_path / "run", resume=True)


def test_a_full_disk_is_told_and_earlier_checkpoints_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def save(state: dict[str, object], file: object) -> None:
        if state["update"] == 3:
            file = full
        original(state, file)  # type: ignore[arg-type]

    class Full(io.BytesIO):
        def write(self, data: object) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    original, full = torch.save, Full()
    monkeypatch.setattr(torch, "save", save)
    with refused(OSError, tmp_path / "run"):
        train(tiny_config(["loop.checkpoint_every=1"]), tmp_path / "run")
    assert sorted(file.name for file in (tmp_path / "run" / "checkpoints").iterdir()) == [
        "checkpoint-00000001.pt",
        "checkpoint-00000002.pt",
    ]
    monkeypatch.undo()
    assert train(None, tmp_path / "run", resume=True).is_finished


def test_wrong_validation_images_leave_nothing(tmp_path: Path) -> None:
    with refused((OSError, ValueError), "nowhere"):
        train(tiny_config(["data.val=nowhere"]), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_only_useless_checkpoints_are_an_error(tmp_path: Path) -> None:
    train(tiny_config(["schedule.epochs=1", "loop.keep=1"]), tmp_path / "run")
    for file in Checkpoints(tmp_path / "run" / "checkpoints", 1).files():
        file.write_bytes(b"not a checkpoint")
    with refused(rv.CheckpointError, tmp_path / "run"):
        train(None, tmp_path / "run", resume=True)


def test_a_removed_folder_ends_the_run_with_a_clear_message(tmp_path: Path) -> None:
    def remove(progress: Progress) -> None:
        if progress.update == 2:
            shutil.rmtree(tmp_path / "run")

    with refused(OSError, tmp_path / "run"):
        train(tiny_config(["loop.checkpoint_every=3"]), tmp_path / "run", report=remove)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        (["model.token_head=true"], ("model.token_head", "methods.stl_labeler", "methods.stl_student")),
        (["methods.stl_labeler={}"], ("methods.stl_labeler", "model.token_head=true")),
        (["methods.adl={}", "loop.grad_checkpointing=true"], ("methods.adl:", "loop.grad_checkpointing", "methods.adl.chunk")),
        (["methods.afat={}", "loop.compile=true"], ("methods.afat:", "loop.compile")),
        (["model.num_classes=3"], ("model.num_classes", "3", "scenes:48", "10")),
        (["loop.batch_size=64"], ("64", "48")),
        (["model.name=fan_vit_nanno"], ("fan_vit_nanno", "fan_vit_nano")),
        (["optimizer.name=adamx"], ("adamx",)),
        (["schedule.name=plateau"], ("plateau",)),
        (["loop.device=foo"], ("loop.device", "foo", "auto", "cpu")),
        (["schedule.name=cosinus"], ("cosinus",)),
        (["loss.weight=0"], ("loss.weight=0",)),
        (["data.train=nowhere"], ("nowhere",)),
    ],
)
def test_what_cannot_work_is_refused_before_the_first_update(
    tmp_path: Path, changes: list[str], named: tuple[str, ...]
) -> None:
    with refused((ValueError, OSError, RuntimeError), *named):
        train(tiny_config(changes), tmp_path / "run")
    assert not (tmp_path / "run" / "metrics.jsonl").exists()
